/* cli/record_options.c - the words of `record` taken apart into what the recorder is asked for.
 * Pure: reads no file, opens nothing. */
#include "record.h"
#include "tidegate/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(record_options, member)

const cli_option record_option_table[] = {
    {"from", CLI_LIST, AT(from), "[NAME=]SOURCE",
     "test:WxH:DTYPE[@FPS], - (standard input), a FILE of raw frames, aravis[:ID]; repeatable "
     "with NAMEs"},
    {"camera", CLI_LIST, AT(camera), "KEY=VALUE",
     "set a GenICam feature before the start; repeatable, in this order"},
    {"shape", CLI_SHAPE, AT(shape), "H,W", "of the frames of - and FILE"},
    {"dtype", CLI_DTYPE, AT(dtype), "DTYPE", "of the frames of - and FILE, such as uint16"},
    {"fps", CLI_NUMBER, AT(fps), "N", "frame rate of - and FILE, noted in the metadata"},
    {"frames", CLI_COUNT, AT(frames), "N", "end after N frames of each source"},
    {"seconds", CLI_SECONDS, AT(seconds), "S", "end after S seconds"},

    {"format", CLI_CHOICE, AT(format), "zarr3|zarr2", "Zarr format (zarr3)"},
    {"frame-axis", CLI_CHOICE, AT(frame_axis), "first|last", "(N,H,W) or (H,W,N) (first)"},
    {"dims", CLI_TEXT, AT(dims), "t=0,c=2,z=10",
     "outer dimensions in the order of storage; 0: without limit, the first only (t=0)"},
    {"acquire", CLI_TEXT, AT(acquire), "t,z,c",
     "order in which the frames arrive, slowest first (as --dims)"},
    {"chunk-frames", CLI_COUNT, AT(chunk_frames), "K",
     "frames per chunk (1; small frames are gathered to reach 1 MiB)"},
    {"tile", CLI_SHAPE, AT(tile), "H,W", "chunk extent within a frame (the whole frame)"},
    {"shard", CLI_TEXT, AT(shard), "SIZE|none|Nframes",
     "bytes or frames per shard file, or one file per chunk (128MiB; zarr2, ZIP: none)"},
    {"live", CLI_FLAG, AT(live), NULL,
     "shards that readers see grow: index at the start, at most 255 chunks"},
    {"codec", CLI_TEXT, AT(codec), "CODEC",
     "none, zstd[:L], blosc:CNAME[:L[:SHUFFLE]], gzip[:L] (none)"},
    {"checksum", CLI_CHOICE, AT(checksum), "on|off",
     "crc32c on chunks, and the table's crc32c column (on)"},
    {"pyramid", CLI_TEXT, AT(pyramid), "N:METHOD",
     "N levels below full size by mean, min, max or decimate"},

    {"ome", CLI_TEXT, AT(ome), "0.5|0.4|none",
     "OME-NGFF metadata (0.5 for zarr3, 0.4 for zarr2)"},
    {"scale", CLI_TEXT, AT(scale), "Y,X",
     "pixel size in --unit, one number or two; t=0.1,z=2,y=0.5,x=0.5 names dimensions"},
    {"unit", CLI_TEXT, AT(unit), "NAME",
     "of Y and X, such as micrometer; t=second,z=micrometer,y=... names dimensions"},
    {"channel", CLI_LIST, AT(channel), "NAME", "name of a channel; once for each, in order"},
    {"plate", CLI_TEXT, AT(plate), "FILE.json",
     "a plate: rows, columns, wells, fields, frames per field, order of arrival"},
    {"meta", CLI_TEXT, AT(meta), "FILE.json", "a JSON object that becomes attributes"},
    {"column", CLI_LIST, AT(column), "NAME:DTYPE[=VALUE]",
     "a column more in the frame table, the same value for every frame; repeatable"},

    {"on-full", CLI_TEXT, AT(on_full), "POLICY",
     "block, drop-new, drop-oldest, decimate:K or fail (block; cameras: drop-new)"},
    {"timeout", CLI_DURATION, AT(timeout), "T", "the longest that block may wait (for ever)"},
    {"on-gap", CLI_CHOICE, AT(on_gap), "keep|compact",
     "frames lie at the index their number says, or without gaps (keep)"},
    {"max-gap", CLI_COUNT, AT(max_gap), "N", "the widest gap that is believed (10000)"},
    {"commit-interval", CLI_DURATION, AT(commit_interval), "T",
     "how often frames become durable (1s)"},
    {"direct", CLI_CHOICE, AT(direct), "auto|on|off", "write past the page cache (auto)"},
    {"create", CLI_FLAG, AT(create), NULL, "refuse an OUT that exists (the default)"},
    {"overwrite", CLI_FLAG, AT(overwrite), NULL, "replace OUT if it is a Zarr node"},
    {"append", CLI_FLAG, AT(append), NULL, "go on after the last frame of OUT"},
    {"table", CLI_TEXT, AT(table), "FILE.csv", "write the frame table as CSV, too"},
    {"report", CLI_TEXT, AT(report), "FILE.html", "write a report for people"},
};

