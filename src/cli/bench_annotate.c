/* cli/bench_annotate.c - bench annotate: imaging mass spectrometry data with known truth, the
 * formats of images compared, and the parts of an annotation timed alone. */
#include "bench.h"
#include "tidegate/annotate.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

static tg_status take_options(cli *c, const bench_options *o, tg_ims_generate_options *g)
{
    const bench_generate *w = &o->made;
    *g = (tg_ims_generate_options){
        .size = sizeof *g,
        .out = o->generate,
        .height = o->shape.n == 2 ? (uint32_t)o->shape.v[0] : 36,
        .width = o->shape.n == 2 ? (uint32_t)o->shape.v[1] : 48,
        .depth = w->depth == 0 ? 1 : (uint32_t)w->depth,
        .seed = w->seed,
        .planted = (uint32_t)w->planted,
        .families = (uint32_t)w->families,
        .noise = (uint32_t)w->noise,
        .fill = (uint32_t)w->fill,
        .continuous = w->continuous,
        .deflated = w->deflated,
        .zero_based = w->zero_based,
        .shuffled = w->shuffled,
        .mz = (tg_ims_number)w->mz,
        .intensity = (tg_ims_number)w->intensity,
        .broken = (tg_ims_broken)w->broken,
        .progress = cli_progress_report,
        .progress_user = &c->progress,
    };
    const uint64_t numbers[] = {w->depth, w->planted, w->families, w->noise, w->fill};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i] > UINT32_MAX)
            return cli_fail(&c->err, TG_INVALID, "%" PRIu64 ": at most %" PRIu32, numbers[i],
                            UINT32_MAX);
    if (o->shape.n == 2 && (o->shape.v[0] > UINT32_MAX || o->shape.v[1] > UINT32_MAX))
        return cli_fail(&c->err, TG_INVALID, "--shape: at most %" PRIu32, UINT32_MAX);
    return TG_OK;
}

/* --- Formats ---------------------------------------------------------------------------- */

static void formats_json(cli *c, const tg_image_formats *f)
{
    json_out *j = &c->json;
    json_u64(j, "images", f->images);
    json_u64(j, "pixels", f->pixels);
    json_open_list(j, "formats");
    for (int i = 0; i < TG_N_IMAGE_FORMATS; i++) {
        json_open(j, NULL);
        json_text(j, "name", f->of[i].name);
        json_bool(j, "exact", f->of[i].exact);
        json_u64(j, "bytes", f->of[i].bytes);
        json_u64(j, "memory_bytes", f->of[i].memory_bytes);
        json_double(j, "seconds", f->of[i].seconds);
        json_close(j);
    }
    json_close_list(j);
    json_u64(j, "rss_bytes_peak", cli_rss_peak());
}

static void formats_text(const cli *c, const tg_image_formats *f)
{
    if (c->common->json)
        return;
    (void)printf("%" PRIu64 " images, %" PRIu64 " pixels\n\n%-8s %12s %10s %10s %10s\n",
                 f->images, f->pixels, "format", "bytes", "a pixel", "us/image", "memory");
    for (int i = 0; i < TG_N_IMAGE_FORMATS; i++) {
        char memory[24];
        (void)printf("%-8s %12" PRIu64 " %10.2f %10.1f %10s\n", f->of[i].name, f->of[i].bytes,
                     (double)f->of[i].bytes / (double)(f->pixels > 0 ? f->pixels : 1),
                     f->of[i].seconds * 1e6 / (double)(f->images > 0 ? f->images : 1),
                     cli_bytes_text(f->of[i].memory_bytes, memory, sizeof memory));
    }
}

static int compare_formats(cli *c, const bench_options *o)
{
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    tg_image_formats f = {.size = sizeof f};
    const tg_annotate_options a = {.size = sizeof a,
                                   .data = o->formats,
                                   .out = o->dir,
                                   .databases = o->db.item,
                                   .n_databases = o->db.n,
                                   .reading = {.size = sizeof a.reading},
                                   .progress = cli_progress_report,
                                   .progress_user = &c->progress};
    if (cli_runtime(c, c->common->memory, &rt) != TG_OK)
        return CLI_USAGE;
    const tg_status st = tg_ims_image_formats(rt, &a, &f, c->cancel, &c->err);
    cli_progress_end(&c->progress);
    if (st != TG_OK)
        return st == TG_CANCELLED ? CLI_TRY_AGAIN : cli_refused(c);
    cli_no_error(c);
    formats_json(c, &f);
    formats_text(c, &f);
    return CLI_DONE;
}

/* --- Parts ------------------------------------------------------------------------------ */

static const struct {
    const char *name, *unit;
} part_names[TG_N_IMS_PARTS] = {{"xml", "bytes"},          {"expat", "bytes"},
                                {"sort", "peaks"},         {"centroids", "formulas"},
                                {"metrics-400px", "ions"}, {"chaos", "images"}};

enum { MOST_ROUNDS = 99 };

static void part_out(cli *c, int k, const tg_ims_parts *rounds, size_t n)
{
    double rate[MOST_ROUNDS];
    if (!(rounds[0].seconds[k] > 0))
        return;
    json_open(&c->json, NULL);
    json_text(&c->json, "name", part_names[k].name);
    json_text(&c->json, "unit", part_names[k].unit);
    json_double(&c->json, "count", rounds[0].count[k]);
    json_open_list(&c->json, "rounds");
    for (size_t i = 0; i < n; i++) {
        rate[i] = rounds[i].count[k] / rounds[i].seconds[k];
        json_double(&c->json, NULL, rate[i]);
    }
    json_close_list(&c->json);
    const double median = bench_median(rate, n);
    json_double(&c->json, "per_second", median);
    json_close(&c->json);
    if (!c->common->json)
        (void)printf("%-14s %14.1f %s/s\n", part_names[k].name, median, part_names[k].unit);
}

