/* Killed at every crash point in turn: each unit is old or new and whole before anything is run
 * again, and after that the result is what a run without a kill gives. */
#include "run.h"

#include <signal.h>
#include <sys/wait.h>

static tg_status run_once(const scenario *s, bool keep_undo, tg_engine_result *r, tg_error *err)
{
    const tg_runtime_options ro = {.size = sizeof ro, .threads = 2, .memory_bytes = 64 << 20};
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    TG_AUTO_PTR(tg_plan) plan = NULL;
    tg_folder folder;
    opened o;
    probe p;
    char path[160];

    (void)keep_undo;
    probe_init(&p);
    TG_TRY(tg_runtime_new(&ro, &rt, err));
    TG_TRY(open_arrays(s, &o, err));
    tg_status st = make_plan(s, &o, &plan, err);
    s_path(s, s->in_place ? "in.zarr" : "out.zarr", path);
    if (st == TG_OK)
        st = tg_folder_open(&folder, path, "", true, err);
    const tg_engine_options eo = {.rt = rt,
                                  .plan = plan,
                                  .in = o.in,
                                  .out = o.out,
                                  .fn = &p.base,
                                  .folder = &folder,
                                  .mask = o.mask,
                                  .n_called = s->n,
                                  .jobs = s->jobs};
    if (st == TG_OK)
        st = tg_engine_run(&eo, r, NULL, err);
    if (st == TG_OK)
        tg_folder_close(&folder);
    close_arrays(&o);
    return st;
}

/* In a process of its own: exit status 0, or -9 where it was killed at the n-th crash point. */
static int run_child(const scenario *s, unsigned crash_at)
{
    static tg_engine_result r;
    char text[16];
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        tg_error err = {0};
        (void)snprintf(text, sizeof text, "%u", crash_at);
        (void)setenv("TG_CRASH_AT", text, 1);
        tg_status st = run_once(s, false, &r, &err);
        if (st != TG_OK)
            (void)fprintf(stderr, "run: %s\n", err.msg);
        _exit(st == TG_OK ? 0 : 1);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void check_whole(const scenario *s)
{
    static uint16_t got[MAX_ITEMS];
    tg_error err = {0};

    if (read_result(s, got, &err) != TG_OK)
        test_failed(__FILE__, __LINE__, err.msg);
    else
        CHECK(memcmp(got, s->want, s->items * sizeof *got) == 0);
}

static unsigned killed, points;

static void sweep(uint64_t seed, bool in_place, bool base_input)
{
    static scenario s;
    tg_error err = {0};
    char row[64];

    for (unsigned n = 1; n < 200 && test_failures == 0; n++) {
        rng_state = seed * 0x9e3779b97f4a7c15u + 1;
        random_scenario(&s, fresh_dir());
        s.in_place = in_place;
        if (in_place) {
            memcpy(s.out, s.in, sizeof s.out);
            memcpy(s.in_chunk, s.chunk, sizeof s.chunk);
            s.in_sharded = s.sharded;
        }
        s.base_input = base_input;
        s_expect(&s, -1);
        REQUIRE_OK(make_arrays(&s, &err));
        (void)snprintf(row, sizeof row, "seed %" PRIu64 ", crash point %u", seed, n);
        test_row = row;
        const int how = run_child(&s, n);
        CHECK(how == 0 || how == -SIGKILL);
        check_units(&s);
        if (how != 0) {
            killed++;
            if (n % 3 == 0) { /* a second kill, while it is taken up */
                (void)run_child(&s, 1 + n % 7);
                check_units(&s);
            }
            CHECK(run_child(&s, 0) == 0);
        }
        check_whole(&s);
        remove_tree(s.dir);
        points = n > points ? n : points;
        if (how == 0)
            break;
    }
    test_row = "";
}

static void every_crash_point(void)
{
    const char *text = getenv("TG_RESUME_PLANS");
    const uint64_t n = text == NULL ? 1 : strtoull(text, NULL, 10);

    for (uint64_t seed = 1; seed <= n && test_failures == 0; seed++) {
        sweep(seed, false, false);
        sweep(seed, true, false);
        sweep(seed, false, true);
    }
    (void)printf("%u kills, up to %u points\n", killed, points);
    CHECK(killed > 20);
}

/* What was begun with other parameters is not gone on with. */
static void other_parameters(void)
{
    static scenario s;
    static tg_engine_result r;
    tg_error err = {0};

    rng_state = 77;
    random_scenario(&s, fresh_dir());
    s.policy = TG_POLICY_MAX;
    s_expect(&s, -1);
    REQUIRE_OK(make_arrays(&s, &err));
    CHECK(run_child(&s, 1) == -SIGKILL);
    s.policy = TG_POLICY_MIN;
    CHECK_STATUS(run_once(&s, false, &r, &err), TG_INVALID);
    CHECK(strstr(err.msg, "policy is 'max', not 'min'") != NULL);
}

static const struct test tests[] = {
    {"every_crash_point", every_crash_point},
    {"other_parameters", other_parameters},
};

TEST_MAIN(tests)
