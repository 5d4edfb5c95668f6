/* store/zip.h - what the files of the ZIP store share (docs/formats/zip.md).
 *
 * store_zip.c   the backend: open, list, close
 * zip_dir.c     the table of entries
 * zip_central.c finding and reading the directory of a file
 * zip_read.c    one entry's bytes
 * zip_write.c   appending entries, and the directory at the end */
#ifndef TG_STORE_ZIP_H
#define TG_STORE_ZIP_H

#include "base/sync.h"
#include "base/sys.h"
#include "store/file_io.h"
#include "store/inflater.h"
#include "store/store.h"
#include "store/zip_dir.h"
#include "store/zip_write.h"

/* Where the directory of a file lies. */
typedef struct zip_end {
    uint64_t at;      /* of its first record */
    uint64_t bytes;   /* of all records */
    uint64_t entries; /* their number */
    uint64_t shift;   /* bytes before the archive: what offsets in it lack */
    uint64_t comment; /* offset of the archive's comment */
    uint16_t comment_len;
} zip_end;

/* Values read in part, with what was learnt of them: an .imzML and its .ibd, say. */
#define TG_ZIP_PARTS 2
/* Smaller deflated values are inflated whole where a part is wanted. */
#define TG_ZIP_SMALL ((uint64_t)1 << 20)
typedef struct zip_part {
    tg_inflater *inflater; /* NULL: free */
    uint64_t header;       /* of the entry */
} zip_part;

typedef struct zip_store {
    tg_store base;
    char *path;
    int fd;              /* for reading, through the page cache */
    uint64_t base_bytes; /* of the archive that was opened; 0: a new one */
    zip_end old;         /* its directory, if base_bytes > 0 */
    bool no_sync;

    tg_mutex lock; /* guards dir and busy */
    zip_dir dir;
    tg_cond idle;
    bool busy; /* a thread writes: it alone uses what follows */

    tg_mutex inflating; /* guards the next two; held while reading */
    zip_part parts[TG_ZIP_PARTS];
    uint32_t part_turn;

    int out_fd; /* -1: opened for reading */
    tg_appender out;
    tg_behind behind;
    bool direct, can_write_out;
    bool changed;       /* the directory on disk is not the one in memory */
    bool entry_durable; /* the file's own directory entry */
    tg_error failed;    /* a failure after which the file cannot be finished */
} zip_store;

/* --- zip_central.c ------------------------------------------------------------ */

/* The directory's place in a file of `size` bytes. TG_INCOMPLETE: begins as a ZIP and has none;
 * TG_CORRUPT: is no ZIP. */
TG_MUST_USE tg_status tg_zip_find_end(int fd, uint64_t size, zip_end *end, tg_error *err);

/* A record of the directory, names checked and zip64 fields put in place. */
typedef struct zip_central {
    const uint8_t *bytes; /* the whole record as it is in the file */
    size_t len;
    const char *name; /* in UTF-8, terminated: a key, or with '/' at its end a directory */
    size_t name_len;
    zip_entry entry;
} zip_central;
typedef tg_status (*zip_central_fn)(void *user, const zip_central *c, tg_error *err);
/* Call fn for each record, which is borrowed for the call. Memory: 256 KiB. */
TG_MUST_USE tg_status tg_zip_each_central(int fd, const zip_end *end, zip_central_fn fn,
                                          void *user, tg_error *err);

/* --- zip_read.c ----------------------------------------------------------------- */

/* Check the local header against the entry; *data: offset of its first byte. */
TG_MUST_USE tg_status tg_zip_locate(int fd, const zip_entry *e, const char *name,
                                    uint64_t *data, tg_error *err);
/* limit: no entry's data ends beyond this byte. */
TG_MUST_USE tg_status tg_zip_read(zip_store *z, const zip_entry *e, const char *name,
                                  uint64_t limit, tg_range range, void *dst, size_t cap,
                                  size_t *n, const tg_cancel *cancel, tg_error *err);

/* --- zip_write.c ---------------------------------------------------------------- */

TG_MUST_USE tg_status tg_zip_open_out(zip_store *z, bool create, bool buffered, tg_error *err);
tg_status tg_zip_put(tg_store *s, const char *key, const void *data, size_t len, unsigned how,
                     const tg_cancel *cancel, tg_error *err);
tg_status tg_zip_sync(tg_store *s, const tg_cancel *cancel, tg_error *err);
tg_status tg_zip_close(tg_store *s, tg_error *err);

#endif
