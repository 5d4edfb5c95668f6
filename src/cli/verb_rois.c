/* cli/verb_rois.c - rois: a list of regions in any of the formats, listed, checked against an
 * image, converted. */
#include "place.h"
#include "tidegate/memory.h"
#include "tidegate/rois.h"
#include "tidegate/text.h"

#include <stdio.h>
#include <string.h>

typedef struct rois_options {
    cli_common common;
    const char *image, *to;
    uint64_t limit;
    int px_rule, backend;
    bool pixels, overwrite;
} rois_options;

#define RULES    "ngio|fractal1|nearest|inner|outer"
#define BACKENDS "anndata|csv|json"

static const cli_option options_table[] = {
    {"image", CLI_TEXT, offsetof(rois_options, image), "PATH",
     "the image, or an array of it, that the regions are of"},
    {"pixels", CLI_FLAG, offsetof(rois_options, pixels), NULL,
     "make lengths whole pixels of the image"},
    {"px-rule", CLI_CHOICE, offsetof(rois_options, px_rule), RULES,
     "how lengths become pixels (ngio)"},
    {"to", CLI_TEXT, offsetof(rois_options, to), "FILE|table:NAME",
     "write FILE.json, FILE.csv, FILE.geojson, or a table of the image"},
    {"backend", CLI_CHOICE, offsetof(rois_options, backend), BACKENDS,
     "what the table is kept in (anndata)"},
    {"overwrite", CLI_FLAG, offsetof(rois_options, overwrite), NULL,
     "replace a file or table of this name"},
    {"limit", CLI_NATURAL, offsetof(rois_options, limit), "N",
     "list at most N regions (1000; with --to none)"},
};

static void defaults(void *options)
{
    rois_options *o = options;
    o->limit = UINT64_MAX; /* not given */
}

/* The i-th word of "a|b|c". */
static const char *word(const char *words, int i, char room[32])
{
    while (i-- > 0)
        words = strchr(words, '|') + 1;
    (void)snprintf(room, 32, "%.*s", (int)strcspn(words, "|"), words);
    return room;
}

static bool to_table(const rois_options *o)
{
    return o->to != NULL && strncmp(o->to, "table:", 6) == 0;
}

static tg_status open_image(cli *c, const rois_options *o, cli_place *place)
{
    return to_table(o) ? place_open_writing(c, o->image, false, place)
                       : place_open_around(c, o->image, place);
}

static const char *number_text(double v, char room[40])
{
    if (v > -1e15 && v < 1e15 && v == (double)(int64_t)v)
        (void)snprintf(room, 40, "%.0f", v);
    else
        tg_format_double(room, 40, v);
    return room;
}

static void show_region(cli *c, const tg_rois_info *info, const tg_rois_region *r, uint64_t i)
{
    json_out *j = &c->json;
    char room[40], other[40], name[256];
    const int len = r->name_len > 200 ? 200 : (int)r->name_len;

    (void)snprintf(name, sizeof name, "%.*s", len, r->name == NULL ? "" : r->name);
    json_open(j, NULL);
    json_text(j, "name", r->name == NULL ? NULL : name);
    if (r->label != 0)
        json_u64(j, "label", r->label);
    json_open_list(j, "box");
    for (uint32_t k = 0; k < info->n_axes; k++) {
        json_open_list(j, NULL);
        json_double(j, NULL, r->start[k]);
        json_double(j, NULL, r->end[k]);
        json_close_list(j);
    }
    json_close_list(j);
    json_close(j);
    if (c->common->json)
        return;
    (void)printf("%llu", (unsigned long long)i);
    for (uint32_t k = 0; k < info->n_axes; k++)
        (void)printf("  %s %s:%s", info->axis[k], number_text(r->start[k], room),
                     number_text(r->end[k], other));
    if (r->label != 0)
        (void)printf("  label %llu", (unsigned long long)r->label);
    (void)printf("%s%s\n", name[0] == '\0' ? "" : "  ", name);
}

static tg_status show_regions(cli *c, const tg_rois *rois, const tg_rois_info *info,
                              uint64_t limit)
{
    tg_rois_region r = {.size = sizeof r};
    const uint64_t n = info->n < limit ? info->n : limit;

    json_open_list(&c->json, "regions");
    for (uint64_t i = 0; i < n; i++) {
        tg_status st = tg_rois_get(rois, i, &r, &c->err);
        if (st != TG_OK)
            return st;
        show_region(c, info, &r, i);
    }
    json_close_list(&c->json);
    if (!c->common->json && n < info->n && n > 0)
        (void)printf("... %llu more (--limit)\n", (unsigned long long)(info->n - n));
    return TG_OK;
}

