/* cli/verb_annotate.c - annotate: ions of molecule databases in an imaging mass spectrometry
 * data set. */
#include "annotate.h"
#include "tidegate/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(annotate_options, member)
_Static_assert(TG_ANNOTATE_SEGMENT == 4 << 20, "the help says 4MiB");

static const cli_option options_table[] = {
    {"db", CLI_LIST, AT(db), "FILE",
     "molecule database, CSV or TSV with a column formula (id, name); repeatable"},
    {"strict-db", CLI_FLAG, AT(strict_db), NULL,
     "METASPACE's rules for databases: any broken row refuses the file"},
    {"adducts", CLI_TEXT, AT(adducts), "+H,+Na,+K",
     "target adducts (+H,+Na,+K; negative: -H,+Cl)"},
    {"losses", CLI_TEXT, AT(losses), "-H2O,...", "neutral losses, beside none"},
    {"mods", CLI_TEXT, AT(mods), "-H+C,...", "chemical modifications, beside none"},
    {"polarity", CLI_TEXT, AT(polarity), "+|-", "of the ions (as the data say)"},
    {"mode", CLI_CHOICE, AT(mode), "v3|v1", "METASPACE's procedure (v3)"},
    {"fixed", CLI_FLAG, AT(fixed), NULL,
     "the procedure with its defects mended; the manifest lists the deviations"},
    {"instrument", CLI_CHOICE, AT(instrument), "orbitrap|tof|fticr",
     "how the width of a peak depends on m/z (orbitrap)"},
    {"sigma", CLI_NUMBER, AT(sigma), "U", "of a peak at m/z 200, in u (.001238)"},
    {"resolving-power", CLI_TEXT, AT(resolving_power), "R@MZ",
     "instead of --sigma: 140000@200"},
    {"ppm", CLI_NUMBER, AT(ppm), "N", "half width of a window (3)"},
    {"decoys", CLI_COUNT, AT(decoys), "N", "decoys of each target (20)"},
    {"seed", CLI_NATURAL, AT(seed), "N", "of the draw of decoys (42)"},
    {"fdr", CLI_NUMBER, AT(fdr), "F",
     "false discovery rate up to which rows and images are written (0.5)"},
    {"images", CLI_CHOICE, AT(images), "fdr|all|none",
     "of ions up to --fdr, of all targets with a score, or none (fdr)"},
    {"scores", CLI_FLAG, AT(scores), NULL,
     "write scores.csv, too: every ion with a score, decoys included"},
    {"segment", CLI_SIZE, AT(segment), "SIZE", "sorted peaks per object and read (4MiB)"},
    {"deadline", CLI_DURATION, AT(deadline), "T",
     "begin no work after it, write what is done, exit 3"},
    {"part", CLI_TEXT, AT(part), "i/n|auto/n",
     "score the i-th of n parts, from 0; the last to end merges; auto: the index of a job "
     "array "
     "or MPI rank"},
    {"merge", CLI_FLAG, AT(merge), NULL, "only merge the parts that were scored"},
    {"resume", CLI_FLAG, AT(resume), NULL, "go on where a run was stopped"},
    {"overwrite", CLI_FLAG, AT(overwrite), NULL, "replace an annotation in OUT"},
    {"strict", CLI_FLAG, AT(strict), NULL, "refuse arrays whose lengths do not fit each other"},
    {"lenient", CLI_FLAG, AT(lenient), NULL,
     "leave out broken spectra, use a cut file as far as it goes (exit 3)"},
    {"centroid", CLI_FLAG, AT(centroid), NULL,
     "the spectra are centroided, whatever the data say"},
    {"profile", CLI_FLAG, AT(profile), NULL, "the spectra are profiles, whatever the data say"},
    {"duplicates", CLI_CHOICE, AT(duplicates), "sum|error", "two spectra on one pixel (sum)"},
    {"plan", CLI_FLAG, AT(plan), NULL,
     "only say what memory and time each stage will take; writes nothing"},
    {"ion", CLI_TEXT, AT(ion), "F+A",
     "show this one ion, such as C37H71O8P+K; its images go to OUT, if given; no --db"},
    {"report", CLI_TEXT, AT(report), "FILE.html",
     "one page: images, FDR curves, mass errors, time and memory of the stages"},
    {"grid-from", CLI_CHOICE, AT(grid_from), "position|3DPosition",
     "what pixels are told by (position)"},
};

