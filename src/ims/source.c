/* ims/source.c - opens the store in which an .imzML and its .ibd lie. */
#include "ims/source.h"

#include "store/url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static tg_status no_memory(tg_error *err)
{
    return tg_fail(err, TG_NO_MEMORY, "no memory for a name");
}

static char *copy_n(const char *s, size_t n)
{
    char *p = tg_alloc(n + 1);
    if (p != NULL) {
        memcpy(p, s, n);
        p[n] = '\0';
    }
    return p;
}

tg_status tg_ims_open_parent(const char *url, const tg_store_options *options, tg_store **store,
                             char **key_out, tg_error *err)
{
    const char *bar = strrchr(url, '|');
    const char *slash = strrchr(bar != NULL ? bar : url, '/');
    const char *scheme = strstr(url, "://");
    TG_AUTO(tg_str) root = NULL;
    TG_AUTO(tg_str) prefix = NULL;
    TG_AUTO(tg_str) decoded = NULL;
    const char *name = url;

    if (bar != NULL) {
        root = tg_strdup(url); /* the whole inner path becomes the key */
        name = "";
    } else if (slash == NULL) {
        root = tg_strdup(".");
    } else if (scheme != NULL && slash < scheme + 3) {
        return tg_fail(err, TG_INVALID, "'%.200s' names a host and no file", url);
    } else {
        root = copy_n(url, slash == url ? 1 : (size_t)(slash - url));
        name = slash + 1;
    }
    if (scheme != NULL && bar == NULL) {
        TG_TRY(tg_url_decode(&decoded, name, err));
        name = decoded;
    }
    if (root == NULL)
        return no_memory(err);
    TG_AUTO_PTR(tg_store) opened = NULL;
    TG_TRY(tg_store_open(root, options, &opened, &prefix, err));

    TG_AUTO(tg_text) key = {0};
    if (prefix != NULL)
        tg_text_add(&key, prefix);
    if (prefix != NULL && prefix[0] != '\0' && name[0] != '\0')
        tg_text_add(&key, "/");
    tg_text_add(&key, name);
    TG_TRY(tg_text_status(&key, err));
    *key_out = tg_text_steal(&key);
    *store = tg_steal(opened);
    return TG_OK;
}

typedef struct search {
    const char *wanted; /* name with the extension .ibd */
    char *found;
    bool failed;
} search;

static bool look(void *user, const char *name)
{
    search *s = user;
    if (strcasecmp(name, s->wanted) != 0 ||
        strncmp(name, s->wanted, strlen(s->wanted) - 3) != 0) /* only the extension may vary */
        return true;
    s->found = tg_strdup(name);
    s->failed = s->found == NULL;
    return false;
}

static tg_status find_ibd(tg_ims_source *s, const tg_cancel *cancel, tg_error *err)
{
    uint64_t size;
    const char *dot = strrchr(s->xml_key, '.'), *slash = strrchr(s->xml_key, '/');
    size_t stem = dot != NULL && (slash == NULL || dot > slash) ? (size_t)(dot - s->xml_key)
                                                                : strlen(s->xml_key);
    char *key = tg_alloc(stem + 5);
    if (key == NULL)
        return no_memory(err);
    s->ibd_key = key;
    memcpy(key, s->xml_key, stem);
    memcpy(key + stem, ".ibd", 5);
    tg_status st = tg_store_size(s->store, key, &size, cancel, err);
    if (st != TG_NOT_FOUND)
        return st;

    search look_for = {.wanted = key};
    TG_AUTO(tg_str)
    folder =
        slash == NULL ? tg_strdup("") : copy_n(s->xml_key, (size_t)(slash + 1 - s->xml_key));
    if (folder == NULL)
        return no_memory(err);
    st = tg_store_list(s->store, folder, look, &look_for, cancel, NULL);
    if (st == TG_UNSUPPORTED) { /* no list to look at: the one other way that it is written */
        memcpy(key + stem, ".IBD", 5);
        st = tg_store_size(s->store, key, &size, cancel, err);
        if (st != TG_NOT_FOUND)
            return st;
        memcpy(key + stem, ".ibd", 5);
    }
    if (look_for.failed)
        return no_memory(err);
    if (st != TG_OK || look_for.found == NULL)
        return tg_fail(err, TG_NOT_FOUND, "'%s' has no '%s' beside it", s->xml_key, key);
    tg_free(s->ibd_key);
    s->ibd_key = look_for.found;
    return TG_OK;
}

tg_status tg_ims_source_of_store(tg_ims_source *out, tg_store *store, const char *xml_key,
                                 const tg_cancel *cancel, tg_error *err)
{
    tg_ims_source s = {.store = store};
    s.xml_key = tg_strdup(xml_key);
    tg_status st = s.xml_key == NULL ? no_memory(err) : find_ibd(&s, cancel, err);
    if (st != TG_OK) {
        tg_ims_source_close(&s);
        return st;
    }
    *out = s;
    return TG_OK;
}

tg_status tg_ims_source_open(tg_ims_source *out, const char *url, const tg_cancel *cancel,
                             tg_error *err)
{
    tg_ims_source s = {0};
    uint64_t size;

    tg_status st = tg_ims_open_parent(url, NULL, &s.store, &s.xml_key, err);
    s.owns_store = true;
    if (st == TG_OK)
        st = tg_store_size(s.store, s.xml_key, &size, cancel, err);
    if (st == TG_OK)
        st = find_ibd(&s, cancel, err);
    if (st != TG_OK) {
        tg_ims_source_close(&s);
        return st;
    }
    *out = s;
    return TG_OK;
}

void tg_ims_source_close(tg_ims_source *s)
{
    if (s->owns_store)
        tg_store_free(s->store);
    tg_free(s->xml_key);
    tg_free(s->ibd_key);
    *s = (tg_ims_source){0};
}
