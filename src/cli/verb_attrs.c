/* cli/verb_attrs.c - attrs: print attributes of a node, or change some of them at once. */
#include "json_scan.h"
#include "place.h"
#include "tidegate/memory.h"

#include <stdio.h>
#include <string.h>

typedef struct attrs_options {
    cli_common common;
    cli_list set, remove;
    const char *merge, *replace;
} attrs_options;

static const cli_option options_table[] = {
    {"set", CLI_LIST, offsetof(attrs_options, set), "KEY=JSON",
     "change or add a member; repeatable (--set name='\"x\"' --set n=3)"},
    {"delete", CLI_LIST, offsetof(attrs_options, remove), "KEY",
     "remove a member, which must be there; repeatable"},
    {"merge", CLI_TEXT, offsetof(attrs_options, merge), "FILE.json",
     "the members of a JSON object over those there are"},
    {"replace", CLI_TEXT, offsetof(attrs_options, replace), "FILE.json",
     "a JSON object instead of all there is"},
};

#define FILE_MOST (16 << 20)

/* --- Changing --------------------------------------------------------------- */

typedef struct edits {
    size_t n;
    char *keys[2 * CLI_MAX_REPEATS];
    const char *values[2 * CLI_MAX_REPEATS];
} edits;

static void edits_free(edits *e)
{
    for (size_t i = 0; i < e->n; i++)
        tg_free(e->keys[i]);
}

static tg_status add_edit(cli *c, edits *e, const char *key, size_t len, const char *value)
{
    char *copy = tg_alloc(len + 1);
    if (copy == NULL)
        return cli_fail(&c->err, TG_NO_MEMORY, "no memory for an attribute");
    memcpy(copy, key, len);
    copy[len] = '\0';
    for (size_t i = 0; i < e->n; i++)
        if (strcmp(e->keys[i], copy) == 0) {
            tg_status st =
                cli_fail(&c->err, TG_INVALID, "attribute '%.100s' is named twice", copy);
            tg_free(copy);
            return st;
        }
    e->values[e->n] = value;
    e->keys[e->n++] = copy;
    return TG_OK;
}

static tg_status read_edits(cli *c, const attrs_options *o, edits *e)
{
    tg_status st = TG_OK;
    for (size_t i = 0; i < o->set.n && st == TG_OK; i++) {
        const char *item = o->set.item[i], *equals = strchr(item, '=');
        if (equals == NULL || equals == item)
            return cli_fail(&c->err, TG_INVALID, "--set: got '%.60s', want KEY=JSON", item);
        st = add_edit(c, e, item, (size_t)(equals - item), equals + 1);
    }
    for (size_t i = 0; i < o->remove.n && st == TG_OK; i++)
        st = add_edit(c, e, o->remove.item[i], strlen(o->remove.item[i]), NULL);
    return st;
}

static tg_status apply_edits(cli *c, const attrs_options *o, const cli_place *place)
{
    CLI_AUTO(edits_free) edits e = {0};
    tg_status st = read_edits(c, o, &e);
    if (st != TG_OK)
        return st;
    return tg_attributes_edit(place->store, place->prefix, e.n, (const char *const *)e.keys,
                              e.values, c->cancel, &c->err);
}

static tg_status apply_file(cli *c, const char *path, bool merge, const cli_place *place)
{
    CLI_AUTO(cli_auto_free) char *text = NULL;
    size_t len = 0;
    tg_status st = cli_read_file(path, FILE_MOST, &text, &len, &c->err);
    if (st == TG_OK && strlen(text) != len)
        st = cli_fail(&c->err, TG_INVALID, "'%.200s' holds a NUL byte", path);
    if (st != TG_OK)
        return st;
    st = tg_attributes_set(place->store, place->prefix, text, merge, c->cancel, &c->err);
    if (st == TG_INVALID)
        cli_prefix(&c->err, "'%.200s'", path);
    return st;
}

static tg_status change(cli *c, const attrs_options *o, const cli_place *place)
{
    if (o->merge != NULL || o->replace != NULL)
        return apply_file(c, o->merge != NULL ? o->merge : o->replace, o->merge != NULL, place);
    return apply_edits(c, o, place);
}

/* --- Printing --------------------------------------------------------------- */

/* A value as it stands in the document. */
static void print_value(cli *c, const char *key, const char *text, size_t len, char *room)
{
    memcpy(room, text, len);
    room[len] = '\0';
    if (c->common->json)
        json_raw(&c->json, key, room);
    else
        (void)puts(room);
}

static tg_status print(cli *c, const cli_place *place, const char *key)
{
    tg_node *node = NULL;
    tg_status st = tg_node_open(place->store, place->prefix, &node, c->cancel, &c->err);
    if (st != TG_OK)
        return st;
    const char *text = tg_node_attributes(node);
    CLI_AUTO(cli_auto_free) char *room = tg_alloc(strlen(text) + 1);
    json_part part = {text, strlen(text)};
    if (key != NULL)
        part = json_member(part, key);
    if (room == NULL)
        st = cli_fail(&c->err, TG_NO_MEMORY, "no memory for attributes");
    else if (part.at == NULL)
        st = cli_fail(&c->err, TG_NOT_FOUND, "there is no attribute '%.200s'", key);
    else
        print_value(c, key != NULL ? "value" : "attributes", part.at, part.len, room);
    tg_node_free(node);
    return st;
}

static int run(cli *c, void *options)
{
    const attrs_options *o = options;
    CLI_AUTO(place_close) cli_place place = {0};
    const char *path = c->operands.item[0];
    const char *key = c->operands.n > 1 ? c->operands.item[1] : NULL;
    const int kinds = (o->set.n + o->remove.n > 0) + (o->merge != NULL) + (o->replace != NULL);

    if (kinds > 1 || (kinds > 0 && key != NULL)) {
        (void)cli_fail(&c->err, TG_INVALID,
                       "one at a time: --set and --delete, --merge, --replace, or a KEY to "
                       "print");
        return CLI_USAGE;
    }
    tg_status st =
        kinds > 0 ? place_open_writing(c, path, false, &place) : place_open(c, path, &place);
    if (st != TG_OK)
        return cli_refused(c);
    json_text(&c->json, "path", path);
    if (kinds > 0)
        st = change(c, o, &place);
    if (st == TG_OK && kinds > 0)
        st = place_finish(c, &place);
    if (st == TG_OK && (kinds == 0 || c->common->json))
        st = print(c, &place, key);
    return st == TG_OK ? CLI_DONE : cli_refused(c);
}

const cli_verb cli_attrs = {
    .name = "attrs",
    .operands = "PATH [KEY]",
    .least = 1,
    .most = 2,
    .summary = "print attributes of a group or an array, or change some",
    .example = "  tidegate attrs run.zarr\n"
               "  tidegate attrs run.zarr sample\n"
               "  tidegate attrs run.zarr --set sample='\"mouse 3\"' --set dose=0.5 --delete "
               "old\n",
    .options = options_table,
    .n_options = sizeof options_table / sizeof options_table[0],
    .run = run,
};
