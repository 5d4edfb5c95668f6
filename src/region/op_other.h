/* region/op_other.h - another array that an operation reads beside IN: a label image, a profile
 * of the illumination. Knows no operation. */
#ifndef TG_REGION_OP_OTHER_H
#define TG_REGION_OP_OTHER_H

#include "ome/level.h"
#include "region/function.h"
#include "zarr/array.h"

typedef struct tg_op_other {
    tg_store *own; /* NULL: it lies in IN's store */
    tg_array *array;
    tg_ome_level level;
    /* For each dimension of it the one of IN along which it lies. */
    uint32_t along[TG_MAX_NDIM];
} tg_op_other;

/* path: in IN's store below its image, or in IN's store, or a path of its own; an image's group
 * means its first level. `what` and the path stand before the message. */
TG_MUST_USE tg_status tg_op_other_open(tg_op_other *o, const tg_function_env *env,
                                       const char *what, const char *path, tg_error *err);
void tg_op_other_close(tg_op_other *o);
/* Sets `along`: by names of axes where both have them, else the last dimensions are the same
 * ones. TG_INVALID: it has more dimensions than IN, or a name that IN lacks. */
TG_MUST_USE tg_status tg_op_other_match(tg_op_other *o, const tg_function_env *env,
                                        const char *what, tg_error *err);

/* --- Labels ------------------------------------------------------------------------------- */

#define TG_OP_LABEL_AXES 8

typedef struct tg_op_labels {
    tg_op_other other;
    tg_dtype dtype;
    uint32_t n_axes, axis[TG_OP_LABEL_AXES]; /* of IN */
} tg_op_labels;

/* Whole numbers as long as IN along each of its axes. */
TG_MUST_USE tg_status tg_op_labels_open(tg_op_labels *l, const tg_function_env *env,
                                        const char *what, const char *path, tg_error *err);
/* The same of an array that is open. `path` is for the message. */
TG_MUST_USE tg_status tg_op_labels_fit(tg_op_labels *l, const tg_function_env *env,
                                       const char *what, const char *path, tg_error *err);
/* dtype and n_axes alone. */
TG_MUST_USE tg_status tg_op_labels_check(const tg_op_labels *l, const char *what,
                                         tg_error *err);
uint64_t tg_op_labels_items(const tg_op_labels *l, const uint64_t *shape); /* of IN's shape */
/* Room for those and what reading them takes. */
uint64_t tg_op_labels_bytes(const tg_op_labels *l, const uint64_t *shape);

/* Labels of a box; strides by dimensions of IN, 0 along those that they lack. */
typedef struct tg_label_view {
    const char *data;
    int64_t strides[TG_MAX_NDIM];
} tg_label_view;

/* Labels of a box of IN. room: for tg_op_labels_items() of its shape. */
TG_MUST_USE tg_status tg_op_labels_read_box(const tg_op_labels *l, const uint64_t *start,
                                            const uint64_t *shape, void *room,
                                            tg_label_view *out, const tg_cancel *cancel,
                                            tg_error *err);
/* Of a call's region. */
TG_MUST_USE tg_status tg_op_labels_read(const tg_op_labels *l, const tg_region_call *c,
                                        void *room, tg_label_view *out, const tg_cancel *cancel,
                                        tg_error *err);
void tg_op_labels_of_in(const tg_region_call *c, tg_label_view *out);
/* n labels, step bytes apart. TG_CORRUPT: one below 0. */
TG_MUST_USE tg_status tg_label_load(tg_dtype t, uint64_t *to, const char *src, int64_t step,
                                    size_t n, tg_error *err);

#endif
