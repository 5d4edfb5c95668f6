/* ims/side.h - the folder beside the results, `<out>.tidegate`: a journal a part, locks that
 * tell live runs from dead ones, spilled images. */
#ifndef TG_IMS_SIDE_H
#define TG_IMS_SIDE_H

#include "base/mem.h"

#include <stdbool.h>

typedef struct tg_ims_side {
    int dir;          /* -1: not open */
    const char *path; /* borrowed */
} tg_ims_side;

/* Make the folder if it is not there, and open it. */
TG_MUST_USE tg_status tg_ims_side_open(tg_ims_side *s, const char *path, tg_error *err);
void tg_ims_side_close(tg_ims_side *s);

bool tg_ims_side_has(const tg_ims_side *s, const char *name);
/* It may be gone already. */
TG_MUST_USE tg_status tg_ims_side_remove(const tg_ims_side *s, const char *name, tg_error *err);
/* Remove all below a name, whatever its depth; links are removed, not followed. */
TG_MUST_USE tg_status tg_ims_side_remove_all(const tg_ims_side *s, const char *name,
                                             tg_error *err);
/* Remove unfinished values (".tg-tmp-PID-...") of processes that are no more. */
TG_MUST_USE tg_status tg_ims_side_remove_dead(const tg_ims_side *s, tg_error *err);
/* How many parts there are, by the names of their journals. TG_NOT_FOUND: none was begun;
 * TG_INVALID: parts of different counts lie there. */
TG_MUST_USE tg_status tg_ims_side_count_parts(const tg_ims_side *s, uint32_t *n_parts,
                                              tg_error *err);

/* A lock that its process holds; it is free again when the process ends, however that is. The
 * file stays. TG_BUSY: another process has it. */
TG_MUST_USE tg_status tg_ims_side_lock(const tg_ims_side *s, const char *name, int *fd,
                                       tg_error *err);

#define TG_MERGE_LOCK "merge.lock"
#define TG_SPILL_NAME "spill"

#define TG_PART_NAME_BYTES 64
/* "part-0-of-4" and an ending. */
void tg_part_name(char dst[TG_PART_NAME_BYTES], uint32_t part, uint32_t n_parts,
                  const char *ending);

#endif
