/* ims/write_images.c - extracts the images of the annotations that are kept once more, in order
 * of m/z, and writes them: PNG, and the first peaks as one OME-Zarr stack. */
#include "base/clock.h"
#include "base/text.h"
#include "chem/sort.h"
#include "ims/png.h"
#include "ims/write_out.h"
#include "ome/ome.h"
#include "zarr/zarr.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define STACK  "ion_images.zarr"
#define MARGIN ((uint64_t)2 << 20)
/* A stack of more ions has no channels: no viewer lists so many, and their document would be
 * large. */
#define MOST_CHANNELS ((uint64_t)1024)
#define CHANNEL_BYTES ((uint64_t)4096) /* of a channel, as a tree and as text */

typedef struct artist {
    tg_imager *imager;
    tg_png *png;
    tg_image_coder *coder; /* if images were kept */
    float *box;            /* width * height */
} artist;

typedef struct gallery {
    tg_job *j;
    const tg_results *results;
    const tg_kept *kept; /* NULL: none */
    tg_store *out;
    const tg_cancel *cancel;
    tg_kept_ion *ions;
    uint64_t n_ions;
    tg_array *stack;
    artist *artists;
    uint32_t n_artists;
    atomic_ullong next, n_images, n_kept;
    tg_reporter *reporter;
} gallery;

/* --- Which ions ------------------------------------------------------------------------------
 */

static bool is_shown(const tg_job *j, const tg_annotation *a)
{
    return j->o.images == TG_IMAGES_ALL || tg_row_is_kept(j, a);
}

static int by_hash(const void *a, const void *b)
{
    const tg_kept_ion *x = a, *y = b;
    for (int i = 0; i < 2; i++)
        if (x->hash[i] != y->hash[i])
            return x->hash[i] < y->hash[i] ? -1 : 1;
    if (x->formula != y->formula)
        return x->formula < y->formula ? -1 : 1;
    return x->target < y->target ? -1 : x->target > y->target;
}

static int by_mz(const void *a, const void *b)
{
    const tg_kept_ion *x = a, *y = b;
    if (x->mz != y->mz)
        return x->mz < y->mz ? -1 : 1;
    return by_hash(a, b);
}

/* Each ion once, by rising mass of its formula; mass is as good as m/z for the order. */
static tg_status choose_ions(gallery *g, const tg_ranking *ranking, tg_error *err)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < ranking->n_rows; i++) {
        const tg_annotation *a = &ranking->rows[i];
        tg_ion ion;
        tg_ion_result r;
        if (!is_shown(g->j, a))
            continue;
        TG_TRY(tg_results_get(g->results, a->found, &r, err));
        TG_TRY(tg_ion_make_at(g->j->space, a->formula, a->target, &ion, err));
        g->ions[n++] = (tg_kept_ion){(double)ion.mass, a->formula, {ion.hash[0], ion.hash[1]},
                                     a->target,        r.max[0],   a->fdr};
    }
    tg_heap_sort(g->ions, n, sizeof *g->ions, by_hash);
    uint64_t unique = 0;
    for (uint64_t i = 0; i < n; i++)
        if (i == 0 || memcmp(g->ions[i].hash, g->ions[unique - 1].hash, 16) != 0)
            g->ions[unique++] = g->ions[i];
        else
            g->ions[unique - 1].fdr = fmin(g->ions[unique - 1].fdr, g->ions[i].fdr);
    tg_heap_sort(g->ions, unique, sizeof *g->ions, by_mz);
    g->n_ions = unique;
    return TG_OK;
}

/* --- The stack
 * ---------------------------------------------------------------------------------- */

static tg_status name_channels(const gallery *g, tg_ome_channel *channels, tg_ion *names,
                               tg_error *err)
{
    for (uint64_t i = 0; i < g->n_ions; i++) {
        TG_TRY(
            tg_ion_make_at(g->j->space, g->ions[i].formula, g->ions[i].target, &names[i], err));
        channels[i] = (tg_ome_channel){
            .name = names[i].text, .color = "FFFFFF", .most = (double)g->ions[i].most};
    }
    return TG_OK;
}