static void parts_out(cli *c, const tg_ims_parts *rounds, size_t n)
{
    json_open_list(&c->json, "parts");
    for (int k = 0; k < TG_N_IMS_PARTS; k++)
        part_out(c, k, rounds, n);
    json_close_list(&c->json);
    json_u64(&c->json, "centroids", rounds[0].centroids);
    json_u64(&c->json, "refused", rounds[0].refused);
    json_double(&c->json, "chaos", rounds[0].chaos);
    json_u64(&c->json, "rss_bytes_peak", cli_rss_peak());
}

/* Each round sorts anew, into a folder that is gone behind it. */
static tg_status run_parts(cli *c, tg_runtime *rt, const bench_options *o,
                           const tg_ims_parts_options *p, tg_ims_parts *rounds)
{
    for (uint64_t i = 0; i < o->rounds; i++) {
        char scratch[512];
        bench_scratch_name(o->dir, scratch, sizeof scratch);
        if (mkdir(scratch, 0777) != 0)
            return cli_fail_errno(&c->err, scratch, "make");
        tg_ims_parts_options with = *p;
        with.scratch = scratch;
        rounds[i] = (tg_ims_parts){.size = sizeof rounds[i]};
        const tg_status st = tg_ims_time_parts(rt, &with, &rounds[i], c->cancel, &c->err);
        bench_remove(scratch);
        if (st != TG_OK)
            return st;
    }
    return TG_OK;
}

static tg_status take_images(cli *c, const bench_options *o, bench_pool *pool,
                             tg_ims_parts_options *p)
{
    if (o->from == NULL)
        return TG_OK;
    if (o->shape.n != 2 || o->shape.v[0] == 0 || o->shape.v[1] == 0 || o->shape.v[0] > 8192 ||
        o->shape.v[1] > 8192)
        return cli_fail(&c->err, TG_INVALID,
                        "--from: want --shape H,W of its images, at most "
                        "8192 each");
    p->height = (size_t)o->shape.v[0];
    p->width = (size_t)o->shape.v[1];
    const size_t bytes = p->height * p->width * sizeof(float);
    const tg_status st = pool_new(pool, bytes, UINT64_MAX, BENCH_NOISE, o->from, &c->err);
    if (st != TG_OK)
        return st;
    p->images = (const float *)(const void *)pool->frames;
    p->n_images = pool->n;
    return TG_OK;
}

static int time_parts(cli *c, const bench_options *o)
{
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    tg_ims_parts_options p = {.size = sizeof p,
                              .data = o->parts,
                              .formulas = o->db.n > 0 ? o->db.item[0] : NULL,
                              .instrument = TG_INSTRUMENT_TOF,
                              .resolving_power = 140000};
    static tg_ims_parts rounds[MOST_ROUNDS];
    bench_pool pool = {0};

    if (cli_runtime(c, c->common->memory, &rt) != TG_OK)
        return CLI_USAGE;
    tg_status st = take_images(c, o, &pool, &p);
    if (st == TG_OK)
        st = run_parts(c, rt, o, &p, rounds);
    pool_free(&pool);
    if (st != TG_OK)
        return st == TG_CANCELLED ? CLI_TRY_AGAIN : cli_refused(c);
    cli_no_error(c);
    parts_out(c, rounds, (size_t)o->rounds);
    return CLI_DONE;
}

int bench_annotate(cli *c, const bench_options *o)
{
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    tg_ims_generate_options g;
    tg_ims_generate_result r = {.size = sizeof r};

    if (o->formats != NULL)
        return compare_formats(c, o);
    if (o->parts != NULL)
        return time_parts(c, o);
    if (o->generate == NULL) {
        (void)cli_fail(&c->err, TG_INVALID,
                       "bench annotate: want --generate OUT, --formats DATA.imzML or --parts "
                       "DATA.imzML");
        return CLI_USAGE;
    }
    if (take_options(c, o, &g) != TG_OK || cli_runtime(c, c->common->memory, &rt) != TG_OK)
        return CLI_USAGE;
    tg_status st = tg_ims_generate(rt, &g, &r, c->cancel, &c->err);
    cli_progress_end(&c->progress);
    json_u64(&c->json, "spectra", r.spectra);
    json_u64(&c->json, "peaks", r.peaks);
    json_u64(&c->json, "xml_bytes", r.xml_bytes);
    json_u64(&c->json, "ibd_bytes", r.ibd_bytes);
    json_u64(&c->json, "rss_bytes_peak", cli_rss_peak());
    if (st == TG_OK && !c->common->json)
        (void)printf("%" PRIu64 " spectra, %" PRIu64 " peaks in %s.ibd\n", r.spectra, r.peaks,
                     o->generate);
    return st == TG_OK                                ? CLI_DONE
           : st == TG_CANCELLED                       ? CLI_TRY_AGAIN
           : st == TG_INVALID || st == TG_OVER_BUDGET ? cli_refused(c)
                                                      : CLI_FAILED;
}
