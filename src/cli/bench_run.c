/* cli/bench_run.c - one run of the recorder from a pool of frames, and of memcpy into a ring of
 * the same size. Each runs in a process of its own. */
#define _GNU_SOURCE /* sync */
#include "bench.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static size_t frame_bytes(const bench_run *run)
{
    return (size_t)(run->height * run->width * run->dtype.size);
}

/* --- memcpy ------------------------------------------------------------------ */

void memcpy_run(void *arg, bench_result *result)
{
    const bench_run *run = arg;
    size_t bytes = frame_bytes(run), slots = (size_t)run->memory_bytes / bytes;
    bench_pool pool;
    result->status = pool_new(&pool, bytes, run->frames, run->kind, run->file, &result->err);
    if (result->status != TG_OK)
        return;
    slots = slots < 2 ? 2 : slots;
    unsigned char *ring = pages_new(slots * bytes);
    if (ring == NULL) {
        result->status = cli_fail(&result->err, TG_NO_MEMORY, "no memory for the ring");
        return;
    }
    result->rss_bytes_before = cli_rss_peak();
    double start = bench_now();
    for (uint64_t i = 0; i < run->frames; i++) {
        memcpy(ring + i % slots * bytes, pool_frame(&pool, i), bytes);
        __asm__ volatile("" : : "r"(ring) : "memory"); /* each copy is made */
    }
    result->seconds = bench_now() - start;
    result->frames = run->frames;
    result->bytes_in = run->frames * bytes;
    pages_free(ring, slots * bytes);
    pool_free(&pool);
}

/* The median time of one copy, from pages that are not in a cache to others. */
static double time_of_memcpy(bench_pool *pool)
{
    enum { COPIES = 15 };
    double us[COPIES];
    size_t slots = 8;
    unsigned char *to = pages_new(slots * pool->frame_bytes);
    if (to == NULL)
        return 0;
    for (int i = 0; i < COPIES; i++) {
        double start = bench_now();
        memcpy(to + (size_t)i % slots * pool->frame_bytes, pool_frame(pool, (uint64_t)i),
               pool->frame_bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
        us[i] = (bench_now() - start) * 1e6;
    }
    pages_free(to, slots * pool->frame_bytes);
    return bench_median(us, COPIES);
}

/* --- The recorder ------------------------------------------------------------ */

static tg_status offer(const bench_run *run, tg_stream *s, bench_pool *pool, uint64_t *offered,
                       tg_error *err)
{
    double start = bench_now();
    for (uint64_t i = 0; i < run->frames; i++) {
        double due = run->fps > 0 ? (double)i / run->fps : 0;
        double now = run->fps > 0 || run->seconds > 0 ? bench_now() - start : 0;
        if ((run->seconds > 0 && now >= run->seconds) || tg_cancel_requested(run->cancel))
            break;
        /* Frames due within the same millisecond are offered together. */
        if (due > now + 1e-3 || (due > now && run->fps < 2000))
            bench_sleep_until(start + due);
        const void *frame = pool_frame(pool, i);
        tg_status st = tg_stream_append(s, 0, frame, 1, NULL, NULL, NULL, err);
        if (st != TG_OK)
            return st;
        ++*offered;
    }
    return TG_OK;
}

static void take_report(bench_result *result, const tg_stream_report *report)
{
    const tg_stream_stats *s = &report->total;
    result->recorder = true;
    result->published = s->published;
    result->dropped = s->dropped;
    result->stalls = s->stalls;
    result->bytes_written = s->bytes_written;
    result->append_us_p50 = cli_quantile(s->append_ns, 0.5, s->append_ns_max) / 1e3;
    result->append_us_p99 = cli_quantile(s->append_ns, 0.99, s->append_ns_max) / 1e3;
    result->append_us_p999 = cli_quantile(s->append_ns, 0.999, s->append_ns_max) / 1e3;
    result->append_us_max = (double)s->append_ns_max / 1e3;
    result->stall_ms_max = (double)s->stall_ns_max / 1e6;
    result->write_ms_p99 = cli_quantile(s->write_ns, 0.99, s->write_ns_max) / 1e6;
    result->write_ms_max = (double)s->write_ns_max / 1e6;
    memcpy(result->write_ns, s->write_ns, sizeof result->write_ns);
    result->queue_bytes_peak = s->queue_bytes_peak;
    result->budget_bytes = report->budget_bytes;
}

static tg_status record(const bench_run *run, bench_pool *pool, const char *path,
                        tg_stream_report *report, bench_result *result)
{
    tg_runtime *rt = NULL;
    tg_runtime_options ro = {
        .size = sizeof ro, .memory_bytes = run->memory_bytes, .threads = run->threads};
    tg_stream_array array = run->array;
    array.size = sizeof array;
    array.dtype = run->dtype;
    array.height = run->height;
    array.width = run->width;
    tg_stream_options so = {.size = sizeof so,
                            .path = path,
                            .arrays = &array,
                            .n_arrays = 1,
                            .memory_bytes = run->whole_memory ? run->memory_bytes : 0,
                            .null_sink = run->null_sink};
    tg_status st = tg_runtime_new(&ro, &rt, &result->err);
    double start = bench_now();
    tg_stream *s = NULL;
    if (st == TG_OK)
        st = tg_stream_open(rt, &so, &s, &result->err);
    double opened = bench_now();
    if (st == TG_OK) {
        uint64_t offered = 0;
        tg_error close_err;
        st = offer(run, s, pool, &offered, &result->err);
        double ended = bench_now();
        tg_status closed = tg_stream_close(s, report, &close_err);
        if (st == TG_OK && closed != TG_OK)
            result->err = close_err;
        st = st == TG_OK ? closed : st;
        result->seconds = bench_now() - start;
        result->open_seconds = opened - start;
        result->frames = offered;
        result->bytes_in = offered * pool->frame_bytes;
        result->source_fps = run->fps > 0 ? (double)offered / (ended - opened) : 0;
    }
    tg_runtime_free(rt);
    return st;
}

void recorder_run(void *arg, bench_result *result)
{
    const bench_run *run = arg;
    bench_pool pool;
    char path[4096];
    result->status =
        pool_new(&pool, frame_bytes(run), run->frames, run->kind, run->file, &result->err);
    if (result->status != TG_OK)
        return;
    if (run->time_memcpy)
        result->memcpy_us = time_of_memcpy(&pool);
    bench_scratch_name(run->dir, path, sizeof path - 16);
    result->rss_bytes_before = cli_rss_peak();
    sync();

    tg_stream_report report = {.size = sizeof report};
    result->status = record(run, &pool, path, &report, result);
    if (result->status == TG_OK)
        take_report(result, &report);
    bench_remove(path);
    memcpy(path + strlen(path), ".tidegate", sizeof ".tidegate");
    bench_remove(path);
    pool_free(&pool);
}
