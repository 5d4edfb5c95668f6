/* Sorting beyond memory, components of graphs beyond memory, against plain arrays. */
#include "check.h"
#include "region/stitch.h"

#include <stdlib.h>
#include <unistd.h>

static char root[64];
static tg_folder folder;
static uint64_t state = 88172645463325252u;

static uint64_t rng(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static int compare(const void *x, const void *y)
{
    const tg_pair *a = x, *b = y;
    return a->a != b->a ? (a->a < b->a ? -1 : 1) : a->b != b->b ? (a->b < b->b ? -1 : 1) : 0;
}

#define MOST 200000

static void sorts(void)
{
    static tg_pair pairs[MOST];
    static const size_t sizes[] = {0, 1, 2, 100, 832, 833, 5000, 20000, MOST};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t spread = 3; spread < 1u << 30; spread *= 300) {
            TG_AUTO_PTR(tg_sorter) s = NULL;
            tg_error err = {0};
            size_t n = sizes[i], want = 0;
            tg_pair got;
            bool have = true;

            REQUIRE_OK(tg_sorter_new(&s, &folder, TG_SORTER_LEAST, &err));
            for (size_t k = 0; k < n; k++)
                pairs[k] = (tg_pair){rng(spread) << 33, rng(spread)};
            for (size_t k = 0; k < n;) {
                size_t m = 1 + rng(999);
                m = m < n - k ? m : n - k;
                REQUIRE_OK(tg_sorter_add(s, pairs + k, m, &err));
                k += m;
            }
            qsort(pairs, n, sizeof *pairs, compare);
            for (int twice = 0; twice < 2; twice++) {
                REQUIRE_OK(tg_sorter_begin(s, &err));
                for (want = 0;;) {
                    REQUIRE_OK(tg_sorter_next(s, &got, &have, &err));
                    if (!have)
                        break;
                    if (want >= n || compare(&got, &pairs[want]) != 0) {
                        test_failed(__FILE__, __LINE__, "another pair");
                        break;
                    }
                    while (want < n && compare(&got, &pairs[want]) == 0)
                        want++;
                }
                CHECK_U64(want, n);
            }
            CHECK_STATUS(tg_sorter_add(s, pairs, 1, &err), TG_INVALID);
            CHECK(n == 832 || n == 833 ||
                  (tg_sorter_spilled(s) > 0) == (n > 833 && spread > 3));
        }
}

static uint32_t parent[MOST];

static uint32_t root_of(uint32_t i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* kind 0: random; 1: one long chain, in a random order; 2: no edge; 3: a star. */
static void one_graph(uint32_t n, uint32_t edges, int kind, uint64_t base)
{
    TG_AUTO_PTR(tg_sorter) objects = NULL;
    TG_AUTO_PTR(tg_sorter) touching = NULL;
    TG_AUTO_PTR(tg_numbers) numbers = NULL;
    static tg_number_cache cache;
    static uint32_t order[MOST];
    static uint64_t want[MOST];
    tg_error err = {0};
    uint64_t count = 0, found = 0, spilled = 0;

    cache = (tg_number_cache){0};
    REQUIRE_OK(tg_sorter_new(&objects, &folder, TG_SORTER_LEAST, &err));
    REQUIRE_OK(tg_sorter_new(&touching, &folder, TG_SORTER_LEAST, &err));
    for (uint32_t i = 0; i < n; i++)
        parent[i] = order[i] = i;
    for (uint32_t i = n; i-- > 1;) {
        const uint32_t j = (uint32_t)rng(i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (uint32_t i = 0; i < n; i++) {
        const tg_pair p = {((uint64_t)order[i] + 1) << 30, 0};
        REQUIRE_OK(tg_sorter_add(objects, &p, 1, &err));
    }
    for (uint32_t i = 0; i < edges && kind != 2; i++) {
        const uint32_t x = kind == 0 ? (uint32_t)rng(n) : kind == 1 ? order[i] : n / 2;
        const uint32_t y = kind == 0 ? (uint32_t)rng(n) : kind == 1 ? order[i + 1] : i;
        const tg_pair p = {((uint64_t)x + 1) << 30, ((uint64_t)y + 1) << 30};
        REQUIRE_OK(tg_sorter_add(touching, &p, 1, &err));
        const uint32_t a = root_of(x), b = root_of(y);
        parent[a < b ? b : a] = a < b ? a : b;
    }
    for (uint32_t i = 0; i < n; i++)
        want[i] = root_of(i) == i ? base + ++count : want[root_of(i)];
    REQUIRE_OK(tg_stitch(&numbers, objects, touching, &folder, TG_SORTER_LEAST, base, &found,
                         &spilled, &err));
    CHECK_U64(found, count);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = k % 2 ? k : (uint32_t)rng(n);
        uint64_t got = 0;
        REQUIRE_OK(tg_number_of(numbers, &cache, ((uint64_t)i + 1) << 30, &got, &err));
        if (got != want[i]) {
            CHECK_U64(got, want[i]);
            break;
        }
    }
    uint64_t got;
    CHECK_STATUS(tg_number_of(numbers, &cache, 12345, &got, &err), TG_CORRUPT);
    CHECK_STATUS(tg_number_of(numbers, &cache, UINT64_MAX, &got, &err), TG_CORRUPT);
}

static void graphs(void)
{
    one_graph(1, 0, 2, 0);
    one_graph(2, 1, 1, 7);
    for (uint32_t n = 10; n <= 20000; n *= 5) {
        one_graph(n, n / 2, 0, 0);
        one_graph(n, 2 * n, 0, 1000);
        one_graph(n, n - 1, 1, 0);
        one_graph(n, n, 3, 0);
        one_graph(n, 0, 2, 5);
    }
    one_graph(MOST, MOST / 3, 0, 0);
}

static const struct test tests[] = {{"sorts", sorts}, {"graphs", graphs}};

__attribute__((constructor)) static void begin(void)
{
    tg_error err = {0};
    (void)snprintf(root, sizeof root, "/tmp/tg-stitch-XXXXXX");
    if (mkdtemp(root) == NULL || tg_folder_open(&folder, root, "", true, &err) != TG_OK)
        abort();
}
__attribute__((destructor)) static void end(void)
{
    const bool removed = tg_folder_remove(&folder, NULL) == TG_OK; /* it is empty */
    tg_folder_close(&folder);
    if (!removed || rmdir(root) != 0)
        abort();
}

TEST_MAIN(tests)
