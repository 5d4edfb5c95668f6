/* base/side.h - the folder beside a store, and the lock in it against a second recorder.
 *
 * `<root>.tidegate/lock` holds its owner's line (owner.h), and is made with
 * O_EXCL. It is stale, and taken over, if the boot is another one of this host, or no process
 * of that number began at that time. */
#ifndef TG_BASE_SIDE_H
#define TG_BASE_SIDE_H

#include "base/sys.h"

#include <stdbool.h>

typedef struct tg_side {
    int dir;    /* -1: none */
    char *path; /* `<root>.tidegate` */
    bool locked;
    bool made; /* the folder is ours to remove */
} tg_side;

/* Where the folder of a store is: path without trailing slashes, and ".tidegate". */
TG_MUST_USE tg_status tg_side_path(const char *root, char **path, tg_error *err);
/* Make the folder if need be and take the lock. TG_BUSY: a live process has it, its number in
 * the message. The folder's entry is durable. */
TG_MUST_USE tg_status tg_side_open(tg_side *side, const char *root, tg_error *err);
/* Is there a file in it? */
bool tg_side_has(const tg_side *side, const char *name);
/* Remove a file; not there is well. */
TG_MUST_USE tg_status tg_side_remove(const tg_side *side, const char *name, tg_error *err);
/* Remove the files whose names begin so (a list ended by NULL). */
TG_MUST_USE tg_status tg_side_clear(const tg_side *side, const char *const *prefixes,
                                    tg_error *err);
/* Remove the lock, and the folder if it is empty. */
TG_MUST_USE tg_status tg_side_close(tg_side *side, tg_error *err);
/* Leave all as it is (the lock is stale once the process has ended), or with `unlock` as
 * tg_side_close() without a report. */
void tg_side_free(tg_side *side, bool unlock);

#endif
