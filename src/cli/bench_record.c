/* cli/bench_record.c - bench record: the recorder's scenarios, each against its limit in the
 * same run, in interleaved rounds. bench/README.md says what each is for. */
#include "bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MIB         ((uint64_t)1 << 20)
#define BLOCK_BYTES ((size_t)8 << 20)
#define FRAME_8M    ((size_t)2048 * 2048 * 2)
#define FRAME_772   ((size_t)772 * 1032)
#define FRAME_CROP  ((size_t)64 * 64)
#define MOST_ROUNDS 99
#define MOST_RUNS   6

/* One contender of a scenario, and what it reached in each round. */
typedef struct contender {
    const char *name;
    bench_fn fn;
    union {
        floor_job floor;
        bench_run run;
    } job;
    bench_result result[MOST_ROUNDS];
    size_t n;
} contender;

typedef struct scenario {
    const char *name, *letter, *words;
    contender *contender;
    size_t n;
    size_t limit, ours; /* places of the two whose rates are compared; limit n: none */
} scenario;

/* One call of bench record. */
typedef struct bench {
    cli *c;
    const bench_options *o;
    char dir[4096]; /* by the sink */
    bool null_sink, failed, interrupted;
} bench;

static contender contenders[MOST_RUNS]; /* large: results of every round */

/* --- Contenders ------------------------------------------------------------- */

static contender *add(scenario *s, const char *name, bench_fn fn)
{
    contender *k = &s->contender[s->n++];
    memset(k, 0, sizeof *k);
    k->name = name;
    k->fn = fn;
    return k;
}

static contender *add_floor(const bench *b, scenario *s, const char *name, uint32_t ring,
                            uint64_t frames, size_t frame_bytes)
{
    contender *k = add(s, name, floor_run);
    k->job.floor = (floor_job){.dir = b->dir,
                               .frames = frames,
                               .frame_bytes = frame_bytes,
                               .block_bytes = BLOCK_BYTES,
                               .ring = ring,
                               .direct = true};
    return k;
}

static contender *add_run(const bench *b, scenario *s, const char *name, uint64_t height,
                          uint64_t width, uint32_t item_bytes, uint64_t frames)
{
    contender *k = add(s, name, recorder_run);
    k->job.run = (bench_run){.dir = b->dir,
                             .height = height,
                             .width = width,
                             .dtype = {TG_DT_UINT, item_bytes},
                             .frames = frames,
                             .memory_bytes = b->c->common->memory,
                             .threads = (uint32_t)b->c->common->threads,
                             .null_sink = b->null_sink,
                             .cancel = b->c->cancel};
    return k;
}

/* As --memory does: the whole of it for the ring. */
static void use_memory(contender *k, uint64_t bytes)
{
    k->job.run.memory_bytes = bytes;
    k->job.run.whole_memory = true;
}

static uint64_t count(const bench *b, uint64_t frames)
{
    if (b->o->frames > 0)
        return b->o->frames;
    return b->o->quick ? (frames + 19) / 20 : frames;
}

/* --- Rounds and what they say ------------------------------------------------- */

static void measure(bench *b, const scenario *s, contender *k, uint64_t round)
{
    char line[256];
    bench_result *r = &k->result[k->n];
    if (tg_cancel_requested(b->c->cancel)) {
        b->interrupted = true;
        return;
    }
    bench_in_child(k->fn, &k->job, r);
    k->n++;
    if (r->status != TG_OK) {
        (void)snprintf(line, sizeof line, "%s, %s: %.180s", s->name, k->name, r->err.msg);
        if (!b->failed)
            b->c->err = r->err;
        b->failed = true;
    } else {
        (void)snprintf(line, sizeof line,
                       "%s, round %" PRIu64 ", %s: %.0f MiB/s, %.0f frames/s", s->name,
                       round + 1, k->name, r->mib_per_s, r->frames_per_s);
    }
    cli_progress_log(&b->c->progress, line);
}

typedef double (*figure)(const bench_result *r);

