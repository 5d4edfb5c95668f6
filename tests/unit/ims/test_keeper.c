#include "check.h"
#include "exec/budget.h"
#include "exec/exec.h"
#include "ims/keeper.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define PIXELS 3000
#define IONS   500
#define JOB    0x1234u

typedef struct made {
    uint32_t pixels[PIXELS];
    float values[TG_N_IMAGES][PIXELS];
    tg_touched t;
} made;

/* Images of ion i: pixels in an order that does not rise, some zeros, one image missing. */
static void make(made *m, uint32_t i)
{
    m->t = (tg_touched){.pixels = m->pixels};
    const uint32_t n = 1 + (i * 37) % (PIXELS - 1);
    for (uint32_t k = 0; k < n; k++)
        m->pixels[k] = (k * 1009 + i) % PIXELS;
    m->t.n = n;
    for (int image = 0; image < TG_N_IMAGES; image++) {
        for (uint32_t k = 0; k < n; k++)
            m->values[image][k] = k % 3 == 1 ? 0 : (float)(k + i) * (float)(image + 1) + .125f;
        m->t.values[image] = image == 2 || (image == 3 && i % 2 == 0) ? NULL : m->values[image];
    }
}

static uint64_t unlike(const made *m, const tg_sparse *s)
{
    uint64_t bad = 0;
    float box[PIXELS];
    for (int image = 0; image < TG_N_IMAGES; image++) {
        uint32_t n = 0;
        memset(box, 0, sizeof box);
        for (uint32_t k = 0; k < s->n[image]; k++) {
            bad += k > 0 && s->pixels[image][k] <= s->pixels[image][k - 1];
            box[s->pixels[image][k]] = s->values[image][k];
        }
        for (size_t k = 0; m->t.values[image] != NULL && k < m->t.n; k++) {
            bad += box[m->pixels[k]] != m->values[image][k];
            n += m->values[image][k] != 0;
        }
        bad += n != s->n[image];
    }
    return bad;
}

static void name(uint64_t hash[2], uint32_t i)
{
    hash[0] = (uint64_t)i * 0x9e3779b97f4a7c15u;
    hash[1] = ~hash[0];
}

typedef struct bench {
    char folder[64];
    tg_ims_side side;
    tg_budget *budget;
    tg_keeper *keeper;
    tg_image_coder *in[2], *out;
    tg_image_ref refs[IONS];
    atomic_uint next;
} bench;

static void open_bench(bench *b, uint64_t room)
{
    *b = (bench){.folder = "/tmp/tg-keeper-XXXXXX"};
    if (mkdtemp(b->folder) == NULL)
        abort();
    REQUIRE_OK(tg_ims_side_open(&b->side, b->folder, NULL));
    REQUIRE_OK(tg_budget_new(&b->budget, (uint64_t)64 << 20, NULL));
    REQUIRE_OK(tg_keeper_new(&b->keeper, &b->side, JOB, PIXELS, room, b->budget, NULL));
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(tg_image_coder_new(&b->in[i], PIXELS, true, NULL));
    REQUIRE_OK(tg_image_coder_new(&b->out, PIXELS, false, NULL));
}

static void close_bench(bench *b)
{
    tg_keeper_free(b->keeper);
    CHECK_U64(tg_budget_used(b->budget), 0);
    for (int i = 0; i < 2; i++)
        tg_image_coder_free(b->in[i]);
    tg_image_coder_free(b->out);
    CHECK(tg_ims_side_remove_all(&b->side, TG_SPILL_NAME, NULL) == TG_OK);
    tg_ims_side_close(&b->side);
    CHECK(rmdir(b->folder) == 0);
    tg_budget_free(b->budget);
}

static tg_status add_some(void *user, uint64_t lane, uint32_t thread, tg_error *err)
{
    bench *b = user;
    made *m = malloc(sizeof *m);
    tg_status st = m == NULL ? TG_NO_MEMORY : TG_OK;
    (void)thread;
    for (uint32_t i; st == TG_OK && (i = atomic_fetch_add(&b->next, 1)) < IONS;) {
        uint64_t hash[2];
        tg_bytes record;
        make(m, i);
        name(hash, i);
        st = tg_image_encode(b->in[lane], &m->t, &record, err);
        if (st == TG_OK)
            st = tg_keeper_add(b->keeper, hash, record, &b->refs[i], err);
    }
    free(m);
    return st;
}

static void add_all(bench *b)
{
    tg_runtime *rt = NULL;
    REQUIRE_OK(tg_runtime_new(
        &(tg_runtime_options){.size = sizeof(tg_runtime_options), .threads = 2}, &rt, NULL));
    CHECK(tg_pool_each(tg_runtime_pool(rt), 2, add_some, b, NULL, NULL) == TG_OK);
    tg_runtime_free(rt);
}

