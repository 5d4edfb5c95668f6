/* fuzz_json.c - any bytes: a document or TG_CORRUPT; a document that is written reads back
 * equal. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tg_error err = {0};
    tg_json *v = NULL, *again = NULL;
    char *text = NULL;
    tg_json_options options = {.allow_nan = size > 0 && (data[0] & 1) != 0};

    if (size < 1 || tg_json_parse(&v, (const char *)data + 1, size - 1, options, &err) != TG_OK)
        return 0;
    if (tg_json_write(v, (data[0] & 2) != 0, options, &text, &err) != TG_OK)
        abort();
    if (tg_json_parse(&again, text, strlen(text), options, &err) != TG_OK)
        abort();
    char *twice = NULL;
    if (tg_json_write(again, (data[0] & 2) != 0, options, &twice, &err) != TG_OK ||
        strcmp(text, twice) != 0)
        abort();
    tg_free(text);
    tg_free(twice);
    tg_json_free(v);
    tg_json_free(again);
    return 0;
}
