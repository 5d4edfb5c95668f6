#include "base/crc32c.h"
#include "base/mem.h"
#include "check.h"

/* The definition, bit by bit. */
static uint32_t bitwise(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void fill(uint8_t *p, size_t n)
{
    uint64_t x = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        p[i] = (uint8_t)x;
    }
}

/* Each test runs in both forms; without the instructions they are the same one. */
#define IN_BOTH_FORMS for (int form = 0; form < 2; tg_crc32c_use_portable(0), form++)

static void begin_form(int form)
{
    tg_crc32c_use_portable(form);
    test_row = tg_crc32c_form();
}

static void known_sums(void)
{
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xff, sizeof ones);
    for (uint8_t i = 0; i < 32; i++) {
        up[i] = i;
        down[i] = 31 - i;
    }
    const struct {
        const void *data;
        size_t n;
        uint32_t want;
    } rows[] = {
        {"", 0, 0},
        {"a", 1, 0xc1d04330},
        {"123456789", 9, 0xe3069283},
        {zeros, 32, 0x8a9136aa}, /* these four: RFC 3720, appendix B.4 */
        {ones, 32, 0x62a8ab43},
        {up, 32, 0x46dd794e},
        {down, 32, 0x113fdb5c},
    };
    IN_BOTH_FORMS
    {
        begin_form(form);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            CHECK_U64(tg_crc32c(0, rows[i].data, rows[i].n), rows[i].want);
    }
}

static void every_length_at_every_alignment(void)
{
    uint8_t data[320], copy[340];
    fill(data, sizeof data);
    IN_BOTH_FORMS
    {
        begin_form(form);
        for (size_t at = 0; at < 16; at++)
            for (size_t n = 0; n <= 300; n++) {
                uint32_t want = bitwise(data + at, n);
                CHECK_U64(tg_crc32c(0, data + at, n), want);
                memset(copy, 0xaa, sizeof copy);
                uint8_t *dst = copy + 1 + (at * 5 + n) % 16;
                CHECK_U64(tg_crc32c_copy(0, dst, data + at, n), want);
                CHECK(memcmp(dst, data + at, n) == 0);
                CHECK(dst[-1] == 0xaa && dst[n] == 0xaa);
            }
    }
}

/* Lengths around the lanes (1 KiB, by three) and around the copy past the cache (64 KiB). */
static void long_ones(void)
{
    static const size_t lengths[] = {1023,  1024,  3071,  3072,  3073,  6143,         6145,
                                     65535, 65536, 65537, 68607, 70000, 3 * 65536 + 7};
    enum { N = 3 * 65536 + 100 };
    TG_AUTO(tg_buf) src = {0};
    TG_AUTO(tg_buf) dst = {0};
    REQUIRE_OK(tg_buf_resize(&src, N, NULL));
    REQUIRE_OK(tg_buf_resize(&dst, N, NULL));
    fill(src.data, N);
    IN_BOTH_FORMS
    {
        begin_form(form);
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
            for (size_t at = 0; at < 3; at++) {
                size_t n = lengths[i];
                uint32_t want = bitwise(src.data + at, n);
                CHECK_U64(tg_crc32c(0, src.data + at, n), want);
                memset(dst.data, 0xaa, N);
                CHECK_U64(tg_crc32c_copy(0, dst.data + 3 * at + 1, src.data + at, n), want);
                CHECK(memcmp(dst.data + 3 * at + 1, src.data + at, n) == 0);
                CHECK(dst.data[3 * at] == 0xaa && dst.data[3 * at + 1 + n] == 0xaa);
            }
    }
}

static void a_sum_goes_on_and_sums_combine(void)
{
    static const size_t cuts[] = {0, 1, 7, 8, 1000, 3072, 5000, 9999, 10000};
    uint8_t data[10000];
    fill(data, sizeof data);
    uint32_t whole = bitwise(data, sizeof data);
    IN_BOTH_FORMS
    {
        begin_form(form);
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
            size_t n = cuts[i], rest = sizeof data - n;
            uint32_t a = tg_crc32c(0, data, n), b = tg_crc32c(0, data + n, rest);
            CHECK_U64(tg_crc32c(a, data + n, rest), whole);
            CHECK_U64(tg_crc32c_combine(a, b, rest), whole);
        }
    }
}

/* Zeros behind a sum, far more of them than can be summed here: in two steps and in one. */
static void sums_of_huge_parts_combine(void)
{
    uint8_t zeros[4096] = {0};
    uint32_t a = tg_crc32c(0, "tide", 4), z = 0, all = a;
    uint64_t n = sizeof zeros;
    z = tg_crc32c(0, zeros, n);
    for (; n < (uint64_t)1 << 62; n *= 2)
        z = tg_crc32c_combine(z, z, n);
    all = tg_crc32c_combine(a, z, n);
    uint32_t half = 0;
    uint64_t m = sizeof zeros;
    for (half = tg_crc32c(0, zeros, m); m < n / 2; m *= 2)
        half = tg_crc32c_combine(half, half, m);
    CHECK_U64(tg_crc32c_combine(tg_crc32c_combine(a, half, m), half, m), all);
    CHECK(all != a);
}

static const struct test tests[] = {
    {"known_sums", known_sums},
    {"every_length_at_every_alignment", every_length_at_every_alignment},
    {"long_ones", long_ones},
    {"a_sum_goes_on_and_sums_combine", a_sum_goes_on_and_sums_combine},
    {"sums_of_huge_parts_combine", sums_of_huge_parts_combine},
};

TEST_MAIN(tests)
