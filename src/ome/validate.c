/* The walk of tg_ome_validate(): which document is there, and what lies below it. */
#include "ome/validate.h"

#include "base/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- Words for the checks -------------------------------------------------- */

tg_status ome_wrong(tg_error *err, const ome_node *n, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return tg_fail(err, TG_INVALID, "'%.100s': %s", n->path[0] == '\0' ? "/" : n->path, text);
}

tg_status ome_optional(const ome_node *n, const tg_json *object, const char *key,
                       tg_json_kind kind, tg_error *err)
{
    const tg_json *v = tg_json_get(object, key);
    if (v == NULL || tg_json_kind_of(v) == kind)
        return TG_OK;
    return ome_wrong(err, n, "%s: %s, want %s", key, tg_json_kind_name(tg_json_kind_of(v)),
                     tg_json_kind_name(kind));
}

tg_status ome_list(const ome_node *n, const tg_json *object, const char *key,
                   const tg_json **out, tg_error *err)
{
    const tg_json *v = tg_json_get(object, key);
    if (tg_json_kind_of(v) != TG_JSON_ARRAY || tg_json_size(v) == 0)
        return ome_wrong(err, n, "%s: want a list that is not empty", key);
    *out = v;
    return TG_OK;
}

bool ome_is_name(const char *s)
{
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    return n > 0 && s[n] == '\0';
}

/* --- Nodes ----------------------------------------------------------------- */

void ome_node_auto(ome_node *n)
{
    tg_node_free(n->node);
    tg_json_free(n->attributes);
    n->node = NULL;
    n->attributes = NULL;
}

/* What is missing or broken makes the hierarchy invalid; what the store could not read does
 * not. */
static tg_status as_verdict(tg_status st, const ome_node *n, tg_error *own, tg_error *err)
{
    switch (st) {
    case TG_NOT_FOUND:
    case TG_CORRUPT:
    case TG_INVALID:
    case TG_UNSUPPORTED:
        return ome_wrong(err, n, "%s", own->msg);
    default:
        if (err != NULL)
            *err = *own;
        return st;
    }
}

static tg_status find_members(const ome_check *c, ome_node *n, tg_error *err)
{
    const char *version = NULL;
    n->members = c->format == 3 ? tg_json_get(n->attributes, "ome") : n->attributes;
    if (c->format == 2 || n->members == NULL)
        return TG_OK;
    if (tg_json_kind_of(n->members) != TG_JSON_OBJECT)
        return ome_wrong(err, n, "ome: want an object");
    version = ome_text(tg_json_get(n->members, "version"), version);
    if (version == NULL || strcmp(version, c->version) != 0)
        return ome_wrong(err, n, "ome.version: got '%.16s', want '%s'",
                         version == NULL ? "none" : version, c->version);
    return TG_OK;
}

static tg_status parse_attributes(const ome_check *c, ome_node *n, tg_error *err)
{
    const char *text = tg_node_attributes(n->node);
    tg_error own = {0};
    if (tg_node_format(n->node) != c->format)
        return ome_wrong(err, n, "Zarr format %d within one of format %d",
                         tg_node_format(n->node), c->format);
    tg_status st = tg_json_parse(&n->attributes, text, strlen(text),
                                 (tg_json_options){.allow_nan = true}, &own);
    if (st != TG_OK)
        return as_verdict(st, n, &own, err);
    return find_members(c, n, err);
}

tg_status ome_open(const ome_check *c, const char *path, ome_node *out, tg_error *err)
{
    tg_error own = {0};
    size_t len = strlen(path);
    assert(len < OME_PATH_MAX);
    memcpy(out->path, path, len + 1);
    tg_status st = tg_node_open(c->store, path, &out->node, c->cancel, &own);
    out->missing = st == TG_NOT_FOUND;
    if (st != TG_OK)
        return as_verdict(st, out, &own, err);
    return parse_attributes(c, out, err);
}

tg_status ome_open_child(const ome_check *c, const ome_node *parent, const char *name,
                         ome_node *out, tg_error *err)
{
    char path[OME_PATH_MAX];
    tg_error own = {0};
    tg_status st = tg_path_join(path, sizeof path, parent->path, name, &own);
    if (st != TG_OK)
        return as_verdict(st, parent, &own, err);
    return ome_open(c, path, out, err);
}

/* --- The walk -------------------------------------------------------------- */

static bool has(const ome_node *n, const char *key)
{
    return tg_json_get(n->members, key) != NULL;
}

static tg_status check_bioformats_series(const ome_check *c, const ome_node *n,
                                         const ome_node *ome, tg_error *err)
{
    const tg_json *series = NULL;
    TG_TRY(ome_list(ome, ome->members, "series", &series, err));
    for (size_t i = 0; i < tg_json_size(series); i++) {
        TG_AUTO(ome_node) image = {0};
        const char *path = NULL;
        if (tg_json_string(tg_json_at(series, i), &path, NULL, NULL) != TG_OK)
            return ome_wrong(err, ome, "series[%zu]: want a string", i);
        TG_TRY(ome_open_child(c, n, path, &image, err));
        TG_TRY(ome_check_image_tree(c, &image, err));
    }
    return TG_OK;
}

