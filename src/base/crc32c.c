/* base/crc32c.c - CRC-32C: table form, instruction form, and a copy that sums what it copies.
 * Knows nothing of where sums are kept.
 *
 * A sum is a polynomial over GF(2) modulo P, bit 31 the coefficient of x^0. The sum of A then B
 * is sum(A) * x^(8 |B|) + sum(B), where sums are taken without the final inversion. That makes
 * combine(), and lets three lanes of a block be summed at once: one crc instruction takes three
 * cycles, and three of them overlap. */
#include "base/crc32c.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define HW_NAME   "sse4.2"
#define HW_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define HW_NAME   "armv8"
#define HW_TARGET __attribute__((target("+crc")))
#endif

#define POLY 0x82f63b78u    /* x^32 + x^28 + ... + 1, bit-reversed */
#define X_0  0x80000000u    /* the polynomial 1 */
#define LANE ((size_t)1024) /* bytes of each of the three lanes of a block */
#define STREAM_N                                                                     \
    (1u << 16) /* copies from here on go past the cache: measured, at 64 KiB already \
                  as fast as memcpy() and 1.3 times the cached form */

typedef uint32_t (*sum_fn)(uint32_t crc, const uint8_t *p, size_t n);
typedef uint32_t (*copy_fn)(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t n);

typedef struct form {
    const char *name;
    sum_fn sum;
    copy_fn copy;
} form;

static uint32_t slices[8][256]; /* slices[k][b]: byte b with k zero bytes after it */
static uint32_t past_1[4][256]; /* byte k of a sum, moved over one lane of zeros */
static uint32_t past_2[4][256]; /* over two lanes */
static uint32_t powers[32];     /* x^(2^k) mod P; the order of x divides 2^31 - 1 */
static const form *best;        /* what this processor does fastest */
static _Atomic(const form *) in_use;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* --- Polynomials --------------------------------------------------------- */

static uint32_t times_x(uint32_t a)
{
    return a >> 1 ^ ((a & 1) != 0 ? POLY : 0);
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a != 0; a <<= 1, b = times_x(b))
        if ((a & X_0) != 0)
            product ^= b;
    return product;
}

/* x^(8 n) mod P. */
static uint32_t power_of_bytes(uint64_t n)
{
    uint32_t p = X_0;
    for (unsigned k = 3; n != 0; n >>= 1, k++)
        if ((n & 1) != 0)
            p = multiply(p, powers[k % 31]);
    return p;
}

static void make_past(uint32_t table[4][256], uint64_t bytes)
{
    uint32_t factor = power_of_bytes(bytes);
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t b = 0; b < 256; b++)
            table[k][b] = multiply(b << 8 * k, factor);
}

/* --- By tables ----------------------------------------------------------- */

static uint32_t table_byte(uint32_t crc, uint8_t b)
{
    return crc >> 8 ^ slices[0][(crc ^ b) & 255];
}

static uint32_t table_u64(uint32_t crc, const uint8_t *p)
{
    uint32_t lo = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                         (uint32_t)p[3] << 24);
    return slices[7][lo & 255] ^ slices[6][lo >> 8 & 255] ^ slices[5][lo >> 16 & 255] ^
           slices[4][lo >> 24] ^ slices[3][p[4]] ^ slices[2][p[5]] ^ slices[1][p[6]] ^
           slices[0][p[7]];
}

static uint32_t table_sum(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8)
        crc = table_u64(crc, p);
    for (; n > 0; n--)
        crc = table_byte(crc, *p++);
    return crc;
}

/* The sum is slower than the memory: a block is copied while it is in the nearest cache. */
static uint32_t table_copy(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t n)
{
    for (size_t block = 4096; n > 0; n -= block, dst += block, src += block) {
        block = n < block ? n : block;
        memcpy(dst, src, block);
        crc = table_sum(crc, src, block);
    }
    return crc;
}

static const form portable = {"portable", table_sum, table_copy};

/* --- By instructions ----------------------------------------------------- */

#ifdef HW_NAME

static uint64_t load_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

#if defined(__x86_64__)
HW_TARGET static inline uint32_t hw_u64(uint32_t crc, uint64_t v)
{
    return (uint32_t)_mm_crc32_u64(crc, v);
}

HW_TARGET static inline uint32_t hw_byte(uint32_t crc, uint8_t b)
{
    return _mm_crc32_u8(crc, b);
}

static int hw_present(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}

/* Past the cache, where the caller will not read it soon: saves reading the line first. */
static inline void stream_u64(uint8_t *p, uint64_t v)
{
    _mm_stream_si64((long long *)(void *)p, (long long)v);
}

