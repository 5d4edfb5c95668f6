/* ims/write_anndata.c - the kept images as one AnnData, pixels x ions: the planes of the stack
 * are read once more, one by one, and what they hold becomes columns of a sparse X. */
#include "base/text.h"
#include "ims/write_out.h"
#include "table/anndata.h"

#include <stdio.h>
#include <string.h>

#define ROWS           ((uint64_t)4096)  /* that are handed over at a time */
#define SOME_IONS      ((uint64_t)256)   /* the same, of var */
#define CHUNK_ITEMS    ((uint64_t)32768) /* of X */
#define ARRAY_ENCODING "{\"encoding-type\":\"array\",\"encoding-version\":\"0.2.0\"}"

static const tg_table_column obs_columns[] = {
    {"x", {TG_DT_INT, 4}}, {"y", {TG_DT_INT, 4}}, {"tic", {TG_DT_FLOAT, 4}}};
static const tg_table_column var_columns[] = {
    {"formula", {TG_DT_STRING, 0}}, {"modifier", {TG_DT_STRING, 0}},
    {"mz", {TG_DT_FLOAT, 8}},       {"fdr", {TG_DT_FLOAT, 8}},
    {"msm", {TG_DT_FLOAT, 8}},      {"chaos", {TG_DT_FLOAT, 8}},
    {"spatial", {TG_DT_FLOAT, 8}},  {"spectral", {TG_DT_FLOAT, 8}}};

#define N_OBS     (sizeof obs_columns / sizeof obs_columns[0])
#define N_VAR     (sizeof var_columns / sizeof var_columns[0])
#define N_WORDS   3 /* name, formula, modifier */
#define N_NUMBERS 6

typedef struct sheet {
    const tg_job *j;
    const tg_peaks_info *info;
    const tg_results *results;
    const tg_kept_ion *ions;
    uint64_t n_ions;
    tg_store *out;
    tg_anndata *a;
    const tg_cancel *cancel;
} sheet;

/* --- Words of a column ------------------------------------------------------------------ */

typedef struct words {
    uint64_t *offsets; /* from 0 */
    uint64_t n;
    tg_text text;
} words;

static void words_auto(words *w)
{
    tg_free(w->offsets);
    tg_text_free(&w->text);
}

