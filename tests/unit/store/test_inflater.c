/* Parts of a deflated value: the same bytes in whatever order they are read, in bounded memory,
 * and damage that is told. */
#include "check.h"
#include "store/inflater.h"

#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE ((size_t)9 << 20)
#define AT   100 /* bytes before the data in the file */

static uint8_t *value;
static tg_deflated of;
static FILE *file;

static uint32_t next_random(uint32_t *x)
{
    *x = *x * 1664525U + 1013904223U;
    return *x >> 8;
}

static void begin(void)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(1);
    size_t cap = libdeflate_deflate_compress_bound(c, SIZE);
    uint8_t *packed = tg_calloc(AT + cap, 1);
    uint32_t x = 1;

    value = tg_alloc(SIZE);
    for (size_t i = 0; i < SIZE; i++) /* half of the bits are noise */
        value[i] = (uint8_t)((i >> 8) + (next_random(&x) & 15));
    size_t n = libdeflate_deflate_compress(c, value, SIZE, packed + AT, cap);
    libdeflate_free_compressor(c);
    file = tmpfile();
    CHECK(n > 0 && file != NULL && fwrite(packed, 1, AT + n, file) == AT + n &&
          fflush(file) == 0);
    tg_free(packed);
    of = (tg_deflated){fileno(file), AT, n, SIZE, libdeflate_crc32(0, value, SIZE)};
}

static void end(void)
{
    CHECK(fclose(file) == 0);
    tg_free(value);
}

static void check_read(tg_inflater *f, uint8_t *got, size_t at, size_t n)
{
    tg_error err = {0};
    REQUIRE_OK(tg_inflater_read(f, at, n, got, "x", NULL, &err));
    CHECK(memcmp(got, value + at, n) == 0);
}

static void any_order(void)
{
    tg_inflater *f = NULL;
    uint32_t x = 7;

    begin();
    uint8_t *got = tg_alloc(SIZE);
    const size_t before = tg_mem_live();
    tg_mem_reset();
    REQUIRE_OK(tg_inflater_new(&f, &of, NULL));
    check_read(f, got, 5, 1);
    check_read(f, got, SIZE - 1, 1); /* past all states */
    check_read(f, got, 0, 0);
    for (int i = 0; i < 60; i++) {
        size_t at = (size_t)next_random(&x) % SIZE;
        size_t n = 1 + (size_t)next_random(&x) % 100000;
        check_read(f, got, at, n < SIZE - at ? n : SIZE - at);
    }
    check_read(f, got, 0, SIZE);
    for (size_t at = (1 << 20) - 2; at < (1 << 20) + 2; at++)
        check_read(f, got, at, 3); /* about a state */
    CHECK(tg_mem_highwater() - before <= TG_INFLATER_BYTES);
    tg_inflater_free(f);
    CHECK_U64(tg_mem_live(), before);
    tg_free(got);
    end();
}

static tg_status read_all(const tg_deflated *d, uint8_t *got, size_t piece)
{
    tg_inflater *f = NULL;
    tg_error err = {0};
    tg_status st = tg_inflater_new(&f, d, &err);

    for (size_t at = 0; st == TG_OK && at < d->size; at += piece)
        st = tg_inflater_read(f, at, piece < d->size - at ? piece : (size_t)d->size - at, got,
                              "x", NULL, &err);
    CHECK(st != TG_CORRUPT || strstr(err.msg, "'x'") != NULL);
    tg_inflater_free(f);
    return st;
}

static void damage(void)
{
    begin();
    uint8_t *got = tg_alloc(1 << 20);
    for (size_t piece = 300001; piece <= 1 << 20; piece += 700000) {
        tg_deflated d = of;
        CHECK_STATUS(read_all(&d, got, piece), TG_OK);
        d.crc ^= 1;
        CHECK_STATUS(read_all(&d, got, piece), TG_CORRUPT);
        d = of;
        d.size++;
        CHECK_STATUS(read_all(&d, got, piece), TG_CORRUPT);
        d.size -= 2;
        CHECK_STATUS(read_all(&d, got, piece), TG_CORRUPT);
        d = of;
        d.stored--;
        CHECK_STATUS(read_all(&d, got, piece), TG_CORRUPT);
        d.stored += 2;
        CHECK_STATUS(read_all(&d, got, piece), TG_CORRUPT);
        d = of;
        d.at++;
        CHECK_STATUS(read_all(&d, got, piece), TG_CORRUPT);
    }
    tg_free(got);
    end();
}

/* States that there is no memory for are done without; for the reading itself there must be. */
static void no_memory(void)
{
    begin();
    uint8_t *got = tg_alloc(1 << 20);
    const size_t before = tg_mem_live();
    int refused = 0;
    for (long n = 1; n < 12; n++) {
        tg_mem_fail_at(n);
        tg_status st = read_all(&of, got, 1 << 20);
        tg_mem_fail_at(0);
        CHECK(st == TG_OK || st == TG_NO_MEMORY);
        refused += st == TG_NO_MEMORY;
        CHECK_U64(tg_mem_live(), before);
    }
    CHECK(refused >= 3 && refused < 11);
    tg_free(got);
    end();
}

static const struct test tests[] = {
    {"any_order", any_order},
    {"damage", damage},
    {"no_memory", no_memory},
};
TEST_MAIN(tests)
