/* fuzz_csv.c - any bytes: rows come out whole, or a line is named; what was read reads back the
 * same when written. */
#include "base/csv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tg_error err = {0};
    tg_csv *csv = NULL;
    const char *const *fields = NULL;
    size_t n = 0;

    if (tg_csv_open(&csv, (tg_bytes){size == 0 ? (const uint8_t *)"" : data, size}, '\0',
                    &err) != TG_OK)
        return 0;
    while (tg_csv_next(csv, &fields, &n, &err) == TG_OK && n > 0) {
        tg_text line = {0};
        tg_csv *again = NULL;
        const char *const *got = NULL;
        size_t m = 0, used = 0;
        for (size_t i = 0; i < n; i++) {
            tg_csv_write(&line, fields[i], ',', i == 0);
            used += strlen(fields[i]);
        }
        if (used > 0 || n > 1) {
            if (tg_csv_open(&again, (tg_bytes){(const uint8_t *)line.data, line.len}, ',',
                            &err) != TG_OK ||
                tg_csv_next(again, &got, &m, &err) != TG_OK || m != n)
                abort();
            for (size_t i = 0; i < n; i++)
                if (strcmp(got[i], fields[i]) != 0)
                    abort();
        }
        tg_csv_free(again);
        tg_text_free(&line);
    }
    tg_csv_free(csv);
    return 0;
}
