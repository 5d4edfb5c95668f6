/* cli/bench_apply.c - bench apply: the engine over regions, each scenario beside its limit in
 * the same run, in interleaved rounds. bench/README.md says what each is for. */
#include "bench_regions.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MIB         ((uint64_t)1 << 20)
#define MOST_ROUNDS 99
#define MOST_RUNS   4

typedef struct contender {
    const char *name;
    bench_fn fn;
    regions_run run;
    bench_result result[MOST_ROUNDS];
    size_t n;
} contender;

/* By which figure the contenders are compared. */
typedef enum measure { BY_RATE, BY_CPU, BY_SECONDS } measure;

typedef struct scenario {
    const char *name, *words;
    measure by;
    size_t n, limit, ours; /* places of the two that are compared; limit n: none */
    contender contender[MOST_RUNS];
} scenario;

typedef struct bench {
    cli *c;
    const bench_options *o;
    bool failed, interrupted;
    char in[4096], out[4096];
    regions_array array;
} bench;

static scenario shared; /* large: results of every round */

/* --- Contenders -------------------------------------------------------------- */

static scenario *begin(const char *name, const char *words, measure by)
{
    memset(&shared, 0, sizeof shared);
    shared.name = name;
    shared.words = words;
    shared.by = by;
    shared.limit = MOST_RUNS;
    return &shared;
}

static regions_run *add(bench *b, scenario *s, const char *name, bench_fn fn)
{
    contender *k = &s->contender[s->n++];
    k->name = name;
    k->fn = fn;
    k->run = (regions_run){.in = &b->array,
                           .out = b->out,
                           .memory_bytes = b->c->common->memory,
                           .threads = (uint32_t)b->c->common->threads};
    return &k->run;
}

/* IN is made once for a scenario, in a process of its own. */
static bool make_in(bench *b, const char *dir, uint64_t extent, uint64_t chunk,
                    const char *codec)
{
    bench_result r;
    bench_scratch_name(dir, b->in, sizeof b->in);
    b->array = (regions_array){.path = b->in,
                               .extent = extent,
                               .chunk = chunk,
                               .codec = codec,
                               .cancel = b->c->cancel};
    bench_in_child(regions_make, &b->array, &r);
    if (r.status == TG_OK)
        return true;
    if (!b->failed)
        b->c->err = r.err;
    b->failed = true;
    bench_remove(b->in);
    return false;
}

/* Results stay until the scenario ends: ext4 looks at every inode freed in the last minutes
 * before it makes a file, and the next run would be charged for what the one before has left.
 */
static void name_out(bench *b, uint64_t round, size_t place)
{
    (void)snprintf(b->out, sizeof b->out, "%.4000s.%" PRIu64 ".%zu", b->in, round, place);
}

static void remove_all(bench *b, const scenario *s)
{
    static const char *const beside[] = {"", ".tidegate"};
    char path[4096 + 16];
    for (uint64_t round = 0; round < b->o->rounds; round++)
        for (size_t i = 0; i < s->n; i++)
            for (size_t k = 0; k < 2; k++) {
                name_out(b, round, i);
                (void)snprintf(path, sizeof path, "%s%s", b->out, beside[k]);
                bench_remove(path);
            }
    (void)snprintf(path, sizeof path, "%s.tidegate", b->in);
    bench_remove(path);
    bench_remove(b->in);
}

/* --- Rounds and what they say ------------------------------------------------ */

typedef double (*figure)(const bench_result *r);

