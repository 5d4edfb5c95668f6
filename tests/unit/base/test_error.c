#include "base/error.h"
#include "check.h"

#include <errno.h>

static void names_every_code(void)
{
    CHECK(strcmp(tg_status_name(TG_CORRUPT), "corrupt data") == 0);
    CHECK(strcmp(tg_status_name((tg_status)999), "unknown status") == 0);
}

static void errno_becomes_a_code_and_words(void)
{
    tg_error e = {0};
    errno = ENOSPC;
    CHECK_STATUS(tg_fail_errno(&e, "write '%s'", "x"), TG_IO);
    CHECK_U64((uint64_t)e.sys, ENOSPC);
    CHECK(strcmp(e.msg, "write 'x': No space left on device") == 0);
    CHECK_U64(e.offset, TG_NO_OFFSET);
}

static void the_nearest_key_wins_and_a_new_failure_forgets_it(void)
{
    tg_error e = {0};
    (void)tg_fail(&e, TG_CORRUPT, "bad");
    tg_error_at(&e, "near", 7);
    tg_error_at(&e, "far", 9);
    tg_error_prefix(&e, "chunk '%s'", "c/0");
    CHECK(strcmp(e.key, "near") == 0);
    CHECK_U64(e.offset, 7);
    CHECK(strcmp(e.msg, "chunk 'c/0': bad") == 0);
    (void)tg_fail(&e, TG_IO, "other");
    CHECK(e.key[0] == '\0' && e.offset == TG_NO_OFFSET);
}

static void a_long_key_keeps_its_end(void)
{
    tg_error e = {0};
    char key[400];
    memset(key, 'a', sizeof key);
    memcpy(key + sizeof key - 4, "end", 4);
    (void)tg_fail(&e, TG_IO, "x");
    tg_error_at(&e, key, 0);
    CHECK(strlen(e.key) == sizeof e.key - 1);
    CHECK(strcmp(e.key + strlen(e.key) - 3, "end") == 0);
}

static const struct test tests[] = {
    {"names_every_code", names_every_code},
    {"errno_becomes_a_code_and_words", errno_becomes_a_code_and_words},
    {"the_nearest_key_wins_and_a_new_failure_forgets_it",
     the_nearest_key_wins_and_a_new_failure_forgets_it},
    {"a_long_key_keeps_its_end", a_long_key_keeps_its_end},
};

TEST_MAIN(tests)
