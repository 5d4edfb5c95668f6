/* check_recording.c - is every frame that a recording shows the one that its test source made?
 *
 *     check_recording PATH GROUP ARRAY [gaps] [plate:WELL,WELL...:FIELDS:FRAMES]
 *
 * PATH    a store; GROUP: "" or a camera's name; ARRAY: number of the source (its pixels' hash)
 * gaps    slots without a row are allowed, and must be fill value; without it frame i lies at
 *         index i and row i tells of it
 * plate   frames went to the fields of these wells: FRAMES to one after the other, or with 0
 * one to each, in turns
 *
 * Prints "frames N rows M". Exit 0: all of it is true; 1: something is not (named on standard
 * error); 3: there is no such array. It knows the public interface only. */
#include "tidegate/array.h"
#include "tidegate/checksum.h"
#include "tidegate/source.h"
#include "tidegate/store.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ABSENT = 3 };

/* The frame table's columns that the check needs; rows of each. */
typedef struct table {
    uint64_t rows;
    uint64_t *sequence;
    int64_t *index;
    int32_t *well, *field; /* NULL: no plate */
    uint8_t *status;
    uint32_t *crc; /* NULL: recorded without */
} table;

static int wrong(const char *what, uint64_t at, const tg_error *err)
{
    fprintf(stderr, "check_recording: %s (%" PRIu64 ")%s%s\n", what, at,
            err == NULL ? "" : ": ", err == NULL ? "" : err->msg);
    return 1;
}

static void *room(uint64_t n, size_t size)
{
    void *p = calloc(n == 0 ? 1 : (size_t)n, size);
    if (p == NULL)
        abort();
    return p;
}

/* A whole column, or NULL if it is not there. */
static void *read_column(tg_store *store, const char *group, const char *name, size_t size,
                         uint64_t *rows, tg_error *err)
{
    char path[256];
    tg_array *a = NULL;
    tg_array_info info = {.size = sizeof info};
    const uint64_t zero = 0;
    void *items = NULL;

    (void)snprintf(path, sizeof path, "%s%sframes/%s", group, group[0] == '\0' ? "" : "/",
                   name);
    if (tg_array_open(store, path, &a, NULL, err) != TG_OK)
        return NULL;
    if (tg_array_get_info(a, &info, err) == TG_OK && info.dtype.size == size) {
        items = room(info.shape[0], size);
        if (info.shape[0] > 0 &&
            tg_array_read(a, &zero, info.shape, items, NULL, NULL, err) != TG_OK) {
            free(items);
            items = NULL;
        }
        *rows = info.shape[0];
    }
    tg_array_free(a);
    return items;
}

enum { MOST_WELLS = 16 };

/* How frames are spread over images; one image without a plate. */
typedef struct plate {
    char text[256]; /* cut at the separators */
    const char *well[MOST_WELLS];
    uint64_t n_wells, fields, frames;
} plate;

static bool parse_plate(const char *text, plate *p)
{
    (void)snprintf(p->text, sizeof p->text, "%s", text);
    char *wells = p->text + strlen("plate:"), *fields = strchr(wells, ':');
    if (fields == NULL)
        return false;
    *fields++ = '\0';
    char *rest = NULL;
    p->fields = strtoull(fields, &rest, 10);
    p->frames = *rest == ':' ? strtoull(rest + 1, NULL, 10) : 0;
    for (char *w = strtok(wells, ","); w != NULL && p->n_wells < MOST_WELLS;
         w = strtok(NULL, ","))
        p->well[p->n_wells++] = w;
    return p->n_wells > 0 && p->fields > 0;
}

static uint64_t images_of(const plate *p)
{
    return p->n_wells == 0 ? 1 : p->n_wells * p->fields;
}

/* Image and index of the frame that arrived as the n-th. */
static void locate(const plate *p, uint64_t n, uint64_t *image, uint64_t *index)
{
    *image = p->n_wells == 0 ? 0 : p->frames > 0 ? n / p->frames : n % images_of(p);
    *index = p->n_wells == 0 ? n : p->frames > 0 ? n % p->frames : n / images_of(p);
}

