/* The fake GigE Vision camera of Debian's aravis-tools, on loopback. One at a time can listen
 * there: the tests that use it share a lock. */
#ifndef TG_TESTS_FAKE_CAMERA_H
#define TG_TESTS_FAKE_CAMERA_H

#include "tidegate/source.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char fake[] = "/usr/bin/arv-fake-gv-camera-0.8";
static const char address[] = "aravis:127.0.0.1";

/* genicam: a description of its features in a file; NULL: its own. */
static inline pid_t start_camera_as(const char *lost_per_thousand, const char *genicam)
{
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY); /* a camera that outlives us holds no pipe */
        if (null < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
            _exit(126);
        (void)execl(fake, fake, "-i", "127.0.0.1", "-s", "TG01", "-r", lost_per_thousand,
                    genicam == NULL ? (char *)NULL : "-g", genicam, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static inline pid_t start_camera(const char *lost_per_thousand)
{
    return start_camera_as(lost_per_thousand, NULL);
}

static inline void end_camera(pid_t pid)
{
    int status = 0;
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
    }
}

/* Open, waiting for the camera to come up. */
static inline tg_status open_camera(const char *const *features, uint32_t n, tg_source **out,
                                    tg_error *err)
{
    tg_source_options o = {.size = sizeof o,
                           .spec = address,
                           .features = features,
                           .n_features = n,
                           .lost_after = 1};
    tg_status st = TG_NOT_FOUND;
    for (int i = 0; i < 20 && st == TG_NOT_FOUND; i++) {
        struct timespec t = {0, 100000000};
        (void)nanosleep(&t, NULL);
        st = tg_source_open(&o, out, err);
    }
    return st;
}

#endif
