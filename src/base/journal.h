/* base/journal.h - a file of framed, checksummed, versioned records, written at
 * its end only. Knows nothing of what a record means.
 *
 * Layout (docs/formats/journal.md): magic "TGJOURNL", u32 major, u32 minor, u32
 * kind (which job's journal), u32 crc32c of the 20 bytes before; then records:
 * u32 length of the payload, u16 type, u16 zero, u32 crc32c of type, zero and
 * payload and of the record's own offset in the file, payload, all little-endian. A record is
 * read only if it is whole and its sum is right; the first that is not ends the replay: what
 * follows a torn record is never trusted. */
#ifndef TG_BASE_JOURNAL_H
#define TG_BASE_JOURNAL_H

#include "base/mem.h"

#include <stdbool.h>

#define TG_JOURNAL_MAX_RECORD ((uint32_t)64 << 20)

typedef struct tg_journal tg_journal;

/* Make a new journal at path (its directory exists); TG_EXISTS if there is one.
 * Made as path.new and renamed when its header is
 * durable; its entry is durable on return too. buffer_bytes: records are
 * gathered in one buffer of this size, taken now, and go out with one write. */
TG_MUST_USE tg_status tg_journal_create(tg_journal **out, int dir, const char *path,
                                        uint32_t kind, uint32_t major, uint32_t minor,
                                        size_t buffer_bytes, tg_error *err);
/* Go on after the last whole record of an existing one: what follows it is cut off. */
TG_MUST_USE tg_status tg_journal_open(tg_journal **out, int dir, const char *path,
                                      uint32_t kind, uint32_t major, size_t buffer_bytes,
                                      tg_error *err);
/* Add a record made of up to three parts (any may be empty). It is in the buffer, or written if
 * the buffer was full. The first failure is sticky: every later call returns it. */
TG_MUST_USE tg_status tg_journal_add(tg_journal *j, uint16_t type, tg_bytes a, tg_bytes b,
                                     tg_bytes c, tg_error *err);
/* Hand what is gathered to the kernel: it survives a kill of this process. */
TG_MUST_USE tg_status tg_journal_flush(tg_journal *j, tg_error *err);
/* flush + fdatasync: it survives a power cut. */
TG_MUST_USE tg_status tg_journal_sync(tg_journal *j, tg_error *err);
/* fdatasync alone: what was flushed before survives a power cut. Touches nothing of j, so other
 * threads may add and flush meanwhile; its failure is not sticky: the caller keeps it. */
TG_MUST_USE tg_status tg_journal_datasync(const tg_journal *j, tg_error *err);
uint64_t tg_journal_bytes(const tg_journal *j); /* file size with what is gathered */
TG_MUST_USE tg_status tg_journal_close(tg_journal *j,
                                       tg_error *err); /* flush, close; then free */
void tg_journal_free(tg_journal *j); /* abandons what was not flushed; may be NULL */
TG_DEFINE_AUTO_PTR(tg_journal, tg_journal_free)

/* --- Replay -------------------------------------------------------------- */

typedef struct tg_journal_header {
    uint32_t kind, major, minor;
} tg_journal_header;

/* Called for each whole record in order. payload is borrowed for the call. A failure ends the
 * replay and is returned. */
typedef tg_status (*tg_journal_fn)(void *user, uint16_t type, tg_bytes payload, uint64_t offset,
                                   tg_error *err);

/* Read a journal from its start. TG_CORRUPT: no magic, or header checksum wrong.
 * TG_UNSUPPORTED: another kind, or a newer major than `major`, named in the message. A cut or
 * torn end is no failure: *end (may be NULL) is the byte after the last whole record. Memory:
 * one record at a time, at most TG_JOURNAL_MAX_RECORD. */
TG_MUST_USE tg_status tg_journal_replay(int dir, const char *path, uint32_t kind,
                                        uint32_t major, tg_journal_header *header,
                                        tg_journal_fn fn, void *user, uint64_t *end,
                                        tg_error *err);
/* The longest payload that a replay of the file would read, found without reading any: what its
 * caller reserves. A file that is no journal has none or some; the replay refuses it. */
TG_MUST_USE tg_status tg_journal_longest(int dir, const char *path, uint64_t *bytes,
                                         tg_error *err);

#endif