/* Columns are published one after the other: the shortest says how many rows there are. */
static bool read_table(tg_store *store, const char *group, bool on_plate, table *t,
                       tg_error *err)
{
    uint64_t n[6] = {0};
    int columns = 3;

    t->sequence = read_column(store, group, "sequence", sizeof *t->sequence, &n[0], err);
    t->index = read_column(store, group, "index", sizeof *t->index, &n[1], err);
    t->status = read_column(store, group, "status", sizeof *t->status, &n[2], err);
    if (t->sequence == NULL || t->index == NULL || t->status == NULL)
        return false;
    if (on_plate) {
        t->well = read_column(store, group, "well", sizeof *t->well, &n[columns++], err);
        t->field = read_column(store, group, "field", sizeof *t->field, &n[columns++], err);
        if (t->well == NULL || t->field == NULL)
            return false;
    }
    t->crc = read_column(store, group, "crc32c", sizeof *t->crc, &n[columns], err);
    columns += t->crc != NULL;
    t->rows = n[0];
    for (int i = 1; i < columns; i++)
        t->rows = n[i] < t->rows ? n[i] : t->rows;
    return true;
}

/* The row of each slot of an image below `frames`; UINT64_MAX: none. False: two for one slot.
 */
static bool rows_of_slots(const table *t, const plate *p, uint64_t image, uint64_t frames,
                          uint64_t *row_of)
{
    for (uint64_t i = 0; i < frames; i++)
        row_of[i] = UINT64_MAX;
    for (uint64_t r = 0; r < t->rows; r++) {
        if (t->index[r] < 0 || (uint64_t)t->index[r] >= frames)
            continue;
        if (t->well != NULL && ((uint64_t)t->well[r] != image / p->fields ||
                                (uint64_t)t->field[r] != image % p->fields))
            continue;
        if (row_of[t->index[r]] != UINT64_MAX)
            return false;
        row_of[t->index[r]] = r;
    }
    return true;
}

