/* cli/node.c - describes nodes for people and for programs. */
#include "node.h"

#include "json_scan.h"

#include <stdio.h>
#include <string.h>

tg_status node_open(cli *c, const cli_place *place, const char *path, cli_node *n)
{
    tg_status st = tg_node_open(place->store, path, &n->node, c->cancel, &c->err);
    if (st != TG_OK || tg_node_kind_of(n->node) == TG_NODE_GROUP)
        return st;
    n->info.size = sizeof n->info;
    st = tg_array_open(place->store, path, &n->array, c->cancel, &c->err);
    return st == TG_OK ? tg_array_get_info(n->array, &n->info, &c->err) : st;
}

void node_close(cli_node *n)
{
    tg_array_free(n->array);
    tg_node_free(n->node);
    *n = (cli_node){0};
}

const char *node_kind(const cli_node *n)
{
    return n->array != NULL ? "array" : "group";
}

static void extents_json(json_out *j, const char *key, const uint64_t *v, uint32_t ndim)
{
    json_open_list(j, key);
    for (uint32_t i = 0; i < ndim; i++)
        json_u64(j, NULL, v[i]);
    json_close_list(j);
}

static json_part metadata_member(const cli_node *n, const char *key)
{
    const char *text = tg_node_metadata(n->node);
    return json_member((json_part){text, strlen(text)}, key);
}

/* Copy a part into room, with a NUL. */
static void copy_part(json_part part, char *room, size_t cap)
{
    size_t len = part.len < cap - 1 ? part.len : cap - 1;
    if (len > 0)
        memcpy(room, part.at, len);
    room[len] = '\0';
}

/* The names of a v3 codec list: "bytes zstd crc32c"; of shards those of their chunks. */
static void codec_names(json_part codecs, char *room, size_t cap)
{
    size_t n = strlen(room);
    for (size_t i = 0;; i++) {
        json_part codec = json_item(codecs, i);
        json_part name = json_string_of(json_member(codec, "name"));
        if (codec.at == NULL || n + 2 >= cap)
            return;
        if (n > 0)
            room[n++] = ' ';
        copy_part(name, room + n, cap - n);
        n += strlen(room + n);
        json_part inner = json_member(json_member(codec, "configuration"), "codecs");
        if (inner.at != NULL) {
            (void)snprintf(room + n, cap - n, " of");
            codec_names(inner, room, cap);
            n = strlen(room);
        }
    }
}

static void codecs_text(const cli_node *n, char *room, size_t cap)
{
    room[0] = '\0';
    if (tg_node_format(n->node) == 3) {
        codec_names(metadata_member(n, "codecs"), room, cap);
        return;
    }
    json_part id = json_string_of(json_member(metadata_member(n, "compressor"), "id"));
    if (id.at != NULL)
        copy_part(id, room, cap);
    else
        (void)snprintf(room, cap, "none");
}

/* The codecs as the metadata has them: v3's list, v2's compressor. */
static void codecs_json(const cli_node *n, json_out *j)
{
    char room[4096];
    json_part part = metadata_member(n, tg_node_format(n->node) == 3 ? "codecs" : "compressor");
    copy_part(part, room, sizeof room);
    if (part.at != NULL && part.len < sizeof room)
        json_raw(j, "codecs", room);
    else
        json_null(j, "codecs");
}

static bool has_names(const tg_array_info *info)
{
    for (uint32_t i = 0; i < info->ndim; i++)
        if (info->dimension_name[i] != NULL)
            return true;
    return false;
}

void node_json(const cli_node *n, json_out *j)
{
    char room[16], fill[64];
    json_text(j, "kind", node_kind(n));
    json_i64(j, "format", tg_node_format(n->node));
    if (n->array == NULL)
        return;
    const tg_array_info *info = &n->info;
    json_text(j, "dtype", tg_dtype_name(info->dtype, room));
    extents_json(j, "shape", info->shape, info->ndim);
    extents_json(j, "chunk", info->chunk, info->ndim);
    if (info->sharded)
        extents_json(j, "shard", info->shard, info->ndim);
    else
        json_null(j, "shard");
    codecs_json(n, j);
    if (has_names(info)) {
        json_open_list(j, "dimension_names");
        for (uint32_t i = 0; i < info->ndim; i++)
            json_text(j, NULL, info->dimension_name[i]);
        json_close_list(j);
    } else {
        json_null(j, "dimension_names");
    }
    if (info->has_fill && info->dtype.size > 0 && info->dtype.size <= sizeof info->fill) {
        tg_item_text(info->dtype, info->fill, fill, sizeof fill);
        json_raw(j, "fill", fill);
    } else {
        json_null(j, "fill");
    }
}

void node_line(const cli_node *n, const char *name, int width)
{
    (void)printf("%-*s  %s", width, name, node_kind(n));
    if (n->array != NULL) {
        const tg_array_info *info = &n->info;
        char room[16], shape[256], chunk[256], shard[256], codecs[160];
        (void)printf("  %-8s %s", tg_dtype_name(info->dtype, room),
                     extents_text(info->shape, info->ndim, shape, sizeof shape));
        (void)printf("  chunks %s", extents_text(info->chunk, info->ndim, chunk, sizeof chunk));
        if (info->sharded)
            (void)printf("  shards %s",
                         extents_text(info->shard, info->ndim, shard, sizeof shard));
        codecs_text(n, codecs, sizeof codecs);
        (void)printf("  %s", codecs);
    }
    (void)putchar('\n');
}
