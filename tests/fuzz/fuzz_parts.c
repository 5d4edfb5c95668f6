/* fuzz_parts.c - any bytes as what a part of a plan has left: its journal, its border file, its
 * mark that it is done. The merge refuses it, or takes what is of this plan. The first byte
 * says which, and whether its sums are made right first. */
#include "base/crc32c.h"
#include "region/engine.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST = 1 << 14,
    JOURNAL_HEAD = 24,
    FRAME = 12,
    BORDER_HEAD = 24,
    PARTS = 2,
    REGIONS = 4
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[] = "/tmp/tg-fuzz-parts-XXXXXX";
static tg_folder folder;
static tg_plan *plan;
static uint8_t file[MOST];

/* --- A plan of two parts that share units ---------------------------------------------------
 */

static void make_plan(void)
{
    static const uint64_t bounds[2 * REGIONS] = {0, 6, 4, 9, 8, 13, 2, 16};
    const tg_plan_array a = {.url = "x",
                             .path = "",
                             .dtype = {TG_DT_UINT, 2},
                             .shape = {1, {16}},
                             .chunk = {1, {4}},
                             .shard = {1, {4}}};
    const tg_plan_spec spec = {.n = REGIONS,
                               .bounds = bounds,
                               .facts = {.in = a,
                                         .out = a,
                                         .out_new = true,
                                         .text = "f",
                                         .rois = "r",
                                         .options = "",
                                         .policy = TG_POLICY_MAX,
                                         .parts = PARTS,
                                         .commit_ms = 1,
                                         .out_step = {1},
                                         .scale = {1}}};
    if (tg_plan_make(&plan, &spec, NULL, NULL, NULL) != TG_OK)
        abort();
}

static void remove_root(void)
{
    char command[64];

    tg_plan_free(plan);
    tg_folder_close(&folder);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    if (system(command) != 0) /* NOLINT(cert-env33-c): a name of ours */
        (void)fprintf(stderr, "cannot remove %s\n", root);
}

static void begin(void)
{
    if (plan != NULL)
        return;
    if (mkdtemp(root) == NULL || tg_folder_open(&folder, root, "", true, NULL) != TG_OK)
        abort();
    make_plan();
    (void)atexit(remove_root);
}

static void put_file(const char *name, const void *bytes, size_t n)
{
    int fd = openat(folder.dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || pwrite(fd, bytes, n, 0) != (ssize_t)n || close(fd) != 0)
        abort();
}

/* --- Sums
 * ------------------------------------------------------------------------------------- */

static void put32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

/* docs/formats/journal.md, once more. */
static void right_journal(uint8_t *bytes, size_t size)
{
    static const uint8_t start[16] = {
        'T', 'G', 'J', 'O', 'U', 'R', 'N', 'L', TG_APPLY_JOURNAL_MAJOR};
    uint32_t len;

    if (size < JOURNAL_HEAD)
        return;
    memcpy(bytes, start, sizeof start);
    put32(bytes + 16, TG_APPLY_JOURNAL_KIND);
    put32(bytes + 20, tg_crc32c(0, bytes, 20));
    for (size_t at = JOURNAL_HEAD; size - at >= FRAME; at += FRAME + len) {
        uint8_t place[8] = {0};
        memcpy(&len, bytes + at, sizeof len);
        if (len > size - at - FRAME)
            return;
        put32(place, (uint32_t)at);
        uint32_t sum = tg_crc32c(tg_crc32c(0, place, sizeof place), bytes + at, 8);
        put32(bytes + at + 8, tg_crc32c(sum, bytes + at + FRAME, len));
    }
}

/* src/region/border.h, once more. */
static void right_border(size_t size)
{
    const uint64_t fingerprint = tg_plan_fingerprint(plan);
    uint64_t bytes;

    if (size < BORDER_HEAD)
        return;
    memcpy(file, "TGBORDER\2\0\0\0\0\0\0\0", 16);
    memcpy(file + 16, &fingerprint, sizeof fingerprint);
    for (size_t at = BORDER_HEAD; size - at >= BORDER_HEAD; at += BORDER_HEAD + bytes) {
        put32(file + at + 20, tg_crc32c(0, file + at, 20));
        memcpy(&bytes, file + at + 8, sizeof bytes);
        if (bytes > size - at - BORDER_HEAD)
            return;
    }
}

/* --- Parts that are whole, one of them with what was given ----------------------------------
 */

static void put_done(uint32_t part, uint64_t length)
{
    uint8_t text[16] = {0};
    char name[32];

    memcpy(text, &length, sizeof length);
    put32(text + 12, tg_crc32c(0, text, 12));
    (void)snprintf(name, sizeof name, "done-%u", part);
    put_file(name, text, sizeof text);
}

/* All units that are its own are done, and it has left nothing for the merge. */
static void put_part(uint32_t part)
{
    uint8_t journal[JOURNAL_HEAD + FRAME + 64] = {0};
    char name[32];
    tg_border *b = NULL;
    tg_plan_unit unit;
    uint32_t n = 0;

    for (uint32_t u = 0; u < tg_plan_n_units(plan) && n < 16; u++) {
        tg_plan_unit_get(plan, u, &unit);
        if (unit.part == part && !unit.border)
            put32(journal + JOURNAL_HEAD + FRAME + 4 * n++, u);
    }
    put32(journal + JOURNAL_HEAD, 4 * n);
    journal[JOURNAL_HEAD + 4] = TG_APPLY_DONE;
    right_journal(journal, JOURNAL_HEAD + FRAME + 4 * n);
    tg_commit_journal_name(part, false, name);
    put_file(name, journal, JOURNAL_HEAD + FRAME + 4 * n);
    if (tg_border_new(&b, &folder, part, tg_plan_fingerprint(plan), NULL) != TG_OK)
        abort();
    tg_border_free(b);
    put_done(part, BORDER_HEAD);
}

static void note(void *user, uint32_t region)
{
    (void)user;
    if (region >= REGIONS)
        abort();
}

static void replay(void)
{
    tg_commit_past past;

    if (tg_commit_replay(&folder, plan, 0, false, note, NULL, &past, NULL) != TG_OK)
        return;
    if (past.n_done > tg_plan_n_units(plan))
        abort();
    tg_commit_past_destroy(&past);
}

static void merge(void)
{
    static engine e;

    memset(&e, 0, sizeof e);
    e.o.plan = plan;
    e.o.folder = &folder;
    e.facts = tg_plan_get_facts(plan);
    e.acc.dtype = e.facts->out.dtype;
    if (tg_merge_prepare(&e, NULL) == TG_OK && e.n_fragments > tg_merge_n_fragments(plan))
        abort();
    tg_free(e.fragments);
    tg_free(e.failed_bits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    begin();
    if (size == 0)
        return 0;
    const uint8_t how = data[0];
    size = size - 1 > MOST ? MOST : size - 1;
    memcpy(file, data + 1, size);
    for (uint32_t i = 0; i < PARTS; i++)
        put_part(i);
    switch (how % 4) {
    case 0:
        put_file("done-0", file, size);
        break;
    case 1:
        right_border(size);
        put_file("border-0", file, size);
        put_done(0, size);
        break;
    case 2:
        right_journal(file, size);
        put_file("journal-0", file, size);
        replay();
        break;
    default:
        put_file(size % 2 == 0 ? "journal-0" : "border-0", file, size);
        replay();
        break;
    }
    merge();
    return 0;
}
