/* The engine against the list-order loop: random plans, every policy, shards, in place, halo.
 */
#include "base/clock.h"
#include "run.h"

static char root[64];

static const char *fresh_dir(void)
{
    static char dir[128];
    static int n;
    (void)snprintf(dir, sizeof dir, "%s/%d", root, n++);
    (void)mkdir(dir, 0777);
    return dir;
}

#define MERGE UINT32_MAX

static tg_status run_part(const scenario *s, tg_plan *plan, opened *o, probe *p, uint32_t part,
                          bool skip, tg_engine_result *r, tg_error *err)
{
    const tg_runtime_options ro = {
        .size = sizeof ro, .threads = 2, .memory_bytes = s->memory > 0 ? s->memory : 64 << 20};
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    tg_folder folder;
    char path[160];

    TG_TRY(tg_runtime_new(&ro, &rt, err));
    s_path(s, s->in_place ? "in.zarr" : "out.zarr", path);
    TG_TRY(tg_folder_open(&folder, path, "", true, err));
    tg_engine_options eo = {.rt = rt,
                            .plan = plan,
                            .in = o->in,
                            .out = o->out,
                            .fn = &p->base,
                            .folder = &folder,
                            .n_called = s->n,
                            .part = part == MERGE ? 0 : part,
                            .in_parts = s->parts > 1 && part != MERGE,
                            .merge = part == MERGE,
                            .skip = skip,
                            .jobs = s->jobs};
    tg_status st = tg_engine_run(&eo, r, NULL, err);
    CHECK_U64(tg_runtime_memory_used(rt), 0);
    tg_folder_close(&folder);
    return st;
}

static void check_result(const scenario *s, const char *what)
{
    static uint16_t got[MAX_ITEMS];
    tg_error err = {0};
    char m[400];

    if (read_result(s, got, &err) != TG_OK) {
        test_failed(__FILE__, __LINE__, err.msg);
        return;
    }
    for (uint64_t i = 0; i < s->items; i++)
        if (got[i] != s->want[i]) {
            (void)snprintf(m, sizeof m, "%s: item %" PRIu64 " is %u, want %u (policy %s, %u-d)",
                           what, i, got[i], s->want[i], tg_policy_name(s->policy), s->ndim);
            test_failed(__FILE__, __LINE__, m);
            return;
        }
}

static struct {
    unsigned parts[8], border;
    unsigned rank[5], policy[16], halo, shard, in_place, there, skipped, swapped, parked, base;
} seen;

/* All parts, the first any of them, and the merge. */
static tg_status run_parts(const scenario *s, tg_plan *plan, opened *o, probe *p, bool skip,
                           tg_engine_result *r, tg_error *err)
{
    const uint32_t from = (uint32_t)rng(s->parts);
    uint64_t written = 0, failed = 0;

    for (uint32_t i = 0; i < s->parts; i++) {
        const uint32_t part = (from + i) % s->parts;
        if (i == 0) /* nothing is done: the merge does not begin */
            CHECK_STATUS(run_part(s, plan, o, p, MERGE, skip, r, err), TG_INCOMPLETE);
        TG_TRY(run_part(s, plan, o, p, part, skip, r, err));
        written += r->units_written;
        failed += r->failed;
    }
    TG_TRY(run_part(s, plan, o, p, MERGE, skip, r, err));
    seen.border += r->units_written > 0;
    r->units_written += written;
    CHECK_U64(r->failed, failed); /* of all parts */
    return TG_OK;
}

static void one_scenario(uint64_t seed)
{
    static scenario s;
    static tg_engine_result r;
    tg_error err = {0};
    TG_AUTO_PTR(tg_plan) plan = NULL;
    opened o;
    probe p;
    char row[64];

    rng_state = seed * 0x9e3779b97f4a7c15u + 1;
    (void)snprintf(row, sizeof row, "seed %" PRIu64, seed);
    test_row = row;
    random_scenario(&s, fresh_dir());
    s.parts = rng(2) ? 1 : 1 + (uint32_t)rng(7);
    probe_init(&p);
    const bool skip = rng(5) == 0;
    if (skip)
        p.fail = (int64_t)rng(s.n);
    s_expect(&s, p.fail);
    tg_status st = make_arrays(&s, &err);
    if (st == TG_OK)
        st = open_arrays(&s, &o, &err);
    if (st == TG_OK)
        st = make_plan(&s, &o, &plan, &err);
    if (st == TG_OK && s.parts == 1 && rng(2)) { /* at the least budget, or little above */
        s.memory = 1;
        CHECK_STATUS(run_part(&s, plan, &o, &p, 0, skip, &r, &err), TG_OVER_BUDGET);
        const char *least = strstr(err.msg, "give at least ");
        s.memory = least == NULL ? 1 : strtoull(least + 14, NULL, 10) + rng(3) * rng(6000);
        err = (tg_error){0};
    }
    if (st == TG_OK)
        st = s.parts == 1 ? run_part(&s, plan, &o, &p, 0, skip, &r, &err)
                          : run_parts(&s, plan, &o, &p, skip, &r, &err);
    if (st != TG_OK)
        test_failed(__FILE__, __LINE__, err.msg);
    close_arrays(&o);
    if (st == TG_OK)
        check_result(&s, "run");
    CHECK_U64(p.calls, s.n);
    CHECK_U64(r.failed, skip);
    CHECK(r.units_written <= tg_plan_n_units(plan));
    CHECK(s.memory == 0 || r.memory_peak <= s.memory);
    seen.parts[s.parts]++;
    seen.rank[s.ndim]++;
    seen.policy[s.policy]++;
    seen.halo += s.halo[0] > 0;
    seen.shard += s.sharded;
    seen.in_place += s.in_place;
    seen.there += s.out_there && !s.in_place;
    seen.skipped += skip;
    seen.base += s.base_input;
    seen.swapped += r.spilled_bytes > 0;
    seen.parked += r.parked_peak_bytes > 0;
    test_row = "";
    remove_tree(s.dir);
}