static tg_status words_new(words *w, uint64_t most, tg_error *err)
{
    w->offsets = tg_calloc(most + 1, sizeof *w->offsets);
    if (w->offsets == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %llu names", (unsigned long long)most);
    return TG_OK;
}

static void words_clear(words *w)
{
    w->n = 0;
    w->text.len = 0;
}

static void words_add(words *w, const char *s)
{
    tg_text_add(&w->text, s);
    w->offsets[++w->n] = w->text.len;
}

static tg_table_block block_of(const words *w)
{
    return (tg_table_block){.offsets = w->offsets, .text = w->text.data};
}

/* --- Pixels --------------------------------------------------------------------------------
 */

static tg_status add_pixels(const sheet *s, words *names, int32_t *x, int32_t *y, tg_error *err)
{
    for (uint64_t first = 0, n; first < s->info->n_pixels; first += n) {
        n = s->info->n_pixels - first < ROWS ? s->info->n_pixels - first : ROWS;
        words_clear(names);
        for (uint64_t i = 0; i < n; i++) {
            char name[32];
            x[i] = (int32_t)(s->info->positions[first + i] % s->info->width);
            y[i] = (int32_t)(s->info->positions[first + i] / s->info->width);
            (void)snprintf(name, sizeof name, "%d_%d", x[i], y[i]);
            words_add(names, name);
        }
        TG_TRY(tg_text_status(&names->text, err));
        const tg_table_block blocks[N_OBS + 1] = {
            block_of(names), {.items = x}, {.items = y}, {.items = s->info->tic + first}};
        TG_TRY(tg_table_append(tg_anndata_obs(s->a), blocks, n, s->cancel, err));
    }
    return TG_OK;
}

static tg_status write_pixels(const sheet *s, tg_error *err)
{
    TG_AUTO(words) names = {0};
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array(2 * ROWS, sizeof(int32_t));
    int32_t *x = room;

    TG_TRY(words_new(&names, ROWS, err));
    if (x == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for positions");
    return add_pixels(s, &names, x, x + ROWS, err);
}

/* obsm/spatial, where squidpy and SpatialData look for x and y. */
static tg_status write_spatial(const sheet *s, tg_error *err)
{
    const uint64_t shape[2] = {s->info->n_pixels, 2}, chunk[2] = {4 * ROWS, 2};
    const tg_array_options o = {.size = sizeof o,
                                .format = 3,
                                .dtype = {TG_DT_FLOAT, 8},
                                .ndim = 2,
                                .shape = shape,
                                .chunk = chunk,
                                .codec = "zstd:1",
                                .attributes = ARRAY_ENCODING};
    TG_AUTO_PTR(tg_array) array = NULL;
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array(2 * chunk[0], sizeof(double));
    double *xy = room;

    if (xy == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for positions");
    TG_TRY(
        tg_array_create(s->out, TG_ANNDATA_NAME "/obsm/spatial", &o, &array, s->cancel, err));
    for (uint64_t first = 0; first < shape[0]; first += chunk[0]) {
        const uint64_t start[2] = {first, 0};
        const uint64_t count[2] = {shape[0] - first < chunk[0] ? shape[0] - first : chunk[0],
                                   2};
        for (uint64_t i = 0; i < count[0]; i++) {
            const uint32_t at = s->info->positions[first + i], row = at / s->info->width;
            xy[2 * i] = at % s->info->width;
            xy[2 * i + 1] = row;
        }
        TG_TRY(tg_array_write(array, start, count, xy, NULL, s->cancel, err));
    }
    return TG_OK;
}

/* --- Ions ---------------------------------------------------------------------------------
 */

static tg_status add_ion(const sheet *s, const tg_kept_ion *k, uint64_t at, words w[N_WORDS],
                         double *numbers[N_NUMBERS], tg_error *err)
{
    tg_ion ion;
    tg_ion_result r;
    uint64_t formula;
    const size_t d = tg_ion_db_of(s->j->space, k->formula, &formula);
    const tg_found *found = tg_results_find(s->results, k->hash);

    if (found == NULL)
        return tg_fail(err, TG_CORRUPT, "an ion that was kept has no score");
    TG_TRY(tg_ion_make_at(s->j->space, k->formula, k->target, &ion, err));
    TG_TRY(tg_results_get(s->results, found, &r, err));
    words_add(&w[0], ion.text);
    words_add(&w[1], tg_moldb_formula(s->j->dbs[d], formula));
    words_add(&w[2], tg_target_text(s->j->space, k->target));
    const double of[N_NUMBERS] = {r.mz[0], k->fdr, r.msm, r.chaos, r.spatial, r.spectral};
    for (int i = 0; i < N_NUMBERS; i++)
        numbers[i][at] = of[i];
    return TG_OK;
}

static tg_status add_ions(const sheet *s, words w[N_WORDS], double *room, tg_error *err)
{
    double *numbers[N_NUMBERS];
    for (int i = 0; i < N_NUMBERS; i++)
        numbers[i] = room + (size_t)i * SOME_IONS;
    for (uint64_t first = 0, n; first < s->n_ions; first += n) {
        n = s->n_ions - first < SOME_IONS ? s->n_ions - first : SOME_IONS;
        for (int i = 0; i < N_WORDS; i++)
            words_clear(&w[i]);
        for (uint64_t i = 0; i < n; i++)
            TG_TRY(add_ion(s, &s->ions[first + i], i, w, numbers, err));
        tg_table_block blocks[N_VAR + 1];
        for (int i = 0; i < N_WORDS; i++) {
            TG_TRY(tg_text_status(&w[i].text, err));
            blocks[i] = block_of(&w[i]);
        }
        for (int i = 0; i < N_NUMBERS; i++)
            blocks[N_WORDS + i] = (tg_table_block){.items = numbers[i]};
        TG_TRY(tg_table_append(tg_anndata_var(s->a), blocks, n, s->cancel, err));
    }
    return TG_OK;
}

static tg_status write_ions(const sheet *s, tg_error *err)
{
    TG_AUTO(words) name = {0};
    TG_AUTO(words) formula = {0};
    TG_AUTO(words) modifier = {0};
    TG_AUTO(tg_mem_ptr) room = tg_alloc_array(N_NUMBERS * SOME_IONS, sizeof(double));

    TG_TRY(words_new(&name, SOME_IONS, err));
    TG_TRY(words_new(&formula, SOME_IONS, err));
    TG_TRY(words_new(&modifier, SOME_IONS, err));
    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a table of ions");
    words w[N_WORDS] = {name, formula, modifier};
    tg_status st = add_ions(s, w, room, err);
    name = w[0]; /* their texts may have grown elsewhere */
    formula = w[1];
    modifier = w[2];
    return st;
}

/* --- Intensities ----------------------------------------------------------------------------
 */

static tg_status write_items(const sheet *s, tg_array *stack, tg_error *err)
{
    const tg_peaks_info *info = s->info;
    const uint64_t count[3] = {1, info->height, info->width};
    TG_AUTO(tg_mem_ptr)
    box_owner = tg_alloc_array((size_t)info->width * info->height, sizeof(float));
    TG_AUTO(tg_mem_ptr) index_owner = tg_alloc_array(info->n_pixels, sizeof(uint64_t));
    float *box = box_owner;
    uint64_t *index = index_owner;

    if (box == NULL || index == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for an image");
    for (uint64_t i = 0; i < s->n_ions; i++) {
        const uint64_t start[3] = {i, 0, 0};
        uint64_t begin[2] = {0, 0};
        TG_TRY(tg_array_read(stack, start, count, box, NULL, s->cancel, err));
        for (uint64_t p = 0; p < info->n_pixels; p++) {
            /* never past what is still to be read: positions rise */
            const float v = box[info->positions[p]];
            if (v != 0) {
                box[begin[1]] = v;
                index[begin[1]++] = p;
            }
        }
        TG_TRY(tg_anndata_append(s->a, 1, begin, index, box, s->cancel, err));
    }
    return TG_OK;
}

/* --- All of it -----------------------------------------------------------------------------
 */

uint64_t tg_anndata_memory(const tg_peaks_info *info)
{
    const uint64_t box = (uint64_t)info->width * info->height * sizeof(float);
    /* an image, the chunk it is decoded from, its context; chunks of columns that are gathered
     */
    return 4 * box + info->n_pixels * sizeof(uint64_t) + ((uint64_t)3 << 20);
}

tg_status tg_write_anndata(const tg_job *j, const tg_results *results, tg_array *stack,
                           const tg_kept_ion *ions, uint64_t n_ions, tg_store *out,
                           const tg_cancel *cancel, tg_error *err)
{
    sheet s = {j, tg_peaks_get_info(j->peaks), results, ions, n_ions, out, NULL, cancel};
    const uint64_t all = n_ions * s.info->n_pixels;
    const tg_anndata_options o = {.format = 3,
                                  .x = TG_ANNDATA_CSC,
                                  .x_dtype = {TG_DT_FLOAT, 4},
                                  .chunk = {CHUNK_ITEMS, 0},
                                  .most_items = all <= INT32_MAX ? all + 1 : 0,
                                  .obs = obs_columns,
                                  .n_obs_columns = N_OBS,
                                  .var = var_columns,
                                  .n_var_columns = N_VAR,
                                  .obs_index = "pixel",
                                  .var_index = "ion",
                                  .chunk_rows = ROWS,
                                  .codec = "zstd:1"};
    TG_AUTO_PTR(tg_anndata) a = NULL;

    TG_TRY(tg_anndata_create(&a, out, TG_ANNDATA_NAME, &o, cancel, err));
    s.a = a;
    TG_TRY(write_pixels(&s, err));
    TG_TRY(write_spatial(&s, err));
    TG_TRY(write_ions(&s, err));
    TG_TRY(write_items(&s, stack, err));
    return tg_anndata_close(a, cancel, err);
}
