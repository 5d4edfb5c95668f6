#include "check.h"
#include "nd/nd.h"
#include "random.h"

#include <stdlib.h>

enum { ROUNDS = 3000 };

/* A block in room of its own, laid out in any order of axes, each axis forward,
 * backward or (src only) standing still, with gaps. */
typedef struct block {
    uint8_t *room;
    size_t room_bytes;
    uint8_t *origin;
    int64_t strides[TG_MAX_NDIM];
} block;

static void block_auto(block *b)
{
    tg_free(b->room);
}

static bool block_make(block *b, const tg_shape *s, size_t item, bool may_repeat, rng *r)
{
    uint32_t order[TG_MAX_NDIM];
    int64_t step = (int64_t)item, origin = 0;

    for (uint32_t i = 0; i < s->ndim; i++)
        order[i] = i;
    for (uint32_t i = s->ndim; i > 1; i--) {
        uint32_t k = (uint32_t)rng_below(r, i), t = order[i - 1];
        order[i - 1] = order[k];
        order[k] = t;
    }
    for (uint32_t i = 0; i < s->ndim; i++) {
        uint32_t axis = order[i];
        if (may_repeat && rng_below(r, 8) == 0) {
            b->strides[axis] = 0;
            continue;
        }
        if (rng_below(r, 4) == 0)
            step += (int64_t)rng_below(r, 5); /* a gap, not a multiple of the item */
        b->strides[axis] = step;
        if (rng_below(r, 5) == 0) {
            b->strides[axis] = -step;
            origin += step * (int64_t)(s->n[axis] > 0 ? s->n[axis] - 1 : 0);
        }
        step *= (int64_t)(s->n[axis] > 0 ? s->n[axis] : 1);
    }
    b->room_bytes = (size_t)step;
    b->room = tg_alloc(b->room_bytes);
    if (b->room == NULL)
        return false;
    b->origin = b->room + origin;
    for (size_t i = 0; i < b->room_bytes; i++)
        b->room[i] = (uint8_t)rng_next(r);
    return true;
}

static int64_t offset_of(const uint64_t *index, const int64_t *strides, uint32_t ndim)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < ndim; i++)
        at += (int64_t)index[i] * strides[i];
    return at;
}

static void naive_copy(uint8_t *dst, const int64_t *ds, const uint8_t *src, const int64_t *ss,
                       const tg_shape *shape, size_t item)
{
    tg_box all = {.shape = *shape};
    uint64_t index[TG_MAX_NDIM] = {0};

    for (uint32_t i = 0; i < shape->ndim; i++)
        if (shape->n[i] == 0)
            return;
    do {
        memcpy(dst + offset_of(index, ds, shape->ndim), src + offset_of(index, ss, shape->ndim),
               item);
    } while (tg_box_next(&all, index));
}

static tg_shape random_shape(rng *r)
{
    static const uint64_t longest[] = {300, 300, 70, 20, 9, 5};
    tg_shape s = {.ndim = (uint32_t)rng_below(r, 6)};

    for (uint32_t i = 0; i < s.ndim; i++) {
        s.n[i] = 1 + rng_below(r, longest[s.ndim]);
        if (rng_below(r, 60) == 0)
            s.n[i] = 0;
    }
    return s;
}

static const size_t items[] = {1, 2, 3, 4, 8, 16, 1, 2, 5, 24};

static void copy_equals_the_naive_loop(void)
{
    rng r = {1};
    char row[32];

    for (int round = 0; round < ROUNDS; round++) {
        tg_shape s = random_shape(&r);
        size_t item = items[rng_below(&r, sizeof items / sizeof items[0])];
        TG_AUTO(block) src = {0};
        TG_AUTO(block) dst = {0};
        (void)snprintf(row, sizeof row, "round %d", round);
        test_row = row;
        REQUIRE(block_make(&src, &s, item, true, &r) && block_make(&dst, &s, item, false, &r));
        TG_AUTO(tg_mem_ptr) want = tg_alloc(dst.room_bytes);
        REQUIRE(want != NULL);
        memcpy(want, dst.room, dst.room_bytes);
        naive_copy((uint8_t *)want + (dst.origin - dst.room), dst.strides, src.origin,
                   src.strides, &s, item);
        tg_nd_copy(dst.origin, dst.strides, src.origin, src.strides, &s, item);
        REQUIRE(memcmp(want, dst.room, dst.room_bytes) == 0); /* gaps untouched too */
    }
}