static void random_plans(void)
{
    const char *text = getenv("TG_ENGINE_PLANS");
    const uint64_t n = text == NULL ? 300 : strtoull(text, NULL, 10);
    const char *first = getenv("TG_ENGINE_SEED");
    uint64_t seed = first == NULL ? 1 : strtoull(first, NULL, 10);

    for (uint64_t i = 0; i < n && test_failures < 5; i++)
        one_scenario(seed + i);
    (void)printf("ranks %u %u %u %u, halo %u, shards %u, in place %u, there %u, failed %u, "
                 "swap %u, parked %u, base %u\n",
                 seen.rank[1], seen.rank[2], seen.rank[3], seen.rank[4], seen.halo, seen.shard,
                 seen.in_place, seen.there, seen.skipped, seen.swapped, seen.parked, seen.base);
    for (int i = 0; i < 16; i++)
        if (i < TG_POLICY_MASK || i == TG_POLICY_USER)
            if (i <= TG_POLICY_USER && n >= 300)
                CHECK(seen.policy[i] > 0);
    (void)printf("parts %u %u %u %u %u %u %u, merged %u\n", seen.parts[1], seen.parts[2],
                 seen.parts[3], seen.parts[4], seen.parts[5], seen.parts[6], seen.parts[7],
                 seen.border);
    for (int i = 1; i < 8; i++)
        CHECK(seen.parts[i] > 0 || n < 300);
    if (n >= 300)
        CHECK(seen.border > 0);
    if (n >= 300)
        CHECK(seen.rank[1] && seen.rank[2] && seen.rank[3] && seen.rank[4] && seen.halo &&
              seen.shard && seen.in_place && seen.there && seen.skipped && seen.swapped &&
              seen.base);
}

/* The seed's experiment: 4 zeros; regions of one and of two overlapping pixels; all calls are
 * in flight at once, or this hangs until the probe gives up and the count is wrong. */
static void seed_experiment(void)
{
    static scenario s;
    static tg_engine_result r;

    for (uint64_t chunk = 1; chunk <= 4; chunk *= 2)
        for (int width = 1; width <= 2; width++)
            for (int in_place = 0; in_place < 2; in_place++) {
                TG_AUTO_PTR(tg_plan) plan = NULL;
                tg_error err = {0};
                opened o;
                probe p;
                memset(&s, 0, sizeof s);
                (void)snprintf(s.dir, sizeof s.dir, "%s", fresh_dir());
                s.ndim = 1;
                s.shape[0] = s.items = 4;
                s.chunk[0] = s.in_chunk[0] = chunk;
                s.in_place = in_place;
                s.policy = TG_POLICY_LAST;
                s.n = width == 1 ? 4 : 3;
                s.jobs = 4;
                for (uint32_t k = 0; k < s.n; k++) {
                    s.bounds[2 * k] = k;
                    s.bounds[2 * k + 1] = k + (uint64_t)width;
                }
                probe_init(&p);
                p.hold = s.n;
                s_expect(&s, -1);
                REQUIRE_OK(make_arrays(&s, &err));
                REQUIRE_OK(open_arrays(&s, &o, &err));
                REQUIRE_OK(make_plan(&s, &o, &plan, &err));
                CHECK_STATUS(run_part(&s, plan, &o, &p, 0, false, &r, &err), TG_OK);
                close_arrays(&o);
                check_result(&s, "seed");
                CHECK_U64(p.calls, s.n);
                CHECK_U64(p.peak, s.n);
                remove_tree(s.dir);
            }
}

static const struct test tests[] = {
    {"random_plans", random_plans},
    {"seed_experiment", seed_experiment},
};

static void make_root(void)
{
    (void)snprintf(root, sizeof root, "/tmp/tg-engine-XXXXXX");
    if (mkdtemp(root) == NULL)
        abort();
}
static void remove_root(void)
{
    remove_tree(root);
}
__attribute__((constructor)) static void begin(void)
{
    make_root();
    (void)atexit(remove_root);
}

TEST_MAIN(tests)
