#include "base/clock.h"
#include "base/mem.h"
#include "check.h"
#include "tidegate/cancel.h"

#include <math.h>
#include <stdint.h>
#include <unistd.h>

static void what_is_held_is_counted(void)
{
    size_t before = tg_mem_live();
    tg_mem_reset();
    void *a = tg_alloc(1000), *b = tg_calloc(10, 100);
    REQUIRE(a != NULL && b != NULL);
    CHECK_U64((uintptr_t)a % 16, 0);
    CHECK_U64(tg_mem_live(), before + 2000);
    for (int i = 0; i < 1000; i++)
        CHECK(((char *)b)[i] == 0);
    tg_free(a);
    CHECK_U64(tg_mem_live(), before + 1000);
    CHECK_U64(tg_mem_highwater(), before + 2000);
    tg_free(b);
    tg_free(NULL);
    CHECK_U64(tg_mem_live(), before);
}

static void sizes_that_overflow_are_no_memory(void)
{
    CHECK(tg_alloc(SIZE_MAX) == NULL);
    CHECK(tg_alloc_array(SIZE_MAX / 2 + 1, 2) == NULL);
    CHECK(tg_alloc_array(SIZE_MAX / 2, 3) == NULL);
    CHECK(tg_calloc(SIZE_MAX, 2) == NULL);
    tg_arena a = {0};
    CHECK_STATUS(tg_arena_map(&a, SIZE_MAX, NULL), TG_NO_MEMORY);
    CHECK(a.data == NULL);
}

static void a_buffer_keeps_its_bytes(void)
{
    TG_AUTO(tg_buf) b = {0};
    TG_AUTO(tg_buf) c = {0};
    REQUIRE_OK(tg_buf_resize(&b, 4, NULL));
    memcpy(b.data, "tide", 4);
    REQUIRE_OK(tg_buf_resize(&b, 100, NULL));
    CHECK(memcmp(b.data, "tide", 4) == 0);
    tg_mem_fail_at(1);
    CHECK_STATUS(tg_buf_resize(&b, 200, NULL), TG_NO_MEMORY);
    tg_mem_fail_at(0);
    CHECK(b.len == 100 && memcmp(b.data, "tide", 4) == 0);
    REQUIRE_OK(tg_buf_resize(&c, 0, NULL));
    CHECK(c.data != NULL && c.len == 0);
    tg_buf_move(&c, &b);
    CHECK(c.len == 100 && b.data == NULL);
}

static void an_arena_is_whole_pages_and_writable(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = tg_mem_live();
    TG_AUTO(tg_arena) a = {0};
    REQUIRE_OK(tg_arena_map(&a, page + 1, NULL));
    CHECK_U64(a.len, 2 * page);
    CHECK_U64((uintptr_t)a.data % page, 0);
    CHECK_U64(tg_mem_live(), before + 2 * page);
    memset(a.data, 7, a.len);
    tg_arena_unmap(&a);
    CHECK(a.data == NULL);
    CHECK_U64(tg_mem_live(), before);
}

static void text_grows(void)
{
    TG_AUTO(tg_text) t = {0};
    for (int i = 0; i < 1000; i++)
        tg_text_addf(&t, "%d,", i % 10);
    tg_text_add_n(&t, "end.", 3);
    CHECK_STATUS(tg_text_status(&t, NULL), TG_OK);
    CHECK_U64(t.len, 2003);
    CHECK(strncmp(t.data, "0,1,2,", 6) == 0 && strcmp(t.data + 2000, "end") == 0);
    TG_AUTO(tg_str) s = tg_text_steal(&t);
    CHECK(s != NULL && t.data == NULL && t.len == 0);
}

static void a_text_that_failed_stays_failed(void)
{
    TG_AUTO(tg_text) t = {0};
    tg_error e = {0};
    tg_text_add(&t, "kept");
    char large[4000];
    memset(large, 'x', sizeof large);
    tg_mem_fail_at(1);
    tg_text_add_n(&t, large, sizeof large);
    tg_mem_fail_at(0);
    tg_text_add(&t, "more");
    tg_text_addf(&t, "%d", 1);
    CHECK_STATUS(tg_text_status(&t, &e), TG_NO_MEMORY);
    CHECK(strcmp(t.data, "kept") == 0);
}

static void a_token_says_why_work_must_stop(void)
{
    tg_cancel *c = NULL;
    tg_error e = {0};
    REQUIRE_OK(tg_cancel_new(&c, &e));
    CHECK_STATUS(tg_cancel_check(NULL, &e), TG_OK);
    CHECK_STATUS(tg_cancel_check(c, &e), TG_OK);
    tg_cancel_deadline(c, INFINITY);
    CHECK_STATUS(tg_cancel_check(c, &e), TG_OK);
    tg_cancel_deadline(c, 1e300);
    CHECK_STATUS(tg_cancel_check(c, &e), TG_OK);
    int64_t begun = tg_clock_ns();
    tg_cancel_deadline(c, 0.02);
    while (!tg_cancel_requested(c)) {
    }
    CHECK(tg_clock_ns() - begun >= 20000000);
    CHECK_STATUS(tg_cancel_check(c, &e), TG_TIMED_OUT);
    tg_cancel_deadline(c, NAN); /* no reason to run for ever */
    CHECK_STATUS(tg_cancel_check(c, &e), TG_TIMED_OUT);
    tg_cancel_deadline(c, INFINITY);
    tg_cancel_request(c);
    CHECK_STATUS(tg_cancel_check(c, &e), TG_CANCELLED);
    tg_cancel_free(c);
}

static const struct test tests[] = {
    {"what_is_held_is_counted", what_is_held_is_counted},
    {"sizes_that_overflow_are_no_memory", sizes_that_overflow_are_no_memory},
    {"a_buffer_keeps_its_bytes", a_buffer_keeps_its_bytes},
    {"an_arena_is_whole_pages_and_writable", an_arena_is_whole_pages_and_writable},
    {"text_grows", text_grows},
    {"a_text_that_failed_stays_failed", a_text_that_failed_stays_failed},
    {"a_token_says_why_work_must_stop", a_token_says_why_work_must_stop},
};

TEST_MAIN(tests)
