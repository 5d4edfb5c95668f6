/* ome/validate.h - inside of the validator: validate.c walks, validate_image.c and
 * validate_plate.c know the rules (N1-N9 of the formats page).
 *
 * A check returns TG_INVALID for what it found wrong, with the message in err; every other
 * failure is the store's. */
#ifndef TG_OME_VALIDATE_H
#define TG_OME_VALIDATE_H

#include "ome/members.h"
#include "zarr/zarr.h"

enum { OME_PATH_MAX = 1024 };

typedef struct ome_check {
    tg_store *store;
    const tg_cancel *cancel;
    int format;          /* Zarr's, of the node that was asked for: all must have it */
    char *kind;          /* of the verdict */
    const char *version; /* "0.4", "0.5" */
} ome_check;

/* One node below, open. */
typedef struct ome_node {
    char path[OME_PATH_MAX];
    tg_node *node;
    bool missing;           /* there is no node at path */
    tg_json *attributes;    /* the whole document */
    const tg_json *members; /* where OME-NGFF's members are; NULL: none */
} ome_node;
void ome_node_auto(ome_node *n);

/* path must be a node of the same format; members of the version that goes with it. */
TG_MUST_USE tg_status ome_open(const ome_check *c, const char *path, ome_node *out,
                               tg_error *err);
/* The same for a name below a node. */
TG_MUST_USE tg_status ome_open_child(const ome_check *c, const ome_node *parent,
                                     const char *name, ome_node *out, tg_error *err);

/* levels: set to the number of datasets of the first multiscale, if not NULL. */
TG_MUST_USE tg_status ome_check_image(const ome_check *c, const ome_node *n, uint32_t *levels,
                                      bool *integers, tg_error *err);
TG_MUST_USE tg_status ome_check_label(const ome_node *n, tg_error *err);
/* The group "labels" of an image with that many levels (0: not known). */
TG_MUST_USE tg_status ome_check_labels(const ome_check *c, const ome_node *n, uint32_t levels,
                                       tg_error *err);
TG_MUST_USE tg_status ome_check_plate(const ome_check *c, const ome_node *n, tg_error *err);
/* acquisitions: the plate's list, or NULL. */
TG_MUST_USE tg_status ome_check_well(const ome_check *c, const ome_node *n,
                                     const tg_json *acquisitions, tg_error *err);
/* An image with the labels that lie below it. */
TG_MUST_USE tg_status ome_check_image_tree(const ome_check *c, const ome_node *n,
                                           tg_error *err);

/* "'a/b': what" */
TG_PRINTF(3, 4)
tg_status ome_wrong(tg_error *err, const ome_node *n, const char *fmt, ...);
/* Optional member of a kind. */
TG_MUST_USE tg_status ome_optional(const ome_node *n, const tg_json *object, const char *key,
                                   tg_json_kind kind, tg_error *err);
/* A list with at least one item. */
TG_MUST_USE tg_status ome_list(const ome_node *n, const tg_json *object, const char *key,
                               const tg_json **out, tg_error *err);
bool ome_is_name(const char *s); /* letters and digits */

#endif