static void fill_equals_the_naive_loop(void)
{
    static const int64_t still[TG_MAX_NDIM];
    rng r = {2};

    for (int round = 0; round < ROUNDS; round++) {
        tg_shape s = random_shape(&r);
        size_t item = items[rng_below(&r, sizeof items / sizeof items[0])];
        uint8_t value[24];
        TG_AUTO(block) dst = {0};
        REQUIRE(block_make(&dst, &s, item, false, &r));
        TG_AUTO(tg_mem_ptr) want = tg_alloc(dst.room_bytes);
        REQUIRE(want != NULL);
        for (size_t i = 0; i < sizeof value; i++)
            value[i] = round % 3 == 0 ? 7 : (uint8_t)rng_next(&r);
        memcpy(want, dst.room, dst.room_bytes);
        naive_copy((uint8_t *)want + (dst.origin - dst.room), dst.strides, value, still, &s,
                   item);
        tg_nd_fill(dst.origin, dst.strides, &s, item, value);
        REQUIRE(memcmp(want, dst.room, dst.room_bytes) == 0);
    }
}

/* Every size of a plane around the sides of squares and tiles. */
static void transposition_at_every_edge(void)
{
    rng r = {3};
    static uint8_t src[140 * 140 * 8], dst[140 * 140 * 8];
    static const uint64_t sizes[] = {1,  2,  3,  7,  8,  9,  15, 16,  17,
                                     31, 33, 63, 64, 65, 66, 80, 129, 140};
    enum { N = sizeof sizes / sizeof sizes[0] };

    for (size_t i = 0; i < sizeof src; i++)
        src[i] = (uint8_t)rng_next(&r);
    for (size_t item = 1; item <= 8; item *= 2) {
        for (size_t i = 0; i < (size_t)N * N; i++) {
            tg_shape s = {2, {sizes[i / N], sizes[i % N]}};
            int64_t from[2], to[2];
            tg_strides_c(&s, item, from);
            tg_strides_f(&s, item, to);
            tg_nd_copy(dst, to, src, from, &s, item);
            for (uint64_t y = 0; y < s.n[0]; y++)
                for (uint64_t x = 0; x < s.n[1]; x++)
                    REQUIRE(memcmp(dst + y * item + x * s.n[0] * item,
                                   src + (y * s.n[1] + x) * item, item) == 0);
        }
    }
}

static void is_fill_looks_at_every_byte(void)
{
    uint8_t data[64 * 16 + 1];
    uint8_t value[16] = {0};

    for (size_t k = 0; k < 6; k++) {
        size_t item = items[k];
        for (size_t i = 0; i < item; i++)
            value[i] = (uint8_t)(i + 1);
        for (size_t n = 0; n <= 64; n++) {
            for (size_t i = 0; i < n * item; i++)
                data[i] = value[i % item];
            data[n * item] = 0xEE;
            CHECK(tg_nd_is_fill(data, n, item, value));
            for (size_t i = 0; i < n * item; i++) {
                data[i] ^= 0x80;
                REQUIRE(!tg_nd_is_fill(data, n, item, value));
                data[i] ^= 0x80;
            }
        }
    }
    const float zero = 0.0f, minus = -0.0f;
    CHECK(!tg_nd_is_fill(&minus, 1, sizeof minus, &zero));
}

static void swap_reverses_each_unit(void)
{
    rng r = {4};
    uint8_t src[8 * 70], dst[8 * 70 + 1];

    for (size_t i = 0; i < sizeof src; i++)
        src[i] = (uint8_t)rng_next(&r);
    for (size_t unit = 1; unit <= 8; unit *= 2) {
        for (size_t n = 0; n <= 70; n++) {
            memset(dst, 0xEE, sizeof dst);
            tg_nd_swap(dst, src, n, unit);
            for (size_t i = 0; i < n * unit; i++)
                REQUIRE(dst[i] == src[i / unit * unit + unit - 1 - i % unit]);
            CHECK_U64(dst[n * unit], 0xEE);
            tg_nd_swap(dst, dst, n, unit);
            REQUIRE(memcmp(dst, src, n * unit) == 0);
        }
    }
}

static const struct test tests[] = {
    {"copy_equals_the_naive_loop", copy_equals_the_naive_loop},
    {"fill_equals_the_naive_loop", fill_equals_the_naive_loop},
    {"transposition_at_every_edge", transposition_at_every_edge},
    {"is_fill_looks_at_every_byte", is_fill_looks_at_every_byte},
    {"swap_reverses_each_unit", swap_reverses_each_unit},
};

TEST_MAIN(tests)
