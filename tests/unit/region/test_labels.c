/* Policy labels against a loop over the list, pixel by pixel, and, where regions cover all,
 * against one flood of the whole; killed at every crash point and taken up. */
#include "base/mem.h"
#include "check.h"
#include "exec/exec.h"
#include "nd/nd.h"
#include "tidegate/region.h"
#include "zarr/array.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[64];
static uint64_t state = 1;

static uint64_t rng(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below == 0 ? 0 : state % below;
}

#define MOST_ITEMS   4096
#define MOST_REGIONS 64

typedef struct scenario {
    char dir[128];
    uint32_t ndim, connectivity, n;
    uint64_t shape[4], chunk[4], out_chunk[4], halo, items;
    bool covers, out_there, in_place, in_sharded, out_sharded;
    uint64_t bounds[MOST_REGIONS][8];
    uint32_t in[MOST_ITEMS], old[MOST_ITEMS], want[MOST_ITEMS];
    uint64_t objects;
} scenario;

/* --- The loop ------------------------------------------------------------------------------
 */

static uint64_t at_of(const scenario *s, const uint64_t *index)
{
    uint64_t at = 0;
    for (uint32_t d = 0; d < s->ndim; d++)
        at = at * s->shape[d] + index[d];
    return at;
}

static void index_of(const scenario *s, uint64_t at, uint64_t *index)
{
    for (uint32_t d = s->ndim; d-- > 0; at /= s->shape[d])
        index[d] = at % s->shape[d];
}

static bool inside(const scenario *s, const uint64_t *b, const uint64_t *index)
{
    for (uint32_t d = 0; d < s->ndim; d++)
        if (index[d] < b[d] || index[d] >= b[s->ndim + d])
            return false;
    return true;
}

/* Are two items neighbours? */
static bool touch(const scenario *s, uint64_t a, uint64_t b)
{
    uint64_t x[4], y[4], n = 0;
    index_of(s, a, x);
    index_of(s, b, y);
    for (uint32_t d = 0; d < s->ndim; d++) {
        const uint64_t far = x[d] > y[d] ? x[d] - y[d] : y[d] - x[d];
        if (far > 1)
            return false;
        n += far;
    }
    return n > 0 && n <= s->connectivity;
}

/* The neighbours of an item, at most 80. */
static uint32_t neighbours(const scenario *s, uint64_t at, uint64_t *list)
{
    uint64_t here[4], index[4], cases = 1;
    uint32_t n = 0;

    index_of(s, at, here);
    for (uint32_t d = 0; d < s->ndim; d++)
        cases *= 3;
    for (uint64_t c = 0; c < cases; c++) {
        uint64_t rest = c;
        bool in = true;
        for (uint32_t d = 0; d < s->ndim; d++, rest /= 3) {
            index[d] = here[d] + rest % 3 - 1;
            in &= index[d] < s->shape[d];
        }
        if (in && touch(s, at, at_of(s, index)))
            list[n++] = at_of(s, index);
    }
    return n;
}

/* Number what hangs together within the box: mark[at], from 1. */
static void flood(const scenario *s, const uint64_t *box, uint32_t *mark)
{
    static uint64_t stack[MOST_ITEMS];
    uint64_t index[4], list[81];
    uint32_t n = 0;

    memset(mark, 0, s->items * sizeof *mark);
    for (uint64_t i = 0; i < s->items; i++) {
        index_of(s, i, index);
        if (s->in[i] == 0 || mark[i] != 0 || !inside(s, box, index))
            continue;
        uint64_t top = 0;
        mark[i] = ++n;
        stack[top++] = i;
        while (top > 0) {
            const uint32_t m = neighbours(s, stack[--top], list);
            for (uint32_t k = 0; k < m; k++) {
                index_of(s, list[k], index);
                if (s->in[list[k]] == 0 || mark[list[k]] != 0 || !inside(s, box, index))
                    continue;
                mark[list[k]] = n;
                stack[top++] = list[k];
            }
        }
    }
}

static uint64_t between[MOST_ITEMS]; /* (region + 1) << 32 | label */
static bool written[MOST_ITEMS];