/* What OME-NGFF says of the stack, with a channel an ion. */
static tg_status image_attributes(const gallery *g, tg_json **out, tg_error *err)
{
    uint32_t n = g->n_ions <= MOST_CHANNELS ? (uint32_t)g->n_ions : 0;
    TG_AUTO(tg_mem_ptr) names = tg_alloc_array((size_t)n + 1, sizeof(tg_ion));
    TG_AUTO(tg_mem_ptr) channels = tg_alloc_array((size_t)n + 1, sizeof(tg_ome_channel));
    tg_ome_image image = {
        .version = TG_OME_0_5,
        .name = "ion images",
        .axes = {{"c", NULL, NULL, 1}, {"y", NULL, NULL, 1}, {"x", NULL, NULL, 1}},
        .n_axes = 3,
        .n_levels = 1,
        .dtype = {TG_DT_FLOAT, 4},
        .channels = channels,
        .n_channels = n};
    if (names == NULL || channels == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %u channels", n);
    if (n > 0)
        TG_TRY(name_channels(g, channels, names, err));
    return tg_ome_image_attributes(&image, out, err);
}

static tg_status stack_attributes(const gallery *g, tg_json **out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) root = NULL;
    tg_json *names = tg_json_new_array();

    if (names == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for attributes");
    tg_status st = image_attributes(g, &root, err);
    for (uint64_t i = 0; i < g->n_ions && st == TG_OK; i++) {
        tg_ion ion;
        st = tg_ion_make_at(g->j->space, g->ions[i].formula, g->ions[i].target, &ion, err);
        if (st == TG_OK)
            st = tg_json_append(names, tg_json_new_string(ion.text), err);
    }
    if (st != TG_OK) {
        tg_json_free(names);
        return st;
    }
    TG_TRY(tg_json_set(root, "tidegate_ions", names, err));
    *out = tg_steal(root);
    return TG_OK;
}

static tg_status make_stack(gallery *g, tg_error *err)
{
    const tg_peaks_info *info = tg_peaks_get_info(g->j->peaks);
    uint64_t shape[3] = {g->n_ions, info->height, info->width};
    uint64_t chunk[3] = {1, info->height, info->width};
    static const char *const names[3] = {"c", "y", "x"};
    float fill = NAN;
    tg_array_options o = {.size = sizeof o,
                          .format = 3,
                          .dtype = {TG_DT_FLOAT, 4},
                          .ndim = 3,
                          .shape = shape,
                          .chunk = chunk,
                          .codec = "zstd:1",
                          .fill = &fill,
                          .dimension_names = names,
                          .overwrite = true};
    TG_AUTO_PTR(tg_json) attributes = NULL;
    TG_AUTO(tg_str) text = NULL;

    TG_TRY(stack_attributes(g, &attributes, err));
    TG_TRY(tg_json_write(attributes, false, (tg_json_options){0}, &text, err));
    tg_status st = tg_group_create(g->out, STACK, 3, text, g->cancel, err);
    if (st == TG_EXISTS)
        st = tg_attributes_set(g->out, STACK, text, false, g->cancel, err);
    TG_TRY(st);
    return tg_array_create(g->out, STACK "/0", &o, &g->stack, g->cancel, err);
}

/* --- One ion
 * --------------------------------------------------------------------------------------- */

/* Image k over the box; pixels without a spectrum are `outside`. */
static void draw(const gallery *g, const artist *a, const tg_sparse *s, int k, float outside)
{
    const tg_peaks_info *info = tg_peaks_get_info(g->j->peaks);

    for (size_t i = 0; i < (size_t)info->width * info->height; i++)
        a->box[i] = outside;
    for (uint64_t i = 0; i < info->n_pixels; i++)
        a->box[info->positions[i]] = 0;
    for (size_t i = 0; i < s->n[k]; i++)
        a->box[info->positions[s->pixels[k][i]]] = s->values[k][i];
}

static tg_status write_png(gallery *g, const artist *a, const char *ion, const tg_sparse *s,
                           int k, tg_error *err)
{
    char key[TG_OUT_KEY_BYTES];
    tg_bytes png;

    draw(g, a, s, k, 0);
    TG_TRY(tg_png_encode(a->png, a->box, (tg_png_text){ion, k}, &png, err));
    (void)snprintf(key, sizeof key, "images/%s_%d.png", ion, k);
    atomic_fetch_add(&g->n_images, 1);
    return tg_store_put_lazy(g->out, key, png.data, png.len, g->cancel, err);
}

static tg_status write_plane(gallery *g, const artist *a, const tg_sparse *s, uint64_t i,
                             tg_error *err)
{
    const tg_peaks_info *info = tg_peaks_get_info(g->j->peaks);
    uint64_t start[3] = {i, 0, 0}, count[3] = {1, info->height, info->width};
    draw(g, a, s, 0, NAN);
    return tg_array_write(g->stack, start, count, a->box, NULL, g->cancel, err);
}

static tg_status extract(const gallery *g, const artist *a, const char *ion, tg_sparse *out,
                         tg_error *err)
{
    tg_centroids c;
    const uint32_t *pixels;

    TG_TRY(tg_imager_centroids(a->imager, ion, &c, err));
    TG_TRY(tg_imager_extract(a->imager, &c, false, g->cancel, err));
    const size_t n = tg_imager_pixels(a->imager, &pixels);
    *out = (tg_sparse){0};
    for (int k = 0; k < TG_N_IMAGES; k++)
        if (tg_imager_image(a->imager, k) != NULL) {
            out->n[k] = (uint32_t)n;
            out->pixels[k] = pixels;
            out->values[k] = tg_imager_image(a->imager, k);
        }
    return TG_OK;
}

/* What was kept when the ion was scored; else, or where that is damaged, out of the peaks. */
static tg_status find_images(gallery *g, const artist *a, const tg_kept_ion *k, const char *ion,
                             tg_sparse *out, tg_error *err)
{
    if (a->coder == NULL || tg_kept_get(g->kept, k->hash, a->coder, out, NULL) != TG_OK)
        return extract(g, a, ion, out, err);
    for (int i = 0; i < TG_N_IMAGES; i++)
        atomic_fetch_add(&g->n_kept, out->n[i] > 0);
    return TG_OK;
}

static tg_status show_ion(gallery *g, const artist *a, uint64_t i, tg_error *err)
{
    tg_ion ion;
    tg_sparse s;

    TG_TRY(tg_ion_make_at(g->j->space, g->ions[i].formula, g->ions[i].target, &ion, err));
    TG_TRY(find_images(g, a, &g->ions[i], ion.text, &s, err));
    for (int k = 0; k < TG_N_IMAGES; k++)
        if (s.n[k] > 0)
            TG_TRY(write_png(g, a, ion.text, &s, k, err));
    TG_TRY(write_plane(g, a, &s, i, err));
    tg_reporter_add(g->reporter, 1, 0);
    return TG_OK;
}

static tg_status show_some(void *user, uint64_t lane, uint32_t thread, tg_error *err)
{
    gallery *g = user;
    (void)thread;
    for (;;) {
        uint64_t i = atomic_fetch_add(&g->next, 1);
        if (i >= g->n_ions)
            return TG_OK;
        TG_TRY(tg_cancel_check(g->cancel, err));
        TG_TRY(show_ion(g, &g->artists[lane], i, err));
    }
}

/* --- All of them
 * ------------------------------------------------------------------------------------- */

static uint64_t artist_bytes(const tg_peaks_info *info, bool kept)
{
    uint64_t box = (uint64_t)info->width * info->height * sizeof(float);
    /* the stack's chunk encoded and decoded, its context */
    return tg_imager_bytes(info) + (kept ? tg_image_coder_bytes(info->n_pixels, false) : 0) +
           box + tg_png_bytes(info->width, info->height) + 4 * box + MARGIN;
}

static tg_status new_png(tg_png **out, const tg_peaks_info *info, tg_error *err)
{
    return tg_png_new(out, info->width, info->height, info->positions, info->n_pixels, err);
}

static tg_status make_artists(gallery *g, uint32_t n, tg_error *err)
{
    const tg_peaks_info *info = tg_peaks_get_info(g->j->peaks);
    g->artists = tg_calloc(n, sizeof *g->artists);
    if (g->artists == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for images");
    g->n_artists = n;
    for (uint32_t i = 0; i < n; i++) {
        TG_TRY(tg_imager_new(&g->artists[i].imager, g->j->peaks, &g->j->imager, err));
        TG_TRY(new_png(&g->artists[i].png, info, err));
        if (g->kept != NULL)
            TG_TRY(tg_image_coder_new(&g->artists[i].coder, info->n_pixels, false, err));
        g->artists[i].box = tg_alloc_array((size_t)info->width * info->height, sizeof(float));
        if (g->artists[i].box == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for an image");
    }
    return TG_OK;
}

static tg_status show_all(gallery *g, const tg_ranking *ranking, uint32_t n_artists,
                          tg_error *err)
{
    TG_TRY(choose_ions(g, ranking, err));
    if (g->n_ions == 0)
        return TG_OK;
    TG_TRY(make_stack(g, err));
    TG_TRY(make_artists(g, n_artists, err));
    TG_TRY(tg_reporter_new(&g->reporter, tg_job_relay, g->j, "images", g->n_ions, err));
    return tg_pool_each(tg_runtime_pool(g->j->rt), n_artists, show_some, g, g->cancel, err);
}

static tg_status write_tic(tg_job *j, tg_store *out, const tg_cancel *cancel, tg_error *err)
{
    const tg_peaks_info *info = tg_peaks_get_info(j->peaks);
    TG_AUTO_PTR(tg_png) png = NULL;
    TG_AUTO(tg_mem_ptr) owner = tg_calloc((size_t)info->width * info->height, sizeof(float));
    float *box = owner;
    tg_bytes file;

    if (box == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for an image");
    for (uint64_t i = 0; i < info->n_pixels; i++)
        box[info->positions[i]] = info->tic[i];
    TG_TRY(new_png(&png, info, err));
    TG_TRY(tg_png_encode(png, box, (tg_png_text){0}, &file, err));
    return tg_store_put(out, "tic.png", file.data, file.len, cancel, err);
}

/* The list, and its names as attributes of the stack. */
static uint64_t list_bytes(uint64_t n)
{
    return (n + 1) * (sizeof(tg_kept_ion) + 256) + MARGIN +
           (n < MOST_CHANNELS ? n : MOST_CHANNELS) * CHANNEL_BYTES;
}

static tg_status plan_artists(const tg_job *j, bool kept, uint64_t own, uint32_t *n,
                              uint32_t *slots, tg_error *err)
{
    uint64_t free = tg_budget_total(j->budget) - tg_budget_used(j->budget);
    uint64_t reach = tg_peaks_reach(j->peaks, 2 * TG_ION_REACH);
    tg_peaks_share share = {"writing the images", own,
                            artist_bytes(tg_peaks_get_info(j->peaks), kept), reach, reach};
    return tg_peaks_divide(&share, tg_peaks_get_info(j->peaks)->n_segments,
                           tg_peaks_slot_bytes(j->peaks), free,
                           tg_pool_width(tg_runtime_pool(j->rt)), n, slots, err);
}

uint64_t tg_write_images_most(const tg_peaks_info *info, bool kept, uint64_t n_ions,
                              uint32_t width)
{
    const uint64_t least = tg_write_images_least(info, n_ions);
    const uint64_t most = list_bytes(n_ions) + width * artist_bytes(info, kept) +
                          info->n_segments * tg_peaks_slot_bytes_of(info->segment_peaks);
    return most > least ? most : least;
}

uint64_t tg_write_images_least(const tg_peaks_info *info, uint64_t n_ions)
{
    tg_peaks_share share = {.own = list_bytes(n_ions), .per_worker = artist_bytes(info, false)};
    uint64_t pngs =
        tg_peaks_least(&share, info->n_segments, tg_peaks_slot_bytes_of(info->segment_peaks));
    uint64_t matrix = list_bytes(n_ions) + tg_anndata_memory(info);
    return pngs > matrix ? pngs : matrix;
}

static void free_artists(gallery *g)
{
    for (uint32_t i = 0; i < g->n_artists; i++) {
        tg_imager_free(g->artists[i].imager);
        tg_png_free(g->artists[i].png);
        tg_image_coder_free(g->artists[i].coder);
        tg_free(g->artists[i].box);
    }
    tg_free(g->artists);
}

/* When artists and segments are gone. */
static tg_status write_matrix(const gallery *g, tg_error *err)
{
    const uint64_t bytes = tg_anndata_memory(tg_peaks_get_info(g->j->peaks));
    TG_TRY(tg_budget_reserve(g->j->budget, bytes, "pixels x ions", err));
    tg_status st = tg_write_anndata(g->j, g->results, g->stack, g->ions, g->n_ions, g->out,
                                    g->cancel, err);
    tg_budget_release(g->j->budget, bytes);
    return st;
}

tg_status tg_write_images(tg_job *j, const tg_results *results, const tg_ranking *ranking,
                          const tg_kept *kept, tg_store *out, uint64_t *n_images,
                          uint64_t *n_kept, const tg_cancel *cancel, tg_error *err)
{
    const tg_peaks_info *info = tg_peaks_get_info(j->peaks);
    gallery g = {.j = j, .results = results, .kept = kept, .out = out, .cancel = cancel};
    uint64_t n = 0;
    uint32_t n_artists, slots;

    *n_images = *n_kept = 0;
    for (uint64_t i = 0; i < ranking->n_rows; i++)
        n += is_shown(j, &ranking->rows[i]);
    const uint64_t own = list_bytes(n);
    if (kept == NULL || plan_artists(j, true, own, &n_artists, &slots, NULL) != TG_OK) {
        g.kept = NULL;
        TG_TRY(plan_artists(j, false, own, &n_artists, &slots, err));
    }
    uint64_t bytes = own + n_artists * artist_bytes(info, g.kept != NULL);
    TG_TRY(tg_budget_reserve(j->budget, bytes, "ion images", err));
    g.ions = tg_alloc_array(n + 1, sizeof *g.ions);
    tg_status st = g.ions == NULL ? tg_fail(err, TG_NO_MEMORY, "no memory for images") : TG_OK;
    if (st == TG_OK)
        st = write_tic(j, out, cancel, err);
    if (st == TG_OK && n > 0)
        st = tg_peaks_cache(j->peaks, slots,
                            n_artists * tg_peaks_reach(j->peaks, 2 * TG_ION_REACH), false, err);
    if (st == TG_OK && n > 0)
        st = show_all(&g, ranking, n_artists, err);
    tg_peaks_uncache(j->peaks);
    *n_images = atomic_load(&g.n_images);
    *n_kept = atomic_load(&g.n_kept);
    tg_reporter_free(g.reporter);
    free_artists(&g);
    tg_budget_release(j->budget, bytes - own);
    if (st == TG_OK && g.n_ions > 0)
        st = write_matrix(&g, err);
    tg_array_free(g.stack);
    tg_free(g.ions);
    tg_budget_release(j->budget, own);
    return st;
}
