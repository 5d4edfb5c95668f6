/* base/side.c: one job a store, also after one that died. */
#include "base/side.h"
#include "check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void make_folder(char path[64])
{
    (void)snprintf(path, 64, "/tmp/tidegate-side-XXXXXX");
    CHECK(mkdtemp(path) != NULL);
}

static void write_file(const tg_side *side, const char *name, const char *text)
{
    int fd = openat(side->dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(close(fd) == 0);
}

static void the_second_is_refused(void)
{
    char root[64], store[96];
    tg_side a, b;
    tg_error err = {0};

    make_folder(root);
    (void)snprintf(store, sizeof store, "%s/x.zarr/", root);
    REQUIRE_OK(tg_side_open(&a, store, &err));
    CHECK(strstr(a.path, "/x.zarr.tidegate") != NULL);
    CHECK_STATUS(tg_side_open(&b, store, &err), TG_BUSY);
    CHECK(strstr(err.msg, "in use by process") != NULL);
    CHECK_STATUS(tg_side_close(&a, &err), TG_OK);
    CHECK(access(store, F_OK) != 0);
    CHECK(rmdir(root) == 0); /* the folder beside the store is gone */
}

/* A process that took the lock and died. */
static void a_dead_one_is_taken_over(void)
{
    static const char *const mine[] = {"copy", NULL};
    char root[64], store[96];
    tg_side side;
    int status = 0;

    make_folder(root);
    (void)snprintf(store, sizeof store, "%s/x.zarr", root);
    pid_t pid = fork();
    if (pid == 0)
        _exit(tg_side_open(&side, store, NULL) == TG_OK ? 0 : 1);
    REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    REQUIRE_OK(tg_side_open(&side, store, NULL));
    write_file(&side, "copy.journal", "x");
    write_file(&side, "other", "x");
    CHECK(tg_side_has(&side, "copy.journal"));
    CHECK_STATUS(tg_side_clear(&side, mine, NULL), TG_OK);
    CHECK(!tg_side_has(&side, "copy.journal") && tg_side_has(&side, "other"));
    CHECK_STATUS(tg_side_remove(&side, "other", NULL), TG_OK);
    CHECK_STATUS(tg_side_remove(&side, "other", NULL), TG_OK);
    CHECK_STATUS(tg_side_close(&side, NULL), TG_OK);
    CHECK(rmdir(root) == 0);
}

/* A half-written lock says nothing: it counts as stale. */
static void an_empty_lock_is_stale(void)
{
    char root[64], store[96];
    tg_side side;

    make_folder(root);
    (void)snprintf(store, sizeof store, "%s/x.zarr", root);
    REQUIRE_OK(tg_side_open(&side, store, NULL));
    write_file(&side, "lock", "");
    tg_side_free(&side, false);
    REQUIRE_OK(tg_side_open(&side, store, NULL));
    CHECK_STATUS(tg_side_close(&side, NULL), TG_OK);
    CHECK(rmdir(root) == 0);
}

static const struct test tests[] = {
    {"the_second_is_refused", the_second_is_refused},
    {"a_dead_one_is_taken_over", a_dead_one_is_taken_over},
    {"an_empty_lock_is_stale", an_empty_lock_is_stale},
};

TEST_MAIN(tests)
