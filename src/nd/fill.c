/* nd/fill.c - one value in many places: fill and compare; and byte order. */
#include "nd/nd.h"

#include <string.h>

void tg_nd_fill(void *dst, const int64_t *dst_strides, const tg_shape *shape, size_t item_bytes,
                const void *value)
{
    static const int64_t nowhere[TG_MAX_NDIM];

    tg_nd_copy(dst, dst_strides, value, nowhere, shape, item_bytes);
}

bool tg_nd_is_fill(const void *data, size_t n, size_t item_bytes, const void *value)
{
    const char *p = data;

    if (n == 0 || item_bytes == 0)
        return true;
    /* The first item is the value, and each is as the one before it. */
    return memcmp(p, value, item_bytes) == 0 &&
           memcmp(p, p + item_bytes, (n - 1) * item_bytes) == 0;
}

typedef uint16_t v16 __attribute__((vector_size(16)));
typedef uint32_t v32 __attribute__((vector_size(16)));
typedef uint64_t v64 __attribute__((vector_size(16)));

/* Shifts and ors, for every vector unit has them; a byte shuffle needs SSSE3. */
static v16 swap_16(v16 v)
{
    return v << 8 | v >> 8;
}

static v32 swap_32(v32 v)
{
    v = (v32)swap_16((v16)v);
    return v << 16 | v >> 16;
}

static v64 swap_64(v64 v)
{
    v = (v64)swap_32((v32)v);
    return v << 32 | v >> 32;
}

#define DEFINE_SWAP(name, vec, type, swap, bswap)          \
    static void name(char *dst, const char *src, size_t n) \
    {                                                      \
        const size_t step = 16 / sizeof(type);             \
        size_t i = 0;                                      \
        for (; n - i >= step; i += step) {                 \
            vec v;                                         \
            memcpy(&v, src + i * sizeof(type), 16);        \
            v = swap(v);                                   \
            memcpy(dst + i * sizeof(type), &v, 16);        \
        }                                                  \
        for (; i < n; i++) {                               \
            type u;                                        \
            memcpy(&u, src + i * sizeof u, sizeof u);      \
            u = bswap(u);                                  \
            memcpy(dst + i * sizeof u, &u, sizeof u);      \
        }                                                  \
    }

DEFINE_SWAP(swap_units_2, v16, uint16_t, swap_16, __builtin_bswap16)
DEFINE_SWAP(swap_units_4, v32, uint32_t, swap_32, __builtin_bswap32)
DEFINE_SWAP(swap_units_8, v64, uint64_t, swap_64, __builtin_bswap64)

void tg_nd_swap(void *dst, const void *src, size_t n, size_t unit_bytes)
{
    if (unit_bytes == 2)
        swap_units_2(dst, src, n);
    else if (unit_bytes == 4)
        swap_units_4(dst, src, n);
    else if (unit_bytes == 8)
        swap_units_8(dst, src, n);
    else if (dst != src)
        memcpy(dst, src, n * unit_bytes);
}
