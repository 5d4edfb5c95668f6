/* cli/verb_create.c - create: an array with nothing but fill value in it, or a group. */
#include "place.h"
#include "tidegate/memory.h"
#include "tidegate/text.h"

#include <stdio.h>
#include <string.h>

typedef struct create_options {
    cli_common common;
    const char *shape, *shard, *codec, *fill, *dims, *meta;
    cli_extents chunk;
    tg_dtype dtype;
    int format, checksum, separator;
    bool group, create, overwrite;
} create_options;

static const cli_option options_table[] = {
    {"shape", CLI_TEXT, offsetof(create_options, shape), "64,512,512",
     "extents, slowest first; 0: grows from nothing; (): one item"},
    {"dtype", CLI_DTYPE, offsetof(create_options, dtype), "DTYPE",
     "bool, int8 to uint64, float16 to float64, complex64, complex128, string, r24"},
    {"chunk", CLI_EXTENTS, offsetof(create_options, chunk), "64,256,256",
     "extents of a chunk (the whole array)"},
    {"shard", CLI_TEXT, offsetof(create_options, shard), "512,1024,1024|none",
     "extents of a stored object, multiples of the chunk's; zarr3 (none)"},
    {"codec", CLI_TEXT, offsetof(create_options, codec), "CODEC",
     "none, zstd[:L], gzip[:L], blosc:CNAME[:L[:SHUFFLE]] (none)"},
    {"checksum", CLI_CHOICE, offsetof(create_options, checksum), "on|off",
     "crc32c behind each chunk; zarr3 (on)"},
    {"fill", CLI_TEXT, offsetof(create_options, fill), "VALUE",
     "what is read where nothing was written: 3, -1.5, NaN, true, [1,2] (0)"},
    {"dims", CLI_TEXT, offsetof(create_options, dims), "t,z,y,x",
     "names of the dimensions; zarr3"},
    {"meta", CLI_TEXT, offsetof(create_options, meta), "FILE.json",
     "a JSON object that becomes the attributes"},
    {"format", CLI_CHOICE, offsetof(create_options, format), "zarr3|zarr2", "(zarr3)"},
    {"separator", CLI_CHOICE, offsetof(create_options, separator), "/|.",
     "in the keys of chunks (/)"},
    {"group", CLI_FLAG, offsetof(create_options, group), NULL,
     "a group; takes only --meta and --format"},
    {"create", CLI_FLAG, offsetof(create_options, create), NULL,
     "refuse what exists (the default)"},
    {"overwrite", CLI_FLAG, offsetof(create_options, overwrite), NULL,
     "replace a Zarr node, with all that lies below it"},
};

#define FILE_MOST (16 << 20)

/* What the options say, in the library's terms. */
typedef struct create_plan {
    tg_array_options array;
    uint64_t shape[TG_MAX_NDIM];
    cli_extents shard;
    unsigned char *fill;
    char *dims, *attributes;
    const char *names[TG_MAX_NDIM];
} create_plan;

static void plan_free(create_plan *p)
{
    tg_free(p->fill);
    tg_free(p->dims);
    tg_free(p->attributes);
}

static tg_status read_shape(cli *c, const char *text, create_plan *p)
{
    const char *at = text;
    p->array.shape = p->shape;
    if (strcmp(text, "()") == 0)
        return TG_OK;
    for (uint32_t i = 0;; i++) {
        char word[24];
        size_t len = strcspn(at, ",");
        if (i == TG_MAX_NDIM)
            return cli_fail(&c->err, TG_INVALID, "--shape: more than %d numbers", TG_MAX_NDIM);
        (void)snprintf(word, sizeof word, "%.*s", (int)(len < 23 ? len : 23), at);
        if (len == 0 || len > 20 || tg_parse_u64(word, &p->shape[i], NULL) != TG_OK)
            return cli_fail(&c->err, TG_INVALID,
                            "--shape: got '%.60s', want whole numbers with commas between them",
                            text);
        p->array.ndim = i + 1;
        if (at[len] == '\0')
            return TG_OK;
        at += len + 1;
    }
}

static tg_status check_count(cli *c, const char *option, uint32_t got, uint32_t want)
{
    if (got == want)
        return TG_OK;
    return cli_fail(&c->err, TG_INVALID, "--%s: %u extents, --shape has %u", option, got, want);
}

static tg_status read_layout(cli *c, const create_options *o, create_plan *p)
{
    if (o->chunk.n > 0)
        p->array.chunk = o->chunk.v;
    tg_status st = o->chunk.n > 0 ? check_count(c, "chunk", o->chunk.n, p->array.ndim) : TG_OK;
    if (st != TG_OK || o->shard == NULL || strcmp(o->shard, "none") == 0)
        return st;
    st = cli_parse_extents(o->shard, &p->shard, &c->err);
    if (st != TG_OK) {
        cli_prefix(&c->err, "--shard");
        return st;
    }
    p->array.shard = p->shard.v;
    return check_count(c, "shard", p->shard.n, p->array.ndim);
}

