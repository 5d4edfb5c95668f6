/* ims/formats.c - the ways in which an ion image could be kept, compared on the images of a
 * data set: bytes, time and memory. */
#include "base/clock.h"
#include "codec/codecs.h"
#include "ims/job.h"
#include "ims/png.h"

#include <string.h>

#define MOST_IMAGES   ((uint64_t)2000)
#define DEFLATE_LEVEL 6 /* what numpy's npz takes */
#define PAIR          8 /* bytes: pixel, value */

typedef struct comparison {
    tg_job *j;
    const tg_peaks_info *info;
    tg_image_formats *out;
    tg_imager *imager;
    tg_image_coder *zstd;
    tg_png *png;
    tg_codec *deflate;
    void *context;
    uint8_t *pairs, *room; /* of one image; of what it becomes */
    size_t room_bytes;
    float *box;
    uint32_t bits; /* of a pixel's number */
    uint64_t step, seen;
} comparison;

/* --- The formats ---------------------------------------------------------------------------
 */

static size_t pack_pairs(const comparison *c, const tg_touched *t, int k, uint8_t *dst)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->values[k][i] != 0) {
            memcpy(dst + n, &t->pixels[i], 4);
            memcpy(dst + n + 4, &t->values[k][i], 4);
            n += PAIR;
        }
    (void)c;
    return n;
}

/* Numbers of the pixels in as few bits as the largest wants, then the values. */
static size_t pack_bits(const comparison *c, const tg_touched *t, int k, uint8_t *dst)
{
    uint64_t held = 0;
    uint32_t n_held = 0;
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (t->values[k][i] == 0)
            continue;
        held |= (uint64_t)t->pixels[i] << n_held;
        for (n_held += c->bits; n_held >= 8; n_held -= 8, held >>= 8)
            dst[n++] = (uint8_t)held;
    }
    if (n_held > 0)
        dst[n++] = (uint8_t)held;
    for (size_t i = 0; i < t->n; i++)
        if (t->values[k][i] != 0) {
            memcpy(dst + n, &t->values[k][i], 4);
            n += 4;
        }
    return n;
}

static tg_status pack_deflate(const comparison *c, const tg_touched *t, int k, size_t *n,
                              tg_error *err)
{
    const tg_bytes pairs = {c->pairs, pack_pairs(c, t, k, c->pairs)};
    return c->deflate->ops->encode(c->deflate, c->context, pairs, c->room, c->room_bytes, n,
                                   err);
}

static tg_status pack_zstd(const comparison *c, const tg_touched *t, int k, size_t *n,
                           tg_error *err)
{
    tg_touched one = {.n = t->n, .pixels = t->pixels};
    tg_bytes record;
    one.values[0] = t->values[k];
    TG_TRY(tg_image_encode(c->zstd, &one, &record, err));
    *n = record.len;
    return TG_OK;
}

static tg_status pack_png(const comparison *c, const tg_touched *t, int k, size_t *n,
                          tg_error *err)
{
    tg_bytes file;
    memset(c->box, 0, (size_t)c->info->width * c->info->height * sizeof *c->box);
    for (size_t i = 0; i < t->n; i++)
        c->box[c->info->positions[t->pixels[i]]] = t->values[k][i];
    TG_TRY(tg_png_encode(c->png, c->box, (tg_png_text){"ion", k}, &file, err));
    *n = file.len;
    return TG_OK;
}

static tg_status pack(const comparison *c, int format, const tg_touched *t, int k, size_t *n,
                      tg_error *err)
{
    switch (format) {
    case TG_IMAGE_RAW:
        *n = pack_pairs(c, t, k, c->pairs);
        return TG_OK;
    case TG_IMAGE_DEFLATE:
        return pack_deflate(c, t, k, n, err);
    case TG_IMAGE_ZSTD:
        return pack_zstd(c, t, k, n, err);
    case TG_IMAGE_BITS:
        *n = pack_bits(c, t, k, c->room);
        return TG_OK;
    default:
        return pack_png(c, t, k, n, err);
    }
}

/* --- The images ------------------------------------------------------------------------------
 */

static tg_status compare(comparison *c, const tg_touched *t, int k, tg_error *err)
{
    for (int format = 0; format < TG_N_IMAGE_FORMATS; format++) {
        size_t n = 0;
        const int64_t start = tg_clock_ns();
        TG_TRY(pack(c, format, t, k, &n, err));
        c->out->of[format].seconds += tg_job_seconds(start);
        c->out->of[format].bytes += n;
    }
    c->out->images++;
    for (size_t i = 0; i < t->n; i++)
        c->out->pixels += t->values[k][i] != 0;
    return TG_OK;
}