static double rate(const bench_result *r)
{
    return r->mib_per_s;
}
static double fps(const bench_result *r)
{
    return r->frames_per_s;
}
static double p99(const bench_result *r)
{
    return r->append_us_p99;
}
static double rss(const bench_result *r)
{
    return (double)r->rss_bytes_peak;
}
static double copy_us(const bench_result *r)
{
    return r->memcpy_us;
}
static double dropped(const bench_result *r)
{
    return (double)r->dropped;
}

static double median_of(const contender *k, figure f)
{
    double v[MOST_ROUNDS];
    size_t n = 0;
    for (size_t i = 0; i < k->n; i++)
        if (k->result[i].status == TG_OK)
            v[n++] = f(&k->result[i]);
    return bench_median(v, n);
}

static void contender_json(json_out *j, const contender *k)
{
    json_open(j, NULL);
    json_text(j, "name", k->name);
    json_double(j, "mib_per_s", median_of(k, rate));
    json_double(j, "frames_per_s", median_of(k, fps));
    json_double(j, "rss_bytes_peak", median_of(k, rss));
    if (k->fn == recorder_run) {
        json_u64(j, "memory_bytes", k->job.run.memory_bytes);
        json_double(j, "append_us_p99", median_of(k, p99));
        json_double(j, "dropped", median_of(k, dropped));
    }
    json_open_list(j, "rounds");
    for (size_t i = 0; i < k->n; i++) {
        json_open(j, NULL);
        bench_result_json(j, &k->result[i]);
        json_close(j);
    }
    json_close_list(j);
    json_close(j);
}

static void print_scenario(const scenario *s, double ratio)
{
    (void)printf("\n%s\n", s->words);
    for (size_t i = 0; i < s->n; i++) {
        const contender *k = &s->contender[i];
        (void)printf("  %-40s %8.0f MiB/s %10.0f frames/s  %5.0f MiB peak", k->name,
                     median_of(k, rate), median_of(k, fps), median_of(k, rss) / (double)MIB);
        if (k->fn == recorder_run)
            (void)printf("  append p99 %.3f ms, dropped %.0f", median_of(k, p99) / 1e3,
                         median_of(k, dropped));
        if (k->fn == recorder_run && median_of(k, copy_us) > 0)
            (void)printf(", memcpy %.3f ms", median_of(k, copy_us) / 1e3);
        (void)putchar('\n');
    }
    if (isfinite(ratio))
        (void)printf("  %s / %s: %.3f\n", s->contender[s->ours].name,
                     s->contender[s->limit].name, ratio);
}

/* --alone: the recorder at the memory asked for, and nothing beside it. */
static void keep_ours(scenario *s)
{
    s->contender[0] = s->contender[s->ours];
    s->n = 1;
    s->ours = 0;
    s->limit = 1;
}

static void run_scenario(bench *b, scenario *s)
{
    if (b->o->alone)
        keep_ours(s);
    for (uint64_t round = 0; round < b->o->rounds && !b->interrupted; round++)
        for (size_t i = 0; i < s->n; i++)
            measure(b, s, &s->contender[i], round);
    double ratio = NAN;
    if (s->limit < s->n)
        ratio =
            median_of(&s->contender[s->ours], rate) / median_of(&s->contender[s->limit], rate);
    json_out *j = &b->c->json;
    json_open(j, NULL);
    json_text(j, "name", s->name);
    json_text(j, "letter", s->letter);
    json_text(j, "words", s->words);
    json_double(j, "ratio", ratio);
    json_open_list(j, "contenders");
    for (size_t i = 0; i < s->n; i++)
        contender_json(j, &s->contender[i]);
    json_close_list(j);
    json_close(j);
    if (!b->c->common->json)
        print_scenario(s, ratio);
}

/* --- The scenarios ------------------------------------------------------------ */

