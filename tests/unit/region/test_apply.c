/* tg_apply() with a function of the program's own, through the public header. */
#include "check.h"
#include "exec/exec.h"
#include "tidegate/tidegate.h"

#include <stdatomic.h>
#include <time.h>

enum { H = 10, W = 12 };

typedef struct place {
    tg_runtime *rt;
    tg_store *in, *out;
    tg_apply_options options;
    tg_apply_report report;
    tg_error err;
} place;

static void close_place(place *p)
{
    tg_store_free(p->in);
    tg_store_free(p->out);
    tg_runtime_free(p->rt);
}

static uint16_t value(uint64_t y, uint64_t x)
{
    return (uint16_t)(y * 100 + x);
}

/* IN in memory, of H x W items in chunks of 4 x 5; OUT is not there yet. */
static tg_status open_place(place *p, tg_region_fn fn, void *user)
{
    static const uint64_t shape[2] = {H, W}, chunk[2] = {4, 5}, start[2] = {0, 0};
    static const char *const names[2] = {"y", "x"};
    const tg_store_options so = {.size = sizeof so, .mode = TG_STORE_CREATE};
    const tg_array_options ao = {.size = sizeof ao,
                                 .dtype = {TG_DT_UINT, 2},
                                 .ndim = 2,
                                 .shape = shape,
                                 .chunk = chunk,
                                 .dimension_names = names};
    uint16_t items[H * W];
    tg_array *a = NULL;

    *p = (place){.report = {.size = sizeof p->report}};
    for (uint64_t i = 0; i < H * W; i++)
        items[i] = value(i / W, i % W);
    TG_TRY(tg_runtime_new(&(tg_runtime_options){.size = sizeof(tg_runtime_options),
                                                .memory_bytes = (uint64_t)32 << 20,
                                                .threads = 2},
                          &p->rt, &p->err));
    TG_TRY(tg_store_open("memory://", &so, &p->in, NULL, &p->err));
    TG_TRY(tg_store_open("memory://", &so, &p->out, NULL, &p->err));
    TG_TRY(tg_array_create(p->in, "a", &ao, &a, NULL, &p->err));
    tg_status st = tg_array_write(a, start, shape, items, NULL, NULL, &p->err);
    tg_array_free(a);
    p->options = (tg_apply_options){.size = sizeof p->options,
                                    .in_store = p->in,
                                    .in_path = "a",
                                    .out_store = p->out,
                                    .out_path = "b",
                                    .rois = "grid:4",
                                    .fn = fn,
                                    .fn_user = user};
    return st;
}

static tg_status run(place *p)
{
    return tg_apply(p->rt, &p->options, &p->report, NULL, &p->err);
}

static tg_status result(place *p, uint16_t items[H * W])
{
    static const uint64_t shape[2] = {H, W}, start[2] = {0, 0};
    tg_array *a = NULL;

    TG_TRY(tg_array_open(p->out, "b", &a, NULL, &p->err));
    tg_status st = tg_array_read(a, start, shape, items, NULL, NULL, &p->err);
    tg_array_free(a);
    return st;
}

static uint16_t *item(const tg_region_view *v, uint64_t y, uint64_t x)
{
    return (uint16_t *)((char *)v->data + (int64_t)y * v->strides[0] +
                        (int64_t)x * v->strides[1]);
}

/* --- Values --------------------------------------------------------------------------------
 */

typedef struct seen {
    atomic_uint calls, wrong, in_flight, peak;
    unsigned hold;      /* all wait until so many are in flight */
    int64_t bad;        /* this region's call fails; -1: none */
    unsigned bad_times; /* so often */
    tg_cancel *cancel;  /* asked for by each call */
} seen;