_Static_assert(sizeof record_option_table / sizeof record_option_table[0] == RECORD_N_OPTIONS,
               "RECORD_N_OPTIONS");

/* --- Words ----------------------------------------------------------------- */

/* The part of *rest up to the next `separator` into word; *rest moves behind it, NULL at the
 * end. */
static tg_status next_word(const char **rest, char separator, char word[RECORD_WORD],
                           tg_error *err)
{
    const char end[2] = {separator, '\0'};
    size_t len = strcspn(*rest, end);
    if (len == 0 || len >= RECORD_WORD)
        return cli_fail(err, TG_INVALID, "a part of '%.100s' is %s", *rest,
                        len == 0 ? "empty" : "too long");
    memcpy(word, *rest, len);
    word[len] = '\0';
    *rest = (*rest)[len] == separator ? *rest + len + 1 : NULL;
    return TG_OK;
}

static bool is_node_name(const char *s)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    for (const char *part = s;;) {
        size_t len = strcspn(part, "/");
        if (len == 0 || strspn(part, allowed) < len || strspn(part, ".") >= len)
            return false;
        if (part[len] == '\0')
            return true;
        part += len + 1;
    }
}

tg_status record_parse_source(const char *word, record_source *s, tg_error *err)
{
    const char *equals = strchr(word, '=');
    size_t len = equals != NULL ? (size_t)(equals - word) : 0;
    s->name[0] = '\0';
    s->spec = word;
    if (len > 0 && len < sizeof s->name) {
        memcpy(s->name, word, len);
        s->name[len] = '\0';
        if (is_node_name(s->name))
            s->spec = equals + 1;
        else
            s->name[0] = '\0'; /* a path with '=' in it, such as ./a=b.raw */
    }
    if (s->spec[0] == '\0')
        return cli_fail(err, TG_INVALID, "--from: '%.100s' names no source", word);
    return TG_OK;
}

/* --- Outer dimensions ------------------------------------------------------ */

static int find_dim(const record_layout *l, const char *name)
{
    for (uint32_t i = 0; i < l->array.n_dims; i++)
        if (strcmp(l->dim_names[i], name) == 0)
            return (int)i;
    return -1;
}

static tg_status add_dim(record_layout *l, char *word, tg_error *err)
{
    uint32_t i = l->array.n_dims;
    char *equals = strchr(word, '=');
    uint64_t extent = 0;
    if (equals == NULL || equals == word || tg_parse_u64(equals + 1, &extent, NULL) != TG_OK)
        return cli_fail(err, TG_INVALID, "got '%s', want NAME=EXTENT as in t=0,c=2,z=10", word);
    *equals = '\0';
    if (i == RECORD_MAX_DIMS)
        return cli_fail(err, TG_INVALID, "more than %d outer dimensions", RECORD_MAX_DIMS);
    if (strcmp(word, "y") == 0 || strcmp(word, "x") == 0 || find_dim(l, word) >= 0)
        return cli_fail(err, TG_INVALID, "'%s' is named twice (y and x are the frame's own)",
                        word);
    if (extent == 0 && i > 0)
        return cli_fail(err, TG_INVALID,
                        "'%s=0': only the first dimension may be without limit", word);
    (void)snprintf(l->dim_names[i], RECORD_WORD, "%s", word);
    l->dims[i] = (tg_stream_dim){.name = l->dim_names[i], .extent = extent, .arrival = i};
    l->array.n_dims = i + 1;
    return TG_OK;
}