static void frames8m(bench *b)
{
    scenario s = {.name = "frames8m",
                  .letter = "a",
                  .words = "2048x2048 uint16, uncompressed, durable",
                  .contender = contenders,
                  .limit = 0,
                  .ours = 2};
    uint64_t n = count(b, 400);
    (void)add_floor(b, &s, "O_DIRECT, ring of 4", 4, n, FRAME_8M);
    (void)add_floor(b, &s, "O_DIRECT, one block at a time", 1, n, FRAME_8M);
    (void)add_run(b, &s, "tidegate", 2048, 2048, 2, n);
    use_memory(add_run(b, &s, "tidegate, --memory 256MiB", 2048, 2048, 2, n), 256 * MIB);
    run_scenario(b, &s);
}

static void frames772(bench *b)
{
    scenario s = {.name = "frames772",
                  .letter = "a",
                  .words = "772x1032 uint8, uncompressed, durable",
                  .contender = contenders,
                  .limit = 0,
                  .ours = 2};
    uint64_t n = count(b, 3000);
    (void)add_floor(b, &s, "O_DIRECT, ring of 4", 4, n, FRAME_772);
    (void)add_floor(b, &s, "O_DIRECT, one block at a time", 1, n, FRAME_772);
    (void)add_run(b, &s, "tidegate", 772, 1032, 1, n);
    use_memory(add_run(b, &s, "tidegate, --memory 256MiB", 772, 1032, 1, n), 256 * MIB);
    run_scenario(b, &s);
}

static void null_sink(bench *b)
{
    scenario s = {.name = "null",
                  .letter = "b",
                  .words = "2048x2048 uint16 into nothing, against memcpy into a ring as large",
                  .contender = contenders,
                  .limit = 0,
                  .ours = 1};
    uint64_t n = count(b, 2000);
    contender *copy = add_run(b, &s, "memcpy", 2048, 2048, 2, n);
    copy->fn = memcpy_run;
    contender *plain = add_run(b, &s, "tidegate, checksum off", 2048, 2048, 2, n);
    plain->job.run.null_sink = true;
    plain->job.run.array.no_checksum = true;
    add_run(b, &s, "tidegate", 2048, 2048, 2, n)->job.run.null_sink = true;
    run_scenario(b, &s);
}

/* The disk's rate in this minute, by the plain writer; 0: not measured. */
static double disk_rate(bench *b, uint64_t frames, size_t frame_bytes)
{
    double v[3];
    size_t n = 0;
    for (int i = 0; i < 3; i++) {
        floor_job job = {.dir = b->dir,
                         .frames = frames,
                         .frame_bytes = frame_bytes,
                         .block_bytes = BLOCK_BYTES,
                         .ring = 4,
                         .direct = true};
        bench_result r;
        bench_in_child(floor_run, &job, &r);
        if (r.status == TG_OK)
            v[n++] = r.mib_per_s;
        else if (!b->failed)
            b->c->err = r.err;
    }
    return n > 0 ? bench_median(v, n) : 0;
}

static void paced(bench *b)
{
    scenario s = {.name = "paced",
                  .letter = "c",
                  .words = "8 MiB frames at 0.7 of the disk's rate, 10 s or 10 GiB, drop-new",
                  .contender = contenders,
                  .limit = 99};
    double measured = disk_rate(b, count(b, 400), FRAME_8M);
    if (!(measured > 0)) {
        b->failed = true;
        return;
    }
    double rate_fps = 0.7 * measured / 8;
    const uint64_t budgets[] = {1024 * MIB, 256 * MIB};
    static const char *const names[] = {"tidegate, --memory 1GiB", "tidegate, --memory 256MiB"};
    for (int i = 0; i < 2; i++) {
        contender *k = add_run(b, &s, names[i], 2048, 2048, 2, count(b, 1280));
        k->job.run.fps = rate_fps;
        k->job.run.seconds = 10;
        use_memory(k, budgets[i]);
        k->job.run.time_memcpy = true;
        k->job.run.array.on_full = TG_FULL_DROP_NEW;
    }
    run_scenario(b, &s);
}

