/* The engine against the list-order loop: random plans, every policy, shards, in place, halo;
 * in 1 to 7 parts; killed at random points and taken up. */
#include "base/clock.h"
#include "run.h"

#include <signal.h>
#include <sys/wait.h>

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
#define PLANS 300 /* each takes ten times as long */
#else
#define PLANS 1000
#endif

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
                            .mask = o->mask,
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
    unsigned rank[5], policy[16], outlined, apart, pad[128], halo, shard, in_place, there,
        skipped, swapped, parked, base;
    unsigned plans, kills, killed_part, killed_merge, killed_alone, resumed;
} seen;

static void note_scenario(const scenario *s, bool skip)
{
    seen.plans++;
    seen.parts[s->parts]++;
    seen.rank[s->ndim]++;
    seen.policy[s->policy]++;
    seen.halo += s->halo[0] > 0;
    seen.shard += s->sharded;
    seen.in_place += s->in_place;
    seen.there += s->out_there && !s->in_place;
    seen.skipped += skip;
    seen.base += s->base_input;
    seen.pad[(unsigned char)s->pad[0]]++;
    if (s->policy != TG_POLICY_MASK)
        return;
    seen.outlined += s->outlined;
    seen.apart += !s->outlined && s->n > 1 && s->label[0] == s->n && s->label[s->n - 1] == 1;
}

static uint64_t how_many(void)
{
    const char *text = getenv("TG_ENGINE_PLANS");
    return text == NULL ? PLANS : strtoull(text, NULL, 10);
}

static uint64_t first_seed(void)
{
    const char *text = getenv("TG_ENGINE_SEED");
    return text == NULL ? 1 : strtoull(text, NULL, 10);
}

/* --- Killed ----------------------------------------------------------------------------------
 */

/* In a process of its own: exit status 0, or -9 where it was killed at the n-th crash point. */
static int run_child(const scenario *s, uint32_t part, int64_t fail, unsigned crash_at)
{
    static tg_engine_result r;
    char text[16];
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        tg_plan *plan = NULL;
        tg_error err = {0};
        opened o = {0};
        probe p;
        (void)snprintf(text, sizeof text, "%u", crash_at);
        (void)setenv("TG_CRASH_AT", text, 1);
        probe_init(&p);
        p.fail = fail;
        tg_status st = open_arrays(s, &o, &err);
        if (st == TG_OK)
            st = make_plan(s, &o, &plan, &err);
        if (st == TG_OK)
            st = run_part(s, plan, &o, &p, part, fail >= 0, &r, &err);
        if (st != TG_OK)
            (void)fprintf(stderr, "%s: %s\n", test_row, err.msg);
        _exit(st == TG_OK && test_failures == 0 ? 0 : 1);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Has an earlier run of the part left a journal, so that the next one takes it up? */
static bool has_journal(const scenario *s, uint32_t part)
{
    char path[160], name[32], file[300];

    s_path(s, s->in_place ? "in.zarr" : "out.zarr", path);
    tg_commit_journal_name(part == MERGE ? 0 : part, part == MERGE, name);
    (void)snprintf(file, sizeof file, "%s.tidegate/apply/%s", path, name);
    return access(file, F_OK) == 0;
}

static void kill_and_end(const scenario *s, uint32_t part, int64_t fail)
{
    int how = -SIGKILL;

    for (unsigned i = 0; how == -SIGKILL && test_failures == 0; i++) {
        seen.resumed += i > 0 && has_journal(s, part);
        how = run_child(s, part, fail, i < 2 && rng(3) > 0 ? 1 + (unsigned)rng(40) : 0);
        seen.kills += how == -SIGKILL;
        seen.killed_alone += how == -SIGKILL && s->parts == 1;
        seen.killed_part += how == -SIGKILL && s->parts > 1 && part != MERGE;
        seen.killed_merge += how == -SIGKILL && part == MERGE;
        check_units(s);
    }
    CHECK(how == 0);
}

static void one_killed(uint64_t seed)
{
    static scenario s;
    tg_error err = {0};
    char row[64];

    rng_state = seed * 0x9e3779b97f4a7c15u + 2;
    (void)snprintf(row, sizeof row, "killed, seed %" PRIu64, seed);
    test_row = row;
    random_scenario(&s, fresh_dir());
    s.parts = 1 + (uint32_t)rng(7);
    const bool skip = rng(5) == 0;
    const int64_t fail = skip ? (int64_t)rng(s.n) : -1;
    s_expect(&s, fail);
    REQUIRE_OK(make_arrays(&s, &err));
    const uint32_t from = (uint32_t)rng(s.parts);
    for (uint32_t i = 0; i < s.parts; i++)
        kill_and_end(&s, (from + i) % s.parts, fail);
    if (s.parts > 1)
        kill_and_end(&s, MERGE, fail);
    check_result(&s, "killed");
    note_scenario(&s, skip);
    test_row = "";
    remove_tree(s.dir);
}

/* First, while this process has passed no crash point, which its children would take for
 * theirs.
 */
static void killed_plans(void)
{
    const uint64_t n = how_many() / 4;

    for (uint64_t i = 0; i < n && test_failures == 0; i++)
        one_killed(first_seed() + i);
    (void)printf("%u kills of a run, %u of a part, %u of a merge; %u taken up\n",
                 seen.killed_alone, seen.killed_part, seen.killed_merge, seen.resumed);
    CHECK(n < 75 ||
          (seen.killed_alone && seen.killed_part && seen.killed_merge && seen.resumed));
}

/* --- Not killed ------------------------------------------------------------------------------
 */

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
    note_scenario(&s, skip);
    seen.swapped += r.spilled_bytes > 0;
    seen.parked += r.parked_peak_bytes > 0;
    test_row = "";
    remove_tree(s.dir);
}

