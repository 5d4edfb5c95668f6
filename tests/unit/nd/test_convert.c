/* nd/convert.c: what each type becomes, and what is counted as lost. */
#include "check.h"
#include "nd/convert.h"

#include <math.h>

static void numbers(void)
{
    static const double in[] = {-1e300, -1.5,  -0.5,  0.5, 1.5,     2.5,
                                254.5,  255.5, 1e300, NAN, INFINITY};
    static const uint8_t u8[] = {0, 0, 0, 0, 2, 2, 254, 255, 255, 0, 255};
    static const int8_t i8[] = {-128, -2, 0, 0, 2, 2, 127, 127, 127, 0, 127};
    const tg_dtype f8 = {TG_DT_FLOAT, 8};
    uint8_t gu[11];
    int8_t gi[11];
    float gf[11];

    CHECK_U64(tg_nd_convert(gu, (tg_dtype){TG_DT_UINT, 1}, in, f8, 11), 6);
    CHECK(memcmp(gu, u8, 11) == 0);
    CHECK_U64(tg_nd_convert(gi, (tg_dtype){TG_DT_INT, 1}, in, f8, 11), 6);
    CHECK(memcmp(gi, i8, 11) == 0);
    CHECK_U64(tg_nd_convert(gf, (tg_dtype){TG_DT_FLOAT, 4}, in, f8, 11), 2);
    CHECK(isinf(gf[0]) && gf[4] == 1.5F && isnan(gf[9]) && isinf(gf[10]));
}

static void wide_integers(void)
{
    static const uint64_t in[] = {0, UINT64_MAX, (uint64_t)1 << 63, 16777217};
    static const int64_t si[] = {-1, INT64_MIN, INT64_MAX, 70000};
    const tg_dtype u8 = {TG_DT_UINT, 8}, i8 = {TG_DT_INT, 8};
    int64_t gi[4];
    uint64_t gu[4];
    uint16_t half[4];
    double back[4];

    CHECK_U64(tg_nd_convert(gi, i8, in, u8, 4), 2);
    CHECK(gi[1] == INT64_MAX && gi[2] == INT64_MAX && gi[3] == 16777217);
    CHECK_U64(tg_nd_convert(gu, u8, si, i8, 4), 2);
    CHECK(gu[0] == 0 && gu[1] == 0 && gu[2] == INT64_MAX);
    CHECK_U64(tg_nd_convert(half, (tg_dtype){TG_DT_FLOAT, 2}, si, i8, 4), 3);
    CHECK(half[0] == 0xbc00 && half[3] == 0x7c00);
    CHECK_U64(
        tg_nd_convert(back, (tg_dtype){TG_DT_FLOAT, 8}, half, (tg_dtype){TG_DT_FLOAT, 2}, 4),
        0);
    CHECK(back[0] == -1 && isinf(back[3]));
}

static void bools_and_complex(void)
{
    const float in[4] = {0, -0.5F, 3, 4};
    uint8_t flags[4];
    double pairs[8];
    float narrow[8];

    CHECK_U64(
        tg_nd_convert(flags, (tg_dtype){TG_DT_BOOL, 1}, in, (tg_dtype){TG_DT_FLOAT, 4}, 4), 0);
    CHECK(flags[0] == 0 && flags[1] == 1 && flags[2] == 1);
    CHECK_U64(
        tg_nd_convert(pairs, (tg_dtype){TG_DT_COMPLEX, 16}, in, (tg_dtype){TG_DT_FLOAT, 4}, 4),
        0);
    CHECK(pairs[2] == -0.5 && pairs[3] == 0 && pairs[6] == 4);
    CHECK_U64(tg_nd_convert(narrow, (tg_dtype){TG_DT_COMPLEX, 8}, pairs,
                            (tg_dtype){TG_DT_COMPLEX, 16}, 4),
              0);
    CHECK(narrow[6] == 4 && narrow[7] == 0);
    CHECK(!tg_nd_can_convert((tg_dtype){TG_DT_COMPLEX, 8}, (tg_dtype){TG_DT_FLOAT, 4}));
    CHECK(!tg_nd_can_convert((tg_dtype){TG_DT_RAW, 2}, (tg_dtype){TG_DT_UINT, 2}));
    CHECK(tg_nd_can_convert((tg_dtype){TG_DT_RAW, 2}, (tg_dtype){TG_DT_RAW, 2}));
}

/* More than a block, so that the seams are crossed. */
static void many_items(void)
{
    enum { N = 3000 };
    static uint16_t in[N];
    static int32_t out[N];
    bool right = true;

    for (size_t i = 0; i < N; i++)
        in[i] = (uint16_t)(i * 21);
    CHECK_U64(tg_nd_convert(out, (tg_dtype){TG_DT_INT, 4}, in, (tg_dtype){TG_DT_UINT, 2}, N),
              0);
    for (size_t i = 0; i < N; i++)
        right &= out[i] == (int32_t)(uint16_t)(i * 21);
    CHECK(right);
}

static const struct test tests[] = {
    {"numbers", numbers},
    {"wide_integers", wide_integers},
    {"bools_and_complex", bools_and_complex},
    {"many_items", many_items},
};

TEST_MAIN(tests)
