/* ims/digest.c - MD5 (RFC 1321), SHA-1 and SHA-256 (FIPS 180-4). */
#include "ims/digest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static uint32_t left(uint32_t v, unsigned n)
{
    return v << n | v >> (32 - n);
}
static uint32_t right(uint32_t v, unsigned n)
{
    return v >> n | v << (32 - n);
}
static uint32_t load_le(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static uint32_t load_be(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

/* --- MD5 -------------------------------------------------------------------------- */

static const uint32_t md5_sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613,
    0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193,
    0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d,
    0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed,
    0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122,
    0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
    0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244,
    0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb,
    0xeb86d391,
};

static void md5_block(uint32_t s[8], const uint8_t *p)
{
    static const uint8_t turns[4][4] = {
        {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    uint32_t a = s[0], b = s[1], c = s[2], d = s[3];
    for (unsigned i = 0; i < 64; i++) {
        unsigned round = i / 16;
        uint32_t f = round == 0   ? (b & c) | (~b & d)
                     : round == 1 ? (d & b) | (~d & c)
                     : round == 2 ? b ^ c ^ d
                                  : c ^ (b | ~d);
        unsigned g = round == 0   ? i
                     : round == 1 ? (5 * i + 1) % 16
                     : round == 2 ? (3 * i + 5) % 16
                                  : 7 * i % 16;
        uint32_t next =
            b + left(a + f + md5_sines[i] + load_le(p + 4 * (size_t)g), turns[round][i % 4]);
        a = d;
        d = c;
        c = b;
        b = next;
    }
    s[0] += a;
    s[1] += b;
    s[2] += c;
    s[3] += d;
}

/* --- SHA-1 --------------------------------------------------------------------------- */

static void sha1_block(uint32_t s[8], const uint8_t *p)
{
    uint32_t w[80], a = s[0], b = s[1], c = s[2], d = s[3], e = s[4];
    for (size_t i = 0; i < 16; i++)
        w[i] = load_be(p + 4 * i);
    for (size_t i = 16; i < 80; i++)
        w[i] = left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (size_t i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                     : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                     : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                              : (b ^ c ^ d) + 0xca62c1d6;
        uint32_t next = left(a, 5) + f + e + w[i];
        e = d;
        d = c;
        c = left(b, 30);
        b = a;
        a = next;
    }
    s[0] += a;
    s[1] += b;
    s[2] += c;
    s[3] += d;
    s[4] += e;
}

/* --- SHA-256 ------------------------------------------------------------------------- */

static const uint32_t sha256_roots[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
};

static void sha256_block(uint32_t s[8], const uint8_t *p)
{
    uint32_t w[64], v[8];
    memcpy(v, s, sizeof v);
    for (size_t i = 0; i < 16; i++)
        w[i] = load_be(p + 4 * i);
    for (size_t i = 16; i < 64; i++) {
        uint32_t a = right(w[i - 15], 7) ^ right(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = right(w[i - 2], 17) ^ right(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    for (size_t i = 0; i < 64; i++) {
        uint32_t big1 = right(v[4], 6) ^ right(v[4], 11) ^ right(v[4], 25);
        uint32_t big0 = right(v[0], 2) ^ right(v[0], 13) ^ right(v[0], 22);
        uint32_t one = v[7] + big1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + sha256_roots[i] + w[i];
        uint32_t two = big0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (size_t i = 0; i < 8; i++)
        s[i] += v[i];
}

#if defined(__x86_64__)

/* The same by the processor's instructions, which take two rounds at a time: the state lies in
 * two registers as they want it, and four registers hold the last 16 words of the schedule. */
__attribute__((target("sha,sse4.1"))) static void sha256_blocks_fast(uint32_t s[8],
                                                                     const uint8_t *p, size_t n)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)s);
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(s + 4));
    low = _mm_shuffle_epi32(low, 0x1b);
    high = _mm_shuffle_epi32(high, 0x1b);
    __m128i abef = _mm_unpackhi_epi64(high, low), cdgh = _mm_unpacklo_epi64(high, low);

    for (; n > 0; n--, p += 64) {
        __m128i was_abef = abef, was_cdgh = cdgh, w[4];
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(
                _mm_loadu_si128((const __m128i *)(const void *)(p + (size_t)16 * (size_t)i)),
                swap);
        for (size_t g = 0; g < 16; g++) { /* four rounds each */
            __m128i now = w[g % 4], last = w[(g + 3) % 4];
            __m128i k = _mm_loadu_si128((const __m128i *)(const void *)(sha256_roots + 4 * g));
            k = _mm_add_epi32(now, k);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
            __m128i next = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(g + 1) % 4]),
                                         _mm_alignr_epi8(last, w[(g + 2) % 4], 4));
            w[g % 4] = _mm_sha256msg2_epu32(next, last);
        }
        abef = _mm_add_epi32(abef, was_abef);
        cdgh = _mm_add_epi32(cdgh, was_cdgh);
    }
    low = _mm_shuffle_epi32(_mm_unpackhi_epi64(cdgh, abef), 0x1b);
    high = _mm_shuffle_epi32(_mm_unpacklo_epi64(cdgh, abef), 0x1b);
    _mm_storeu_si128((__m128i *)(void *)s, low);
    _mm_storeu_si128((__m128i *)(void *)(s + 4), high);
}