static void gather(const scenario *s)
{
    static uint32_t mark[MOST_ITEMS], number[MOST_ITEMS];
    uint64_t index[4], read[8];

    memset(between, 0, sizeof between);
    memset(written, 0, sizeof written);
    for (uint32_t k = 0; k < s->n; k++) {
        uint32_t n = 0;
        memset(number, 0, sizeof number);
        for (uint32_t d = 0; d < s->ndim; d++) {
            const uint64_t from = s->bounds[k][d], to = s->bounds[k][s->ndim + d];
            read[d] = from > s->halo ? from - s->halo : 0;
            read[s->ndim + d] = to + s->halo < s->shape[d] ? to + s->halo : s->shape[d];
        }
        flood(s, read, mark);
        for (uint64_t i = 0; i < s->items; i++) {
            index_of(s, i, index);
            if (!inside(s, s->bounds[k], index))
                continue;
            written[i] = true;
            if (mark[i] == 0)
                continue;
            if (number[mark[i] - 1] == 0)
                number[mark[i] - 1] = ++n;
            between[i] = ((uint64_t)k + 1) << 32 | number[mark[i] - 1];
        }
    }
}

static uint64_t ids[MOST_ITEMS];
static uint32_t n_ids, parent[MOST_ITEMS];

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t place_of(uint64_t id)
{
    const uint64_t *p = bsearch(&id, ids, n_ids, sizeof id, compare);
    return (uint32_t)(p - ids);
}

static uint32_t root_of(uint32_t i)
{
    while (parent[i] != i)
        i = parent[i];
    return i;
}

static void list_ids(const scenario *s)
{
    static uint64_t all[MOST_ITEMS];

    memcpy(all, between, sizeof all);
    qsort(all, s->items, sizeof *all, compare);
    n_ids = 0;
    for (uint64_t i = 0; i < s->items; i++)
        if (all[i] != 0 && (n_ids == 0 || ids[n_ids - 1] != all[i])) {
            parent[n_ids] = n_ids;
            ids[n_ids++] = all[i];
        }
}

static void expect(scenario *s)
{
    static uint32_t number[MOST_ITEMS];
    uint64_t list[81];
    uint32_t base = 0;

    gather(s);
    list_ids(s);
    for (uint64_t i = 0; i < s->items; i++) {
        if (!written[i] && s->out_there && s->old[i] > base)
            base = s->old[i];
        const uint32_t m = between[i] == 0 ? 0 : neighbours(s, i, list);
        for (uint32_t k = 0; k < m; k++) {
            if (between[list[k]] == 0 || (between[list[k]] ^ between[i]) >> 32 == 0)
                continue;
            const uint32_t a = root_of(place_of(between[i]));
            const uint32_t b = root_of(place_of(between[list[k]]));
            parent[a < b ? b : a] = a < b ? a : b;
        }
    }
    s->objects = 0;
    for (uint32_t i = 0; i < n_ids; i++)
        number[i] = root_of(i) == i ? base + (uint32_t)++s->objects : number[root_of(i)];
    for (uint64_t i = 0; i < s->items; i++)
        s->want[i] = !written[i]       ? (s->out_there ? s->old[i] : 0)
                     : between[i] == 0 ? 0
                                       : number[place_of(between[i])];
}

/* Where regions cover all, the same parts as one flood of the whole, whatever their numbers. */
static void check_flood(const scenario *s)
{
    static uint32_t mark[MOST_ITEMS], is[MOST_ITEMS + 1];
    uint64_t box[8] = {0}, n = 0;

    memcpy(box + s->ndim, s->shape, s->ndim * sizeof *box);
    flood(s, box, mark);
    memset(is, 0, sizeof is);
    for (uint64_t i = 0; i < s->items; i++) {
        if ((mark[i] == 0) != (s->want[i] == 0)) {
            test_failed(__FILE__, __LINE__, "background differs");
            return;
        }
        n = mark[i] > n ? mark[i] : n;
        if (mark[i] != 0 && is[mark[i]] == 0)
            is[mark[i]] = s->want[i];
        if (mark[i] != 0 && is[mark[i]] != s->want[i]) {
            test_failed(__FILE__, __LINE__, "objects differ");
            return;
        }
    }
    CHECK_U64(s->objects, n);
}

