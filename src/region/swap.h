/* region/swap.h - accumulators that no longer fit memory, in a file: slots of one size, used
 * again when free. The file's name is removed at once: it dies with the process. */
#ifndef TG_REGION_SWAP_H
#define TG_REGION_SWAP_H

#include "base/sync.h"
#include "region/folder.h"

#define TG_NO_SLOT UINT64_MAX

typedef struct tg_swap {
    int fd; /* -1: not made yet */
    uint64_t slot_bytes, n_slots;
    uint64_t free; /* first free slot, TG_NO_SLOT; a free slot begins with the next */
    uint64_t written;
    const tg_folder *side;
    const char *name;
    tg_mutex lock; /* guards all above; held for the I/O of making and chaining slots */
} tg_swap;

/* Made when first written to. side and name are borrowed. */
void tg_swap_init(tg_swap *s, const tg_folder *side, const char *name, uint64_t slot_bytes);
void tg_swap_destroy(tg_swap *s);
/* slot_bytes from data to a free slot; *sum is the crc32c that reading it back demands. */
TG_MUST_USE tg_status tg_swap_out(tg_swap *s, const void *data, uint64_t *slot, uint32_t *sum,
                                  tg_error *err);
/* Back, and the slot is free. */
TG_MUST_USE tg_status tg_swap_in(tg_swap *s, uint64_t slot, uint32_t sum, void *data,
                                 tg_error *err);

#endif