/* --- Words ------------------------------------------------------------------------------ */

/* "+H,+Na" into list, whose items point into room. */
static tg_status split(const char *name, const char *text, char room[ANNOTATE_WORDS],
                       cli_list *list, tg_error *err)
{
    list->n = 0;
    if (text == NULL)
        return TG_OK;
    if (strlen(text) >= ANNOTATE_WORDS)
        return cli_fail(err, TG_INVALID, "--%s: longer than %d characters", name,
                        ANNOTATE_WORDS - 1);
    (void)snprintf(room, ANNOTATE_WORDS, "%s", text);
    for (char *p = room;;) {
        size_t n = strcspn(p, ",");
        bool last = p[n] == '\0';
        p[n] = '\0';
        if (n == 0)
            return cli_fail(err, TG_INVALID, "--%s '%.100s': an empty part", name, text);
        if (list->n == CLI_MAX_REPEATS)
            return cli_fail(err, TG_INVALID, "--%s: more than %d", name, CLI_MAX_REPEATS);
        list->item[list->n++] = p;
        if (last)
            return TG_OK;
        p += n + 1;
    }
}

static tg_status parse_power(const char *text, double *power, double *mz, tg_error *err)
{
    char room[64];
    const char *at = strchr(text, '@');
    if (at == NULL || at == text || at[1] == '\0' || (size_t)(at - text) >= sizeof room)
        return cli_fail(err, TG_INVALID,
                        "--resolving-power '%.60s': want R@MZ, such as 140000@200", text);
    (void)snprintf(room, sizeof room, "%.*s", (int)(at - text), text);
    tg_status st = tg_parse_double(room, power, err);
    if (st == TG_OK)
        st = tg_parse_double(at + 1, mz, err);
    if (st != TG_OK)
        cli_prefix(err, "--resolving-power");
    return st;
}

/* "1/4", or "auto/4" where the index is in the environment. */
static tg_status parse_part(const char *text, tg_annotate_options *a, tg_error *err)
{
    char room[32];
    uint64_t i = 0, n;
    const char *slash = strchr(text, '/');
    if (strcmp(text, "auto") == 0)
        return cli_fail(err, TG_INVALID,
                        "--part auto: of how many? The environment gives the index alone: "
                        "--part auto/n");
    if (slash == NULL || (size_t)(slash - text) >= sizeof room)
        return cli_fail(err, TG_INVALID, "--part '%.60s': want i/n, such as 0/4, or auto/n",
                        text);
    (void)snprintf(room, sizeof room, "%.*s", (int)(slash - text), text);
    a->part_auto = strcmp(room, "auto") == 0;
    if ((!a->part_auto && tg_parse_u64(room, &i, err) != TG_OK) ||
        tg_parse_u64(slash + 1, &n, err) != TG_OK || n == 0 || n > 100000 || i >= n)
        return cli_fail(err, TG_INVALID, "--part '%.60s': want i/n with i from 0 to n - 1",
                        text);
    a->part = (uint32_t)i;
    a->n_parts = (uint32_t)n;
    return TG_OK;
}

static tg_status parse_polarity(const char *text, int *polarity, tg_error *err)
{
    static const char *const plus[] = {"+", "positive"}, *const minus[] = {"-", "negative"};
    for (int i = 0; i < 2; i++) {
        if (strcmp(text, plus[i]) == 0)
            *polarity = 1;
        if (strcmp(text, minus[i]) == 0)
            *polarity = -1;
    }
    return *polarity != 0 ? TG_OK
                          : cli_fail(err, TG_INVALID, "--polarity '%.40s': want + or -", text);
}

