/* tree/copy.h - what the files of copy share.
 *
 *   copy.c         nodes in order, what is published when     copy_meta.c  documents
 *   copy_array.c   units of one array, lanes, commits         copy_ome.c   OME-NGFF 0.4 <-> 0.5
 *   copy_window.c  blocks of items                            copy_log.c   what is done
 */
#ifndef TG_TREE_COPY_H
#define TG_TREE_COPY_H

#include "base/journal.h"
#include "base/side.h"
#include "exec/exec.h"
#include "tidegate/tree.h"
#include "zarr/array.h"

#include <stdatomic.h>

/* --- What is done, for who takes the copy up again ------------------------- */

typedef struct copy_log {
    tg_side side;
    tg_journal *journal; /* NULL: this destination keeps none */
    bool resumed;        /* an earlier call made it */
    bool begun;          /* the destination was cleared for this copy */
    bool owned; /* what lies at the destination is a copy's, begun here or to be erased */
} copy_log;

/* plan: what source and options are, in one number; at: where the copy goes. TG_EXISTS: an
 * unfinished copy of another plan, unless overwrite. Not a directory: no log. */
TG_MUST_USE tg_status copy_log_open(copy_log *l, tg_store *dst, uint64_t plan, uint64_t at,
                                    bool overwrite, tg_error *err);
/* Erasing of a node at the destination begins: what is left of it may be erased later. */
TG_MUST_USE tg_status copy_log_clearing(copy_log *l, tg_error *err);
TG_MUST_USE tg_status copy_log_begin(copy_log *l, tg_error *err);
/* Units of array number `array` (in the order of the walk) are durable. */
TG_MUST_USE tg_status copy_log_done(copy_log *l, uint32_t array, const uint64_t *units,
                                    size_t n, tg_error *err);
/* Set the bits of the units that are done. */
TG_MUST_USE tg_status copy_log_read(const copy_log *l, uint32_t array, uint8_t *bits,
                                    uint64_t n_units, tg_error *err);
/* The copy is whole: nothing is left beside the store. */
TG_MUST_USE tg_status copy_log_end(copy_log *l, tg_error *err);
void copy_log_forget(copy_log *l); /* nothing was begun: as if it had not been opened */
void copy_log_free(copy_log *l);

/* --- The job ------------------------------------------------------------------ */

typedef struct copy_job {
    tg_runtime *rt;
    tg_store *src, *dst; /* wrapped: counted, and puts are lazy */
    const char *src_path, *dst_path;
    const tg_copy_options *o;
    copy_log log;
    tg_reporter *reporter;
    const tg_cancel *cancel;
    int64_t committed_ns;
    atomic_uint_least64_t units, units_encoded, units_resumed, saturated;
} copy_job;

/* All that was put is durable, then the log says so. */
TG_MUST_USE tg_status copy_commit(copy_job *j, uint32_t array, const uint64_t *units, size_t n,
                                  tg_error *err);

/* --- Documents ------------------------------------------------------------------ */

/* What the array becomes. box: the part of it that is copied. names: those of its dimensions
 * where the source's document has none (NULLs: none). */
TG_MUST_USE tg_status copy_array_meta(const copy_job *j, const tg_array *a, const tg_box *box,
                                      const char *const *names, tg_array_meta **out,
                                      tg_error *err);
/* Put the documents of a group. */
TG_MUST_USE tg_status copy_group(const copy_job *j, const char *from, const char *to,
                                 tg_error *err);
/* Attributes in the form of the other format; *attributes is replaced. */
TG_MUST_USE tg_status copy_ome(tg_json **attributes, int from_format, int to_format,
                               tg_error *err);
/* Names that OME-NGFF 0.4 has for the dimensions of an array, from the groups it lies in down
 * from the root of the copy; *names stays NULL if none has. Ended by NULL; tg_names_free(). */
TG_MUST_USE tg_status copy_ome_names(const copy_job *j, const char *path, uint32_t ndim,
                                     char ***names, tg_error *err);

/* --- One array ------------------------------------------------------------------- */

/* A block of items of the destination's type, dense. */
typedef struct copy_window {
    tg_box box; /* in the destination's coordinates */
    uint8_t *items;
    size_t cap;
    bool loaded;
} copy_window;

typedef struct copy_array {
    copy_job *j;
    uint32_t number;
    tg_array *a, *b; /* source, destination */
    tg_box box;      /* of the source */
    bool encoded;    /* units pass as they are */
    bool converts;
    bool verifying; /* the second pass: read, do not write */
    tg_shape grid;  /* of the destination's units */
    uint64_t n_units;
    tg_text listed; /* numbers of the units to visit, if the grid is too large to walk */
    uint64_t n_visits;
    uint8_t *done; /* a bit a unit; NULL: none is */
    /* Memory, reserved for the whole array. */
    uint32_t lanes;
    uint64_t lane_bytes, window_bytes, reserved;
    tg_shape group; /* units of a block; all 0: units are streamed through the lanes' windows */
    copy_window window;
    tg_box visit; /* of units: the block that is being written */
    /* The batch that runs. */
    atomic_uint_least64_t next;
    atomic_bool stop;
    int64_t until_ns;
    tg_mutex lock; /* guards finished */
    uint64_t *finished;
    size_t n_finished;
} copy_array;

/* What one thread has. */
typedef struct copy_lane {
    copy_array *c;
    tg_unit_buffers units;
    tg_chain_context *encode;
    tg_buf encoded;
    uint8_t *items, *staging, *converted;
    copy_window own;
    copy_window *window; /* own, or the array's */
} copy_lane;

void copy_lane_auto(copy_lane *l);
TG_MUST_USE tg_status copy_array_plan(copy_array *c, tg_error *err);
TG_MUST_USE tg_status copy_array_run(copy_array *c, tg_error *err);
void copy_array_close(copy_array *c);

/* Read the part of a window that lies in `part` (destination's coordinates). */
TG_MUST_USE tg_status copy_window_read(copy_lane *l, copy_window *w, const tg_box *part,
                                       tg_error *err);
/* The window of a lane holds this box, which lies in unit_box: what follows in C order of the
 * unit's chunks is read along, as far as it fits. */
TG_MUST_USE tg_status copy_window_hold(copy_lane *l, const tg_box *box, const tg_box *unit_box,
                                       tg_error *err);
TG_MUST_USE tg_status copy_unit_write(copy_lane *l, const uint64_t *unit, tg_error *err);
TG_MUST_USE tg_status copy_unit_verify(copy_lane *l, const uint64_t *unit, tg_error *err);
/* The unit clipped to the array. */
TG_MUST_USE tg_status copy_unit_box(const copy_array *c, const uint64_t *unit, tg_box *box,
                                    tg_error *err);

#endif
