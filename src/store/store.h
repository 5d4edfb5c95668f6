/* store/store.h - reading and writing values, and how to add a backend. The
 * part that programs see is in tidegate/store.h. */
#ifndef TG_STORE_STORE_H
#define TG_STORE_STORE_H

#include "base/mem.h"
#include "tidegate/store.h"

#include <stdbool.h>
#include <stdint.h>

TG_DEFINE_AUTO_PTR(tg_store, tg_store_free)

/* Names that begin so are of what is being written: no list shows them. */
#define TG_STORE_TMP_PREFIX ".tg-tmp-"

/* Which bytes of a value to read. A shard's index sits at the end of the
 * value, whose length a reader does not know: hence `last`. */
typedef struct tg_range {
    enum { TG_RANGE_ALL, TG_RANGE_AT, TG_RANGE_LAST } kind;
    uint64_t offset; /* TG_RANGE_AT: first byte */
    uint64_t len;    /* TG_RANGE_AT, TG_RANGE_LAST: number of bytes */
} tg_range;

#define tg_range_all()      ((tg_range){TG_RANGE_ALL, 0, 0})
#define tg_range_at(off, n) ((tg_range){TG_RANGE_AT, (off), (n)})
#define tg_range_last(n)    ((tg_range){TG_RANGE_LAST, 0, (n)})

/* Turn a range into [offset, offset + len) of a value of `size` bytes. A last-n
 * longer than the value is the whole value; any other range past the end is TG_CORRUPT. */
TG_MUST_USE tg_status tg_range_resolve(tg_range r, uint64_t size, uint64_t *offset,
                                       uint64_t *len, tg_error *err);

/* Read a value, or part of it, into the caller's room. *n: bytes read. TG_NOT_FOUND if there is
 * no such key: for a chunk that is an answer, not a fault. TG_CORRUPT if the value is shorter
 * than a range AT asks. TG_OVER_BUDGET if what was asked for is more than cap: *n is then the
 * room it needs. total (may be NULL): size of the whole value. */
TG_MUST_USE tg_status tg_store_get_into(tg_store *s, const char *key, tg_range range, void *dst,
                                        size_t cap, size_t *n, uint64_t *total,
                                        const tg_cancel *cancel, tg_error *err);
/* The same into a new buffer of at most `limit` bytes. What out held is freed. On failure out
 * is unchanged. */
TG_MUST_USE tg_status tg_store_get(tg_store *s, const char *key, tg_range range, size_t limit,
                                   tg_buf *out, const tg_cancel *cancel, tg_error *err);

/* Several ranges of one value, each [offset, offset + len) into dst: one open file, few
 * requests (a remote backend joins ranges with small gaps between). Ranges in ascending order;
 * none past the end. */
typedef struct tg_span {
    uint64_t offset;
    size_t len;
    void *dst;
} tg_span;
TG_MUST_USE tg_status tg_store_get_ranges(tg_store *s, const char *key, const tg_span *spans,
                                          size_t n_spans, const tg_cancel *cancel,
                                          tg_error *err);

/* Write a whole value. A reader sees the old value or the new one, never a mixture, also when
 * the process dies half way; on return it is durable, its directory entry included, unless the
 * store was opened with no_sync. data stays the caller's. */
TG_MUST_USE tg_status tg_store_put(tg_store *s, const char *key, const void *data, size_t len,
                                   const tg_cancel *cancel, tg_error *err);
/* The same only if there is no such key (TG_EXISTS): of several writers one wins. */
TG_MUST_USE tg_status tg_store_put_new(tg_store *s, const char *key, const void *data,
                                       size_t len, const tg_cancel *cancel, tg_error *err);
/* Several values made durable together: each is put as by no_sync, then tg_store_sync() makes
 * all that was put since the last sync durable (files, then directories). For group commits. */
TG_MUST_USE tg_status tg_store_put_lazy(tg_store *s, const char *key, const void *data,
                                        size_t len, const tg_cancel *cancel, tg_error *err);
TG_MUST_USE tg_status tg_store_sync(tg_store *s, const tg_cancel *cancel, tg_error *err);

