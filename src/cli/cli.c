/* cli/cli.c - what the verbs share. */
#include "cli.h"

#include "tidegate/memory.h"
#include "tidegate/store.h"
#include "tidegate/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void cli_no_error(cli *c)
{
    c->err = (tg_error){.code = TG_OK, .offset = TG_NO_OFFSET};
}

int cli_refused(const cli *c)
{
    switch (c->err.code) {
    case TG_INVALID:
    case TG_UNSUPPORTED:
    case TG_OVER_BUDGET:
    case TG_EXISTS:
    case TG_BUSY:
    case TG_INCOMPLETE:
        return CLI_USAGE;
    default:
        return CLI_FAILED;
    }
}

tg_status cli_runtime(cli *c, uint64_t memory, tg_runtime **out)
{
    tg_runtime_options options = {.size = sizeof options,
                                  .memory_bytes = memory,
                                  .threads = (uint32_t)c->common->threads,
                                  .log = cli_progress_log,
                                  .log_user = &c->progress};
    return tg_runtime_new(&options, out, &c->err);
}

uint64_t cli_rss_peak(void)
{
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        (void)close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *line = strstr(text, "VmHWM:");
    return line != NULL ? strtoull(line + strlen("VmHWM:"), NULL, 10) * 1024 : 0;
}

double cli_quantile(const uint64_t *buckets, double q, uint64_t max_ns)
{
    double ns = tg_latency_quantile(buckets, q);
    return ns < (double)max_ns ? ns : (double)max_ns;
}

const char *cli_bytes_text(uint64_t bytes, char *room, size_t cap)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 1024 && u < 4) {
        v /= 1024;
        u++;
    }
    (void)snprintf(room, cap, u == 0 || v >= 100 ? "%.0f %s" : "%.1f %s", v, units[u]);
    return room;
}

void cli_auto_free(void *pointer_variable)
{
    void *p;
    memcpy(&p, pointer_variable, sizeof p);
    tg_free(p);
}

static void auto_close(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

tg_status cli_fail_errno(tg_error *err, const char *path, const char *what)
{
    int sys = errno;
    char why[128];
    if (strerror_r(sys, why, sizeof why) != 0)
        (void)snprintf(why, sizeof why, "errno %d", sys);
    tg_status st =
        cli_fail(err, sys == ENOENT ? TG_NOT_FOUND : TG_IO, "%s '%.200s': %s", what, path, why);
    if (err != NULL) {
        err->sys = sys;
        (void)snprintf(err->key, sizeof err->key, "%s", path);
    }
    return st;
}

static tg_status read_whole(int fd, const char *path, char *text, size_t len, tg_error *err)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = read(fd, text + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cli_fail_errno(err, path, "read");
        if (n == 0)
            return cli_fail(err, TG_IO,
                            "'%.200s' became shorter while it was read: %zu of %zu "
                            "bytes",
                            path, done, len);
        done += (size_t)n;
    }
    return TG_OK;
}

tg_status cli_read_file(const char *path, uint64_t limit, char **text, size_t *len,
                        tg_error *err)
{
    CLI_AUTO(auto_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return cli_fail_errno(err, path, "open");
    if (!S_ISREG(st.st_mode))
        return cli_fail(err, TG_INVALID, "'%.200s' is not a regular file", path);
    if ((uint64_t)st.st_size > limit)
        return cli_fail(err, TG_OVER_BUDGET,
                        "'%.200s' is %lld bytes, more than the %llu allowed", path,
                        (long long)st.st_size, (unsigned long long)limit);
    size_t n = (size_t)st.st_size;
    char *room = tg_alloc(n + 1);
    if (room == NULL)
        return cli_fail(err, TG_NO_MEMORY, "no memory for the %zu bytes of '%.200s'", n, path);
    tg_status status = read_whole(fd, path, room, n, err);
    if (status != TG_OK) {
        tg_free(room);
        return status;
    }
    room[n] = '\0';
    *text = room;
    if (len != NULL)
        *len = n;
    return TG_OK;
}

const char *cli_shown(const cli *c, size_t i)
{
    return c->shown[i] == NULL ? "?" : c->shown[i];
}