static inline void stream_end(void)
{
    _mm_sfence();
}
#else
HW_TARGET static inline uint32_t hw_u64(uint32_t crc, uint64_t v)
{
    return __crc32cd(crc, v);
}

HW_TARGET static inline uint32_t hw_byte(uint32_t crc, uint8_t b)
{
    return __crc32cb(crc, b);
}

static int hw_present(void)
{
    return (getauxval(AT_HWCAP) & (1ul << 7)) != 0; /* HWCAP_CRC32 */
}

/* ARM's stores see a run of whole lines by themselves. */
static inline void stream_u64(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline void stream_end(void) {}
#endif

static inline uint32_t past(const uint32_t table[4][256], uint32_t crc)
{
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^
           table[3][crc >> 24];
}

HW_TARGET static uint32_t hw_tail(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8)
        crc = hw_u64(crc, load_u64(p));
    for (; n > 0; n--)
        crc = hw_byte(crc, *p++);
    return crc;
}

HW_TARGET static uint32_t hw_sum(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 3 * LANE; n -= 3 * LANE, p += 3 * LANE) {
        uint32_t a = crc, b = 0, c = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            a = hw_u64(a, load_u64(p + i));
            b = hw_u64(b, load_u64(p + LANE + i));
            c = hw_u64(c, load_u64(p + 2 * LANE + i));
        }
        crc = past(past_2, a) ^ past(past_1, b) ^ c;
    }
    return hw_tail(crc, p, n);
}

/* Small: stores of our own would first read the lines they fill, which memcpy() knows to avoid;
 * the block is in the nearest cache when it is copied. */
static uint32_t copy_cached(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t n)
{
    for (size_t block = 6 * LANE; n > 0; n -= block, dst += block, src += block) {
        block = n < block ? n : block;
        crc = hw_sum(crc, src, block);
        memcpy(dst, src, block);
    }
    return crc;
}

HW_TARGET static uint32_t copy_past_cache(uint32_t crc, uint8_t *dst, const uint8_t *src,
                                          size_t n)
{
    size_t head = (size_t)(-(uintptr_t)dst & 63);
    crc = copy_cached(crc, dst, src, head);
    dst += head, src += head, n -= head;
    for (; n >= 3 * LANE; n -= 3 * LANE, src += 3 * LANE, dst += 3 * LANE) {
        uint32_t a = crc, b = 0, c = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            uint64_t u = load_u64(src + i), v = load_u64(src + LANE + i),
                     w = load_u64(src + 2 * LANE + i);
            a = hw_u64(a, u);
            b = hw_u64(b, v);
            c = hw_u64(c, w);
            stream_u64(dst + i, u);
            stream_u64(dst + LANE + i, v);
            stream_u64(dst + 2 * LANE + i, w);
        }
        crc = past(past_2, a) ^ past(past_1, b) ^ c;
    }
    stream_end();
    return copy_cached(crc, dst, src, n);
}

static uint32_t hw_copy(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t n)
{
    return n >= STREAM_N ? copy_past_cache(crc, dst, src, n) : copy_cached(crc, dst, src, n);
}

static const form hardware = {HW_NAME, hw_sum, hw_copy};
#endif

/* --- The choice ---------------------------------------------------------- */

static void prepare(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = times_x(crc);
        slices[0][b] = crc;
    }
    for (uint32_t b = 0; b < 256; b++)
        for (int k = 1; k < 8; k++)
            slices[k][b] = slices[k - 1][b] >> 8 ^ slices[0][slices[k - 1][b] & 255];
    powers[0] = X_0 >> 1;
    for (int k = 1; k < 32; k++)
        powers[k] = multiply(powers[k - 1], powers[k - 1]);
    make_past(past_1, LANE);
    make_past(past_2, 2 * LANE);
    best = &portable;
#ifdef HW_NAME
    if (hw_present())
        best = &hardware;
#endif
    atomic_store(&in_use, best);
}

static const form *chosen(void)
{
    const form *f = atomic_load_explicit(&in_use, memory_order_acquire);
    if (f != NULL)
        return f;
    (void)pthread_once(&once, prepare);
    return atomic_load(&in_use);
}

uint32_t tg_crc32c(uint32_t crc, const void *data, size_t n)
{
    return ~chosen()->sum(~crc, data, n);
}

uint32_t tg_crc32c_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
    return ~chosen()->copy(~crc, dst, src, n);
}

uint32_t tg_crc32c_combine(uint32_t a, uint32_t b, uint64_t b_bytes)
{
    (void)chosen();
    return multiply(a, power_of_bytes(b_bytes)) ^ b;
}

const char *tg_crc32c_form(void)
{
    return chosen()->name;
}

void tg_crc32c_use_portable(int on)
{
    (void)chosen();
    atomic_store(&in_use, on ? &portable : best);
}
