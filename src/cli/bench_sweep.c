/* cli/bench_sweep.c - bench record --sweep: chunk sizes, codecs, shard sizes and threads on the
 * user's disk with the user's frame; the best one by name. */
#include "bench.h"
#include "report.h"
#include "tidegate/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB         ((uint64_t)1 << 20)
#define TRIAL_BYTES (512 * MIB) /* of frames in one trial */
#define MOST_EACH   16

/* What is tried: every combination. */
typedef struct grid {
    uint64_t chunk[MOST_EACH], shard[MOST_EACH]; /* shard 0: none */
    const char *codec[MOST_EACH];
    uint32_t threads[MOST_EACH];
    size_t n_chunk, n_shard, n_codec, n_threads;
} grid;

typedef struct sweep {
    cli *c;
    const bench_options *o;
    grid g;
    bench_run run; /* frame, source and folder of every trial */
    report_trial trial[REPORT_SWEEP_ROWS];
    size_t n, best;
    double floor_mib_per_s;
    bool interrupted;
} sweep;

/* --- What to try --------------------------------------------------------------- */

static tg_status take_shards(cli *c, const cli_list *words, grid *g)
{
    static const uint64_t usual[] = {32 * MIB, 128 * MIB, 0};
    if (words->n > MOST_EACH)
        return cli_fail(&c->err, TG_INVALID, "--shard: more than %d", MOST_EACH);
    for (size_t i = 0; i < words->n; i++) {
        if (strcmp(words->item[i], "none") == 0)
            g->shard[i] = 0;
        else if (tg_parse_size(words->item[i], &g->shard[i], &c->err) != TG_OK) {
            cli_prefix(&c->err, "--shard");
            return TG_INVALID;
        }
    }
    g->n_shard = words->n;
    if (words->n == 0) {
        memcpy(g->shard, usual, sizeof usual);
        g->n_shard = sizeof usual / sizeof usual[0];
    }
    return TG_OK;
}

static tg_status take_codecs(cli *c, const cli_list *words, grid *g)
{
    static const char *const usual[] = {"none", "blosc:lz4:5:shuffle", "zstd:1"};
    if (words->n > MOST_EACH)
        return cli_fail(&c->err, TG_INVALID, "--codec: more than %d", MOST_EACH);
    const char *const *from = words->n > 0 ? words->item : usual;
    g->n_codec = words->n > 0 ? words->n : sizeof usual / sizeof usual[0];
    for (size_t i = 0; i < g->n_codec; i++)
        g->codec[i] = from[i];
    return TG_OK;
}

static tg_status take_grid(sweep *s)
{
    grid *g = &s->g;
    const bench_options *o = s->o;
    if (o->chunk_frames.n > MOST_EACH || o->pool_threads.n > MOST_EACH)
        return cli_fail(&s->c->err, TG_INVALID, "more than %d values", MOST_EACH);
    for (g->n_chunk = 0; g->n_chunk < o->chunk_frames.n; g->n_chunk++)
        g->chunk[g->n_chunk] = o->chunk_frames.v[g->n_chunk];
    for (uint64_t k = 1; o->chunk_frames.n == 0 && k <= 128; k *= 2)
        g->chunk[g->n_chunk++] = k;
    for (g->n_threads = 0; g->n_threads < o->pool_threads.n; g->n_threads++)
        g->threads[g->n_threads] = (uint32_t)(o->pool_threads.v[g->n_threads] > 1024
                                                  ? 1024
                                                  : o->pool_threads.v[g->n_threads]);
    if (g->n_threads == 0)
        g->threads[g->n_threads++] = s->c->common->threads > 0
                                         ? (uint32_t)s->c->common->threads
                                         : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    tg_status st = take_shards(s->c, &o->shard, g);
    if (st == TG_OK)
        st = take_codecs(s->c, &o->codec, g);
    if (st == TG_OK && g->n_chunk * g->n_codec * g->n_shard * g->n_threads > REPORT_SWEEP_ROWS)
        st = cli_fail(&s->c->err, TG_INVALID, "more than %d combinations", REPORT_SWEEP_ROWS);
    return st;
}

static tg_status take_frame(sweep *s)
{
    const bench_options *o = s->o;
    bench_run *r = &s->run;
    uint64_t bytes = 0;
    r->height = o->shape.n > 0 ? o->shape.v[0] : 772;
    r->width = o->shape.n > 0 ? o->shape.v[1] : 1032;
    r->dtype = o->dtype.kind != TG_DT_NONE ? o->dtype : (tg_dtype){TG_DT_UINT, 1};
    r->kind = BENCH_CAMERA;
    r->file = o->from;
    r->dir = o->sink == 1 ? "/dev/shm" : o->dir;
    r->null_sink = o->sink == 2;
    r->memory_bytes = s->c->common->memory;
    r->whole_memory = s->c->common->memory_given;
    r->cancel = s->c->cancel;
    if (r->dtype.size == 0 || __builtin_mul_overflow(r->height, r->width, &bytes) ||
        __builtin_mul_overflow(bytes, (uint64_t)r->dtype.size, &bytes) ||
        bytes > s->c->common->memory)
        return cli_fail(&s->c->err, TG_OVER_BUDGET,
                        "a frame of %" PRIu64 "x%" PRIu64 " does not fit --memory", r->height,
                        r->width);
    uint64_t total = o->bytes > 0 ? o->bytes : o->quick ? TRIAL_BYTES / 16 : TRIAL_BYTES;
    r->frames = o->frames > 0 ? o->frames : (total + bytes - 1) / bytes;
    return TG_OK;
}

