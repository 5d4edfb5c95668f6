/* region/folder.h - the folder of a run beside the store: locks, crash points, what is left
 * there.
 *
 * `<root>.tidegate/apply[-NODE]/` holds all that a run of apply keeps: plan, journal-PART,
 * new-PART-UNIT (units that wait for their commit), undo/ (what they replaced), swap-PART,
 * border-PART and done-PART (parts), locks. It is gone after a clean end. */
#ifndef TG_REGION_FOLDER_H
#define TG_REGION_FOLDER_H

#include "base/sys.h"

#include <stdbool.h>

typedef struct tg_folder {
    int dir;      /* -1: none */
    char *path;   /* of the folder */
    char *parent; /* `<root>.tidegate` */
} tg_folder;

/* Of the array `node` ("" is the root) in the directory store at `root`. A root that lies in a
 * hierarchy itself (x.zarr/0) has its folder beside the hierarchy. make: made if need be, its
 * entry durable; else TG_NOT_FOUND. */
TG_MUST_USE tg_status tg_folder_open(tg_folder *s, const char *root, const char *node,
                                     bool make, tg_error *err);
void tg_folder_close(tg_folder *s); /* leaves what is in it */
/* Remove the folder, which must be empty, and the one above if that is empty, too. */
TG_MUST_USE tg_status tg_folder_remove(tg_folder *s, tg_error *err);
/* Remove a file; not there is well. */
TG_MUST_USE tg_status tg_folder_drop(const tg_folder *s, const char *name, tg_error *err);
/* Remove every file whose name begins with `prefix`, in the folder or the one below it (NULL:
 * itself). */
TG_MUST_USE tg_status tg_folder_drop_all(const tg_folder *s, const char *below,
                                         const char *prefix, tg_error *err);
/* Remove a folder in it and all that is below; not there is well. */
TG_MUST_USE tg_status tg_folder_drop_tree(const tg_folder *s, const char *name, tg_error *err);
bool tg_folder_exists(const tg_folder *s, const char *name);
bool tg_folder_has(const tg_folder *s, const char *prefix); /* any file of such a name */
/* "WHAT 'FOLDER/NAME': words of the system", from errno. */
tg_status tg_folder_fail(const tg_folder *s, const char *what, const char *name, tg_error *err);

/* A lock is a file that names its owner, one line "PID BOOT-ID START-TIME HOST\n", and appears
 * whole: it is written under another name and linked. The lock of a dead owner is taken over.
 * TG_BUSY: a live process has it; the message names it. */
TG_MUST_USE tg_status tg_folder_lock(const tg_folder *s, const char *name, tg_error *err);
void tg_folder_unlock(const tg_folder *s, const char *name);
/* Of all locks "lock-...": those of dead owners are removed. TG_BUSY, and who, if a live
 * process has one that is not `mine`. */
TG_MUST_USE tg_status tg_folder_check_idle(const tg_folder *s, const char *mine, tg_error *err);

/* The n-th crash point passed since the start ends the process as kill -9 would, n from the
 * environment's TG_CRASH_AT; for tests. */
void tg_crash_point(void);

#endif
