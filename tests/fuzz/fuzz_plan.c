/* fuzz_plan.c - any bytes as a plan's file: a refusal, or a plan of which all can be asked. An
 * odd first byte has sizes and sums made right first, so that what they guard is tried. */
#include "base/crc32c.h"
#include "region/plan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 16, TABLE = 64, SECTIONS = 28, MAX_JSON = 4096, MOST_ASKED = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

/* docs/formats/plan.md, once more. */
static void make_right(uint8_t *file, size_t size)
{
    uint32_t json = 0;
    uint64_t bytes = size;

    if (size < TABLE)
        return;
    memcpy(file, "TGRPLAN\n\2\0\0", 11);
    memcpy(file + 16, &bytes, sizeof bytes);
    memcpy(&json, file + 24, sizeof json);
    const size_t first = (TABLE + (size_t)SECTIONS * 16 + json + 63) / 64 * 64;
    if (json > MAX_JSON || first > size)
        return;
    put32(file + 40, tg_crc32c(0, file + first, size - first));
    put32(file + 44, 0);
    put32(file + 44, tg_crc32c(0, file, first));
}

static void want(bool holds)
{
    if (!holds)
        abort();
}

static void ask_region(const tg_plan *p, uint64_t k)
{
    const tg_plan_link *links = NULL;
    const uint32_t *list = NULL;
    tg_plan_region r;
    tg_box piece;
    tg_roi_outlines o;
    uint8_t mask[64];

    tg_plan_region_get(p, k, &r);
    want(r.name == NULL || strlen(r.name) < MOST);
    for (uint32_t i = 0; i < r.n_pieces; i++)
        tg_plan_piece(p, k, i, &piece);
    tg_plan_outlines(p, k, &o);
    tg_roi_outline_mask(&o, k, 0, 0, 8, 8, mask);
    for (size_t i = 0; i < sizeof mask; i++)
        want(mask[i] <= 1);
    const uint32_t n = tg_plan_region_units(p, k, &links);
    for (uint32_t i = 0; i < n; i++)
        want(links[i].at < tg_plan_n_units(p) &&
             tg_plan_unit_regions(p, links[i].at)[links[i].rank] == k);
    const uint32_t n_sources = tg_plan_region_sources(p, k, &list);
    for (uint32_t i = 0; i < n_sources; i++)
        want(list[i] < tg_plan_n_sources(p));
    const uint32_t n_after = tg_plan_after(p, k, &list);
    for (uint32_t i = 0; i < n_after; i++)
        want(list[i] < tg_plan_n_regions(p) && tg_plan_n_before(p, list[i]) > 0);
}

static void ask_unit(const tg_plan *p, uint64_t u)
{
    tg_plan_unit unit;

    tg_plan_unit_get(p, u, &unit);
    want(unit.part < tg_plan_get_facts(p)->parts);
    (void)tg_plan_unit_box(p, u);
    const uint32_t *regions = tg_plan_unit_regions(p, u), *writers = tg_plan_unit_writers(p, u);
    for (uint32_t i = 0; i < unit.n_writing; i++)
        want(regions[i] < tg_plan_n_regions(p));
    for (uint32_t i = 0; i < unit.n_inner; i++)
        want(writers[i] <= unit.n_writing && tg_plan_unit_coverage(p, u, i) <= TG_COVER_FULL);
}

static void ask(const tg_plan *p)
{
    const uint32_t parts = tg_plan_get_facts(p)->parts;
    uint64_t first, end, index[TG_MAX_NDIM], last = 0;

    for (uint64_t k = 0; k < tg_plan_n_regions(p) && k < MOST_ASKED; k++)
        ask_region(p, k);
    for (uint64_t u = 0; u < tg_plan_n_units(p) && u < MOST_ASKED; u++)
        ask_unit(p, u);
    for (uint64_t s = 0; s < tg_plan_n_sources(p) && s < MOST_ASKED; s++) {
        tg_plan_source_index(p, s, index);
        const uint32_t *readers = tg_plan_source_readers(p, s);
        for (uint32_t i = 0; i < tg_plan_source_n_inner(p); i++)
            want(readers[i] <= tg_plan_n_regions(p));
    }
    for (uint32_t i = 0; i < parts && i < MOST_ASKED; i++) {
        tg_plan_part_units(p, i, &first, &end);
        want(first <= end && end <= tg_plan_n_units(p));
        tg_plan_part_regions(p, i, &first, &end);
        want(first == last && first <= end && end <= tg_plan_n_issued(p));
        last = end;
    }
    for (uint64_t i = 0; i < tg_plan_n_issued(p) && i < MOST_ASKED; i++)
        want(tg_plan_issued(p, i) < tg_plan_n_regions(p));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64] = "/tmp/tg-fuzz-plan-XXXXXX";
    static int fd = -1;
    static uint8_t file[MOST];
    TG_AUTO_PTR(tg_plan) p = NULL;

    if (fd < 0) {
        if ((fd = mkstemp(path)) < 0 || unlink(path) != 0)
            abort();
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    size = size > MOST ? MOST : size;
    if (size > 0)
        memcpy(file, data, size);
    if (size > 0 && (file[0] & 1) != 0)
        make_right(file, size);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, file, size, 0) != (ssize_t)size)
        abort();
    tg_status st = tg_plan_open(&p, AT_FDCWD, path, 1 << 20, NULL, NULL);
    if (st == TG_OK)
        ask(p);
    else
        want(p == NULL && (st == TG_CORRUPT || st == TG_UNSUPPORTED || st == TG_NO_MEMORY));
    return 0;
}