static tg_status read_fill(cli *c, const create_options *o, create_plan *p)
{
    if (o->fill == NULL)
        return TG_OK;
    if (o->dtype.kind == TG_DT_STRING) {
        p->array.fill = o->fill;
        return TG_OK;
    }
    p->fill = tg_calloc(o->dtype.size, 1);
    if (p->fill == NULL)
        return cli_fail(&c->err, TG_NO_MEMORY, "no memory for a fill value");
    tg_status st = tg_item_parse(o->dtype, o->fill, p->fill, &c->err);
    if (st != TG_OK)
        cli_prefix(&c->err, "--fill");
    p->array.fill = p->fill;
    return st;
}

static tg_status read_dims(cli *c, const create_options *o, create_plan *p)
{
    if (o->dims == NULL)
        return TG_OK;
    p->dims = tg_strdup(o->dims);
    if (p->dims == NULL)
        return cli_fail(&c->err, TG_NO_MEMORY, "no memory for names");
    uint32_t n = 0;
    for (char *at = p->dims;;) {
        char *comma = at + strcspn(at, ",");
        bool last = *comma == '\0';
        if (n == TG_MAX_NDIM)
            return cli_fail(&c->err, TG_INVALID, "--dims: more than %d names", TG_MAX_NDIM);
        *comma = '\0';
        p->names[n++] = *at != '\0' ? at : NULL;
        if (last)
            break;
        at = comma + 1;
    }
    p->array.dimension_names = p->names;
    return check_count(c, "dims", n, p->array.ndim);
}

static tg_status read_meta(cli *c, const create_options *o, create_plan *p)
{
    size_t len = 0;
    if (o->meta == NULL)
        return TG_OK;
    tg_status st = cli_read_file(o->meta, FILE_MOST, &p->attributes, &len, &c->err);
    if (st == TG_OK && strlen(p->attributes) != len)
        st = cli_fail(&c->err, TG_INVALID, "'%.200s' holds a NUL byte", o->meta);
    p->array.attributes = p->attributes;
    return st;
}

static tg_status check_group(cli *c, const create_options *o)
{
    if (o->shape != NULL || o->dtype.kind != TG_DT_NONE || o->chunk.n > 0 || o->shard != NULL ||
        o->codec != NULL || o->fill != NULL || o->dims != NULL || o->checksum != 0 ||
        o->separator != 0)
        return cli_fail(&c->err, TG_INVALID, "--group takes only --meta and --format");
    return TG_OK;
}

static tg_status read_plan(cli *c, const create_options *o, create_plan *p)
{
    p->array = (tg_array_options){.size = sizeof p->array,
                                  .format = o->format == 0 ? 3 : 2,
                                  .dtype = o->dtype,
                                  .codec = o->codec,
                                  .no_checksum = o->checksum == 1,
                                  .separator = o->separator == 0 ? '/' : '.',
                                  .overwrite = o->overwrite};
    if (o->create && o->overwrite)
        return cli_fail(&c->err, TG_INVALID, "--create or --overwrite, not both");
    tg_status st = read_meta(c, o, p);
    if (st != TG_OK)
        return st;
    if (o->group)
        return check_group(c, o);
    if (o->shape == NULL || o->dtype.kind == TG_DT_NONE)
        return cli_fail(&c->err, TG_INVALID, "%s is missing (or --group)",
                        o->shape == NULL ? "--shape" : "--dtype");
    st = read_shape(c, o->shape, p);
    if (st == TG_OK)
        st = read_layout(c, o, p);
    if (st == TG_OK)
        st = read_fill(c, o, p);
    return st == TG_OK ? read_dims(c, o, p) : st;
}

static tg_status make_node(cli *c, const create_options *o, const create_plan *p,
                           const cli_place *place)
{
    tg_array *array = NULL;
    tg_status st = place_check_free(c, place, o->overwrite);
    if (st != TG_OK)
        return st;
    if (!o->group) {
        st =
            tg_array_create(place->store, place->prefix, &p->array, &array, c->cancel, &c->err);
        tg_array_free(array);
        return st;
    }
    if (o->overwrite)
        st = tg_node_remove(place->store, place->prefix, c->cancel, &c->err);
    return st != TG_OK ? st
                       : tg_group_create(place->store, place->prefix, p->array.format,
                                         p->array.attributes, c->cancel, &c->err);
}

static int run(cli *c, void *options)
{
    const create_options *o = options;
    CLI_AUTO(plan_free) create_plan plan = {0};
    CLI_AUTO(place_close) cli_place place = {0};
    const char *path = c->operands.item[0];

    if (read_plan(c, o, &plan) != TG_OK || place_open_writing(c, path, true, &place) != TG_OK)
        return cli_refused(c);
    tg_status st = make_node(c, o, &plan, &place);
    if (st == TG_OK)
        st = place_finish(c, &place);
    if (st != TG_OK) {
        place_undo(c, path, &place);
        return cli_refused(c);
    }
    json_text(&c->json, "path", path);
    json_text(&c->json, "kind", o->group ? "group" : "array");
    return CLI_DONE;
}

const cli_verb cli_create = {
    .name = "create",
    .operands = "PATH",
    .least = 1,
    .most = 1,
    .summary = "make an array of fill value, or a group",
    .example = "  tidegate create x.zarr --group\n"
               "  tidegate create x.zarr/0 --shape 64,512,512 --dtype uint16 --chunk 1,512,512 "
               "--codec zstd:3\n",
    .options = options_table,
    .n_options = sizeof options_table / sizeof options_table[0],
    .run = run,
};
