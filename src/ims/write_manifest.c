/* ims/write_manifest.c - what an annotation was made of, and where it deviates from the
 * reference, and the digest of each file. Holds no time and no path: equal runs have equal
 * manifests. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include "base/json.h"
#include "base/text.h"
#include "ims/digest.h"
#include "ims/write_out.h"

#include <stdio.h>
#include <string.h>

static const char *const fixed_deviations[] = {
    "repeated symbols of a formula are added up; formulas with other text are left out",
    "an image is chaotic only if it has no component at any level",
    "m/z is divided by the charge where that is not +1 or -1",
    "false discovery rates above 1 are 1",
    "infinite intensities are dropped",
};

static tg_status add_strings(tg_json *o, const char *key, const char *const *words, size_t n,
                             tg_error *err)
{
    tg_json *array = tg_json_new_array();
    for (size_t i = 0; i < n && array != NULL; i++) {
        tg_status st = tg_json_append(array, tg_json_new_string(words[i]), err);
        if (st != TG_OK) {
            tg_json_free(array);
            return st;
        }
    }
    return tg_json_set(o, key, array, err);
}

static tg_status add_options(const tg_job *j, tg_json *o, tg_error *err)
{
    const tg_imager_options *m = &j->imager;

    TG_TRY(tg_json_set(o, "mode", tg_json_new_string(j->version == 1 ? "v1" : "v3"), err));
    TG_TRY(tg_json_set(o, "fixed", tg_json_new_bool(j->o.fixed), err));
    TG_TRY(add_strings(o, "deviations", fixed_deviations,
                       j->o.fixed ? sizeof fixed_deviations / sizeof fixed_deviations[0] : 0,
                       err));
    TG_TRY(tg_json_set(o, "charge", tg_json_new_i64(j->charge), err));
    TG_TRY(add_strings(o, "adducts", j->ions.adducts, j->ions.n_adducts, err));
    TG_TRY(add_strings(o, "neutral_losses", j->ions.losses, j->ions.n_losses, err));
    TG_TRY(add_strings(o, "chem_mods", j->ions.mods, j->ions.n_mods, err));
    TG_TRY(tg_json_set(o, "instrument",
                       tg_json_new_string(tg_instrument_name(m->isotope.instrument)), err));
    TG_TRY(tg_json_set(o, "sigma", tg_json_new_double(m->isotope.sigma), err));
    TG_TRY(tg_json_set(o, "ppm", tg_json_new_double(m->ppm), err));
    TG_TRY(tg_json_set(o, "levels", tg_json_new_u64(m->levels), err));
    TG_TRY(tg_json_set(o, "decoys", tg_json_new_u64(j->space->decoys.sample), err));
    TG_TRY(tg_json_set(o, "seed", tg_json_new_u64(j->ions.seed), err));
    return tg_json_set(o, "fdr", tg_json_new_double(j->o.fdr), err);
}

static tg_status add_data(const tg_job *j, tg_json *o, tg_error *err)
{
    const tg_peaks_info *info = tg_peaks_get_info(j->peaks);
    TG_AUTO_PTR(tg_json) odd = NULL;

    TG_TRY(
        tg_json_parse(&odd, info->oddities, strlen(info->oddities), (tg_json_options){0}, err));
    TG_TRY(tg_json_set(o, "digest", tg_json_new_string(j->data.digest), err));
    TG_TRY(tg_json_set(o, "spectra", tg_json_new_u64(info->n_spectra), err));
    TG_TRY(tg_json_set(o, "pixels", tg_json_new_u64(info->n_pixels), err));
    TG_TRY(tg_json_set(o, "width", tg_json_new_u64(info->width), err));
    TG_TRY(tg_json_set(o, "height", tg_json_new_u64(info->height), err));
    TG_TRY(tg_json_set(o, "peaks", tg_json_new_u64(info->n_peaks), err));
    TG_TRY(tg_json_set(o, "cut", tg_json_new_bool(info->truncated), err));
    return tg_json_set(o, "oddities", tg_steal(odd), err);
}

static tg_status add_database(const tg_moldb *db, const uint64_t below[4], tg_json *array,
                              tg_error *err)
{
    static const char *const names[4] = {"fdr05", "fdr10", "fdr20", "fdr50"};
    TG_AUTO_PTR(tg_json) o = tg_json_new_object();
    if (o == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a manifest");
    char crc[16];
    (void)snprintf(crc, sizeof crc, "%08x", db->crc32c);
    TG_TRY(tg_json_set(o, "name", tg_json_new_string(db->name), err));
    TG_TRY(tg_json_set(o, "bytes", tg_json_new_u64(db->bytes), err));
    TG_TRY(tg_json_set(o, "crc32c", tg_json_new_string(crc), err));
    TG_TRY(tg_json_set(o, "molecules", tg_json_new_u64(db->n_molecules), err));
    TG_TRY(tg_json_set(o, "formulas", tg_json_new_u64(db->n_formulas), err));
    TG_TRY(tg_json_set(o, "odd_rows", tg_json_new_u64(db->n_notes), err));
    for (int l = 0; l < 4; l++)
        TG_TRY(tg_json_set(o, names[l], tg_json_new_u64(below[l]), err));
    return tg_json_append(array, tg_steal(o), err);
}

static tg_status add_databases(const tg_job *j, const tg_ranking *ranking, tg_json *root,
                               tg_error *err)
{
    TG_AUTO_PTR(tg_json) array = tg_json_new_array();
    if (array == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a manifest");
    for (size_t d = 0; d < j->n_dbs; d++)
        TG_TRY(add_database(j->dbs[d], ranking->db_below[d], array, err));
    return tg_json_set(root, "databases", tg_steal(array), err);
}

static tg_status add_object(const tg_job *j, tg_json *root, const char *key,
                            tg_status (*fill)(const tg_job *, tg_json *, tg_error *),
                            tg_error *err)
{
    TG_AUTO_PTR(tg_json) o = tg_json_new_object();
    if (o == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a manifest");
    TG_TRY(fill(j, o, err));
    return tg_json_set(root, key, tg_steal(o), err);
}

/* --- Digests of all that was written -------------------------------------------------------
 */