static void references_read_what_was_added(void)
{
    bench *b = malloc(sizeof *b);
    made *m = malloc(sizeof *m);
    if (b == NULL || m == NULL)
        abort();
    const uint64_t room = tg_keeper_least_bytes(PIXELS);
    open_bench(b, room);
    add_all(b);
    CHECK_U64(tg_budget_peak(b->budget), room); /* nothing beyond, whatever was added */
    CHECK(tg_keeper_blocks(b->keeper) > 5);
    CHECK(tg_keeper_spilled(b->keeper) > 5 * room / 4);
    uint64_t bad = 0;
    for (uint32_t i = 0; i < IONS; i++) {
        tg_buf into = tg_image_coder_room(b->out);
        tg_sparse s;
        make(m, i);
        REQUIRE_OK(tg_keeper_get(b->keeper, &b->refs[i], into.data, into.len, NULL));
        REQUIRE_OK(tg_image_decode(b->out, (tg_bytes){into.data, b->refs[i].len}, &s, NULL));
        bad += unlike(m, &s);
    }
    CHECK_U64(bad, 0);
    close_bench(b);
    free(m);
    free(b);
}

static void find_all(bench *b, made *m, uint64_t want, uint64_t *damaged)
{
    tg_kept *kept = NULL;
    uint64_t bad = 0, found = 0;
    *damaged = 0;
    REQUIRE_OK(tg_kept_open(&kept, &b->side, JOB, PIXELS, b->budget, NULL));
    CHECK_U64(tg_kept_count(kept), want);
    for (uint32_t i = 0; i < IONS; i++) {
        uint64_t hash[2];
        tg_sparse s;
        name(hash, i);
        tg_status st = tg_kept_get(kept, hash, b->out, &s, NULL);
        make(m, i);
        if (st == TG_OK) {
            found++;
            bad += unlike(m, &s);
        } else if (st == TG_CORRUPT) {
            ++*damaged;
        } else {
            CHECK_STATUS(st, TG_NOT_FOUND);
        }
    }
    CHECK_U64(bad, 0);
    CHECK_U64(found + *damaged, want);
    tg_kept_free(kept);
}

/* Change the byte at `at` of a block, or cut it there. */
static void harm(const bench *b, bool cut, off_t at)
{
    char path[512] = "";
    (void)snprintf(path, sizeof path, "%s/" TG_SPILL_NAME, b->folder);
    DIR *d = opendir(path);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.')
            (void)snprintf(path, sizeof path, "%s/" TG_SPILL_NAME "/%s", b->folder, e->d_name);
    if (d != NULL)
        (void)closedir(d);
    int fd = open(path, O_RDWR);
    uint8_t byte = 0;
    REQUIRE(fd >= 0);
    if (cut) {
        CHECK(ftruncate(fd, at) == 0);
    } else {
        CHECK(pread(fd, &byte, 1, at) == 1);
        byte ^= 0x10;
        CHECK(pwrite(fd, &byte, 1, at) == 1);
    }
    (void)close(fd);
}

static void whole_blocks_of_the_job_are_found(void)
{
    bench *b = malloc(sizeof *b);
    made *m = malloc(sizeof *m);
    tg_kept *kept = NULL;
    uint64_t damaged;
    if (b == NULL || m == NULL)
        abort();
    open_bench(b, tg_keeper_least_bytes(PIXELS));
    add_all(b);
    CHECK(tg_keeper_flush(b->keeper, NULL) == TG_OK);
    find_all(b, m, IONS, &damaged);
    CHECK_U64(damaged, 0);
    harm(b, false, 100); /* in the first record */
    find_all(b, m, IONS, &damaged);
    CHECK_U64(damaged, 1);
    REQUIRE_OK(tg_kept_open(&kept, &b->side, JOB + 1, PIXELS, b->budget, NULL));
    CHECK_U64(tg_kept_count(kept), 0); /* of another job */
    tg_kept_free(kept);
    REQUIRE_OK(tg_kept_open(&kept, &b->side, JOB, PIXELS + 1, b->budget, NULL));
    CHECK_U64(tg_kept_count(kept), 0);
    tg_kept_free(kept);
    harm(b, true, 4000);
    REQUIRE_OK(tg_kept_open(&kept, &b->side, JOB, PIXELS, b->budget, NULL));
    const uint64_t left = tg_kept_count(kept);
    CHECK(left > 0 && left < IONS);
    tg_kept_free(kept);
    find_all(b, m, left, &damaged);
    CHECK_U64(damaged, 0);
    close_bench(b);
    free(m);
    free(b);
}

static void too_little_room_is_refused(void)
{
    tg_ims_side side = {-1, "/tmp"};
    tg_keeper *k = NULL;
    tg_error err;
    CHECK_STATUS(
        tg_keeper_new(&k, &side, JOB, PIXELS, tg_keeper_least_bytes(PIXELS) - 1, NULL, &err),
        TG_OVER_BUDGET);
}

static const struct test tests[] = {
    {"references_read_what_was_added", references_read_what_was_added},
    {"whole_blocks_of_the_job_are_found", whole_blocks_of_the_job_are_found},
    {"too_little_room_is_refused", too_little_room_is_refused},
};

TEST_MAIN(tests)