static void check_counts(bool enough)
{
    (void)printf(
        "%u plans: ranks %u %u %u %u, halo %u, shards %u, in place %u, there %u, failed "
        "%u, swap %u, parked %u, base %u\n",
        seen.plans, seen.rank[1], seen.rank[2], seen.rank[3], seen.rank[4], seen.halo,
        seen.shard, seen.in_place, seen.there, seen.skipped, seen.swapped, seen.parked,
        seen.base);
    (void)printf("parts %u %u %u %u %u %u %u, merged %u, kills %u, taken up %u\npolicies",
                 seen.parts[1], seen.parts[2], seen.parts[3], seen.parts[4], seen.parts[5],
                 seen.parts[6], seen.parts[7], seen.border, seen.kills, seen.resumed);
    for (int i = 0; i <= TG_POLICY_USER; i++) {
        if (i == TG_POLICY_LABELS) /* has tests of its own */
            continue;
        (void)printf(" %s %u", tg_policy_name((tg_policy)i), seen.policy[i]);
        CHECK(seen.policy[i] > 0 || !enough);
    }
    (void)printf("; of mask %u outlined, %u apart\n", seen.outlined, seen.apart);
    CHECK(!enough || (seen.outlined && seen.apart));
    for (const char *p = "cfers"; *p != '\0'; p++) {
        (void)printf("pad %c %u\n", *p, seen.pad[(unsigned char)*p]);
        CHECK(seen.pad[(unsigned char)*p] > 0 || !enough);
    }
    for (int i = 1; i < 8; i++)
        CHECK(seen.parts[i] > 0 || !enough);
    CHECK(!enough ||
          (seen.rank[1] && seen.rank[2] && seen.rank[3] && seen.rank[4] && seen.halo &&
           seen.shard && seen.in_place && seen.there && seen.skipped && seen.swapped &&
           seen.parked && seen.base && seen.border && seen.kills && seen.resumed));
}

static void random_plans(void)
{
    const uint64_t n = how_many() - how_many() / 4;

    for (uint64_t i = 0; i < n && test_failures < 5; i++)
        one_scenario(first_seed() + i);
    check_counts(how_many() >= 300);
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
                s.pad = "";
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
    {"killed_plans", killed_plans},
    {"random_plans", random_plans},
    {"seed_experiment", seed_experiment},
};

TEST_MAIN(tests)