#define FILES_KEY "\"files\":{" /* the last member: what stands before it is read again */
#define ROOM      ((size_t)1 << 20)

typedef struct listing {
    tg_store *out;
    tg_object *object;
    uint8_t *room;
    tg_text text;
    uint64_t bytes, n_files;
    tg_error err;
    tg_status status;
} listing;

static tg_status flush(listing *l, tg_error *err)
{
    TG_TRY(tg_text_status(&l->text, err));
    TG_TRY(tg_object_write(l->object, l->text.data, l->text.len, NULL, err));
    l->bytes += l->text.len;
    l->text.len = 0;
    return TG_OK;
}

/* One file; names are ours and hold nothing that JSON escapes. */
static tg_status add_file(listing *l, const char *key, tg_error *err)
{
    tg_digest d;
    char hex[65];
    uint64_t size;

    TG_TRY(tg_store_size(l->out, key, &size, NULL, err));
    tg_digest_begin(&d, TG_SUM_SHA256);
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < ROOM ? (size_t)(size - at) : ROOM, got;
        TG_TRY(tg_store_get_into(l->out, key, tg_range_at(at, n), l->room, ROOM, &got, NULL,
                                 NULL, err));
        tg_digest_add(&d, l->room, n);
        at += n;
    }
    tg_digest_end(&d, hex);
    tg_text_addf(&l->text, "%s\n\"%s\":{\"bytes\":%llu,\"sha256\":\"%s\"}",
                 l->n_files++ == 0 ? "" : ",", key, (unsigned long long)size, hex);
    return l->text.len > ROOM / 4 ? flush(l, err) : TG_OK;
}

typedef struct folder {
    listing *l;
    const char *prefix;
} folder;

static tg_status add_folder(listing *l, const char *prefix, tg_error *err);

static bool add_entry(void *user, const char *name)
{
    folder *f = user;
    listing *l = f->l;
    char key[TG_OUT_KEY_BYTES];
    int n = snprintf(key, sizeof key, "%s%s", f->prefix, name);
    if (n <= 0 || (size_t)n >= sizeof key)
        l->status = tg_fail(&l->err, TG_UNSUPPORTED, "'%s%.40s': a long name", f->prefix, name);
    else
        l->status = key[n - 1] == '/' ? add_folder(l, key, &l->err) : add_file(l, key, &l->err);
    return l->status == TG_OK;
}

static tg_status add_folder(listing *l, const char *prefix, tg_error *err)
{
    folder f = {l, prefix};
    tg_error why = {0};
    tg_status st = tg_store_list(l->out, prefix, add_entry, &f, NULL, &why);
    if (l->status != TG_OK) { /* of an entry */
        why = l->err;
        st = l->status;
    }
    if (st != TG_OK && err != NULL)
        *err = why;
    return st;
}

static tg_status add_files(listing *l, tg_error *err)
{
    for (size_t i = 0; tg_output_names[i] != NULL; i++) {
        const char *name = tg_output_names[i];
        bool is_folder = name[strlen(name) - 1] == '/';
        uint64_t size;
        if (!is_folder && tg_store_size(l->out, name, &size, NULL, NULL) != TG_OK)
            continue;
        TG_TRY(is_folder ? add_folder(l, name, err) : add_file(l, name, err));
    }
    return TG_OK;
}