static tg_status parse_dims(record_layout *l, const char *text, tg_error *err)
{
    char word[RECORD_WORD];
    tg_status st = TG_OK;
    for (const char *rest = text; st == TG_OK && rest != NULL;) {
        st = next_word(&rest, ',', word, err);
        if (st == TG_OK)
            st = add_dim(l, word, err);
    }
    return st;
}

static tg_status parse_acquire(record_layout *l, const char *text, tg_error *err)
{
    bool seen[RECORD_MAX_DIMS] = {false};
    uint32_t place = 0;
    for (const char *rest = text; rest != NULL; place++) {
        char word[RECORD_WORD];
        tg_status st = next_word(&rest, ',', word, err);
        if (st != TG_OK)
            return st;
        int i = find_dim(l, word);
        if (i < 0 || seen[i])
            return cli_fail(err, TG_INVALID, "'%s' %s", word,
                            i < 0 ? "is not among --dims" : "is named twice");
        seen[i] = true;
        l->dims[i].arrival = place;
    }
    if (place != l->array.n_dims)
        return cli_fail(err, TG_INVALID, "names %u of the %u dimensions", place,
                        l->array.n_dims);
    return TG_OK;
}

static tg_status parse_outer(const record_options *o, record_layout *l, tg_error *err)
{
    tg_status st = parse_dims(l, o->dims != NULL ? o->dims : "t=0", err);
    if (st != TG_OK) {
        cli_prefix(err, "--dims");
        return st;
    }
    if (o->acquire != NULL && (st = parse_acquire(l, o->acquire, err)) != TG_OK)
        cli_prefix(err, "--acquire");
    l->array.dims = l->dims;
    return st;
}

/* --- Scales and units ------------------------------------------------------ */

static tg_status positive(const char *word, double *v, tg_error *err)
{
    if (tg_parse_double(word, v, NULL) != TG_OK || !(*v > 0))
        return cli_fail(err, TG_INVALID, "got '%s', want a number above 0", word);
    return TG_OK;
}

static tg_status set_scale(record_layout *l, const char *name, double v, tg_error *err)
{
    int i = find_dim(l, name);
    if (strcmp(name, "y") == 0)
        l->array.scale_y = v;
    else if (strcmp(name, "x") == 0)
        l->array.scale_x = v;
    else if (i >= 0)
        l->dims[i].scale = v;
    else
        return cli_fail(err, TG_INVALID, "there is no dimension '%s'", name);
    return TG_OK;
}

static tg_status parse_scale(record_layout *l, const char *text, tg_error *err)
{
    int place = 0;
    for (const char *rest = text; rest != NULL; place++) {
        char word[RECORD_WORD];
        double v = 0;
        tg_status st = next_word(&rest, ',', word, err);
        char *equals = st == TG_OK ? strchr(word, '=') : NULL;
        if (st == TG_OK)
            st = positive(equals != NULL ? equals + 1 : word, &v, err);
        if (st != TG_OK)
            return st;
        if (equals != NULL) {
            *equals = '\0';
            st = set_scale(l, word, v, err);
        } else if (place > 1) {
            st = cli_fail(err, TG_INVALID, "want one number, or two: Y,X");
        } else {
            l->array.scale_x = v;
            if (place == 0)
                l->array.scale_y = v;
        }
        if (st != TG_OK)
            return st;
    }
    return TG_OK;
}