/* What is two up and one to the left of each item, or at the rim the nearest. */
static int shifted(const tg_region_call *c, void *user)
{
    seen *s = user;
    const uint64_t top = c->before[0], left = c->before[1];
    unsigned wrong = 0;

    atomic_fetch_add(&s->calls, 1);
    wrong += c->size != sizeof *c || c->n_rois != 9 || c->roi >= 9 || c->label != 0;
    wrong += c->in.ndim != 2 || c->in.dtype.kind != TG_DT_UINT || c->in.dtype.size != 2;
    wrong += c->out.shape[0] != c->region[0] || c->out.shape[1] != c->region[1];
    wrong += c->out_start[0] != c->roi / 3 * 4 || c->out_start[1] != c->roi % 3 * 4;
    wrong += c->in_start[0] + top != c->out_start[0] || c->scale[0] != 1 || c->message == NULL;
    for (uint64_t y = 0; y < c->in.shape[0]; y++)
        for (uint64_t x = 0; x < c->in.shape[1]; x++)
            wrong += *item(&c->in, y, x) != value(c->in_start[0] + y, c->in_start[1] + x);
    for (uint64_t y = 0; y < c->out.shape[0]; y++)
        for (uint64_t x = 0; x < c->out.shape[1]; x++)
            *item(&c->out, y, x) =
                *item(&c->in, top + y < 2 ? 0 : top + y - 2, left + x < 1 ? 0 : left + x - 1);
    atomic_fetch_add(&s->wrong, wrong);
    return 0;
}

static void sees_its_halo(void)
{
    place p;
    seen s = {.bad = -1};
    uint16_t items[H * W] = {0};

    REQUIRE_OK(open_place(&p, shifted, &s));
    p.options.halo[0] = 2;
    p.options.n_halo = 1;
    REQUIRE_OK(run(&p));
    CHECK_U64(s.calls, 9);
    CHECK_U64(s.wrong, 0);
    CHECK_U64(p.report.rois, 9);
    CHECK_U64(p.report.calls, 9);
    CHECK_U64(p.report.failed, 0);
    CHECK_U64(p.report.units_read, 9);
    CHECK_U64(p.report.units_written, 9);
    REQUIRE_OK(result(&p, items));
    for (uint64_t i = 0; i < H * W; i++) {
        const uint64_t y = i / W, x = i % W;
        CHECK_U64(items[i], value(y < 2 ? 0 : y - 2, x < 1 ? 0 : x - 1));
    }
    CHECK_U64(tg_runtime_memory_used(p.rt), 0);
    close_place(&p);
}

/* --- Calls at once -------------------------------------------------------------------------
 */

static void wait_for_others(seen *s)
{
    const struct timespec ms = {0, 1000000};
    unsigned now = atomic_fetch_add(&s->in_flight, 1) + 1, peak = atomic_load(&s->peak);

    while (now > peak && !atomic_compare_exchange_weak(&s->peak, &peak, now))
        ;
    for (int i = 0; i < 60000 && atomic_load(&s->peak) < s->hold; i++)
        (void)nanosleep(&ms, NULL);
    atomic_fetch_sub(&s->in_flight, 1);
}

static int add(const tg_region_call *c, void *user)
{
    seen *s = user;

    atomic_fetch_add(&s->calls, 1);
    wait_for_others(s);
    if (s->cancel != NULL)
        tg_cancel_request(s->cancel);
    if ((int64_t)c->roi == s->bad && s->bad_times > 0) {
        s->bad_times--;
        (void)snprintf(c->message, 256, "no light in %u", (unsigned)c->roi);
        return 7;
    }
    for (uint64_t y = 0; y < c->out.shape[0]; y++)
        for (uint64_t x = 0; x < c->out.shape[1]; x++)
            *item(&c->out, y, x) = (uint16_t)(*item(&c->in, y, x) + 2);
    return 0;
}

/* More calls than threads, all waiting for the last of them: chunks that are shared, and two
 * threads, hold none back. */
static void all_calls_at_once(void)
{
    place p;
    seen s = {.bad = -1, .hold = 9};

    REQUIRE_OK(open_place(&p, add, &s));
    p.options.jobs = 9;
    REQUIRE_OK(run(&p));
    CHECK_U64(s.peak, 9);
    CHECK_U64(p.report.in_flight_peak, 9);
    close_place(&p);
}

/* --- Failures ------------------------------------------------------------------------------
 */

