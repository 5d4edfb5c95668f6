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

#endif
