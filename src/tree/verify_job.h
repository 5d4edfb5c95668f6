/* tree/verify_job.h - what the files of verify share. */
#ifndef TG_TREE_VERIFY_JOB_H
#define TG_TREE_VERIFY_JOB_H

#include "exec/exec.h"
#include "tidegate/verify.h"
#include "zarr/array.h"

typedef struct verify_job {
    tg_runtime *rt;
    tg_store *store;
    tg_verify_fn bad; /* NULL: only counted */
    void *user;
    tg_verify_result result;
    tg_reporter *reporter;
    const tg_cancel *cancel;
} verify_job;

/* Count something damaged and tell it. Only from the thread that folds results. */
void verify_bad(verify_job *j, const char *key, const char *what, const tg_error *why);
/* Is this a fault of what was read, and not of us or of the caller's limits? */
bool verify_is_finding(tg_status st);

/* Every stored unit of an array. has_sums: each item is in the frame table's checksums, too, so
 * that a chunk without one of its own is not counted as unverifiable. */
TG_MUST_USE tg_status verify_units(verify_job *j, tg_array *a, bool has_sums, tg_error *err);

/* The frame table that stands beside an array GROUP/0. */
typedef struct verify_frames {
    tg_array *image;       /* the caller's */
    tg_array *index, *crc; /* columns; crc NULL: the table has no such column */
    uint64_t rows;         /* of the shorter of them */
} verify_frames;

/* f->index NULL: there is no table beside this array. Tells if the shape says more than it. */
TG_MUST_USE tg_status verify_frames_open(verify_job *j, tg_array *image, verify_frames *f,
                                         tg_error *err);
/* Compare each frame with its checksum. */
TG_MUST_USE tg_status verify_frames_run(verify_job *j, const verify_frames *f, tg_error *err);
void verify_frames_close(verify_frames *f);

#endif
