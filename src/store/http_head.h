/* store/http_head.h - what the header lines of one HTTP answer say, as far as a reader of byte
 * ranges must know. Pure text from outside: nothing in it is believed that is not a number
 * where one belongs. */
#ifndef TG_STORE_HTTP_HEAD_H
#define TG_STORE_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TG_HTTP_UNKNOWN UINT64_MAX

typedef struct tg_http_head {
    int status;
    uint64_t length; /* Content-Length; TG_HTTP_UNKNOWN: not said */
    /* Content-Range: bytes [first, end) of total; first TG_HTTP_UNKNOWN: no range was sent, as
     * in a 416; total TG_HTTP_UNKNOWN: not said */
    bool has_range;
    uint64_t first, end, total;
    /* What tells two versions of a value apart; "" if it is not said. A long tag is cut, and
     * ends in a sum of the whole. */
    char etag[72], modified[40];
    int64_t retry_after; /* seconds; -1: not said */
    char coding[16];     /* Content-Encoding other than identity */
    char bad[80];        /* the first line that is not what it should be, cut; "" if none */
} tg_http_head;

/* Before the first line of an answer. */
void tg_http_head_begin(tg_http_head *h);
/* One line, its end ("\r\n") included or not. A status line begins a new answer: of several
 * (redirects, interim answers) the last counts. utc_s: now, for a date to retry after. */
void tg_http_head_line(tg_http_head *h, const char *line, size_t n, int64_t utc_s);

#endif
