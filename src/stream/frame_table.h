/* stream/frame_table.h - the frame table: rows in, 1-D Zarr arrays GROUP/frames/NAME out.
 *
 * Rows come in order and are kept as columns of one chunk. A chunk that is full is put at once
 * (lazily: nothing covers it yet); the last, partial one is put by tg_frame_table_write() and
 * again when there are more rows. Only tg_frame_table_publish() lets readers see rows. At a
 * commit, after the journal is durable:
 *
 *     tg_frame_table_write(t)     chunks of all rows added so far
 *     tg_store_sync(store)
 *     tg_frame_table_publish(t)   shapes; then those of the image, and tg_store_sync() again
 *
 * A chunk is put as a whole and atomically, and the rows that were published before are in it
 * unchanged, so a reader always finds the rows that it was promised.
 *
 * In a store that keeps what was put (ZIP: `once`) chunks are put when full, and
 * tg_frame_table_finish() puts the last ones and all metadata; write and publish do nothing.
 *
 * Memory is taken by create/open, tg_frame_table_bytes() of it; adding a row allocates nothing
 * but where a chunk with strings is put. Threads: one call at a time. */
#ifndef TG_STREAM_FRAME_TABLE_H
#define TG_STREAM_FRAME_TABLE_H

#include "store/store.h"
#include "stream/frame_row.h"

typedef struct tg_frame_table tg_frame_table;

/* The axes of an image along which its frames lie: n of them from `first` on. A single plane
 * has none. */
typedef struct tg_frame_axes {
    uint32_t first, n;
} tg_frame_axes;
/* Frames that an image of this shape has: one place for each, filled or not. A single plane is
 * one frame once its first extent is not 0. UINT64_MAX: more than can be counted. */
uint64_t tg_frame_axes_count(tg_frame_axes axes, const uint64_t *shape);

typedef struct tg_frame_table_options {
    int format;             /* 2 or 3 */
    const char *group;      /* path of the group that holds "frames"; "": the root */
    tg_frame_columns users; /* the user's columns */
    bool checksum;          /* a column crc32c, and (v3) crc32c on the chunks */
    uint64_t frame_bytes;   /* of one frame: below 256 KiB a chunk has 65536 rows, else 4096 */
    uint64_t images;        /* fields of all wells of a plate; 0: no plate. The table then has
                               columns well and field, and its index is one within the field */
    uint64_t fields;        /* of each well */
    tg_frame_axes axes;     /* of the image: told in the attributes */
    bool once;              /* values can be put only once (ZIP) */
    bool rebuild;           /* (recover) chunks that are there already as they should be are not
                               put again */
} tg_frame_table_options;

/* Rows per chunk, of all columns but strings, which have TG_FRAME_TEXT_ROWS. */
uint64_t tg_frame_table_chunk_rows(uint64_t frame_bytes);
enum { TG_FRAME_TEXT_ROWS = 256 };

/* Memory that create and open take, and adding may take: reserve it before. */
size_t tg_frame_table_bytes(const tg_frame_table_options *options);

/* Make group and arrays with no rows. Documents are put lazily: tg_store_sync() makes them
 * durable. Nothing is put for `once`. The store must outlive the table; options are copied. */
TG_MUST_USE tg_status tg_frame_table_create(tg_frame_table **out, tg_store *store,
                                            const tg_frame_table_options *options,
                                            const tg_cancel *cancel, tg_error *err);
/* Go on after row `rows` of a table that is there (append: its length, see
 * tg_frame_table_length(); recover: its length when the recorder was opened, to add the rows
 * of the journal again). The rows of the last partial chunk are read back. What the store holds
 * beyond `rows` stays until it is written over, and visible until a publish. Columns must be
 * those of the options: TG_INVALID names the one that is not, TG_NOT_FOUND the one that is
 * missing. Other attributes stay. */
TG_MUST_USE tg_status tg_frame_table_open(tg_frame_table **out, tg_store *store,
                                          const tg_frame_table_options *options, uint64_t rows,
                                          const tg_cancel *cancel, tg_error *err);
/* Published rows of the table in a store: the shortest of its columns, for a crash may lie
 * between two of them. TG_NOT_FOUND: no table. */
TG_MUST_USE tg_status tg_frame_table_length(tg_store *store, const char *group, uint64_t *rows,
                                            const tg_cancel *cancel, tg_error *err);
/* Along which axes of its image the frames lie, by the attributes; an image of ndim axes. A
 * table that does not say it (made before it was told) has the image's first axes but for two.
 * TG_CORRUPT: says what cannot be. */
TG_MUST_USE tg_status tg_frame_table_axes(tg_store *store, const char *group, uint32_t ndim,
                                          tg_frame_axes *axes, const tg_cancel *cancel,
                                          tg_error *err);
/* The last published row (append: where the sequence goes on). TG_NOT_FOUND: none. */
TG_MUST_USE tg_status tg_frame_table_last(tg_store *store, const char *group, tg_frame_row *row,
                                          const tg_cancel *cancel, tg_error *err);
void tg_frame_table_free(tg_frame_table *t); /* writes nothing; may be NULL */
TG_DEFINE_AUTO_PTR(tg_frame_table, tg_frame_table_free)

/* One row behind the last. values: packed, as tg_frame_values_pack() makes them (checked by it,
 * or by tg_frame_row_read()). Puts the chunks that this row fills. */
TG_MUST_USE tg_status tg_frame_table_add(tg_frame_table *t, const tg_frame_row *row,
                                         tg_bytes values, const tg_cancel *cancel,
                                         tg_error *err);
uint64_t tg_frame_table_rows(const tg_frame_table *t); /* added, in all */
/* Put the partial chunks that have rows which are not in the store yet. */
TG_MUST_USE tg_status tg_frame_table_write(tg_frame_table *t, const tg_cancel *cancel,
                                           tg_error *err);
/* Put the shapes: rows <= those at the last tg_frame_table_write(). Does nothing if they are
 * published already. */
TG_MUST_USE tg_status tg_frame_table_publish(tg_frame_table *t, uint64_t rows,
                                             const tg_cancel *cancel, tg_error *err);
/* Last chunks and all metadata: write + publish of all rows; with `once` the only call that
 * puts metadata. No add may follow. */
TG_MUST_USE tg_status tg_frame_table_finish(tg_frame_table *t, const tg_cancel *cancel,
                                            tg_error *err);
/* Remove the chunks that lie wholly beyond the published rows (left by a run that died). */
TG_MUST_USE tg_status tg_frame_table_trim(tg_frame_table *t, const tg_cancel *cancel,
                                          tg_error *err);
/* Values put and removed so far. */
uint64_t tg_frame_table_puts(const tg_frame_table *t);

#endif