/* --- Trials -------------------------------------------------------------------- */

static void try_one(sweep *s, uint64_t chunk, const char *codec, uint64_t shard,
                    uint32_t threads)
{
    report_trial *t = &s->trial[s->n];
    bench_run run = s->run;
    double rates[99], p99[99], ratio = 0;
    size_t n = 0;
    *t = (report_trial){
        .chunk_frames = chunk, .shard_bytes = shard, .codec = codec, .threads = threads};
    run.threads = threads;
    run.array.chunk_frames = chunk;
    run.array.codec = codec;
    run.array.shard_bytes = shard;
    run.array.no_shards = shard == 0;
    for (uint64_t round = 0; round < s->o->rounds && !s->interrupted; round++) {
        bench_result r;
        bench_in_child(recorder_run, &run, &r);
        s->interrupted = tg_cancel_requested(s->c->cancel);
        if (r.status != TG_OK) {
            char line[320];
            (void)snprintf(line, sizeof line, "%" PRIu64 " frames per chunk, %s: %.200s", chunk,
                           codec, r.err.msg);
            cli_progress_log(&s->c->progress, line);
            t->refused = true;
            break;
        }
        rates[n] = r.mib_per_s;
        p99[n++] = r.append_us_p99;
        ratio = r.bytes_written > 0 ? (double)r.bytes_in / (double)r.bytes_written : 0;
        t->rss_bytes = r.rss_bytes_peak > t->rss_bytes ? r.rss_bytes_peak : t->rss_bytes;
    }
    if (s->interrupted)
        return;
    if (!t->refused) {
        t->mib_per_s = bench_median(rates, n);
        t->append_p99_us = bench_median(p99, n);
        t->ratio = ratio;
    }
    s->n++;
}

static void try_all(sweep *s)
{
    const grid *g = &s->g;
    tg_progress p = {.stage = "sweep",
                     .total = g->n_codec * g->n_shard * g->n_chunk * g->n_threads,
                     .eta_seconds = -1};
    double start = bench_now();
    for (size_t i = 0; i < p.total && !s->interrupted; i++) {
        size_t chunk = i % g->n_chunk, rest = i / g->n_chunk;
        size_t threads = rest % g->n_threads, shard = rest / g->n_threads % g->n_shard;
        size_t codec = rest / g->n_threads / g->n_shard;
        try_one(s, g->chunk[chunk], g->codec[codec], g->shard[shard], g->threads[threads]);
        p.done = i + 1;
        p.seconds = bench_now() - start;
        p.eta_seconds = p.seconds / (double)p.done * (double)(p.total - p.done);
        cli_progress_report(&s->c->progress, &p);
    }
    cli_progress_end(&s->c->progress);
    s->best = s->n;
    for (size_t i = 0; i < s->n; i++)
        if (!s->trial[i].refused &&
            (s->best == s->n || s->trial[i].mib_per_s > s->trial[s->best].mib_per_s))
            s->best = i;
}

static void measure_floor(sweep *s)
{
    bench_result r;
    size_t bytes = (size_t)(s->run.height * s->run.width * s->run.dtype.size);
    floor_job job = {.dir = s->run.dir,
                     .frames = s->run.frames,
                     .frame_bytes = bytes,
                     .block_bytes = (size_t)8 << 20,
                     .ring = 4,
                     .direct = true};
    if (s->run.null_sink)
        return;
    bench_in_child(floor_run, &job, &r);
    s->floor_mib_per_s = r.status == TG_OK ? r.mib_per_s : 0;
}

/* --- What is said of it ---------------------------------------------------------- */

static const char *shard_text(uint64_t bytes, char *room, size_t cap)
{
    return bytes == 0 ? "none" : cli_bytes_text(bytes, room, cap);
}

static void trial_json(json_out *j, const report_trial *t)
{
    json_u64(j, "chunk_frames", t->chunk_frames);
    json_text(j, "codec", t->codec);
    json_u64(j, "shard_bytes", t->shard_bytes);
    json_u64(j, "threads", t->threads);
    json_bool(j, "refused", t->refused);
    if (t->refused)
        return;
    json_double(j, "mib_per_s", t->mib_per_s);
    json_double(j, "append_us_p99", t->append_p99_us);
    json_double(j, "ratio", t->ratio);
    json_u64(j, "rss_bytes_peak", t->rss_bytes);
}