static void show_info(cli *c, const tg_rois_info *info, const char *rule)
{
    json_out *j = &c->json;

    json_text(j, "format", info->format);
    json_u64(j, "rois", info->n);
    json_open_list(j, "axes");
    for (uint32_t i = 0; i < info->n_axes; i++)
        json_text(j, NULL, info->axis[i]);
    json_close_list(j);
    json_text(j, "unit", info->unit);
    json_text(j, "labels", info->labels);
    json_text(j, "array", info->array);
    if (!c->common->json)
        (void)printf("%llu regions  (%s, in %s)\n", (unsigned long long)info->n, info->format,
                     info->unit);
    if (info->array == NULL)
        return;
    json_text(j, "px_rule", rule);
    json_u64(j, "not_snapped", info->not_snapped);
    if (info->first_not_snapped == UINT64_MAX)
        json_null(j, "first_not_snapped");
    else
        json_u64(j, "first_not_snapped", info->first_not_snapped);
    json_u64(j, "clamped", info->clamped);
    json_u64(j, "empty", info->empty);
    if (!c->common->json)
        (void)printf("by rule %s: %llu with edges between pixels, %llu cut at the border, %llu "
                     "empty\n",
                     rule, (unsigned long long)info->not_snapped,
                     (unsigned long long)info->clamped, (unsigned long long)info->empty);
}

static tg_status look_and_write(cli *c, const rois_options *o, const tg_rois *rois,
                                const char *rule)
{
    tg_rois_info info = {.size = sizeof info};
    char room[32];
    const tg_rois_write_options w = {.size = sizeof w,
                                     .to = o->to,
                                     .backend = word(BACKENDS, o->backend, room),
                                     .overwrite = o->overwrite};
    const uint64_t usual = o->to == NULL ? 1000 : 0;

    tg_status st = tg_rois_get_info(rois, &info, &c->err);
    if (st != TG_OK)
        return st;
    show_info(c, &info, rule);
    st = show_regions(c, rois, &info, o->limit == UINT64_MAX ? usual : o->limit);
    if (st == TG_OK && o->to != NULL)
        st = tg_rois_write(rois, &w, c->cancel, &c->err);
    json_text(&c->json, "written", st == TG_OK ? o->to : NULL);
    return st;
}

static int run(cli *c, void *options)
{
    const rois_options *o = options;
    CLI_AUTO(place_close) cli_place place = {0};
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    char rule[32];
    tg_rois *rois = NULL;

    if (o->image == NULL && (o->pixels || to_table(o))) {
        (void)cli_fail(&c->err, TG_INVALID, "%s needs --image PATH",
                       o->pixels ? "--pixels" : "--to table:NAME");
        return CLI_USAGE;
    }
    if (cli_runtime(c, c->common->memory, &rt) != TG_OK ||
        (o->image != NULL && open_image(c, o, &place) != TG_OK))
        return cli_refused(c);
    const tg_rois_options open = {.size = sizeof open,
                                  .rois = c->operands.item[0],
                                  .store = place.store,
                                  .image = place.prefix,
                                  .px_rule = word(RULES, o->px_rule, rule),
                                  .to_pixels = o->pixels};
    if (tg_rois_open(rt, &open, &rois, c->cancel, &c->err) != TG_OK)
        return cli_refused(c);
    tg_status st = look_and_write(c, o, rois, rule);
    tg_rois_free(rois);
    if (st == TG_OK && to_table(o))
        st = place_finish(c, &place);
    return st == TG_OK ? CLI_DONE : cli_refused(c);
}

const cli_verb cli_rois = {
    .name = "rois",
    .operands = "FILE|table:NAME|grid:SIZE[/STEP]|labels:PATH",
    .least = 1,
    .most = 1,
    .summary = "list regions of interest, check them against an image, convert them",
    .example = "  tidegate rois RoiSet.zip\n"
               "  tidegate rois table:FOV_ROI_table --image plate.zarr/B/03/0\n"
               "  tidegate rois cells.geojson --image slide.zarr --to table:cells\n"
               "  tidegate rois table:nuclei --image im.zarr --pixels --px-rule fractal1 --to "
               "nuclei.csv\n",
    .options = options_table,
    .n_options = sizeof options_table / sizeof options_table[0],
    .defaults = defaults,
    .run = run,
};
