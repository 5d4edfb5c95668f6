/* stream/frame_row.h - one row of the frame table as bytes: in the ring, in the journal.
 *
 * Layout (docs/formats/frame-table.md), little-endian: u64 sequence, i64 index, i64
 * time_device, i64 time_host, u8 status, u32 crc32c (37 bytes), then the user's columns in
 * their order: an item of its dtype, or for a string a u16 length and its bytes. */
#ifndef TG_STREAM_FRAME_ROW_H
#define TG_STREAM_FRAME_ROW_H

#include "base/mem.h"
#include "tidegate/stream.h"

enum {
    TG_FRAME_ROW_BYTES = 37,   /* the fixed part */
    TG_FRAME_TEXT_MAX = 4096,  /* bytes of one string, without the NUL */
    TG_FRAME_COLUMNS_MAX = 64, /* user columns */
    TG_FRAME_NAME_MAX = 63     /* bytes of a column's name */
};

#define TG_NO_INDEX ((int64_t)-1)
#define TG_NO_TIME  INT64_MIN

typedef struct tg_frame_row {
    uint64_t sequence;
    int64_t index;       /* along the frame axis: where the pixels lie; -1: no pixels */
    int64_t time_device; /* ns; INT64_MIN: not known */
    int64_t time_host;   /* ns since 1970 UTC */
    uint8_t status;      /* tg_frame_status */
    uint32_t crc32c;     /* of the frame's items, native little-endian, C order; 0: no pixels */
} tg_frame_row;

/* The user's columns of one table, checked. A value type: no memory of its own. */
typedef struct tg_frame_columns {
    uint32_t n;
    struct {
        char name[TG_FRAME_NAME_MAX + 1];
        tg_dtype dtype;
    } at[TG_FRAME_COLUMNS_MAX];
    size_t values_bound; /* most bytes of the packed values of one row */
    size_t values_least; /* fewest: all strings empty */
} tg_frame_columns;

/* TG_INVALID, naming the column: too many, a name that is no node name, is taken by a column of
 * our own or used twice; a dtype that is no integer, float, bool or string. */
TG_MUST_USE tg_status tg_frame_columns_init(tg_frame_columns *c,
                                            const tg_stream_column *columns, uint32_t n,
                                            tg_error *err);

/* Pack the user's values of one row: values as in tg_frame_meta.columns (NULL, or a NULL among
 * them: 0 or ""). dst has room for cap bytes; c->values_bound always suffices. Does not
 * allocate. TG_INVALID, naming the column: a string longer than TG_FRAME_TEXT_MAX or not UTF-8;
 * TG_OVER_BUDGET: more than cap. */
TG_MUST_USE tg_status tg_frame_values_pack(const tg_frame_columns *c, const void *const *values,
                                           uint8_t *dst, size_t cap, size_t *n, tg_error *err);
/* Length of packed values at the start of src, checked: whole, UTF-8, lengths in bounds.
 * TG_CORRUPT if not. */
TG_MUST_USE tg_status tg_frame_values_check(const tg_frame_columns *c, tg_bytes src, size_t *n,
                                            tg_error *err);

/* The fixed part, TG_FRAME_ROW_BYTES. Decoding checks status and index: TG_CORRUPT. */
void tg_frame_row_encode(const tg_frame_row *row, uint8_t dst[TG_FRAME_ROW_BYTES]);
TG_MUST_USE tg_status tg_frame_row_decode(tg_bytes src, tg_frame_row *row, tg_error *err);
/* A row and its packed values from the start of src; *values is borrowed from src, *used the
 * bytes of both. */
TG_MUST_USE tg_status tg_frame_row_read(const tg_frame_columns *c, tg_bytes src,
                                        tg_frame_row *row, tg_bytes *values, size_t *used,
                                        tg_error *err);

#endif
