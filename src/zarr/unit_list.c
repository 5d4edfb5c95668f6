/* Which units of an array are stored: the names below its path that are keys of
 * chunks. A directory is listed after the one that named it, so that what is held
 * is names of directories, not of chunks. */
#include "zarr/array.h"

#include <string.h>

typedef struct listing {
    const tg_array *a;
    tg_text deeper;     /* prefixes still to be listed, below the path; each ended by NUL */
    const char *prefix; /* of the listing that runs */
    tg_unit_fn fn;
    void *user;
    tg_status status; /* of fn; tg_list_fn cannot return it */
    tg_error *err;
} listing;

static void listing_auto(listing *l)
{
    tg_text_free(&l->deeper);
}

static bool sort_name(void *user, const char *name)
{
    listing *l = user;
    char key[TG_CHUNK_KEY_BYTES + 1];
    uint64_t index[TG_MAX_NDIM];
    size_t len = strlen(name);

    if (len > 0 && name[len - 1] == '/') {
        if (len > 21) /* no coordinate has more digits */
            return true;
        tg_text_add(&l->deeper, l->prefix);
        tg_text_add_n(&l->deeper, name, len + 1);
        return true;
    }
    size_t at = strlen(l->prefix);
    if (at + len >= sizeof key)
        return true;
    memcpy(key, l->prefix, at);
    memcpy(key + at, name, len + 1);
    if (tg_chunk_key_parse(l->a->meta, key, index))
        l->status = l->fn(l->user, index, l->err);
    return l->status == TG_OK;
}

tg_status tg_unit_list(const tg_array *a, tg_unit_fn fn, void *user, const tg_cancel *cancel,
                       tg_error *err)
{
    TG_AUTO(listing) l = {.a = a, .fn = fn, .user = user, .err = err};
    char prefix[TG_KEY_BYTES];
    char below[TG_CHUNK_KEY_BYTES];

    size_t n_path = strlen(a->path);
    memcpy(prefix, a->path, n_path);
    if (n_path > 0)
        prefix[n_path++] = '/';
    tg_text_add_n(&l.deeper, "", 1);
    TG_TRY(tg_text_status(&l.deeper, err));
    for (size_t at = 0, len = 0; at < l.deeper.len; at += len + 1) {
        len = strlen(l.deeper.data + at);
        if (len >= sizeof below)
            continue;                               /* too deep for a chunk */
        memcpy(below, l.deeper.data + at, len + 1); /* the list may move while it grows */
        memcpy(prefix + n_path, below, len + 1);
        l.prefix = below;
        TG_TRY(tg_store_list(a->store, prefix, sort_name, &l, cancel, err));
        if (l.status != TG_OK)
            return l.status;
        TG_TRY(tg_text_status(&l.deeper, err));
    }
    return TG_OK;
}
