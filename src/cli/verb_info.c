/* cli/verb_info.c - info: one node, its attributes, and a line for each node right below. */
#include "imzml.h"
#include "node.h"
#include "tidegate/memory.h"

#include <stdio.h>
#include <string.h>

static tg_status child_info(cli *c, const cli_place *place, const char *name, int width)
{
    CLI_AUTO(cli_auto_free) char *path = place_join(place->prefix, name);
    CLI_AUTO(node_close) cli_node n = {0};
    if (path == NULL)
        return cli_fail(&c->err, TG_NO_MEMORY, "no memory to describe '%.200s'", name);
    tg_status st = node_open(c, place, path, &n);
    if (st != TG_OK)
        return st;
    json_open(&c->json, NULL);
    json_text(&c->json, "name", name);
    node_json(&n, &c->json);
    json_close(&c->json);
    if (!c->common->json) {
        (void)printf("  ");
        node_line(&n, name, width);
    }
    return TG_OK;
}

static tg_status children_info(cli *c, const cli_place *place)
{
    char **names = NULL;
    tg_status st = tg_node_children(place->store, place->prefix, &names, c->cancel, &c->err);
    if (st != TG_OK)
        return st;
    size_t width = 0;
    for (size_t i = 0; names[i] != NULL; i++)
        width = strlen(names[i]) > width ? strlen(names[i]) : width;
    for (size_t i = 0; st == TG_OK && names[i] != NULL; i++)
        st = child_info(c, place, names[i], width > 60 ? 60 : (int)width);
    tg_names_free(names);
    return st;
}

/* The attributes' own text, moved in by two. */
static void print_attributes(const char *text)
{
    (void)printf("attributes\n  ");
    for (const char *p = text; *p != '\0'; p++) {
        (void)putchar(*p);
        if (*p == '\n' && p[1] != '\0')
            (void)fputs("  ", stdout);
    }
    (void)putchar('\n');
}

static int run(cli *c, void *options)
{
    (void)options;
    CLI_AUTO(place_close) cli_place place = {0};
    CLI_AUTO(node_close) cli_node n = {0};
    const char *path = c->operands.item[0];
    if (imzml_is_meant(path))
        return imzml_info(c);
    if (place_open(c, path, &place) != TG_OK || node_open(c, &place, place.prefix, &n) != TG_OK)
        return cli_refused(c);

    json_text(&c->json, "path", cli_shown(c, 0));
    node_json(&n, &c->json);
    json_raw(&c->json, "attributes", tg_node_attributes(n.node));
    if (!c->common->json) {
        (void)printf("%s  (zarr %d)\n", tg_store_describe(place.store), tg_node_format(n.node));
        node_line(&n, place.prefix[0] != '\0' ? place.prefix : ".", 1);
    }
    tg_status st = TG_OK;
    json_open_list(&c->json, "children");
    if (n.array == NULL)
        st = children_info(c, &place);
    json_close_list(&c->json);
    if (!c->common->json && strcmp(tg_node_attributes(n.node), "{}") != 0)
        print_attributes(tg_node_attributes(n.node));
    return st == TG_OK ? CLI_DONE : CLI_FAILED;
}

const cli_verb cli_info = {
    .name = "info",
    .operands = "PATH",
    .least = 1,
    .most = 1,
    .summary = "show a group, an array (type, shape, chunks, attributes), or an .imzML",
    .example = "  tidegate info run.zarr\n  tidegate info --json run.zarr/0\n",
    .run = run,
};