tg_status annotate_request(cli *c, annotate_options *o, tg_annotate_options *out)
{
    static const tg_annotate_instrument instruments[] = {
        TG_INSTRUMENT_ORBITRAP, TG_INSTRUMENT_TOF, TG_INSTRUMENT_FTICR};
    tg_error *err = &c->err;
    tg_annotate_options a = {.size = sizeof a,
                             .data = c->operands.item[0],
                             .out = c->operands.n > 1 ? c->operands.item[1] : NULL,
                             .databases = o->db.item,
                             .n_databases = o->db.n,
                             .strict_db = o->strict_db,
                             .version = o->mode == 0 ? 3 : 1,
                             .fixed = o->fixed,
                             .instrument = instruments[o->instrument],
                             .sigma = o->sigma,
                             .ppm = o->ppm,
                             .decoys = (uint32_t)(o->decoys > 80 ? 80 : o->decoys),
                             .has_seed = true,
                             .seed = (uint32_t)o->seed,
                             .fdr = o->fdr,
                             .images = (tg_annotate_images)o->images,
                             .scores = o->scores,
                             .segment_bytes = o->segment,
                             .deadline_seconds = o->deadline,
                             .merge = o->merge,
                             .resume = o->resume,
                             .overwrite = o->overwrite,
                             .progress = cli_progress_report,
                             .progress_user = &c->progress};
    a.reading.size = sizeof a.reading;
    a.reading.strict = o->lenient  ? TG_IMS_FORGIVING
                       : o->strict ? TG_IMS_ALL_RULES
                                   : TG_IMS_AS_USUAL;
    a.reading.duplicates_fail = o->duplicates == 1;
    a.reading.grid_from_3d = o->grid_from == 1;
    a.reading.kind = o->centroid  ? TG_IMS_KIND_CENTROID
                     : o->profile ? TG_IMS_KIND_PROFILE
                                  : TG_IMS_KIND_AS_DECLARED;
    if (o->seed > UINT32_MAX)
        return cli_fail(err, TG_INVALID, "--seed: at most %" PRIu32, UINT32_MAX);
    if (o->db.n == 0 && o->ion == NULL)
        return cli_fail(err, TG_INVALID, "--db FILE is missing: which molecules?");
    if (o->lenient && o->strict)
        return cli_fail(err, TG_INVALID, "--strict or --lenient, not both");
    if (o->centroid && o->profile)
        return cli_fail(err, TG_INVALID, "--centroid or --profile, not both");
    if (o->sigma > 0 && o->resolving_power != NULL)
        return cli_fail(err, TG_INVALID, "--sigma or --resolving-power, not both");
    tg_status st = split("adducts", o->adducts, o->adduct_room, &o->adduct_list, err);
    if (st == TG_OK)
        st = split("losses", o->losses, o->loss_room, &o->loss_list, err);
    if (st == TG_OK)
        st = split("mods", o->mods, o->mod_room, &o->mod_list, err);
    if (st == TG_OK && o->resolving_power != NULL)
        st = parse_power(o->resolving_power, &a.resolving_power, &a.power_mz, err);
    if (st == TG_OK && o->part != NULL)
        st = parse_part(o->part, &a, err);
    if (st == TG_OK && o->polarity != NULL)
        st = parse_polarity(o->polarity, &a.polarity, err);
    a.adducts = o->adduct_list.item;
    a.n_adducts = o->adduct_list.n;
    a.losses = o->loss_list.item;
    a.n_losses = o->loss_list.n;
    a.mods = o->mod_list.item;
    a.n_mods = o->mod_list.n;
    *out = a;
    return st;
}

/* --- What came of it ------------------------------------------------------------------------
 */