enum { /* what a backend can do beyond get, put, list */
       TG_STORE_CAN_WRITE = 1,
       TG_STORE_CAN_REMOVE = 2,
       TG_STORE_CAN_PUT_NEW = 4,
       TG_STORE_CAN_WRITE_AT = 8,    /* objects: write_at, and sync before seal */
       TG_STORE_CAN_BE_VISIBLE = 16, /* objects that readers see while they grow */
       TG_STORE_IS_LOCAL = 32,       /* a path below tg_store_dir() */
       TG_STORE_IS_REMOTE = 64       /* each call is a round trip */
};
uint32_t tg_store_caps(const tg_store *s);
/* Memory that a store takes beside what it is lent: a job reserves it. */
uint64_t tg_store_own_bytes(const tg_store *s);

/* What went over the network: requests (those tried again count again), and bytes of values. */
typedef struct tg_store_net {
    uint64_t requests, retries, bytes;
} tg_store_net;
tg_store_net tg_store_net_used(const tg_store *s); /* zeros: not a store of that kind */

/* --- Values too large to hold: the object writer ------------------------- */

typedef struct tg_object tg_object;

typedef struct tg_object_options {
    uint64_t size_hint; /* preallocated where the backend can; 0: not known */
    bool visible; /* at its final key from begin on; else under a temporary name until seal */
    bool reopen;  /* go on writing an existing value (visible only): its bytes stay */
} tg_object_options;

TG_MUST_USE tg_status tg_object_begin(tg_store *s, const char *key, tg_object_options options,
                                      tg_object **out, const tg_cancel *cancel, tg_error *err);
/* Offsets, lengths and addresses handed to write_at must be multiples of this; 1 if the object
 * is buffered. The bytes beyond the end of the value, up to the multiple, are cut off by seal.
 */
size_t tg_object_align(const tg_object *o);
bool tg_object_is_direct(const tg_object *o); /* past the page cache */
/* TG_STORE_CAN_WRITE_AT. Different ranges may be written in any order, from several threads. */
TG_MUST_USE tg_status tg_object_write_at(tg_object *o, uint64_t offset, const void *data,
                                         size_t len, const tg_cancel *cancel, tg_error *err);
/* Add at the end: any length, any address. Not mixed with write_at. */
TG_MUST_USE tg_status tg_object_write(tg_object *o, const void *data, size_t len,
                                      const tg_cancel *cancel, tg_error *err);
/* What was written is durable, and so is every directory entry that leads to it. May run beside
 * write_at: covers the writes that had returned before it began. */
TG_MUST_USE tg_status tg_object_sync(tg_object *o, const tg_cancel *cancel, tg_error *err);
/* The value is `len` bytes long, whole, durable, and at its key. The object is then closed:
 * only free may follow. */
TG_MUST_USE tg_status tg_object_seal(tg_object *o, uint64_t len, const tg_cancel *cancel,
                                     tg_error *err);
/* As if it had never begun (a visible one is removed unless reopened). Free may follow. */
void tg_object_abort(tg_object *o);
void tg_object_free(tg_object *o); /* an object neither sealed nor aborted stays as it is on
                                      disk; may be NULL */
TG_DEFINE_AUTO_PTR(tg_object, tg_object_free)

/* --- Backends ------------------------------------------------------------ */

/* The functions above check keys, capabilities and the cancel token, put the store's name in
 * front of messages, and turn a failure inside a wrapper into no second prefix, so that a
 * backend need not. A backend's struct begins with a tg_store (a tg_object). A NULL function:
 * TG_UNSUPPORTED. */
typedef struct tg_store_ops {
    const char *name; /* "memory", "directory", "zip" */
    tg_status (*get_into)(tg_store *, const char *key, tg_range, void *dst, size_t cap,
                          size_t *n, uint64_t *total, const tg_cancel *, tg_error *);
    tg_status (*get_ranges)(tg_store *, const char *key, const tg_span *, size_t n,
                            const tg_cancel *, tg_error *); /* NULL: one get_into each */
    tg_status (*size)(tg_store *, const char *key, uint64_t *, const tg_cancel *, tg_error *);
    tg_status (*put)(tg_store *, const char *key, const void *data, size_t len, unsigned how,
                     const tg_cancel *, tg_error *); /* how: TG_PUT_* */
    tg_status (*sync)(tg_store *, const tg_cancel *, tg_error *);
    tg_status (*remove)(tg_store *, const char *key, const tg_cancel *, tg_error *);
    tg_status (*list)(tg_store *, const char *prefix, tg_list_fn, void *user, const tg_cancel *,
                      tg_error *);
    tg_status (*begin)(tg_store *, const char *key, tg_object_options, tg_object **out,
                       const tg_cancel *, tg_error *);
    tg_status (*close)(tg_store *, tg_error *); /* NULL: nothing can be pending */
    void (*free)(tg_store *);                   /* must accept a half-built store */
} tg_store_ops;

