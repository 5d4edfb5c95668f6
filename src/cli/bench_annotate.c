/* cli/bench_annotate.c - bench annotate --generate: imaging mass spectrometry data with known
 * truth. */
#include "bench.h"
#include "tidegate/annotate.h"

#include <inttypes.h>
#include <stdio.h>

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

int bench_annotate(cli *c, const bench_options *o)
{
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    tg_ims_generate_options g;
    tg_ims_generate_result r = {.size = sizeof r};

    if (o->formats != NULL)
        return compare_formats(c, o);
    if (o->generate == NULL) {
        (void)cli_fail(&c->err, TG_INVALID,
                       "bench annotate: want --generate OUT or --formats DATA.imzML");
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
