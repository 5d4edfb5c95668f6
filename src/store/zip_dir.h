/* store/zip_dir.h - the directory of a ZIP file in memory: names to entries.
 *
 * Of several entries of one name the last wins. Memory: 40 bytes and the name
 * for each entry, 8 to 16 in the hash table, 4 more once it was listed; a table
 * that grows is there twice for a moment. 100 bytes an entry with names of 40. */
#ifndef TG_STORE_ZIP_DIR_H
#define TG_STORE_ZIP_DIR_H

#include "base/mem.h"

#include <stdbool.h>

typedef struct zip_entry {
    uint64_t header; /* offset of the local header */
    uint64_t stored; /* bytes in the file */
    uint64_t size;   /* bytes of the value */
    uint32_t name;   /* zip_dir_name() */
    uint32_t crc;
    uint16_t name_len;
    uint16_t flags; /* as in the file */
    uint8_t method; /* ZIP_STORED, ZIP_DEFLATED, 255: another */
    bool added;     /* by us, not in the directory on disk */
    bool link;      /* a symbolic link */
    bool recoded;   /* the name was not UTF-8: it is not the file's own bytes */
} zip_entry;

typedef struct zip_dir {
    zip_entry **blocks;
    char **texts; /* names, terminated, in blocks of their own */
    uint32_t n, n_blocks, block_cap, n_texts, text_cap;
    uint32_t text_used; /* of the last one */
    uint32_t *slots;    /* hash table of entry numbers + 1; 0: free */
    uint32_t n_slots;   /* a power of two, or 0 */
    uint32_t *sorted;   /* entry numbers by name; NULL: to be made */
} zip_dir;

void tg_zip_dir_free(zip_dir *d);
zip_entry *tg_zip_dir_at(const zip_dir *d, uint32_t i);
const char *tg_zip_dir_name(const zip_dir *d, const zip_entry *e);
/* NULL: no such name. */
zip_entry *tg_zip_dir_find(const zip_dir *d, const char *name);
/* Add an entry, or put it in the place of the one that has the name. e->name and name_len are
 * set. name holds no NUL. */
TG_MUST_USE tg_status tg_zip_dir_set(zip_dir *d, const char *name, size_t len, zip_entry e,
                                     tg_error *err);
/* The first name at or after `from` among all, sorted by bytes, and what follows it by i++;
 * made if need be. */
TG_MUST_USE tg_status tg_zip_dir_sort(zip_dir *d, tg_error *err);
uint32_t tg_zip_dir_lower_bound(const zip_dir *d, const char *from, size_t len);
const char *tg_zip_dir_sorted_name(const zip_dir *d, uint32_t i);
/* TG_CORRUPT if two entries share bytes: the sign of a file made to explode. */
TG_MUST_USE tg_status tg_zip_dir_check_overlap(const zip_dir *d, tg_error *err);

#endif
