/* cli/node.c - describes nodes for people and for programs. */
#include "node.h"

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
        char room[16], shape[256], chunk[256], shard[256];
        (void)printf("  %-8s %s", tg_dtype_name(info->dtype, room),
                     extents_text(info->shape, info->ndim, shape, sizeof shape));
        (void)printf("  chunks %s", extents_text(info->chunk, info->ndim, chunk, sizeof chunk));
        if (info->sharded)
            (void)printf("  shards %s",
                         extents_text(info->shard, info->ndim, shard, sizeof shard));
    }
    (void)putchar('\n');
}