static void annotated_json(json_out *j, const char *key, const uint64_t n[4])
{
    static const char *const names[4] = {"fdr05", "fdr10", "fdr20", "fdr50"};
    json_open(j, key);
    for (int i = 0; i < 4; i++)
        json_u64(j, names[i], n[i]);
    json_close(j);
}

static void result_json(cli *c, const tg_annotate_result *r)
{
    json_out *j = &c->json;
    json_u64(j, "spectra", r->spectra);
    json_u64(j, "pixels", r->pixels);
    json_u64(j, "peaks", r->peaks);
    json_u64(j, "formulas", r->formulas);
    json_u64(j, "ions", r->ions);
    annotated_json(j, "annotated", r->annotated);
    json_open_list(j, "databases");
    for (uint32_t d = 0; d < r->n_databases; d++) {
        json_open(j, NULL);
        json_text(j, "name", r->database_name[d]);
        annotated_json(j, "annotated", r->database_annotated[d]);
        json_close(j);
    }
    json_close_list(j);
    json_u64(j, "rows", r->rows);
    json_u64(j, "images", r->images);
    json_u64(j, "images_kept", r->images_kept);
    json_u64(j, "segments", r->segments);
    json_u64(j, "requests", r->requests);
    json_u64(j, "spilled_bytes", r->spilled_bytes);
    json_bool(j, "sorted_before", r->sorted_before);
    json_double(j, "fraction_done", r->fraction_done);
    json_bool(j, "whole", r->whole);
    json_double(j, "sort_seconds", r->sort_seconds);
    json_double(j, "score_seconds", r->score_seconds);
    json_double(j, "rank_seconds", r->rank_seconds);
    json_double(j, "image_seconds", r->image_seconds);
    json_u64(j, "sort_memory", r->sort_memory);
    json_u64(j, "score_memory", r->score_memory);
    json_u64(j, "rank_memory", r->rank_memory);
    json_u64(j, "image_memory", r->image_memory);
    json_double(j, "seconds", r->seconds);
    json_u64(j, "rss_bytes_peak", cli_rss_peak());
}

static void result_text(const cli *c, const tg_annotate_result *r)
{
    if (c->common->json)
        return;
    (void)printf("%" PRIu64 " spectra, %" PRIu64 " peaks; %" PRIu64 " formulas, %" PRIu64
                 " ions\n",
                 r->spectra, r->peaks, r->formulas, r->ions);
    if (!r->whole) {
        (void)printf("%.0f %% done; --resume goes on\n", 100 * r->fraction_done);
        return;
    }
    for (uint32_t d = 0; d < r->n_databases; d++) {
        const uint64_t *n = r->database_annotated[d];
        (void)printf("%s: %" PRIu64 " at FDR 5 %%, %" PRIu64 " at 10 %%, %" PRIu64
                     " at 20 %%, %" PRIu64 " at 50 %%\n",
                     r->database_name[d], n[0], n[1], n[2], n[3]);
    }
    (void)printf("%" PRIu64 " annotations and %" PRIu64 " images in %s, %.1f s\n", r->rows,
                 r->images, c->operands.item[1], r->seconds);
}

static int exit_of(cli *c, tg_status st, const tg_annotate_result *r)
{
    if (st == TG_CANCELLED || st == TG_BUSY)
        return CLI_TRY_AGAIN;
    if (st != TG_OK)
        return r->spectra == 0 ? cli_refused(c) : CLI_FAILED;
    cli_no_error(c);
    return r->late || r->cut_data ? CLI_INCOMPLETE : CLI_DONE;
}

/* --- One ion ------------------------------------------------------------------------------ */

