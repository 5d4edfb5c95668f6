/* ims/write_manifest.c - what an annotation was made of, and where it deviates from the
 * reference. Holds no time and no path: equal runs have equal manifests. */
#include "base/json.h"
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
    TG_TRY(tg_json_set(o, "digest", tg_json_new_string(j->data_digest), err));
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

tg_status tg_write_manifest(const tg_job *j, const tg_results *results,
                            const tg_ranking *ranking, uint64_t n_rows, uint64_t n_images,
                            tg_store *out, tg_error *err)
{
    TG_AUTO_PTR(tg_json) root = tg_json_new_object();
    TG_AUTO(tg_str) text = NULL;

    if (root == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for a manifest");
    TG_TRY(tg_json_set(root, "tidegate_annotation", tg_json_new_u64(1), err));
    TG_TRY(add_object(j, root, "data", add_data, err));
    TG_TRY(add_object(j, root, "options", add_options, err));
    TG_TRY(add_databases(j, ranking, root, err));
    TG_TRY(tg_json_set(root, "ions", tg_json_new_u64(results->n_ions), err));
    TG_TRY(tg_json_set(root, "ions_without_pattern", tg_json_new_u64(results->n_skipped), err));
    TG_TRY(tg_json_set(root, "ions_with_score", tg_json_new_u64(results->n_found), err));
    TG_TRY(tg_json_set(root, "annotations", tg_json_new_u64(n_rows), err));
    TG_TRY(tg_json_set(root, "images", tg_json_new_u64(n_images), err));
    TG_TRY(tg_json_write(root, true, (tg_json_options){0}, &text, err));
    return tg_store_put(out, "manifest.json", text, strlen(text), NULL, err);
}