/* --- Random cases ---------------------------------------------------------------------------
 */

static void cover_all(scenario *s)
{
    uint64_t step[4], at[4] = {0};

    for (uint32_t d = 0; d < s->ndim; d++) {
        const uint64_t least = s->ndim == 1 ? 20 : s->ndim == 2 ? 7 : 4;
        step[d] = least + rng(s->shape[d]);
    }
    for (bool more = true; more && s->n < MOST_REGIONS;) {
        uint64_t *b = s->bounds[s->n++];
        for (uint32_t d = 0; d < s->ndim; d++) {
            const uint64_t end = at[d] + step[d] + rng(3);
            b[d] = at[d];
            b[s->ndim + d] = end < s->shape[d] ? end : s->shape[d];
        }
        more = false;
        for (uint32_t d = s->ndim; d-- > 0 && !more;) {
            at[d] += step[d];
            more = at[d] < s->shape[d];
            at[d] = more ? at[d] : 0;
        }
    }
}

static void random_scenario(scenario *s)
{
    static int n;
    memset(s, 0, sizeof *s);
    (void)snprintf(s->dir, sizeof s->dir, "%s/%d", root, n++);
    s->ndim = 1 + (uint32_t)rng(4);
    const uint64_t most = s->ndim == 1 ? 300 : s->ndim == 2 ? 40 : s->ndim == 3 ? 12 : 7;
    const uint64_t density = 2 + rng(7);
    s->connectivity = 1 + (uint32_t)rng(s->ndim);
    s->halo = rng(4);
    s->items = 1;
    s->in_place = rng(4) == 0;
    s->out_there = s->in_place || rng(2);
    s->in_sharded = rng(2);
    s->out_sharded = s->in_place ? s->in_sharded : rng(2);
    for (uint32_t d = 0; d < s->ndim; d++) {
        s->shape[d] = 1 + rng(most);
        s->chunk[d] = 1 + rng(9);
        s->out_chunk[d] = s->in_place ? s->chunk[d] : 1 + rng(9);
        s->items *= s->shape[d];
    }
    for (uint64_t i = 0; i < s->items; i++) {
        s->in[i] = rng(10) < density ? 1 + (uint32_t)rng(99) : 0;
        s->old[i] = s->in_place ? s->in[i] : rng(3) ? 0 : (uint32_t)rng(5000);
    }
    s->covers = rng(2);
    if (s->covers)
        cover_all(s);
    else
        for (s->n = 0; s->n < 1 + rng(12); s->n++)
            for (uint32_t d = 0; d < s->ndim; d++) {
                uint64_t *b = s->bounds[s->n];
                b[d] = rng(s->shape[d]);
                b[s->ndim + d] = b[d] + 1 + rng(s->shape[d] - b[d]);
            }
    expect(s);
}

/* --- Arrays and runs -------------------------------------------------------------------------
 */

static void path_of(const scenario *s, const char *name, char *path)
{
    (void)snprintf(path, 200, "%s/%s", s->dir, name);
}

static tg_status make_array(const scenario *s, const char *name, const uint64_t *chunk,
                            bool sharded, const uint32_t *items, tg_error *err)
{
    static const char *const names[] = {"w", "z", "y", "x"};
    static const uint64_t zero[4];
    uint64_t shard[4];
    const tg_array_options ao = {.size = sizeof ao,
                                 .dtype = {TG_DT_UINT, 4},
                                 .ndim = s->ndim,
                                 .shape = s->shape,
                                 .chunk = chunk,
                                 .shard = sharded ? shard : NULL,
                                 .dimension_names = names + 4 - s->ndim};
    const tg_store_options so = {.size = sizeof so, .mode = TG_STORE_OPEN_OR_CREATE};
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    char path[200];

    for (uint32_t d = 0; d < s->ndim; d++)
        shard[d] = 2 * chunk[d];
    path_of(s, name, path);
    TG_TRY(tg_store_open(path, &so, &store, NULL, err));
    TG_TRY(tg_array_create(store, "", &ao, &a, NULL, err));
    return tg_array_write(a, zero, s->shape, items, NULL, NULL, err);
}