static const struct failing {
    const char *name;
    bool skip;
    unsigned retries, bad_times;
    tg_status status;
    unsigned calls; /* of 9 regions, in one thread; 0: fewer, for the run ends */
    unsigned failed;
} failing[] = {
    {"stop", false, 0, 1, TG_IO, 0, 0},        {"skip", true, 0, 1, TG_OK, 9, 1},
    {"tried again", true, 2, 2, TG_OK, 11, 0}, {"tried in vain", true, 2, 3, TG_OK, 11, 1},
    {"tried, stop", false, 1, 9, TG_IO, 0, 0},
};

static void check_skipped(place *p, const struct failing *f)
{
    uint16_t items[H * W] = {0};

    REQUIRE_OK(result(p, items));
    for (uint64_t i = 0; i < H * W; i++) {
        const uint64_t y = i / W, x = i % W;
        const bool out = f->failed > 0 && y >= 4 && y < 8 && x >= 4 && x < 8; /* region 4 */
        CHECK_U64(items[i], out ? 0 : value(y, x) + 2u);
    }
}

static void failing_call(void)
{
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        const struct failing *f = &failing[i];
        place p;
        seen s = {.bad = 4, .bad_times = f->bad_times};

        test_row = f->name;
        REQUIRE_OK(open_place(&p, add, &s));
        p.options.jobs = 1;
        p.options.skip_failed = f->skip;
        p.options.retries = f->retries;
        CHECK_STATUS(run(&p), f->status);
        CHECK_U64(p.report.failed, f->failed);
        CHECK_U64(p.report.calls, s.calls);
        if (f->calls > 0)
            CHECK_U64(s.calls, f->calls);
        if (f->status == TG_OK)
            check_skipped(&p, f);
        const char *why = f->status == TG_OK ? p.report.why : p.err.msg;
        if (f->failed > 0 || f->status != TG_OK)
            CHECK(strstr(why, "region 4") != NULL &&
                  strstr(why, "the function says 7: no light in 4") != NULL);
        close_place(&p);
    }
    test_row = "";
}

static void cancelled_from_a_call(void)
{
    tg_cancel *cancel = NULL;
    place p;
    seen s = {.bad = -1};

    REQUIRE_OK(tg_cancel_new(&cancel, NULL));
    s.cancel = cancel;
    REQUIRE_OK(open_place(&p, add, &s));
    p.options.jobs = 1;
    CHECK_STATUS(tg_apply(p.rt, &p.options, &p.report, cancel, &p.err), TG_CANCELLED);
    CHECK(s.calls >= 1 && s.calls < 9);
    CHECK_U64(tg_runtime_memory_used(p.rt), 0);
    close_place(&p);
    tg_cancel_free(cancel);
}

/* --- What is refused -----------------------------------------------------------------------
 */

static void refused(void)
{
    place p;
    seen s = {.bad = -1};

    REQUIRE_OK(open_place(&p, add, &s));
    p.options.size--;
    CHECK_STATUS(run(&p), TG_INVALID);
    p.options.size++;
    p.report.size = 8;
    CHECK_STATUS(run(&p), TG_INVALID);
    p.report.size = sizeof p.report;
    p.options.fn = NULL;
    CHECK_STATUS(run(&p), TG_INVALID);
    CHECK(strstr(p.err.msg, "no function") != NULL);
    p.options.fn = add;
    p.options.policy = "user"; /* a function alone brings no fold */
    CHECK_STATUS(run(&p), TG_INVALID);
    p.options.policy = NULL;
    p.options.rois = "grid:4/2"; /* regions that overlap, policy error */
    CHECK_STATUS(run(&p), TG_INVALID);
    CHECK_U64(s.calls, 0);
    uint64_t bytes;
    CHECK_STATUS(tg_store_size(p.out, "b/zarr.json", &bytes, NULL, NULL), TG_NOT_FOUND);
    close_place(&p);
}

static const struct test tests[] = {
    {"sees_its_halo", sees_its_halo},
    {"all_calls_at_once", all_calls_at_once},
    {"failing_call", failing_call},
    {"cancelled_from_a_call", cancelled_from_a_call},
    {"refused", refused},
};

TEST_MAIN(tests)
