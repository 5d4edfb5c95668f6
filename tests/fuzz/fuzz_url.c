/* fuzz_url.c - any text as a store URL: refused with a message, or taken apart
 * into a path and a key that a store would take. */
#include "store/store.h"
#include "store/url.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[2048];
    tg_url u = {0};
    tg_error err = {0};

    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (tg_url_parse(&u, text, &err) != TG_OK) {
        if (err.msg[0] == '\0' || u.path != NULL)
            abort();
        return 0;
    }
    if (u.scheme == NULL || u.path == NULL || u.inner == NULL ||
        (u.inner[0] != '\0' && !tg_store_key_valid(u.inner)))
        abort();
    tg_url_free(&u);
    return 0;
}