static void crops(bench *b)
{
    scenario s = {.name = "crops",
                  .letter = "d",
                  .words = "64x64 uint8 crops with the frame table, as fast as they go",
                  .contender = contenders,
                  .limit = 0,
                  .ours = 1};
    uint64_t n = count(b, 600000);
    (void)add_floor(b, &s, "O_DIRECT, ring of 4", 4, n, FRAME_CROP);
    (void)add_run(b, &s, "tidegate", 64, 64, 1, n);
    use_memory(add_run(b, &s, "tidegate, --memory 256MiB", 64, 64, 1, n), 256 * MIB);
    run_scenario(b, &s);
}

static void crops_paced(bench *b)
{
    scenario s = {.name = "crops-paced",
                  .letter = "d",
                  .words = "64x64 uint8 crops at 40,000 a second for 60 s, drop-new",
                  .contender = contenders,
                  .limit = 99};
    contender *k = add_run(b, &s, "tidegate", 64, 64, 1, count(b, 2400000));
    k->job.run.fps = 40000;
    k->job.run.array.on_full = TG_FULL_DROP_NEW;
    run_scenario(b, &s);
}

static void slow_codec(bench *b)
{
    scenario s = {.name = "slow-codec",
                  .letter = "e",
                  .words = "60 frames/s of 8 MiB into zstd:9, block: memory",
                  .contender = contenders,
                  .limit = 99};
    static const char *const names[] = {"tidegate, 100 frames", "tidegate, 800 frames"};
    const uint64_t frames[] = {100, 800};
    for (int i = 0; i < 2; i++) {
        contender *k = add_run(b, &s, names[i], 2048, 2048, 2, count(b, frames[i]));
        k->job.run.fps = 60;
        k->job.run.kind = BENCH_CAMERA;
        use_memory(k, 256 * MIB);
        k->job.run.array.codec = "zstd:9";
    }
    run_scenario(b, &s);
}

static const struct {
    const char *name, *letter;
    void (*run)(bench *b);
} scenarios[] = {{"frames8m", "a", frames8m},    {"frames772", "a", frames772},
                 {"null", "b", null_sink},       {"paced", "c", paced},
                 {"crops", "d", crops},          {"crops-paced", "d", crops_paced},
                 {"slow-codec", "e", slow_codec}};
enum { N_SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

static bool wanted(const cli_list *list, size_t i)
{
    for (size_t k = 0; k < list->n; k++)
        if (strcmp(list->item[k], scenarios[i].name) == 0 ||
            strcmp(list->item[k], scenarios[i].letter) == 0)
            return true;
    return list->n == 0;
}

static tg_status check_names(cli *c, const cli_list *list)
{
    for (size_t k = 0; k < list->n; k++) {
        bool known = false;
        for (size_t i = 0; i < N_SCENARIOS; i++)
            known |= strcmp(list->item[k], scenarios[i].name) == 0 ||
                     strcmp(list->item[k], scenarios[i].letter) == 0;
        if (!known)
            return cli_fail(&c->err, TG_INVALID,
                            "--scenario: got '%.60s', want frames8m, frames772, null, paced, "
                            "crops, crops-paced, slow-codec, or a letter a to e",
                            list->item[k]);
    }
    return TG_OK;
}

int bench_record(cli *c, const bench_options *o)
{
    static bench b; /* large */
    b = (bench){.c = c, .o = o, .null_sink = o->sink == 2};
    (void)snprintf(b.dir, sizeof b.dir, "%s", o->sink == 1 ? "/dev/shm" : o->dir);
    if (check_names(c, &o->scenario) != TG_OK)
        return CLI_USAGE;
    bench_machine_json(&c->json, b.dir);
    json_text(&c->json, "dir", b.dir);
    json_u64(&c->json, "rounds", o->rounds);
    json_bool(&c->json, "quick", o->quick);
    json_open_list(&c->json, "scenarios");
    for (size_t i = 0; i < N_SCENARIOS && !b.interrupted; i++)
        if (wanted(&o->scenario, i))
            scenarios[i].run(&b);
    json_close_list(&c->json);
    json_u64(&c->json, "rss_bytes_peak", cli_rss_peak());
    if (b.interrupted)
        return CLI_INCOMPLETE;
    return b.failed ? CLI_FAILED : CLI_DONE;
}
