/* region/op_rank.h - items as integers of the same size and the same order, and what a filter
 * asks of them: the least, the greatest, the middle. Nothing is lost, and no type is widened.
 */
#ifndef TG_REGION_OP_RANK_H
#define TG_REGION_OP_RANK_H

#include "nd/nd.h"

/* Keys of t.size bytes: 1 unsigned, 2, 4 and 8 signed. -0 comes before 0, and NaN outside all
 * numbers, on the side of its sign. */
void tg_rank_load(void *keys, tg_dtype t, const void *src, int64_t stride, size_t n);
void tg_rank_store(tg_dtype t, void *dst, int64_t stride, const void *keys, size_t n);

/* out[x] = the lesser or the greater of in[x] and in[x + gap], for x below n. */
void tg_rank_pairs(size_t key_bytes, bool greater, const void *in, size_t gap, size_t n,
                   void *out);

#define TG_MOST_MEDIAN 255 /* items of a window */

/* to[x] = the item n / 2, from 0, of the sorted from[0][x] ... from[n - 1][x], for x below
 * length. n from 1 to TG_MOST_MEDIAN; `to` overlaps none of them. */
void tg_rank_medians(size_t key_bytes, const void *const *from, size_t n, size_t length,
                     void *to);
/* The item n / 2 of the window when it is sorted; it is put in another order. */
void tg_rank_select(size_t key_bytes, void *window, size_t n, void *to);

/* Keys of one or two bytes: to[x] as above, where the window is the `size` keys from row[x] on
 * of each of n_rows rows, and moves along them. */
typedef struct tg_rank_window {
    const void *const *rows;
    size_t n_rows, size, length;
} tg_rank_window;

size_t
tg_rank_counts_bytes(size_t key_bytes); /* of the room that it takes; all 0 before, and after */
void tg_rank_slide(size_t key_bytes, const tg_rank_window *w, uint32_t *counts, void *to);

#endif