static void print_json(sweep *s)
{
    json_out *j = &s->c->json;
    bench_machine_json(j, s->run.dir);
    json_u64(j, "height", s->run.height);
    json_u64(j, "width", s->run.width);
    json_u64(j, "item_bytes", s->run.dtype.size);
    json_u64(j, "frames", s->run.frames);
    json_double(j, "floor_mib_per_s", s->floor_mib_per_s);
    json_open_list(j, "trials");
    for (size_t i = 0; i < s->n; i++) {
        json_open(j, NULL);
        trial_json(j, &s->trial[i]);
        json_close(j);
    }
    json_close_list(j);
    if (s->best < s->n) {
        json_open(j, "best");
        trial_json(j, &s->trial[s->best]);
        json_close(j);
    } else {
        json_null(j, "best");
    }
}

static void name_best(const sweep *s, char *room, size_t cap)
{
    char shard[24];
    if (s->best == s->n) {
        (void)snprintf(room, cap, "No setting could be run.");
        return;
    }
    const report_trial *t = &s->trial[s->best];
    if (t->shard_bytes == 0)
        (void)snprintf(shard, sizeof shard, "none");
    else
        (void)snprintf(shard, sizeof shard, "%" PRIu64 "MiB", t->shard_bytes / MIB);
    (void)snprintf(room, cap,
                   "Best: --chunk-frames %" PRIu64 " --codec %s --shard %s --threads %u, "
                   "%.0f MiB/s",
                   t->chunk_frames, t->codec, shard, t->threads, t->mib_per_s);
}

static void print_text(const sweep *s)
{
    char words[256], shard[24];
    (void)printf("%12s  %-22s %9s %8s %9s %11s %7s %9s\n", "frames/chunk", "codec", "shard",
                 "threads", "MiB/s", "append p99", "ratio", "peak");
    for (size_t i = 0; i < s->n; i++) {
        const report_trial *t = &s->trial[i];
        (void)printf("%12" PRIu64 "  %-22s %9s %8u ", t->chunk_frames, t->codec,
                     shard_text(t->shard_bytes, shard, sizeof shard), t->threads);
        if (t->refused)
            (void)printf("%9s\n", "refused");
        else
            (void)printf("%9.0f %8.2f ms %7.2f %5.0f MiB%s\n", t->mib_per_s,
                         t->append_p99_us / 1e3, t->ratio, (double)t->rss_bytes / (double)MIB,
                         i == s->best ? "  <- best" : "");
    }
    if (s->floor_mib_per_s > 0)
        (void)printf("plain O_DIRECT file: %.0f MiB/s\n", s->floor_mib_per_s);
    name_best(s, words, sizeof words);
    (void)printf("%s\n", words);
}

static tg_status write_report(const sweep *s)
{
    static report_rows settings; /* large */
    char words[256], title[128], type[16], size[24];
    settings.n = 0;
    name_best(s, words, sizeof words);
    (void)snprintf(title, sizeof title, "Sweep: %" PRIu64 "x%" PRIu64 " %s", s->run.height,
                   s->run.width, tg_dtype_name(s->run.dtype, type));
    report_row(&settings, "folder", "%.150s",
               s->run.null_sink ? "none (null sink)" : s->run.dir);
    report_row(&settings, "frames per trial", "%" PRIu64, s->run.frames);
    report_row(&settings, "frames from", "%.150s",
               s->run.file != NULL ? s->run.file
                                   : "a dim scene with noise of 6 bits, made here");
    report_row(&settings, "rounds", "%" PRIu64 ", the median counts", s->o->rounds);
    report_row(&settings, "memory budget", "%s",
               cli_bytes_text(s->run.memory_bytes, size, sizeof size));
    report_sweep page = {.title = title,
                         .verdict = words,
                         .trial = s->trial,
                         .n = s->n,
                         .best = s->best,
                         .floor_mib_per_s = s->floor_mib_per_s,
                         .settings = &settings};
    FILE *f = fopen(s->o->report, "we");
    if (f == NULL)
        return cli_fail_errno(&s->c->err, s->o->report, "write");
    report_write_sweep(f, &page);
    bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad)
        return cli_fail_errno(&s->c->err, s->o->report, "write");
    return TG_OK;
}

int bench_sweep(cli *c, const bench_options *o)
{
    static sweep s; /* large */
    s = (sweep){.c = c, .o = o};
    if (take_frame(&s) != TG_OK || take_grid(&s) != TG_OK)
        return CLI_USAGE;
    measure_floor(&s);
    try_all(&s);
    print_json(&s);
    if (!c->common->json)
        print_text(&s);
    if (o->report != NULL && write_report(&s) != TG_OK)
        return CLI_FAILED;
    if (s.interrupted)
        return CLI_INCOMPLETE;
    return s.best < s.n ? CLI_DONE : CLI_FAILED;
}