static tg_status write_listed(tg_store *out, const char *head, size_t n, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) room = tg_alloc(ROOM);
    listing l = {.out = out, .room = room};

    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a manifest");
    TG_TRY(tg_object_begin(out, "manifest.json", (tg_object_options){0}, &l.object, NULL, err));
    tg_text_addf(&l.text, "%.*s,\n" FILES_KEY, (int)n, head);
    tg_status st = add_files(&l, err);
    tg_text_add(&l.text, "}}\n");
    if (st == TG_OK)
        st = flush(&l, err);
    if (st == TG_OK)
        st = tg_object_seal(l.object, l.bytes, NULL, err);
    else
        tg_object_abort(l.object);
    tg_object_free(l.object);
    tg_text_free(&l.text);
    return st;
}

/* --- All of it -----------------------------------------------------------------------------
 */

tg_status tg_write_manifest(const tg_job *j, const tg_results *results,
                            const tg_ranking *ranking, uint64_t n_rows, uint64_t n_images,
                            tg_store *out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) root = tg_json_new_object();
    TG_AUTO(tg_str) text = NULL;

    if (root == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a manifest");
    TG_TRY(tg_json_set(root, "tidegate_annotation", tg_json_new_u64(1), err));
    char crc[16];
    (void)snprintf(crc, sizeof crc, "%08x", j->scores_crc32c);
    TG_TRY(tg_json_set(root, "scores_crc32c", tg_json_new_string(crc), err));
    TG_TRY(add_object(j, root, "data", add_data, err));
    TG_TRY(add_object(j, root, "options", add_options, err));
    TG_TRY(add_databases(j, ranking, root, err));
    TG_TRY(tg_json_set(root, "ions", tg_json_new_u64(results->n_ions), err));
    TG_TRY(tg_json_set(root, "ions_without_pattern", tg_json_new_u64(results->n_skipped), err));
    TG_TRY(tg_json_set(root, "ions_with_score", tg_json_new_u64(results->n_found), err));
    TG_TRY(tg_json_set(root, "annotations", tg_json_new_u64(n_rows), err));
    TG_TRY(tg_json_set(root, "images", tg_json_new_u64(n_images), err));
    TG_TRY(tg_json_write(root, true, (tg_json_options){0}, &text, err));
    size_t n = strlen(text);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    n -= n > 0; /* the closing brace */
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    return write_listed(out, text, n, err);
}

/* --- Read again ------------------------------------------------------------------------------
 */

static tg_status number_of(const tg_json *o, const char *key, uint64_t *out, tg_error *err)
{
    tg_status st = tg_json_u64(tg_json_get(o, key), out, err);
    if (st != TG_OK)
        tg_error_prefix(err, "manifest.json: '%s'", key);
    return st;
}

static tg_status read_databases(const tg_json *list, tg_annotate_result *r, tg_error *err)
{
    static const char *const names[4] = {"fdr05", "fdr10", "fdr20", "fdr50"};
    size_t n = tg_json_size(list);
    r->n_databases = (uint32_t)(n < TG_ANNOTATE_DATABASES ? n : TG_ANNOTATE_DATABASES);
    for (size_t d = 0; d < r->n_databases; d++) {
        const tg_json *o = tg_json_at(list, d);
        const char *name;
        TG_TRY(tg_json_string(tg_json_get(o, "name"), &name, NULL, err));
        (void)snprintf(r->database_name[d], sizeof r->database_name[d], "%s", name);
        for (int l = 0; l < 4; l++) {
            TG_TRY(number_of(o, names[l], &r->database_annotated[d][l], err));
            r->annotated[l] += r->database_annotated[d][l];
        }
    }
    return TG_OK;
}

static tg_status check_scores(const tg_job *j, const tg_json *root, tg_error *err)
{
    char want[16];
    const char *got;
    (void)snprintf(want, sizeof want, "%08x", j->scores_crc32c);
    TG_TRY(tg_json_string(tg_json_get(root, "scores_crc32c"), &got, NULL, err));
    if (strcmp(got, want) != 0)
        return tg_fail(err, TG_INVALID,
                       "'%s' holds an annotation of other data or options: its scores are of "
                       "%s, this run's of %s",
                       j->o.out, got, want);
    return TG_OK;
}

tg_status tg_read_manifest(const tg_job *j, const char *text, size_t len, tg_annotate_result *r,
                           tg_error *err)
{
    TG_AUTO_PTR(tg_json) root = NULL;
    TG_AUTO(tg_text) head = {0};
    const char *end = memmem(text, len, ",\n" FILES_KEY, sizeof FILES_KEY + 1);

    tg_text_add_n(&head, text, end == NULL ? len : (size_t)(end - text));
    if (end != NULL)
        tg_text_add(&head, "}");
    TG_TRY(tg_text_status(&head, err));
    TG_TRY(tg_json_parse(&root, head.data, head.len, (tg_json_options){0}, err));
    TG_TRY(check_scores(j, root, err));
    TG_TRY(number_of(root, "ions", &r->ions, err));
    TG_TRY(number_of(root, "annotations", &r->rows, err));
    TG_TRY(number_of(root, "images", &r->images, err));
    return read_databases(tg_json_get(root, "databases"), r, err);
}
