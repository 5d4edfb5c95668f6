/* ims/source.h - the two files of a data set, found from the name of the .imzML. */
#ifndef TG_IMS_SOURCE_H
#define TG_IMS_SOURCE_H

#include "store/store.h"

typedef struct tg_ims_source {
    tg_store *store;
    bool owns_store;
    char *xml_key, *ibd_key;
} tg_ims_source;

/* url: a path, "x.zip|zip:a/b.imzML", "s3://bucket/a/b.imzML", "http(s)://...". The .ibd lies
 * beside it with the same stem, its extension in any case. TG_NOT_FOUND says which is missing.
 */
TG_MUST_USE tg_status tg_ims_source_open(tg_ims_source *out, const char *url,
                                         const tg_cancel *cancel, tg_error *err);
TG_MUST_USE tg_status tg_ims_source_of_store(tg_ims_source *out, tg_store *store,
                                             const char *xml_key, const tg_cancel *cancel,
                                             tg_error *err);
/* The store in which a file lies and its key there: "a/b/x.csv" -> store of "a/b", "x.csv"; a
 * chain of adapters keeps its own path. *key is the caller's. */
TG_MUST_USE tg_status tg_ims_open_parent(const char *url, const tg_store_options *options,
                                         tg_store **store, char **key, tg_error *err);
void tg_ims_source_close(tg_ims_source *s);

#endif
