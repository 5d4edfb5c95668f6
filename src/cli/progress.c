/* cli/progress.c - progress on standard error. Reports come from threads of the library. */
#include "progress.h"

#include "args.h"
#include "json_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINE_SECONDS 5.0 /* between two lines where there is no terminal */

void cli_progress_init(cli_progress *p, cli_progress_mode mode)
{
    *p = (cli_progress){
        .mode = mode, .terminal = isatty(STDERR_FILENO) == 1, .printed_at = -1, .columns = 80};
    (void)pthread_mutex_init(&p->lock, NULL);
    struct winsize size = {0};
    if (p->terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        p->columns = size.ws_col;
}

static void print_json(const tg_progress *r)
{
    json_out j = {0};
    tg_error err;
    json_text(&j, "progress", r->stage);
    json_u64(&j, "done", r->done);
    if (r->total > 0)
        json_u64(&j, "total", r->total);
    else
        json_null(&j, "total");
    json_u64(&j, "bytes", r->bytes);
    json_double(&j, "seconds", r->seconds);
    json_double(&j, "bytes_per_s", r->bytes_per_s);
    if (r->eta_seconds >= 0)
        json_double(&j, "eta_seconds", r->eta_seconds);
    else
        json_null(&j, "eta_seconds");
    json_u64(&j, "durable", r->durable);
    json_u64(&j, "queue_bytes", r->queue_bytes);
    json_u64(&j, "memory_bytes", r->memory_bytes);
    json_u64(&j, "lost", r->lost);
    (void)!json_print(&j, stderr, &err); /* nowhere to say that standard error is gone */
    json_free(&j);
}

static double mib(double bytes)
{
    return bytes / (1 << 20);
}

/* "12%  " or nothing, where the total is not known. */
static void describe(const cli_progress *p, const tg_progress *r, char *line, size_t cap)
{
    size_t n = 0;
    int k;
#define ADD(...)                                           \
    do {                                                   \
        k = snprintf(line + n, cap - n, __VA_ARGS__);      \
        n += k > 0 && (size_t)k < cap - n ? (size_t)k : 0; \
    } while (0)
    line[0] = '\0';
    ADD("%s ", r->stage);
    if (r->total > 0) {
        double part = (double)r->done / (double)r->total;
        int full = (int)(part * 12 + 0.5);
        full = full > 12 ? 12 : full;
        ADD("[%.*s%.*s] %3.0f%% ", full, "############", 12 - full, "............", part * 100);
    }
    ADD("%" PRIu64, r->done);
    if (r->total > 0)
        ADD("/%" PRIu64, r->total);
    ADD("  %.1f/s  %.1f MiB/s", p->rate, mib(r->bytes_per_s));
    if (r->queue_bytes > 0 || r->durable > 0)
        ADD("  durable %" PRIu64 "  queue %.0f MiB", r->durable, mib((double)r->queue_bytes));
    if (r->memory_bytes > 0 && p->budget > 0)
        ADD("  memory %.0f/%.0f MiB", mib((double)r->memory_bytes), mib(p->budget));
    if (r->lost > 0)
        ADD("  LOST %" PRIu64, r->lost);
    if (r->eta_seconds >= 0 && r->done < r->total)
        ADD("  %.0f s left", r->eta_seconds);
#undef ADD
}

static void update_rate(cli_progress *p, const tg_progress *r)
{
    bool same = p->last.stage != NULL && strcmp(p->last.stage, r->stage) == 0 &&
                r->seconds >= p->last.seconds && r->done >= p->last.done;
    if (!same) {
        p->rate = r->seconds > 0 ? (double)r->done / r->seconds : 0;
        p->printed_at = -1;
    } else if (r->seconds - p->last.seconds > 0.05) {
        double now = (double)(r->done - p->last.done) / (r->seconds - p->last.seconds);
        p->rate = p->last.done == 0 ? now : 0.6 * p->rate + 0.4 * now;
    } else {
        return; /* too close to the one before to say anything of a rate */
    }
    p->last = *r;
}

static void report_text(cli_progress *p, const tg_progress *r)
{
    char line[320];
    update_rate(p, r);
    bool last = r->total > 0 && r->done >= r->total;
    if (!p->terminal && !last && p->printed_at >= 0 &&
        r->seconds - p->printed_at < LINE_SECONDS)
        return;
    if (!p->terminal && p->printed_at < 0 && r->seconds < LINE_SECONDS)
        return; /* short work says nothing */
    describe(p, r, line, sizeof line);
    p->printed_at = r->seconds;
    if (!p->terminal) {
        (void)fprintf(stderr, "%s\n", line);
        return;
    }
    (void)fprintf(stderr, "\r\033[K%.*s", p->columns - 1, line);
    (void)fflush(stderr);
    p->live = true;
}

void cli_progress_report(void *user, const tg_progress *report)
{
    cli_progress *p = user;
    if (p->mode == CLI_PROGRESS_NONE)
        return;
    (void)pthread_mutex_lock(&p->lock);
    if (p->mode == CLI_PROGRESS_JSON)
        print_json(report);
    else
        report_text(p, report);
    (void)pthread_mutex_unlock(&p->lock);
}

static void clear_line(cli_progress *p)
{
    if (p->live)
        (void)fputs("\r\033[K", stderr);
    p->live = false;
}

void cli_progress_log(void *user, const char *line)
{
    cli_progress *p = user;
    (void)pthread_mutex_lock(&p->lock);
    clear_line(p);
    if (p->mode == CLI_PROGRESS_JSON) {
        json_out j = {0};
        tg_error err;
        json_text(&j, "log", line);
        (void)!json_print(&j, stderr, &err);
        json_free(&j);
    } else {
        (void)fprintf(stderr, "tidegate: %s\n", line);
    }
    (void)pthread_mutex_unlock(&p->lock);
}

void cli_progress_end(cli_progress *p)
{
    (void)pthread_mutex_lock(&p->lock);
    clear_line(p);
    (void)fflush(stderr);
    (void)pthread_mutex_unlock(&p->lock);
}