static void write_rois(const scenario *s)
{
    static const char *const names[] = {"\"w\",", "\"z\",", "\"y\",", "\"x\""};
    char path[200];

    path_of(s, "rois.json", path);
    FILE *f = fopen(path, "w");
    REQUIRE(f != NULL);
    (void)fprintf(f, "{\"axes\":[");
    for (uint32_t d = 4 - s->ndim; d < 4; d++)
        (void)fprintf(f, "%s", names[d]);
    (void)fprintf(f, "],\"unit\":\"px\",\"rois\":[");
    for (uint32_t k = 0; k < s->n; k++) {
        (void)fprintf(f, "%s{\"box\":[", k == 0 ? "" : ",");
        for (uint32_t d = 0; d < s->ndim; d++)
            (void)fprintf(f, "%s[%" PRIu64 ",%" PRIu64 "]", d == 0 ? "" : ",", s->bounds[k][d],
                          s->bounds[k][s->ndim + d]);
        (void)fprintf(f, "]}");
    }
    (void)fprintf(f, "]}");
    REQUIRE(fclose(f) == 0);
}

static void make_all(const scenario *s)
{
    tg_error err = {0};

    REQUIRE(mkdir(s->dir, 0777) == 0);
    write_rois(s);
    REQUIRE_OK(make_array(s, "in.zarr", s->chunk, s->in_sharded, s->in, &err));
    if (!s->in_place && s->out_there)
        REQUIRE_OK(make_array(s, "out.zarr", s->out_chunk, s->out_sharded, s->old, &err));
}

static tg_status run(const scenario *s, uint32_t threads, tg_apply_report *r, tg_error *err)
{
    const tg_runtime_options ro = {
        .size = sizeof ro, .threads = threads, .memory_bytes = 16 << 20};
    const tg_store_options so = {.size = sizeof so, .mode = TG_STORE_OPEN_OR_CREATE};
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    TG_AUTO_PTR(tg_store) in = NULL;
    TG_AUTO_PTR(tg_store) out = NULL;
    char op[64], path[200], rois[200];

    TG_TRY(tg_runtime_new(&ro, &rt, err));
    path_of(s, "in.zarr", path);
    TG_TRY(tg_store_open(path, &so, &in, NULL, err));
    path_of(s, "out.zarr", path);
    if (!s->in_place)
        TG_TRY(tg_store_open(path, &so, &out, NULL, err));
    path_of(s, "rois.json", rois);
    (void)snprintf(op, sizeof op, "label:connectivity=%u", s->connectivity);
    tg_apply_options o = {.size = sizeof o,
                          .in_store = in,
                          .out_store = out,
                          .in_place = s->in_place,
                          .kind = 'o',
                          .function = op,
                          .rois = rois,
                          .policy = "labels",
                          .commit_interval_ms = 20,
                          .n_halo = s->ndim};
    for (uint32_t d = 0; d < s->ndim; d++)
        o.halo[d] = s->halo;
    tg_status st = tg_apply(rt, &o, r, NULL, err);
    CHECK_U64(tg_runtime_memory_used(rt), 0);
    return st;
}

static void check_result(const scenario *s)
{
    static uint32_t got[MOST_ITEMS];
    static const uint64_t zero[4];
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_error err = {0};
    char path[200], m[200];

    path_of(s, s->in_place ? "in.zarr" : "out.zarr", path);
    REQUIRE_OK(tg_store_open(path, NULL, &store, NULL, &err));
    REQUIRE_OK(tg_array_open(store, "", &a, NULL, &err));
    REQUIRE_OK(tg_array_read(a, zero, s->shape, got, NULL, NULL, &err));
    for (uint64_t i = 0; i < s->items; i++)
        if (got[i] != s->want[i]) {
            (void)snprintf(m, sizeof m, "item %" PRIu64 " is %u, want %u (%u-d, %u regions)", i,
                           got[i], s->want[i], s->ndim, s->n);
            test_failed(__FILE__, __LINE__, m);
            return;
        }
    (void)strcat(path, ".tidegate");
    CHECK(access(path, F_OK) != 0); /* nothing is left */
}

