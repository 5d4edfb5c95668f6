/* region/items.h - rows of items of any number type, as doubles and back. Knows no regions. */
#ifndef TG_REGION_ITEMS_H
#define TG_REGION_ITEMS_H

#include "nd/nd.h"
#include "tidegate/plugin.h"

/* Bool, integers and floats: what arithmetic is done on. */
bool tg_items_number(tg_dtype t);
bool tg_items_wide(tg_dtype t); /* a 64-bit integer: a double does not hold them all */

/* n items, stride bytes apart, any alignment. */
void tg_items_load(double *dst, tg_dtype t, const void *src, int64_t stride, size_t n);
/* Integers: rounded half to even, then what does not fit becomes the nearest that does; NaN
 * becomes 0. Bool: not 0. Floats: rounded once. */
void tg_items_store(tg_dtype t, void *dst, int64_t stride, const double *src, size_t n);
/* How many items the stores of this thread have changed because they did not fit, NaN among
 * them; the caller's to set to 0. */
uint64_t *tg_items_saturated(void);
/* The same without loss for 64-bit integers. */
void tg_items_load_wide(long double *dst, tg_dtype t, const void *src, int64_t stride,
                        size_t n);
void tg_items_store_wide(tg_dtype t, void *dst, int64_t stride, const long double *src,
                         size_t n);
/* From one type to another, by the rules of store. */
void tg_items_cast(tg_dtype to, void *dst, int64_t dst_stride, tg_dtype from, const void *src,
                   int64_t src_stride, size_t n);
/* The least and the greatest value of an integer type or bool. */
void tg_items_range(tg_dtype t, double *least, double *greatest);

/* --- Rows of views --- */

/* Walks the rows (last dimension) of a block in C order. */
typedef struct tg_rows {
    uint32_t ndim; /* of the index: one less than the block's */
    uint64_t index[TG_MAX_NDIM];
    uint64_t n[TG_MAX_NDIM];
    size_t length; /* items of a row; 1 for ndim 0 */
    bool any;      /* false: the block is empty */
} tg_rows;

void tg_rows_of(tg_rows *r, uint32_t ndim, const uint64_t *shape);
bool tg_rows_next(tg_rows *r);
/* First item of the row in a view that begins `offset` items (NULL: 0) before the block. */
char *tg_rows_at(const tg_rows *r, const tg_region_view *v, const uint64_t *offset);
int64_t tg_view_step(const tg_region_view *v); /* bytes between items of a row */
/* Where OUT's block begins in `in`, for an operation that keeps the shape. */
void tg_call_offset(const tg_region_call *c, uint64_t *offset);
/* Where in `in` the items of `block` lie along each axis: the output grown by below[d] items
 * before it and as many as its extent says behind it. What lies outside `in` is reflected, as
 * in scipy's mode "reflect": d c b a | a b c d | d c b a. from[d] points into `table`, which
 * has a place for each position of each axis. */
void tg_call_reflect(const tg_region_call *c, const uint64_t *below, const tg_shape *block,
                     uint64_t *table, uint64_t *from[TG_MAX_NDIM]);
uint64_t tg_view_items(const tg_region_view *v);

#endif
