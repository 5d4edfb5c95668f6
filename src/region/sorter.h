/* region/sorter.h - sorting more pairs than fit memory: runs of them in a nameless file, merged
 * while they are read. Equal pairs become one. One thread at a time. */
#ifndef TG_REGION_SORTER_H
#define TG_REGION_SORTER_H

#include "base/error.h"
#include "region/folder.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tg_pair {
    uint64_t a, b;
} tg_pair;

/* The least that one takes, whatever it sorts. */
#define TG_SORTER_LEAST ((size_t)32 << 10)

typedef struct tg_sorter tg_sorter;

/* Takes `bytes` (at least TG_SORTER_LEAST) from now on, which the caller has reserved. The file
 * is made in the folder (borrowed) when it is needed, and its name is removed at once. */
TG_MUST_USE tg_status tg_sorter_new(tg_sorter **out, const tg_folder *folder, size_t bytes,
                                    tg_error *err);
void tg_sorter_free(tg_sorter *s); /* may be NULL */
TG_DEFINE_AUTO_PTR(tg_sorter, tg_sorter_free)

/* TG_INVALID after tg_sorter_begin(). */
TG_MUST_USE tg_status tg_sorter_add(tg_sorter *s, const tg_pair *pairs, size_t n,
                                    tg_error *err);
/* Now they are read, by a, then b. May be called again: from the first on. */
TG_MUST_USE tg_status tg_sorter_begin(tg_sorter *s, tg_error *err);
/* *have false: that was the last. TG_CORRUPT: the file is not what was written to it. */
TG_MUST_USE tg_status tg_sorter_next(tg_sorter *s, tg_pair *out, bool *have, tg_error *err);
uint64_t tg_sorter_spilled(const tg_sorter *s); /* bytes written to the file so far */

#endif