static tg_status set_unit(record_layout *l, const char *name, const char *unit, tg_error *err)
{
    int i = find_dim(l, name);
    if (strcmp(name, "y") == 0 || strcmp(name, "x") == 0) {
        if (l->array.unit != NULL && strcmp(l->unit, unit) != 0)
            return cli_fail(err, TG_INVALID, "y and x have one unit: '%s' or '%s'?", l->unit,
                            unit);
        (void)snprintf(l->unit, sizeof l->unit, "%s", unit);
        l->array.unit = l->unit;
    } else if (i >= 0) {
        (void)snprintf(l->dim_units[i], RECORD_WORD, "%s", unit);
        l->dims[i].unit = l->dim_units[i];
    } else {
        return cli_fail(err, TG_INVALID, "there is no dimension '%s'", name);
    }
    return TG_OK;
}

static tg_status parse_unit(record_layout *l, const char *text, tg_error *err)
{
    tg_status st = TG_OK;
    for (const char *rest = text; st == TG_OK && rest != NULL;) {
        char word[RECORD_WORD];
        st = next_word(&rest, ',', word, err);
        if (st != TG_OK)
            return st;
        char *equals = strchr(word, '=');
        if (equals == NULL) {
            st = set_unit(l, "y", word, err);
        } else {
            *equals = '\0';
            st = equals[1] == '\0' ? cli_fail(err, TG_INVALID, "'%s=' names no unit", word)
                                   : set_unit(l, word, equals + 1, err);
        }
    }
    return st;
}

static tg_status parse_meaning(const record_options *o, record_layout *l, tg_error *err)
{
    tg_status st = TG_OK;
    if (o->scale != NULL && (st = parse_scale(l, o->scale, err)) != TG_OK) {
        cli_prefix(err, "--scale");
        return st;
    }
    if (o->unit != NULL && (st = parse_unit(l, o->unit, err)) != TG_OK) {
        cli_prefix(err, "--unit");
        return st;
    }
    l->array.channel_names = o->channel.item;
    l->array.n_channels = (uint32_t)o->channel.n;
    int version = 0;
    if (o->ome != NULL &&
        (st = cli_parse_choice("0.5|0.4|none", o->ome, &version, err)) != TG_OK)
        cli_prefix(err, "--ome");
    return st;
}

/* --- Chunks, shards, pyramid ----------------------------------------------- */

static tg_status parse_shard(record_layout *l, const char *text, tg_error *err)
{
    size_t digits = strspn(text, "0123456789");
    if (strcmp(text, "none") == 0) {
        l->array.no_shards = true;
        return TG_OK;
    }
    if (digits > 0 && digits < 20 && strcmp(text + digits, "frames") == 0) {
        char word[20];
        memcpy(word, text, digits);
        word[digits] = '\0';
        if (tg_parse_u64(word, &l->array.shard_frames, NULL) == TG_OK &&
            l->array.shard_frames > 0)
            return TG_OK;
    } else if (tg_parse_size(text, &l->array.shard_bytes, err) != TG_OK) {
        return TG_INVALID;
    } else if (l->array.shard_bytes > 0) {
        return TG_OK;
    }
    return cli_fail(err, TG_INVALID,
                    "got '%.60s', want a size, none, or Nframes as in 64frames", text);
}

static tg_status parse_pyramid(record_layout *l, const char *text, tg_error *err)
{
    const char *colon = strchr(text, ':');
    char word[8];
    uint64_t levels = 0;
    int method = 0;
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;
    if (len > 0 && len < sizeof word) {
        memcpy(word, text, len);
        word[len] = '\0';
        if (tg_parse_u64(word, &levels, NULL) != TG_OK)
            levels = 0;
    }
    if (levels == 0 || levels > 30)
        return cli_fail(err, TG_INVALID,
                        "got '%.60s', want N:METHOD as in 3:mean, N from 1 to 30", text);
    tg_status st = cli_parse_choice("mean|min|max|decimate", colon + 1, &method, err);
    if (st != TG_OK)
        return st;
    static const tg_reduce methods[] = {TG_REDUCE_MEAN, TG_REDUCE_MIN, TG_REDUCE_MAX,
                                        TG_REDUCE_DECIMATE};
    l->array.pyramid_levels = (uint32_t)levels;
    l->array.pyramid_method = methods[method];
    return TG_OK;
}