/* Without a list of series the images are "0", "1", ... */
static tg_status check_numbered(const ome_check *c, const ome_node *n, tg_error *err)
{
    for (unsigned i = 0;; i++) {
        TG_AUTO(ome_node) image = {0};
        char name[16];
        (void)snprintf(name, sizeof name, "%u", i);
        tg_error own = {0};
        tg_status st = ome_open_child(c, n, name, &image, &own);
        if (i > 0 && image.missing)
            return TG_OK;
        if (st != TG_OK && err != NULL)
            *err = own;
        TG_TRY(st);
        TG_TRY(ome_check_image_tree(c, &image, err));
    }
}

static tg_status check_collection(const ome_check *c, const ome_node *n, tg_error *err)
{
    TG_AUTO(ome_node) ome = {0};
    tg_error own = {0};
    uint64_t layout = 0;
    if (tg_json_u64(tg_json_get(n->members, "bioformats2raw.layout"), &layout, NULL) != TG_OK ||
        layout != 3)
        return ome_wrong(err, n, "bioformats2raw.layout: want 3");
    tg_status st = ome_open_child(c, n, "OME", &ome, &own);
    if (ome.missing)
        return check_numbered(c, n, err);
    if (st != TG_OK && err != NULL)
        *err = own;
    TG_TRY(st);
    return has(&ome, "series") ? check_bioformats_series(c, n, &ome, err)
                               : check_numbered(c, n, err);
}

tg_status ome_check_image_tree(const ome_check *c, const ome_node *n, tg_error *err)
{
    TG_AUTO(ome_node) labels = {0};
    tg_error own = {0};
    uint32_t levels = 0;
    bool integers = false;
    TG_TRY(ome_check_image(c, n, &levels, &integers, err));
    if (has(n, "image-label")) {
        TG_TRY(ome_check_label(n, err));
        if (!integers)
            return ome_wrong(err, n, "a label image whose dtype is no integer");
    }
    tg_status st = ome_open_child(c, n, "labels", &labels, &own);
    if (labels.missing)
        return TG_OK; /* no labels */
    if (st != TG_OK && err != NULL)
        *err = own;
    TG_TRY(st);
    return ome_check_labels(c, &labels, levels, err);
}

typedef struct ome_root {
    const char *member, *kind;
    tg_status (*check)(const ome_check *, const ome_node *, tg_error *);
} ome_root;

static tg_status check_root_well(const ome_check *c, const ome_node *n, tg_error *err)
{
    return ome_check_well(c, n, NULL, err);
}

static tg_status check_root_labels(const ome_check *c, const ome_node *n, tg_error *err)
{
    return ome_check_labels(c, n, 0, err);
}

/* The first member that is there says what the node is. */
static const ome_root roots[] = {
    {"plate", "plate", ome_check_plate},
    {"well", "well", check_root_well},
    {"image-label", "label", ome_check_image_tree},
    {"multiscales", "image", ome_check_image_tree},
    {"labels", "labels", check_root_labels},
    {"bioformats2raw.layout", "collection", check_collection},
};

static tg_status check_node(const ome_check *c, const ome_node *n, tg_error *err)
{
    if (tg_node_kind_of(n->node) == TG_NODE_ARRAY)
        return ome_wrong(err, n, "an array, want a group with OME-NGFF metadata");
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        if (!has(n, roots[i].member))
            continue;
        memcpy(c->kind, roots[i].kind, strlen(roots[i].kind) + 1);
        return roots[i].check(c, n, err);
    }
    return ome_wrong(err, n, "no OME-NGFF metadata");
}

tg_status tg_ome_validate(tg_store *store, const char *path, tg_ome_verdict *verdict,
                          const tg_cancel *cancel, tg_error *err)
{
    tg_ome_verdict found = {.size = sizeof found};
    tg_error own = {0};
    if (verdict == NULL || verdict->size != sizeof *verdict || strlen(path) >= OME_PATH_MAX)
        return tg_fail(err, TG_INVALID, "a verdict of another version, or a path too long");
    TG_AUTO(ome_node) n = {0};
    TG_TRY(tg_node_open(store, path, &n.node, cancel, err));
    memcpy(n.path, path, strlen(path) + 1);
    ome_check c = {.store = store,
                   .cancel = cancel,
                   .format = tg_node_format(n.node),
                   .kind = found.kind,
                   .version = tg_node_format(n.node) == 3 ? "0.5" : "0.4"};
    memcpy(found.version, c.version, strlen(c.version) + 1);
    tg_status st = parse_attributes(&c, &n, &own);
    if (st == TG_OK)
        st = check_node(&c, &n, &own);
    if (st != TG_OK && st != TG_INVALID) {
        if (err != NULL)
            *err = own;
        return st;
    }
    found.valid = st == TG_OK;
    if (!found.valid)
        memcpy(found.message, own.msg, sizeof found.message);
    *verdict = found;
    return TG_OK;
}
