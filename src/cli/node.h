/* cli/node.h - what `info` and `ls` say of a node. */
#ifndef TG_CLI_NODE_H
#define TG_CLI_NODE_H

#include "place.h"

/* A node, and of an array what it is. */
typedef struct cli_node {
    tg_node *node;
    tg_array *array; /* NULL for a group */
    tg_array_info info;
} cli_node;

TG_MUST_USE tg_status node_open(cli *c, const cli_place *place, const char *path, cli_node *n);
void node_close(cli_node *n);
/* "array" or "group". */
const char *node_kind(const cli_node *n);
/* The members kind, format and, of an array, dtype, shape, chunk, shard, dimension_names, fill.
 */
void node_json(const cli_node *n, json_out *j);
/* One line of a listing: name padded to `width`, kind, and of an array type, shape, chunks. */
void node_line(const cli_node *n, const char *name, int width);

#endif
