/* store/zip_write.h - a ZIP that is recorded into: entries whose places a journal
 * can keep, and the archive made whole from them after a crash.
 *
 * A ZIP's directory is written when it is closed; before that no reader opens
 * the file. A recorder writes the record of each entry into its journal. To
 * recover: tg_zip_reopen() with the length that the archive had at the start,
 * tg_zip_adopt() each entry in order, tg_store_put() what is missing (metadata),
 * tg_store_close(), which writes the directory and cuts off what follows it.
 * Until the close nothing of the entries is changed, so that it can be done
 * again from the start. */
#ifndef TG_STORE_ZIP_WRITE_H
#define TG_STORE_ZIP_WRITE_H

#include "store/inflate.h"
#include "store/store.h"

/* Where an entry of a stored value lies. */
typedef struct tg_zip_record {
    uint64_t header_offset; /* of the local header */
    uint64_t data_offset;   /* of the first byte of the value: a multiple of 4096 if the value
                               has at least TG_ZIP_ALIGN_MIN bytes */
    uint64_t len;           /* of the value */
    uint32_t crc32;
} tg_zip_record;

#define TG_ZIP_ALIGN_MIN ((size_t)256 << 10)

bool tg_store_is_zip(const tg_store *s); /* and not a wrapper around one */
/* Bytes of the archive when it was opened, 0 if it was created: tg_zip_reopen()'s base_bytes.
 */
uint64_t tg_zip_base_bytes(const tg_store *zip);
/* Its keys in the order of the archive, where that means something (tg_store_list() sorts). fn
 * as for tg_store_list(). No call on the store may write meanwhile. */
void tg_zip_each_key(const tg_store *zip, tg_list_fn fn, void *user);

/* tg_store_put() that says where the entry went. On return the bytes are the kernel's: they
 * survive a kill; tg_store_sync() makes them durable. crc32 (may be NULL): that of data, if the
 * caller knows it (tg_zip_crc32()). data on a multiple of 4096 goes out without a copy. */
TG_MUST_USE tg_status tg_zip_append(tg_store *zip, const char *key, const void *data,
                                    size_t len, const uint32_t *crc32, tg_zip_record *record,
                                    const tg_cancel *cancel, tg_error *err);

/* Open for appending a file whose first base_bytes bytes are a whole archive (0: there was
 * none), whatever follows. */
TG_MUST_USE tg_status tg_zip_reopen(tg_store **out, const char *path, uint64_t base_bytes,
                                    const tg_store_options *options, tg_error *err);
/* Take an entry that is in the file into the directory. TG_CORRUPT: there is no such entry in
 * the file, which may be shorter. The value's bytes are not read: get it to check its CRC. */
TG_MUST_USE tg_status tg_zip_adopt(tg_store *zip, const char *key, const tg_zip_record *record,
                                   tg_error *err);

#endif