static void ion_json(cli *c, const tg_ion_view *v)
{
    json_out *j = &c->json;
    json_text(j, "ion", v->ion);
    json_i64(j, "charge", v->charge);
    json_u64(j, "width", v->width);
    json_u64(j, "height", v->height);
    json_u64(j, "pixels", v->pixels);
    json_double(j, "msm", v->msm);
    json_double(j, "chaos", v->chaos);
    json_double(j, "spatial", v->spatial);
    json_double(j, "spectral", v->spectral);
    json_double(j, "mz_err_abs", v->mz_err_abs);
    json_double(j, "mz_err_rel", v->mz_err_rel);
    json_open_list(j, "peaks");
    for (uint32_t k = 0; k < v->n_peaks; k++) {
        const tg_ion_peak *p = &v->peak[k];
        json_open(j, NULL);
        json_double(j, "mz", p->mz);
        json_double(j, "intensity", p->intensity);
        json_u64(j, "n_pixels", p->n_pixels);
        json_double(j, "total", p->total);
        json_double(j, "min", p->min);
        json_double(j, "max", p->max);
        json_close(j);
    }
    json_close_list(j);
    json_u64(j, "images", v->images);
    json_double(j, "seconds", v->seconds);
    json_u64(j, "rss_bytes_peak", cli_rss_peak());
}

static void ion_text(const cli *c, const tg_ion_view *v)
{
    if (c->common->json)
        return;
    (void)printf("%s, charge %+d: MSM %.6f (chaos %.6f, spatial %.6f, spectral %.6f), "
                 "%+.3f ppm\n\n"
                 "%-4s  %11s  %11s  %9s  %12s  %12s\n",
                 v->ion, v->charge, v->msm, v->chaos, v->spatial, v->spectral,
                 v->n_peaks > 0 ? v->mz_err_abs / v->peak[0].mz * 1e6 : 0.0, "peak", "m/z",
                 "theory, %", "pixels", "total", "max");
    for (uint32_t k = 0; k < v->n_peaks; k++)
        (void)printf("%-4" PRIu32 "  %11.5f  %11.4f  %9" PRIu64 "  %12.6g  %12.6g\n", k,
                     v->peak[k].mz, v->peak[k].intensity, v->peak[k].n_pixels, v->peak[k].total,
                     v->peak[k].max);
    if (c->operands.n > 1)
        (void)printf("\n%" PRIu32 " images in %s\n", v->images, c->operands.item[1]);
}

static int show_ion(cli *c, const annotate_options *o, tg_runtime *rt,
                    const tg_annotate_options *request)
{
    tg_ion_view view = {.size = sizeof view};
    tg_status st = tg_annotate_ion(rt, request, o->ion, &view, c->cancel, &c->err);
    cli_progress_end(&c->progress);
    if (st == TG_CANCELLED)
        return CLI_TRY_AGAIN;
    if (st != TG_OK)
        return view.pixels == 0 ? cli_refused(c) : CLI_FAILED;
    cli_no_error(c);
    ion_json(c, &view);
    ion_text(c, &view);
    return CLI_DONE;
}

/* --- What it will take ------------------------------------------------------------------- */

static void plan_json(cli *c, const tg_annotate_forecast *f)
{
    static const char *const names[] = {"sort", "score", "rank", "images"};
    const tg_annotate_stage *stages[] = {&f->sort, &f->score, &f->rank, &f->images};
    json_out *j = &c->json;
    json_u64(j, "spectra", f->spectra);
    json_u64(j, "pixels", f->pixels);
    json_u64(j, "peaks", f->peaks);
    json_u64(j, "formulas", f->formulas);
    json_u64(j, "ions", f->ions);
    json_u64(j, "segments", f->segments);
    json_bool(j, "sorted_before", f->sorted_before);
    json_u64(j, "workers", f->workers);
    json_u64(j, "spilled_bytes", f->spilled_bytes);
    json_open_list(j, "stages");
    for (int i = 0; i < 4; i++) {
        json_open(j, NULL);
        json_text(j, "name", names[i]);
        json_u64(j, "memory_bytes", stages[i]->memory_bytes);
        json_double(j, "seconds", stages[i]->seconds);
        json_close(j);
    }
    json_close_list(j);
    json_u64(j, "memory_bytes", f->memory_bytes);
    json_u64(j, "budget_bytes", f->budget_bytes);
    json_double(j, "seconds", f->seconds);
    json_u64(j, "rss_bytes_peak", cli_rss_peak());
}