static bool is_zero(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static void make_frame(uint8_t *dst, uint32_t array, uint64_t sequence, uint64_t height,
                       uint64_t width, tg_dtype dtype)
{
    for (uint64_t y = 0; y < height; y++)
        for (uint64_t x = 0; x < width; x++, dst += dtype.size)
            tg_source_test_pixel(array, sequence, y, x, width, dtype, dst);
}

/* Is row r that of the frame that arrived as the r-th, whole and in its place? */
static bool is_in_order(const table *t, const plate *p, uint64_t r, uint64_t image, uint64_t i)
{
    uint64_t want_image, want_index;

    locate(p, r, &want_image, &want_index);
    return t->sequence[r] == r && t->status[r] == 0 && want_image == image && want_index == i;
}

static int check_frames(tg_array *a, const tg_array_info *info, const table *t, const plate *p,
                        uint64_t image, uint32_t number, bool gaps, tg_error *err)
{
    const uint64_t frames = info->shape[0];
    const uint64_t start_of[3] = {0}, count[3] = {1, info->shape[1], info->shape[2]};
    const size_t bytes = (size_t)(count[1] * count[2]) * info->dtype.size;
    uint8_t *got = room(bytes, 1), *want = room(bytes, 1);
    uint64_t *row_of = room(frames, sizeof *row_of);
    int rc = rows_of_slots(t, p, image, frames, row_of)
                 ? 0
                 : wrong("two rows for one slot", frames, NULL);

    for (uint64_t i = 0; i < frames && rc == 0; i++) {
        uint64_t start[3] = {i, start_of[1], start_of[2]}, r = row_of[i];
        if (tg_array_read(a, start, count, got, NULL, NULL, err) != TG_OK)
            rc = wrong("frame cannot be read", i, err);
        else if (r == UINT64_MAX && !gaps)
            rc = wrong("frame without a row", i, NULL);
        else if (r == UINT64_MAX && !is_zero(got, bytes))
            rc = wrong("a slot without a row is not fill value", i, NULL);
        if (rc != 0 || r == UINT64_MAX)
            continue;
        if (!gaps && !is_in_order(t, p, r, image, i))
            rc = wrong("row is not the frame's", i, NULL);
        make_frame(want, number, t->sequence[r], count[1], count[2], info->dtype);
        if (memcmp(got, want, bytes) != 0)
            rc = wrong("frame is not what the source made", i, NULL);
        else if (t->crc != NULL && t->crc[r] != tg_crc32c(0, want, bytes))
            rc = wrong("crc32c of the row is not the frame's", i, NULL);
    }
    free(got);
    free(want);
    free(row_of);
    return rc;
}

/* One image, if it is there: its frames are added to *frames. */
static int check_image(tg_store *store, const char *group, const plate *p, uint64_t image,
                       const table *t, uint32_t number, bool gaps, uint64_t *frames)
{
    char path[256];
    tg_array *a = NULL;
    tg_array_info info = {.size = sizeof info};
    tg_error err = {0};
    const char *slash = group[0] == '\0' ? "" : "/";

    (void)snprintf(path, sizeof path, "%s%s0", group, slash);
    if (p->n_wells > 0)
        (void)snprintf(path, sizeof path, "%s%s%s/%" PRIu64 "/0", group, slash,
                       p->well[image / p->fields], image % p->fields);
    tg_status st = tg_array_open(store, path, &a, NULL, &err);
    if (st == TG_NOT_FOUND)
        return ABSENT;
    if (st != TG_OK || tg_array_get_info(a, &info, &err) != TG_OK)
        return wrong("array", image, &err);
    int rc = info.ndim == 3 ? 0 : wrong("axes", info.ndim, NULL);
    if (rc == 0 && t->sequence == NULL && info.shape[0] > 0)
        rc = wrong("frames without a table", info.shape[0], NULL);
    if (rc == 0)
        rc = check_frames(a, &info, t, p, image, number, gaps, &err);
    *frames += info.shape[0];
    tg_array_free(a);
    return rc;
}

static int check(tg_store *store, const char *group, const plate *p, uint32_t number, bool gaps)
{
    table t = {0};
    tg_error err = {0};
    uint64_t frames = 0, absent = 0;
    int rc = 0;

    /* While a store is being made its table may not be there yet. */
    if (!read_table(store, group, p->n_wells > 0, &t, &err)) {
        if (err.code != TG_NOT_FOUND)
            rc = wrong("frame table", 0, &err);
        t.rows = 0;
    }
    for (uint64_t i = 0; i < images_of(p) && rc == 0; i++) {
        rc = check_image(store, group, p, i, &t, number, gaps, &frames);
        absent += rc == ABSENT;
        rc = rc == ABSENT ? 0 : rc;
    }
    if (rc == 0 && absent == images_of(p))
        rc = ABSENT;
    if (rc == 0)
        printf("frames %" PRIu64 " rows %" PRIu64 "\n", frames, t.rows);
    free(t.sequence);
    free(t.index);
    free(t.status);
    free(t.well);
    free(t.field);
    free(t.crc);
    return rc;
}

int main(int argc, char **argv)
{
    tg_store *store = NULL;
    tg_error err = {0};

    plate p = {.n_wells = 0};
    bool gaps = false, usage = argc < 4;

    for (int i = 4; i < argc; i++) {
        bool is_plate = strncmp(argv[i], "plate:", 6) == 0;
        gaps |= strcmp(argv[i], "gaps") == 0;
        usage |= is_plate && !parse_plate(argv[i], &p);
    }
    if (usage) {
        fprintf(stderr, "usage: check_recording PATH GROUP ARRAY [gaps] [plate:...]\n");
        return 2;
    }
    tg_status st = tg_store_open(argv[1], NULL, &store, NULL, &err);
    if (st == TG_NOT_FOUND)
        return ABSENT;
    if (st != TG_OK)
        return wrong("store", 0, &err);
    int rc = check(store, argv[2], &p, (uint32_t)strtoul(argv[3], NULL, 10), gaps);
    tg_store_free(store);
    return rc;
}
