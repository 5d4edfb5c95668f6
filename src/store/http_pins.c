/* store/http_pins.c - the versions of values that were read. Knows no connection. */
#include "store/http.h"

#include <string.h>

#define WAYS 4 /* places where a key may be */

static uint64_t sum_of(const char *key)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (; *key != '\0'; key++)
        sum = (sum ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
    sum ^= sum >> 32;
    return sum == 0 ? 1 : sum;
}

static tg_http_pin *find(const tg_http_pins *p, uint64_t sum)
{
    tg_http_pin *set = p->at + sum % (TG_HTTP_PINS / WAYS) * WAYS;
    for (size_t i = 0; i < WAYS; i++)
        if (set[i].key == sum)
            return &set[i];
    return NULL;
}

static tg_http_pin *room_for(tg_http_pins *p, uint64_t sum)
{
    tg_http_pin *set = p->at + sum % (TG_HTTP_PINS / WAYS) * WAYS;
    for (size_t i = 0; i < WAYS; i++)
        if (set[i].key == 0)
            return &set[i];
    return &set[p->turn++ % WAYS];
}

static bool differ(const char *a, const char *b)
{
    return a[0] != '\0' && b[0] != '\0' && strcmp(a, b) != 0;
}

static tg_status changed(const char *what, const char *got, const char *want, tg_error *err)
{
    return tg_fail(err, TG_CORRUPT, "changed while it was read: %s %s, want %s", what, got,
                   want);
}

tg_status tg_http_pin_check(tg_http_pins *p, const char *key, const tg_http_head *h,
                            uint64_t total, tg_error *err)
{
    uint64_t sum = sum_of(key);

    TG_LOCKED(&p->lock);
    tg_http_pin *pin = find(p, sum);
    if (pin == NULL) {
        pin = room_for(p, sum);
        *pin = (tg_http_pin){.key = sum, .total = total};
        memcpy(pin->etag, h->etag, sizeof pin->etag);
        memcpy(pin->modified, h->modified, sizeof pin->modified);
        return TG_OK;
    }
    if (pin->total == TG_HTTP_UNKNOWN)
        pin->total = total;
    if (total != TG_HTTP_UNKNOWN && pin->total != total)
        return tg_fail(err, TG_CORRUPT,
                       "changed while it was read: it has %llu bytes, and had %llu",
                       (unsigned long long)total, (unsigned long long)pin->total);
    if (differ(h->etag, pin->etag))
        return changed("ETag", h->etag, pin->etag, err);
    if (h->etag[0] == '\0' && differ(h->modified, pin->modified))
        return changed("Last-Modified", h->modified, pin->modified, err);
    return TG_OK;
}

bool tg_http_pin_total(tg_http_pins *p, const char *key, uint64_t *total)
{
    TG_LOCKED(&p->lock);
    const tg_http_pin *pin = find(p, sum_of(key));
    if (pin == NULL || pin->total == TG_HTTP_UNKNOWN)
        return false;
    *total = pin->total;
    return true;
}
