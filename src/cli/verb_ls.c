/* cli/verb_ls.c - ls: the nodes below a node, one level or all. */
#include "node.h"
#include "tidegate/memory.h"

#include <stdio.h>
#include <string.h>

#define DEEPEST 64 /* levels below the one named */

typedef struct ls_options {
    cli_common common;
    bool tree;
} ls_options;

static const cli_option options_table[] = {
    {"tree", CLI_FLAG, offsetof(ls_options, tree), NULL, "all levels below"},
};

typedef struct ls_walk {
    cli *c;
    const cli_place *place;
    bool tree;
} ls_walk;

static tg_status list_below(const ls_walk *w, const char *path, const char *shown, int depth);

static int widest(char **names)
{
    size_t most = 0;
    for (size_t i = 0; names[i] != NULL; i++)
        most = strlen(names[i]) > most ? strlen(names[i]) : most;
    return most > 60 ? 60 : (int)most;
}

static void show(const ls_walk *w, const cli_node *n, const char *name, const char *shown,
                 int depth, int width)
{
    json_out *j = &w->c->json;
    json_open(j, NULL);
    json_text(j, "name", shown);
    node_json(n, j);
    json_close(j);
    if (!w->c->common->json) {
        (void)printf("%*s", depth * 2, "");
        node_line(n, name, width);
    }
}

static tg_status list_child(const ls_walk *w, const char *path, const char *shown,
                            const char *name, int depth, int width)
{
    CLI_AUTO(cli_auto_free) char *child = place_join(path, name);
    CLI_AUTO(cli_auto_free) char *shown_child = place_join(shown, name);
    CLI_AUTO(node_close) cli_node n = {0};
    if (child == NULL || shown_child == NULL)
        return cli_fail(&w->c->err, TG_NO_MEMORY, "no memory to list '%.200s'", name);
    tg_status st = node_open(w->c, w->place, child, &n);
    if (st != TG_OK)
        return st;
    show(w, &n, name, shown_child, depth, width);
    if (!w->tree || n.array != NULL)
        return TG_OK;
    if (depth == DEEPEST)
        return cli_fail(&w->c->err, TG_UNSUPPORTED, "'%.200s': more than %d levels", child,
                        DEEPEST);
    return list_below(w, child, shown_child, depth + 1);
}

static tg_status list_below(const ls_walk *w, const char *path, const char *shown, int depth)
{
    char **names = NULL;
    tg_status st = tg_node_children(w->place->store, path, &names, w->c->cancel, &w->c->err);
    if (st != TG_OK)
        return st;
    int width = widest(names);
    for (size_t i = 0; st == TG_OK && names[i] != NULL; i++)
        st = list_child(w, path, shown, names[i], depth, width);
    tg_names_free(names);
    return st;
}

static int run(cli *c, void *options)
{
    const ls_options *o = options;
    CLI_AUTO(place_close) cli_place place = {0};
    CLI_AUTO(node_close) cli_node top = {0};
    if (place_open(c, c->operands.item[0], &place) != TG_OK ||
        node_open(c, &place, place.prefix, &top) != TG_OK)
        return cli_refused(c);
    json_text(&c->json, "path", cli_shown(c, 0));
    json_open_list(&c->json, "nodes");
    tg_status st = TG_OK;
    if (top.array == NULL) {
        ls_walk w = {.c = c, .place = &place, .tree = o->tree};
        st = list_below(&w, place.prefix, "", 0);
    }
    json_close_list(&c->json);
    return st == TG_OK ? CLI_DONE : CLI_FAILED;
}

const cli_verb cli_ls = {
    .name = "ls",
    .operands = "PATH",
    .least = 1,
    .most = 1,
    .summary = "list the groups and arrays below a node",
    .example = "  tidegate ls run.zarr\n  tidegate ls --tree plate.zarr\n",
    .options = options_table,
    .n_options = sizeof options_table / sizeof options_table[0],
    .run = run,
};