/* In a process of its own: 0, or -9 where it was killed at the n-th crash point. */
static int run_child(const scenario *s, uint32_t threads, unsigned crash_at)
{
    static tg_apply_report r;
    char text[16];
    int status = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        tg_error err = {0};
        r.size = sizeof r;
        (void)snprintf(text, sizeof text, "%u", crash_at);
        (void)setenv("TG_CRASH_AT", text, 1);
        const tg_status st = run(s, threads, &r, &err);
        if (st != TG_OK)
            (void)fprintf(stderr, "run: %s\n", err.msg);
        _exit(st != TG_OK || test_failures > 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void remove_tree(const char *path)
{
    char command[256];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", path);
    CHECK(system(command) == 0);
}

static struct {
    unsigned rank[5], covers, there, in_place, stitched, killed;
} seen;

static void random_labels(void)
{
    static scenario s;
    const char *text = getenv("TG_LABELS_PLANS");
    const uint64_t n = text == NULL ? 60 : strtoull(text, NULL, 10);
    char row[64];

    for (uint64_t seed = 1; seed <= n && test_failures == 0; seed++) {
        (void)snprintf(row, sizeof row, "seed %" PRIu64, seed);
        test_row = row;
        state = seed * 0x9e3779b97f4a7c15u + 1;
        random_scenario(&s);
        make_all(&s);
        if (s.covers)
            check_flood(&s);
        CHECK(run_child(&s, 1 + (uint32_t)(seed % 4), 0) == 0);
        check_result(&s);
        seen.rank[s.ndim]++;
        seen.covers += s.covers;
        seen.there += s.out_there && !s.in_place;
        seen.in_place += s.in_place;
        seen.stitched += s.objects < n_ids;
        remove_tree(s.dir);
    }
    test_row = "";
    (void)printf("ranks %u %u %u %u, cover all %u, there %u, in place %u, stitched %u\n",
                 seen.rank[1], seen.rank[2], seen.rank[3], seen.rank[4], seen.covers,
                 seen.there, seen.in_place, seen.stitched);
    CHECK(n < 60 || (seen.rank[1] && seen.rank[2] && seen.rank[3] && seen.rank[4] &&
                     seen.covers && seen.there && seen.in_place && seen.stitched));
}

static void one_sweep(uint64_t seed)
{
    static scenario s;
    char row[64];

    for (unsigned at = 1; at < 400 && test_failures == 0; at++) {
        (void)snprintf(row, sizeof row, "seed %" PRIu64 ", crash point %u", seed, at);
        test_row = row;
        state = seed * 0x9e3779b97f4a7c15u + 1;
        random_scenario(&s);
        make_all(&s);
        const int how = run_child(&s, 2, at);
        CHECK(how == 0 || how == -SIGKILL);
        if (how == -SIGKILL) {
            seen.killed++;
            CHECK(run_child(&s, 3, 0) == 0);
        }
        check_result(&s);
        remove_tree(s.dir);
        if (how == 0)
            break;
    }
    test_row = "";
}

static void crash_points(void)
{
    for (uint64_t seed = 3; seed < 6; seed++)
        one_sweep(seed);
    (void)printf("killed %u times\n", seen.killed);
    CHECK(seen.killed > 50);
}

static const struct test tests[] = {{"random_labels", random_labels},
                                    {"crash_points", crash_points}};

__attribute__((constructor)) static void begin(void)
{
    /* Nothing here asks what a sync does; where memory is, it costs nothing. */
    (void)snprintf(root, sizeof root, "/dev/shm/tg-labels-XXXXXX");
    if (mkdtemp(root) != NULL)
        return;
    (void)snprintf(root, sizeof root, "/tmp/tg-labels-XXXXXX");
    if (mkdtemp(root) == NULL)
        abort();
}
static pid_t self;
__attribute__((constructor)) static void note_self(void)
{
    self = getpid();
}
__attribute__((destructor)) static void end(void)
{
    if (getpid() == self)
        remove_tree(root);
}

TEST_MAIN(tests)