static double cpu_us(const bench_result *r)
{
    return r->frames > 0 ? r->cpu_seconds * 1e6 / (double)r->frames : NAN;
}
static double wall_us(const bench_result *r)
{
    return r->frames > 0 ? r->seconds * 1e6 / (double)r->frames : NAN;
}
static double seconds(const bench_result *r)
{
    return r->seconds;
}
static double plan_seconds(const bench_result *r)
{
    return r->plan_seconds;
}
static double rate(const bench_result *r)
{
    return r->mib_per_s;
}
static double rss(const bench_result *r)
{
    return (double)r->rss_bytes_peak;
}
static double calls(const bench_result *r)
{
    return (double)r->frames;
}
static double in_flight(const bench_result *r)
{
    return (double)r->in_flight_peak;
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

/* How many times as good as the limit: 1 is the limit itself. */
static double ratio_of(const scenario *s)
{
    static const figure figures[] = {rate, cpu_us, seconds};
    if (s->limit >= s->n)
        return NAN;
    double ours = median_of(&s->contender[s->ours], figures[s->by]);
    double limit = median_of(&s->contender[s->limit], figures[s->by]);
    return s->by == BY_RATE ? ours / limit : limit / ours;
}

static void measure_one(bench *b, const scenario *s, contender *k, uint64_t round)
{
    char line[256];
    bench_result *r = &k->result[k->n];
    if (tg_cancel_requested(b->c->cancel)) {
        b->interrupted = true;
        return;
    }
    name_out(b, round, (size_t)(k - s->contender));
    bench_in_child(k->fn, &k->run, r);
    k->n++;
    if (r->status != TG_OK) {
        (void)snprintf(line, sizeof line, "%s, %s: %.180s", s->name, k->name, r->err.msg);
        if (!b->failed)
            b->c->err = r->err;
        b->failed = true;
    } else {
        (void)snprintf(line, sizeof line,
                       "%s, round %" PRIu64 ", %s: %.3f s, %.3f us CPU each, %.0f MiB/s read",
                       s->name, round + 1, k->name, r->seconds, cpu_us(r), r->mib_per_s);
    }
    cli_progress_log(&b->c->progress, line);
}

static void run_json(json_out *j, const bench_result *r)
{
    json_open(j, NULL);
    if (r->status != TG_OK) {
        json_error(j, "error", &r->err);
    } else {
        json_double(j, "seconds", r->seconds);
        json_double(j, "cpu_seconds", r->cpu_seconds);
        json_double(j, "plan_seconds", r->plan_seconds);
        json_u64(j, "calls", r->frames);
        json_u64(j, "in_flight_peak", r->in_flight_peak);
        json_u64(j, "units_read", r->units_read);
        json_u64(j, "units_written", r->units_written);
        json_u64(j, "bytes_read", r->bytes_in);
        json_u64(j, "bytes_written", r->bytes_written);
        json_u64(j, "rss_bytes_peak", r->rss_bytes_peak);
        json_u64(j, "rss_bytes_before", r->rss_bytes_before);
    }
    json_close(j);
}

static void contender_json(json_out *j, const contender *k)
{
    json_open(j, NULL);
    json_text(j, "name", k->name);
    json_double(j, "calls", median_of(k, calls));
    json_double(j, "seconds", median_of(k, seconds));
    json_double(j, "plan_seconds", median_of(k, plan_seconds));
    json_double(j, "us_each", median_of(k, wall_us));
    json_double(j, "cpu_us_each", median_of(k, cpu_us));
    json_double(j, "read_mib_per_s", median_of(k, rate));
    json_double(j, "in_flight_peak", median_of(k, in_flight));
    json_double(j, "rss_bytes_peak", median_of(k, rss));
    json_u64(j, "memory_bytes", k->run.memory_bytes);
    json_open_list(j, "rounds");
    for (size_t i = 0; i < k->n; i++)
        run_json(j, &k->result[i]);
    json_close_list(j);
    json_close(j);
}

static void print_scenario(const scenario *s, double ratio)
{
    (void)printf("\n%s: %s\n", s->name, s->words);
    for (size_t i = 0; i < s->n; i++) {
        const contender *k = &s->contender[i];
        (void)printf("  %-36s %8.3f s  %10.0f calls, %3.0f at once  %9.3f us CPU each  %6.0f "
                     "MiB/s read  %5.0f MiB peak",
                     k->name, median_of(k, seconds), median_of(k, calls),
                     median_of(k, in_flight), median_of(k, cpu_us), median_of(k, rate),
                     median_of(k, rss) / (double)MIB);
        if (median_of(k, plan_seconds) > 0)
            (void)printf(", planned in %.3f s", median_of(k, plan_seconds));
        (void)putchar('\n');
    }
    if (isfinite(ratio))
        (void)printf("  %s against %s: %.3f\n", s->contender[s->ours].name,
                     s->contender[s->limit].name, ratio);
}

static void end(bench *b, scenario *s)
{
    if (b->o->alone) {
        s->contender[0] = s->contender[s->ours];
        s->n = 1;
        s->ours = 0;
    }
    for (uint64_t round = 0; round < b->o->rounds && !b->interrupted; round++)
        for (size_t i = 0; i < s->n; i++)
            measure_one(b, s, &s->contender[i], round);
    double ratio = ratio_of(s);
    json_out *j = &b->c->json;
    json_open(j, NULL);
    json_text(j, "name", s->name);
    json_text(j, "words", s->words);
    json_double(j, "ratio", ratio);
    json_open_list(j, "contenders");
    for (size_t i = 0; i < s->n; i++)
        contender_json(j, &s->contender[i]);
    json_close_list(j);
    json_close(j);
    if (!b->c->common->json)
        print_scenario(s, ratio);
    remove_all(b, s);
}

/* --- The scenarios ----------------------------------------------------------- */

/* The seed's question: calls that sleep, over regions that share chunks. */
enum { CALL_MS = 500 };

static int sleep_and_add(const tg_region_call *call, void *user)
{
    struct timespec t = {CALL_MS / 1000, CALL_MS % 1000 * 1000000L};
    (void)user;
    (void)nanosleep(&t, NULL);
    for (uint64_t y = 0; y < call->out.shape[0]; y++)
        for (uint64_t x = 0; x < call->out.shape[1]; x++) {
            const char *from = (const char *)call->in.data + (int64_t)y * call->in.strides[0] +
                               (int64_t)x * call->in.strides[1];
            char *to = (char *)call->out.data + (int64_t)y * call->out.strides[0] +
                       (int64_t)x * call->out.strides[1];
            uint16_t v = 0;
            memcpy(&v, from, sizeof v);
            v = (uint16_t)(v + 2);
            memcpy(to, &v, sizeof v);
        }
    return 0;
}

static void one_call(void *arg, bench_result *result)
{
    (void)arg;
    double start = bench_now();
    struct timespec t = {CALL_MS / 1000, CALL_MS % 1000 * 1000000L};
    (void)nanosleep(&t, NULL);
    result->seconds = bench_now() - start;
    result->frames = 1;
}

/* Four pixels in each dimension; regions of one pixel (16), and of 2 x 2 that overlap (9). */
static void seed(bench *b)
{
    static char names[3][2][64];
    for (uint64_t chunk = 1; chunk <= 4; chunk *= 2)
        for (int wide = 0; wide < 2; wide++) {
            char *name = names[chunk / 2][wide];
            (void)snprintf(name, 64, "seed, chunks of %" PRIu64 ", regions of %d", chunk,
                           wide + 1);
            if (!make_in(b, b->o->dir, 4, chunk, NULL))
                return;
            scenario *s = begin(
                name, "calls that sleep half a second and add 2, against one call", BY_SECONDS);
            (void)add(b, s, "one call", one_call);
            regions_run *r = add(b, s, "tidegate", regions_run_engine);
            regions_run *p = add(b, s, "tidegate, in place", regions_run_engine);
            p->out = NULL;
            r->fn = p->fn = sleep_and_add;
            r->rois = p->rois = wide ? "grid:2,2/1,1" : "grid:1,1";
            r->policy = p->policy = "last";
            r->jobs = p->jobs = 16;
            s->limit = 0;
            s->ours = 1;
            end(b, s);
        }
}

static void overlapping(bench *b, const char *name, const char *words, uint64_t side,
                        uint64_t roi, uint64_t step, uint64_t chunk, const char *rois)
{
    static const char *const policies[] = {"max", "last"};
    static const char *const names[] = {"tidegate, max", "tidegate, last"};
    side = b->o->quick && side > 64 ? side / 8 : side;
    if (!make_in(b, b->o->dir, step * (side - 1) + roi, chunk, NULL))
        return;
    scenario *s = begin(name, words, BY_CPU);
    regions_run *loop = add(b, s, "a loop in memory", regions_run_loop);
    loop->roi = roi;
    loop->step = step;
    for (int i = 0; i < 2; i++) {
        regions_run *r = add(b, s, names[i], regions_run_engine);
        r->rois = rois;
        r->policy = policies[i];
        r->function = "add:value=2";
        r->memory_bytes = 144 * MIB;
    }
    s->limit = 0;
    s->ours = 1;
    end(b, s);
}

static void rois32(bench *b)
{
    overlapping(b, "rois32",
                "1,048,576 regions of 32x32 every 24, uint16 in chunks of 1024x1024", 1024, 32,
                24, 1024, "grid:32/24");
}

static void rois64(bench *b)
{
    overlapping(b, "rois64", "262,144 regions of 64x64 every 48, uint16 in chunks of 256x256",
                512, 64, 48, 256, "grid:64/48");
}

/* What bench/peers/map_rois.py does with the peers. */
static void rois(bench *b)
{
    overlapping(b, "rois",
                "1,024 regions of 64x64 every 48, uint16 in chunks of 256x256: as the peers",
                32, 64, 48, 256, "grid:64/48");
}

static void threshold(bench *b, const char *name, const char *words, const char *codec)
{
    const uint64_t memory = 64 * MIB, chunk = 1024;
    uint64_t extent = b->o->quick ? 4 * chunk : 26 * chunk; /* 21 times the budget */
    if (!make_in(b, b->o->dir, extent, chunk, codec))
        return;
    scenario *s = begin(name, words, BY_RATE);
    regions_run *r = add(b, s, "tidegate", regions_run_engine);
    r->rois = "grid:1024";
    r->function = "threshold:value=300";
    r->codec = codec;
    r->memory_bytes = memory;
    regions_run *copier = add(b, s, "O_DIRECT copier", regions_run_copier);
    copier->read_bytes = 8 * MIB;
    copier->written = 4 * MIB;
    s->limit = 1;
    s->ours = 0;
    if (codec != NULL) {
        regions_run *alone = add(b, s, "codec alone", regions_run_codec);
        alone->codec = codec;
        s->limit = 2;
    }
    end(b, s);
}

static void threshold_raw(bench *b)
{
    threshold(b, "threshold-raw",
              "uint16 to uint8 in 64 MiB, an array of 20 times that, uncompressed", NULL);
}

static void threshold_zstd(bench *b)
{
    threshold(b, "threshold-zstd", "the same with zstd:1 on both sides", "zstd:1");
}

static const struct {
    const char *name;
    void (*run)(bench *b);
} scenarios[] = {{"seed", seed},
                 {"rois32", rois32},
                 {"rois64", rois64},
                 {"rois", rois},
                 {"threshold-raw", threshold_raw},
                 {"threshold-zstd", threshold_zstd}};
enum { N_SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

static bool wanted(const cli_list *list, const char *name)
{
    for (size_t k = 0; k < list->n; k++)
        if (strcmp(list->item[k], name) == 0)
            return true;
    return list->n == 0;
}

static tg_status check_names(cli *c, const cli_list *list)
{
    for (size_t k = 0; k < list->n; k++) {
        bool known = false;
        for (size_t i = 0; i < N_SCENARIOS; i++)
            known |= strcmp(list->item[k], scenarios[i].name) == 0;
        if (!known)
            return cli_fail(&c->err, TG_INVALID,
                            "--scenario: got '%.60s', want seed, rois32, rois64, rois, "
                            "threshold-raw or threshold-zstd",
                            list->item[k]);
    }
    return TG_OK;
}

int bench_apply(cli *c, const bench_options *o)
{
    static bench b; /* large */
    b = (bench){.c = c, .o = o};
    if (check_names(c, &o->scenario) != TG_OK)
        return CLI_USAGE;
    bench_machine_json(&c->json, o->dir);
    json_text(&c->json, "dir", o->dir);
    json_u64(&c->json, "rounds", o->rounds);
    json_bool(&c->json, "quick", o->quick);
    json_open_list(&c->json, "scenarios");
    for (size_t i = 0; i < N_SCENARIOS && !b.interrupted; i++)
        if (wanted(&o->scenario, scenarios[i].name))
            scenarios[i].run(&b);
    json_close_list(&c->json);
    json_u64(&c->json, "rss_bytes_peak", cli_rss_peak());
    if (b.interrupted)
        return CLI_INCOMPLETE;
    return b.failed ? CLI_FAILED : CLI_DONE;
}