enum { TG_PUT_NEW = 1, TG_PUT_LAZY = 2 };
/* put, put_new and put_lazy by flags: for a wrapper that passes them on. */
TG_MUST_USE tg_status tg_store_put_how(tg_store *s, const char *key, const void *data,
                                       size_t len, unsigned how, const tg_cancel *cancel,
                                       tg_error *err);

/* Filled by tg_store_init(); a backend then sets what else it knows. */
struct tg_store {
    const tg_store_ops *ops;
    uint32_t caps;
    char *what;         /* tg_store_describe(); freed by tg_store_free() */
    tg_store *inner;    /* of a wrapper: asked for all that the wrapper does not say */
    int dir;            /* tg_store_dir(): the backend's, -1 if it is not local */
    uint64_t own_bytes; /* tg_store_own_bytes() */
    const char *path;   /* tg_store_path(): the backend's */
};

void tg_store_init(tg_store *s, const tg_store_ops *ops);
/* what = `kind 'name'`. */
TG_MUST_USE tg_status tg_store_set_what(tg_store *s, const char *kind, const char *name,
                                        tg_error *err);
/* Is key one that a store takes? For names that come from outside (a ZIP's directory, readdir).
 */
bool tg_store_key_valid(const char *key);
#define TG_STORE_KEY_MAX 4000 /* bytes, without the NUL: a path below any root still fits */

typedef struct tg_object_ops {
    tg_status (*write_at)(tg_object *, uint64_t offset, const void *, size_t, const tg_cancel *,
                          tg_error *);
    tg_status (*write)(tg_object *, const void *, size_t, const tg_cancel *, tg_error *);
    tg_status (*sync)(tg_object *, const tg_cancel *, tg_error *);
    tg_status (*seal)(tg_object *, uint64_t len, const tg_cancel *, tg_error *);
    void (*abort)(tg_object *);
    void (*free)(tg_object *);
} tg_object_ops;

struct tg_object {
    const tg_object_ops *ops;
    size_t align;
    bool direct;
    bool closed;     /* kept by the front end: sealed or aborted */
    tg_store *store; /* set by the front end, for messages */
};

TG_MUST_USE tg_status tg_store_open_mem(tg_store **out, tg_error *err);
TG_MUST_USE tg_status tg_store_open_fs(tg_store **out, const char *root,
                                       const tg_store_options *options, tg_error *err);
/* A ZIP file. Reading: any archive of stored or deflated members (docs/formats/zip.md). CREATE
 * and READ_WRITE append: each value is one stored entry, written whole, in order; the directory
 * at close. */
TG_MUST_USE tg_status tg_store_open_zip(tg_store **out, const char *path,
                                        const tg_store_options *options, tg_error *err);

/* What lies below scheme://path, to be read. TG_UNSUPPORTED: built without libcurl, or it is
 * not there. A value is taken for the same while its ETag (else Last-Modified) and size are:
 * another one is TG_CORRUPT, never mixed in. Failures of the network are tried again. */
TG_MUST_USE tg_status tg_store_open_http(tg_store **out, const char *scheme, const char *path,
                                         const tg_store_options *options, tg_error *err);

/* Wrappers. inner stays the caller's and must outlive the wrapper. */
/* gets: ranges of one call are one each, neighbours together one. */
typedef struct tg_store_counts {
    uint64_t gets, get_bytes, puts, put_bytes, syncs, removes, lists, sizes;
} tg_store_counts;
TG_MUST_USE tg_status tg_store_open_count(tg_store **out, tg_store *inner, tg_error *err);
tg_store_counts tg_store_counted(const tg_store *count_of);
/* Every put is lazy: durable with the next sync. */
TG_MUST_USE tg_status tg_store_open_lazy(tg_store **out, tg_store *inner, tg_error *err);
/* The n-th operation from now fails with TG_IO, once or from then on. n 0: off. */
TG_MUST_USE tg_status tg_store_open_fault(tg_store **out, tg_store *inner, tg_error *err);
void tg_store_fail_at(tg_store *s, long n, bool persistent);

/* The directory behind a local store (borrowed descriptor), and its path. -1, NULL: not local.
 */
int tg_store_dir(const tg_store *s);
const char *tg_store_path(const tg_store *s);

#endif
