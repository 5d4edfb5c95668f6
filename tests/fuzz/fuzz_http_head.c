/* fuzz_http_head.c - any bytes as the header lines of an answer: what is taken from them holds
 * together, whatever they are. */
#include "store/http_head.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const tg_http_head *h)
{
    if (h->status < 0 || h->status > 999 || h->retry_after < -1)
        abort();
    if (h->length != TG_HTTP_UNKNOWN && h->length > INT64_MAX)
        abort();
    if (!h->has_range && (h->first != TG_HTTP_UNKNOWN || h->total != TG_HTTP_UNKNOWN))
        abort();
    if (h->first != TG_HTTP_UNKNOWN && (h->end <= h->first || h->end > h->total))
        abort();
    if (memchr(h->etag, 0, sizeof h->etag) == NULL ||
        memchr(h->bad, 0, sizeof h->bad) == NULL ||
        memchr(h->modified, 0, sizeof h->modified) == NULL ||
        memchr(h->coding, 0, sizeof h->coding) == NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tg_http_head h;

    tg_http_head_begin(&h);
    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t n = end == NULL ? size : (size_t)(end - data) + 1;
        tg_http_head_line(&h, (const char *)data, n, 784111777);
        check(&h);
        data += n;
        size -= n;
    }
    return 0;
}