static bool has_sha(void)
{
    static atomic_int known; /* 0: not asked yet */
    unsigned a, b = 0, c = 0, d;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);

    if (answer == 0) {
        bool sse41 = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_1) != 0;
        bool sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
        answer = sse41 && sha ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

#else

static void sha256_blocks_fast(uint32_t s[8], const uint8_t *p, size_t n)
{
    for (; n > 0; n--, p += 64)
        sha256_block(s, p);
}

static bool has_sha(void)
{
    return false;
}

#endif

/* --- All three --------------------------------------------------------------------------- */

const char *tg_digest_name(tg_ims_sum kind)
{
    return kind == TG_SUM_MD5 ? "MD5" : kind == TG_SUM_SHA1 ? "SHA-1" : "SHA-256";
}

void tg_digest_begin(tg_digest *d, tg_ims_sum kind)
{
    static const uint32_t small[8] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                                      0xc3d2e1f0};
    static const uint32_t large[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    *d = (tg_digest){.kind = kind, .fast = kind == TG_SUM_SHA256 && has_sha()};
    memcpy(d->state, kind == TG_SUM_SHA256 ? large : small, sizeof d->state);
}

static void add_blocks(tg_digest *d, const uint8_t *p, size_t n)
{
    if (d->fast) {
        sha256_blocks_fast(d->state, p, n);
        return;
    }
    for (; n > 0; n--, p += 64)
        if (d->kind == TG_SUM_MD5)
            md5_block(d->state, p);
        else if (d->kind == TG_SUM_SHA1)
            sha1_block(d->state, p);
        else
            sha256_block(d->state, p);
}

void tg_digest_add(tg_digest *d, const uint8_t *data, size_t n)
{
    size_t used = d->bytes % 64;
    d->bytes += n;
    if (used > 0) {
        size_t part = n < 64 - used ? n : 64 - used;
        memcpy(d->block + used, data, part);
        data += part;
        n -= part;
        if (used + part < 64)
            return;
        add_blocks(d, d->block, 1);
    }
    add_blocks(d, data, n / 64);
    if (n % 64 > 0)
        memcpy(d->block, data + n / 64 * 64, n % 64);
}

void tg_digest_end(tg_digest *d, char hex[65])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = d->bytes * 8;
    uint8_t length[8];
    bool big = d->kind != TG_SUM_MD5;
    for (unsigned i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (big ? 56 - 8 * i : 8 * i));
    size_t used = d->bytes % 64;
    tg_digest_add(d, padding, used < 56 ? 56 - used : 120 - used);
    tg_digest_add(d, length, sizeof length);
    unsigned n = d->kind == TG_SUM_MD5 ? 16 : d->kind == TG_SUM_SHA1 ? 20 : 32;
    for (unsigned i = 0; i < n; i++) {
        unsigned shift = big ? 24 - 8 * (i % 4) : 8 * (i % 4);
        (void)snprintf(hex + (size_t)2 * i, 3, "%02x",
                       (unsigned)(d->state[i / 4] >> shift & 0xff));
    }
}