static void plan_text(const cli *c, const tg_annotate_forecast *f)
{
    static const char *const names[] = {"sort", "score", "rank", "images"};
    const tg_annotate_stage *stages[] = {&f->sort, &f->score, &f->rank, &f->images};
    char text[24];
    if (c->common->json)
        return;
    (void)printf("%" PRIu64 " spectra, %" PRIu64 " peaks%s; %" PRIu64 " formulas, %" PRIu64
                 " ions, %" PRIu32 " at a time\n\n%-8s %12s %10s\n",
                 f->spectra, f->peaks, f->sorted_before ? ", sorted before" : "", f->formulas,
                 f->ions, f->workers, "stage", "memory, most", "about");
    for (int i = 0; i < 4; i++)
        (void)printf("%-8s %12s %8.1f s\n", names[i],
                     cli_bytes_text(stages[i]->memory_bytes, text, sizeof text),
                     stages[i]->seconds);
    (void)printf("%-8s %12s %8.1f s\n", "all",
                 cli_bytes_text(f->memory_bytes, text, sizeof text), f->seconds);
    if (f->spilled_bytes > 0)
        (void)printf("\n%s of sorted runs on the disk while the peaks are sorted\n",
                     cli_bytes_text(f->spilled_bytes, text, sizeof text));
}

static int show_plan(cli *c, tg_runtime *rt, const tg_annotate_options *request)
{
    tg_annotate_forecast f = {.size = sizeof f};
    tg_status st = tg_annotate_plan(rt, request, &f, c->cancel, &c->err);
    if (st != TG_OK)
        return st == TG_CANCELLED ? CLI_TRY_AGAIN : cli_refused(c);
    cli_no_error(c);
    plan_json(c, &f);
    plan_text(c, &f);
    return CLI_DONE;
}

static int run(cli *c, void *options)
{
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    annotate_options *o = options;
    tg_annotate_options request;
    tg_annotate_result r = {.size = sizeof r};

    if (c->operands.n < 2 && o->ion == NULL) {
        (void)cli_fail(&c->err, TG_INVALID, "OUT is missing: where do the results go?");
        return CLI_USAGE;
    }
    if (annotate_request(c, o, &request) != TG_OK ||
        cli_runtime(c, c->common->memory, &rt) != TG_OK)
        return CLI_USAGE;
    if (o->ion != NULL)
        return show_ion(c, o, rt, &request);
    if (o->plan)
        return show_plan(c, rt, &request);
    tg_status st = tg_annotate(rt, &request, &r, c->cancel, &c->err);
    cli_progress_end(&c->progress);
    if (st == TG_OK)
        result_text(c, &r);
    const int code = exit_of(c, st, &r);
    if (o->report != NULL && (st == TG_OK || r.spectra > 0)) {
        tg_error failed;
        if (annotate_write_report(c, o, &request, &r, &failed) != TG_OK && st == TG_OK) {
            c->err = failed;
            result_json(c, &r);
            return CLI_FAILED;
        }
    }
    result_json(c, &r);
    return code;
}

static void defaults(void *options)
{
    annotate_options *o = options;
    o->seed = 42;
}

const cli_verb cli_annotate = {
    .name = "annotate",
    .operands = "DATA.imzML OUT",
    .least = 1,
    .most = 2,
    .summary = "annotate an imaging mass spectrometry data set",
    .example = "  tidegate annotate brain.imzML brain.annotated --db hmdb.csv \\\n"
               "    --adducts +H,+Na,+K --resolving-power 140000@200\n",
    .options = options_table,
    .n_options = sizeof options_table / sizeof options_table[0],
    .defaults = defaults,
    .run = run,
};