static tg_status parse_layout(const record_options *o, record_layout *l, tg_error *err)
{
    tg_status st = TG_OK;
    l->array.frame_axis_last = o->frame_axis == 1;
    l->array.chunk_frames = o->chunk_frames;
    l->array.tile_height = o->tile.n == 2 ? o->tile.v[0] : 0;
    l->array.tile_width = o->tile.n == 2 ? o->tile.v[1] : 0;
    l->array.live = o->live;
    l->array.no_checksum = o->checksum == 1;
    l->array.codec = o->codec;
    if (o->shard != NULL && (st = parse_shard(l, o->shard, err)) != TG_OK) {
        cli_prefix(err, "--shard");
        return st;
    }
    if (o->pyramid != NULL && (st = parse_pyramid(l, o->pyramid, err)) != TG_OK)
        cli_prefix(err, "--pyramid");
    return st;
}

/* --- Flow ------------------------------------------------------------------ */

static tg_status parse_on_full(record_layout *l, const char *text, tg_error *err)
{
    static const tg_full_policy policies[] = {TG_FULL_BLOCK, TG_FULL_DROP_NEW,
                                              TG_FULL_DROP_OLDEST, TG_FULL_FAIL};
    int i = 0;
    l->has_on_full = true;
    if (strncmp(text, "decimate", 8) == 0) {
        uint64_t k = 0;
        if (text[8] != ':' || tg_parse_u64(text + 9, &k, NULL) != TG_OK || k < 2 ||
            k > UINT32_MAX)
            return cli_fail(err, TG_INVALID, "got '%.60s', want decimate:K with K of 2 or more",
                            text);
        l->array.on_full = TG_FULL_DECIMATE;
        l->array.decimate = (uint32_t)k;
        return TG_OK;
    }
    if (cli_parse_choice("block|drop-new|drop-oldest|fail", text, &i, NULL) != TG_OK)
        return cli_fail(err, TG_INVALID,
                        "got '%.60s', want block, drop-new, drop-oldest, decimate:K or fail",
                        text);
    l->array.on_full = policies[i];
    return TG_OK;
}

static tg_status parse_flow(const record_options *o, record_layout *l, tg_error *err)
{
    tg_status st = TG_OK;
    if (o->on_full != NULL && (st = parse_on_full(l, o->on_full, err)) != TG_OK) {
        cli_prefix(err, "--on-full");
        return st;
    }
    l->array.timeout = o->timeout;
    l->array.on_gap = o->on_gap == 1 ? TG_GAP_COMPACT : TG_GAP_KEEP;
    l->array.max_gap = o->max_gap;
    if (o->create + o->overwrite + o->append > 1)
        return cli_fail(err, TG_INVALID,
                        "--create, --overwrite and --append exclude each other");
    return TG_OK;
}

/* --- Columns --------------------------------------------------------------- */

static bool fits(int64_t v, uint32_t size)
{
    int64_t most = size == 8 ? INT64_MAX : ((int64_t)1 << (size * 8 - 1)) - 1;
    return v <= most && v >= -most - 1;
}

/* The low `size` bytes of an integer as one native item. */
static void store_integer(unsigned char *item, uint64_t v, uint32_t size)
{
    uint8_t u8 = (uint8_t)v;
    uint16_t u16 = (uint16_t)v;
    uint32_t u32 = (uint32_t)v;
    const void *from = size == 1   ? (const void *)&u8
                       : size == 2 ? (const void *)&u16
                       : size == 4 ? (const void *)&u32
                                   : (const void *)&v;
    memcpy(item, from, size);
}

static tg_status integer_value(record_column *c, tg_dtype t, const char *text, tg_error *err)
{
    uint64_t u = 0;
    int64_t i = 0;
    bool ok;
    if (t.kind == TG_DT_INT) {
        ok = tg_parse_i64(text, &i, NULL) == TG_OK && fits(i, t.size);
        u = (uint64_t)i;
    } else {
        ok = tg_parse_u64(text, &u, NULL) == TG_OK && (t.size == 8 || u >> (t.size * 8) == 0);
    }
    if (!ok)
        return cli_fail(err, TG_INVALID, "'%.60s' is no value of its type", text);
    store_integer(c->value.bytes, u, t.size);
    return TG_OK;
}