static tg_status take_ion(void *user, const tg_ion_step *step, tg_error *err)
{
    comparison *c = user;
    tg_ion ion;
    tg_centroids centroids;

    if (step->set != TG_NO_SET || c->seen++ % c->step != 0 || c->out->images >= MOST_IMAGES)
        return TG_OK;
    if (tg_ion_make(c->j->space, step->parsed, step->modifier, &ion, NULL) != TG_OK ||
        tg_imager_centroids(c->imager, ion.text, &centroids, NULL) != TG_OK)
        return TG_OK;
    TG_TRY(tg_imager_extract(c->imager, &centroids, true, c->j->cancel, err));
    const tg_touched t = tg_touched_by(c->imager);
    for (int k = 0; k < TG_N_IMAGES; k++)
        if (t.values[k] != NULL)
            TG_TRY(compare(c, &t, k, err));
    return TG_OK;
}

/* --- Room ------------------------------------------------------------------------------------
 */

static void name_formats(comparison *c)
{
    static const char *const names[TG_N_IMAGE_FORMATS] = {"raw", "deflate", "zstd", "bits",
                                                          "png16"};
    const uint64_t pairs = c->info->n_pixels * PAIR;
    const uint64_t memory[TG_N_IMAGE_FORMATS] = {
        pairs, pairs + c->room_bytes + c->deflate->ops->context_bytes(c->deflate, pairs, true),
        tg_image_coder_bytes(c->info->n_pixels, true), c->room_bytes,
        tg_png_bytes(c->info->width, c->info->height)};
    for (int i = 0; i < TG_N_IMAGE_FORMATS; i++) {
        c->out->of[i].name = names[i];
        c->out->of[i].memory_bytes = memory[i];
        c->out->of[i].exact = i != TG_IMAGE_PNG16;
    }
}

static tg_status make_room(comparison *c, tg_error *err)
{
    const tg_peaks_info *i = c->info;
    const size_t pairs = (size_t)i->n_pixels * PAIR;

    TG_TRY(tg_deflate_new(&c->deflate, TG_DEFLATE_ZLIB, DEFLATE_LEVEL, err));
    TG_TRY(c->deflate->ops->context_new(c->deflate, pairs, true, &c->context, err));
    c->room_bytes = c->deflate->ops->bound(c->deflate, pairs) + 16;
    c->pairs = tg_alloc(pairs + PAIR);
    c->room = tg_alloc(c->room_bytes);
    c->box = tg_alloc_array((size_t)i->width * i->height, sizeof *c->box);
    if (c->pairs == NULL || c->room == NULL || c->box == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for an image");
    TG_TRY(tg_imager_new(&c->imager, c->j->peaks, &c->j->imager, err));
    TG_TRY(tg_image_coder_new(&c->zstd, i->n_pixels, true, err));
    TG_TRY(tg_png_new(&c->png, i->width, i->height, i->positions, i->n_pixels, err));
    name_formats(c);
    return tg_peaks_cache(c->j->peaks, 1, 0, false, err);
}

static void free_room(comparison *c)
{
    tg_peaks_uncache(c->j->peaks);
    tg_imager_free(c->imager);
    tg_image_coder_free(c->zstd);
    tg_png_free(c->png);
    if (c->context != NULL)
        c->deflate->ops->context_free(c->deflate, c->context);
    if (c->deflate != NULL)
        c->deflate->ops->free(c->deflate);
    tg_free(c->pairs);
    tg_free(c->room);
    tg_free(c->box);
}

static uint64_t wanted_bytes(const tg_peaks_info *i)
{
    const size_t imager = tg_imager_bytes(i);
    if (imager == SIZE_MAX)
        return UINT64_MAX / 2;
    return imager + tg_image_coder_bytes(i->n_pixels, true) +
           tg_png_bytes(i->width, i->height) + (uint64_t)i->width * i->height * sizeof(float) +
           3 * i->n_pixels * PAIR + ((uint64_t)2 << 20);
}

static tg_status compare_all(comparison *c, tg_error *err)
{
    const tg_job *j = c->j;
    const uint64_t n = j->space->first_formula[j->n_dbs] * j->space->n_targets;

    TG_TRY(make_room(c, err));
    c->step = n / MOST_IMAGES + 1;
    while (c->bits < 32 && (uint64_t)1 << c->bits < c->info->n_pixels)
        c->bits++;
    for (size_t d = 0; d < j->n_dbs; d++)
        TG_TRY(tg_ions_walk(j->space, d, TG_ALL_TARGETS, take_ion, c, j->cancel, err));
    return TG_OK;
}

tg_status tg_ims_image_formats(tg_runtime *rt, const tg_annotate_options *options,
                               tg_image_formats *out, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_job) j = NULL;

    if (out->size != sizeof *out)
        return tg_fail(err, TG_INVALID, "formats of %zu bytes, want %zu", out->size,
                       sizeof *out);
    *out = (tg_image_formats){.size = sizeof *out};
    TG_TRY(tg_job_new(&j, rt, options, cancel, err));
    TG_TRY(tg_job_peaks(j, err));
    TG_TRY(tg_job_ions(j, err));
    comparison c = {.j = j, .info = tg_peaks_get_info(j->peaks), .out = out};
    const uint64_t bytes = wanted_bytes(c.info);
    TG_TRY(tg_budget_reserve(j->budget, bytes, "comparing formats of images", err));
    tg_status st = compare_all(&c, err);
    free_room(&c);
    tg_budget_release(j->budget, bytes);
    return st;
}
