/* nd/kernels.h - the inner loop of tg_nd_copy(), for nd/ only. */
#ifndef TG_ND_KERNELS_H
#define TG_ND_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* One axis of a copy: its extent and its byte strides. */
typedef struct tg_axis {
    uint64_t n;
    int64_t dst, src;
} tg_axis;

/* Copy rows.n x cols.n units of 1, 2, 4, 8 or 16 bytes. src runs fast along cols, dst along
 * rows; goes in tiles, so that both sides use the cache lines they touch. */
void tg_copy_transposed(char *dst, const char *src, tg_axis rows, tg_axis cols, size_t unit);

#endif
