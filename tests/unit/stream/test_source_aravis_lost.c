/* A camera that vanishes while it is recorded. Slow: Aravis asks a silent camera several times,
 * and again when it lets go of it. */
#include "base/clock.h"
#include "check.h"
#include "fake_camera.h"

static void a_camera_that_dies_is_named(void)
{
    pid_t pid = start_camera("0");
    tg_source *s = NULL;
    tg_error err = {0};
    tg_source_frame f = {.size = sizeof f};
    CHECK_STATUS(open_camera(NULL, 0, &s, NULL), TG_OK);
    for (int i = 0; i < 3 && s != NULL; i++)
        CHECK_STATUS(tg_source_next(s, NULL, 0, &f, NULL, NULL), TG_OK);
    end_camera(pid);
    tg_status st = TG_OK;
    int64_t start = tg_clock_ns();
    while (s != NULL && st == TG_OK) /* what was received before is still handed out */
        st = tg_source_next(s, NULL, 0, &f, NULL, &err);
    CHECK_STATUS(st, TG_IO);
    CHECK(strstr(err.msg, "127.0.0.1") != NULL && strstr(err.msg, "gone") != NULL);
    CHECK(tg_clock_ns() - start < 120 * 1000000000LL);
    if (s != NULL)
        CHECK_STATUS(tg_source_next(s, NULL, 0, &f, NULL, NULL), TG_CLOSED);
    tg_source_close(s);
}

static const struct test tests[] = {
    {"a camera that dies is named", a_camera_that_dies_is_named},
};
TEST_MAIN(tests)
