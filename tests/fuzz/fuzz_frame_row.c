/* fuzz_frame_row.c - rows of a journal: corrupt, or read and written again byte for byte. The
 * first two bytes choose the user's columns. */
#include "stream/frame_row.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const tg_dtype dtypes[8] = {{TG_DT_BOOL, 1},  {TG_DT_INT, 1},   {TG_DT_UINT, 2},
                                   {TG_DT_INT, 4},   {TG_DT_UINT, 8},  {TG_DT_FLOAT, 2},
                                   {TG_DT_FLOAT, 8}, {TG_DT_STRING, 0}};

static void choose_columns(tg_frame_columns *c, unsigned bits)
{
    static const char *const names[5] = {"a", "b", "c", "d", "e"};
    tg_stream_column columns[5];
    for (uint32_t i = 0; i < 5; i++) {
        columns[i].name = names[i];
        columns[i].dtype = dtypes[bits >> (3 * i) & 7];
    }
    if (tg_frame_columns_init(c, columns, bits % 6, NULL) != TG_OK)
        abort();
}

/* The packed values as a caller of append would hand them over. */
static void write_again(const tg_frame_columns *c, const tg_frame_row *row, tg_bytes values,
                        const uint8_t *src, size_t used)
{
    uint8_t again[TG_FRAME_ROW_BYTES + 5 * (2 + TG_FRAME_TEXT_MAX)];
    static char text[5][TG_FRAME_TEXT_MAX + 1];
    uint8_t item[5][8];
    const void *value[5] = {NULL};
    size_t at = 0, n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        size_t len = c->at[i].dtype.size;
        if (c->at[i].dtype.kind == TG_DT_STRING) {
            len = (size_t)values.data[at] | (size_t)values.data[at + 1] << 8;
            at += 2;
            memcpy(text[i], values.data + at, len);
            text[i][len] = '\0';
            value[i] = text[i];
            if (strlen(text[i]) != len)
                return; /* a NUL inside, which no C string can say */
        } else {
            memcpy(item[i], values.data + at, len);
            value[i] = item[i];
        }
        at += len;
    }
    tg_frame_row_encode(row, again);
    if (tg_frame_values_pack(c, value, again + TG_FRAME_ROW_BYTES,
                             sizeof again - TG_FRAME_ROW_BYTES, &n, NULL) != TG_OK ||
        TG_FRAME_ROW_BYTES + n != used || memcmp(again, src, used) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tg_frame_columns c = {0};
    tg_frame_row row = {0};
    tg_error err = {0};
    size_t used = 0;
    if (size < 2)
        return 0;
    choose_columns(&c, data[0] | (unsigned)data[1] << 8);
    tg_bytes src = {data + 2, size - 2}, values = src;
    while (src.len > 0 && tg_frame_row_read(&c, src, &row, &values, &used, &err) == TG_OK) {
        if (used > src.len || values.len > c.values_bound || values.len < c.values_least)
            abort();
        write_again(&c, &row, values, src.data, used);
        src.data += used;
        src.len -= used;
    }
    if (src.len > 0 && err.code != TG_CORRUPT)
        abort();
    return 0;
}