static tg_status column_value(record_column *c, tg_dtype t, const char *text, tg_error *err)
{
    double d = 0;
    float f = 0;
    int truth = 0;
    c->has_value = true;
    switch (t.kind) {
    case TG_DT_STRING:
        c->text = text;
        return TG_OK;
    case TG_DT_BOOL:
        if (cli_parse_choice("false|true", text, &truth, err) != TG_OK)
            return TG_INVALID;
        c->value.bytes[0] = (unsigned char)truth;
        return TG_OK;
    case TG_DT_INT:
    case TG_DT_UINT:
        return integer_value(c, t, text, err);
    case TG_DT_FLOAT:
        if (t.size < 4 || tg_parse_double(text, &d, NULL) != TG_OK)
            return cli_fail(err, TG_INVALID, "'%.60s' is no value of its type", text);
        f = (float)d;
        memcpy(c->value.bytes, t.size == 8 ? (const void *)&d : (const void *)&f, t.size);
        return TG_OK;
    default:
        return cli_fail(err, TG_INVALID, "a column holds integers, floats, bools or strings");
    }
}

/* NAME:DTYPE[=VALUE] */
static tg_status parse_column(record_layout *l, uint32_t i, const char *text, tg_error *err)
{
    record_column *c = &l->column_values[i];
    tg_stream_column *column = &l->columns[i];
    const char *equals = strchr(text, '=');
    char word[RECORD_WORD * 2];
    size_t len = equals != NULL ? (size_t)(equals - text) : strlen(text);
    char *colon = NULL;
    if (len < sizeof word) {
        memcpy(word, text, len);
        word[len] = '\0';
        colon = strchr(word, ':');
    }
    if (colon == NULL || colon == word || (size_t)(colon - word) >= sizeof c->name)
        return cli_fail(err, TG_INVALID, "got '%.60s', want NAME:DTYPE or NAME:DTYPE=VALUE",
                        text);
    *colon = '\0';
    memcpy(c->name, word, (size_t)(colon - word) + 1);
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(l->column_values[k].name, c->name) == 0)
            return cli_fail(err, TG_INVALID, "'%s' is named twice", c->name);
    column->name = c->name;
    tg_status st = tg_dtype_parse(colon + 1, &column->dtype, err);
    if (st == TG_OK && equals != NULL)
        st = column_value(c, column->dtype, equals + 1, err);
    return st;
}

static tg_status parse_columns(const record_options *o, record_layout *l, tg_error *err)
{
    if (o->column.n > RECORD_MAX_COLUMNS)
        return cli_fail(err, TG_INVALID, "--column: more than %d", RECORD_MAX_COLUMNS);
    for (uint32_t i = 0; i < o->column.n; i++) {
        tg_status st = parse_column(l, i, o->column.item[i], err);
        if (st != TG_OK) {
            cli_prefix(err, "--column");
            return st;
        }
        const record_column *c = &l->column_values[i];
        l->has_column_values |= c->has_value;
        /* A column without a value is 0 or "": what its union holds. */
        l->column_items[i] = l->columns[i].dtype.kind == TG_DT_STRING
                                 ? (const void *)(c->text != NULL ? c->text : "")
                                 : (const void *)c->value.bytes;
    }
    l->array.columns = l->columns;
    l->array.n_columns = (uint32_t)o->column.n;
    return TG_OK;
}

tg_status record_layout_parse(const record_options *o, record_layout *l, tg_error *err)
{
    memset(l, 0, sizeof *l);
    l->array.size = sizeof l->array;
    tg_status st = parse_outer(o, l, err);
    if (st == TG_OK)
        st = parse_meaning(o, l, err);
    if (st == TG_OK)
        st = parse_layout(o, l, err);
    if (st == TG_OK)
        st = parse_flow(o, l, err);
    if (st == TG_OK)
        st = parse_columns(o, l, err);
    return st;
}
