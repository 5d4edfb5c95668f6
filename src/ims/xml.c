/* ims/xml.c - expat behind a small interface: the only file that includes its header. Knows
 * nothing of imzML. */
#include "ims/xml.h"

#include "base/crc32c.h"
#include "base/mem.h"

#include <expat.h>
#include <stdalign.h>
#include <string.h>

#define SLICE ((size_t)64 << 10) /* bytes handed to expat at a time */

typedef struct reading {
    const tg_xml_handlers *handlers;
    void *user;
    XML_Parser parser;
    int depth;
    bool stopped;
    tg_status status; /* of the handler that stopped it */
    tg_error *err;
} reading;

/* --- The parser's memory: counted and bounded ------------------------------- */

/* expat's memory functions take no user pointer, so the bound is kept per thread. */
static _Thread_local size_t parser_bytes;

typedef struct block {
    alignas(max_align_t) size_t size;
} block;

static void *parser_alloc(size_t n)
{
    if (n > TG_XML_MEMORY_BYTES || parser_bytes + n > TG_XML_MEMORY_BYTES)
        return NULL;
    block *b = tg_alloc(sizeof *b + n);
    if (b == NULL)
        return NULL;
    b->size = n;
    parser_bytes += n;
    return b + 1;
}

static void parser_free(void *p)
{
    if (p == NULL)
        return;
    block *b = (block *)p - 1;
    parser_bytes -= b->size;
    tg_free(b);
}

static void *parser_realloc(void *p, size_t n)
{
    void *q = parser_alloc(n);
    if (q == NULL || p == NULL)
        return q;
    size_t old = ((block *)p - 1)->size;
    memcpy(q, p, old < n ? old : n);
    parser_free(p);
    return q;
}

static const XML_Memory_Handling_Suite memory = {parser_alloc, parser_realloc, parser_free};

/* --- Handlers ---------------------------------------------------------------- */

static void stop(reading *r, tg_status st)
{
    r->status = st;
    r->stopped = true;
    (void)XML_StopParser(r->parser, XML_FALSE);
}

static const char *local_name(const char *name)
{
    const char *colon = strchr(name, ':');
    return colon == NULL ? name : colon + 1;
}

static void on_start(void *user, const char *name, const char **attributes)
{
    reading *r = user;
    if (r->stopped)
        return;
    tg_status st =
        ++r->depth > TG_XML_MAX_DEPTH
            ? tg_fail(r->err, TG_CORRUPT, "elements nested deeper than %d", TG_XML_MAX_DEPTH)
            : r->handlers->start(r->user, local_name(name), attributes, r->err);
    if (st != TG_OK)
        stop(r, st);
}

static void on_end(void *user, const char *name)
{
    reading *r = user;
    if (r->stopped)
        return;
    r->depth--;
    tg_status st = r->handlers->end(r->user, local_name(name), r->err);
    if (st != TG_OK)
        stop(r, st);
}

static void on_doctype(void *user, const char *name, const char *sysid, const char *pubid,
                       int has_internal_subset)
{
    reading *r = user;
    (void)sysid;
    (void)pubid;
    (void)has_internal_subset;
    if (!r->stopped)
        stop(r,
             tg_fail(r->err, TG_UNSUPPORTED, "document has a DOCTYPE '%.40s': refused", name));
}

/* --- Reading ------------------------------------------------------------------ */

static tg_status parse_failure(reading *r, enum XML_Error code)
{
    unsigned long line = XML_GetCurrentLineNumber(r->parser);
    if (r->stopped) {
        tg_error_prefix(r->err, "line %lu", line);
        return r->status;
    }
    if (code == XML_ERROR_NO_MEMORY)
        return tg_fail(r->err, TG_NO_MEMORY, "line %lu: parser needs more than %zu bytes", line,
                       TG_XML_MEMORY_BYTES);
    tg_status st = tg_fail(r->err, TG_CORRUPT, "line %lu: %s", line, XML_ErrorString(code));
    tg_error_at(r->err, NULL, (uint64_t)XML_GetCurrentByteIndex(r->parser));
    return st;
}

static bool is_encoding_error(enum XML_Error code)
{
    return code == XML_ERROR_INVALID_TOKEN || code == XML_ERROR_PARTIAL_CHAR ||
           code == XML_ERROR_UNKNOWN_ENCODING || code == XML_ERROR_INCORRECT_ENCODING;
}

/* Feed n bytes in slices. *code is expat's word on a failure of its own. */
static tg_status feed(reading *r, const uint8_t *data, size_t n, uint64_t fed, bool last,
                      enum XML_Error *code)
{
    size_t at = 0;
    do {
        size_t part = n - at < SLICE ? n - at : SLICE;
        bool final = last && at + part == n;
        if (XML_Parse(r->parser, (const char *)data + at, (int)part, final) != XML_STATUS_OK) {
            *code = XML_GetErrorCode(r->parser);
            return parse_failure(r, *code);
        }
        at += part;
        int64_t done = XML_GetCurrentByteIndex(r->parser);
        if (done >= 0 && fed + at > (uint64_t)done + TG_XML_MAX_TOKEN + SLICE)
            return tg_fail(r->err, TG_CORRUPT, "line %lu: a token longer than %llu bytes",
                           (unsigned long)XML_GetCurrentLineNumber(r->parser),
                           (unsigned long long)TG_XML_MAX_TOKEN);
    } while (at < n);
    return TG_OK;
}

static tg_status read_as(reading *r, const char *encoding, tg_store *store, const char *key,
                         uint64_t size, uint8_t *room, size_t room_bytes, uint32_t *crc,
                         enum XML_Error *code, const tg_cancel *cancel)
{
    static const uint8_t mark[3] = {0xef, 0xbb, 0xbf};

    *code = XML_ERROR_NONE;
    *crc = 0;
    r->parser = XML_ParserCreate_MM(encoding, &memory, NULL);
    if (r->parser == NULL)
        return tg_fail(r->err, TG_NO_MEMORY, "no memory for an XML parser");
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, on_start, on_end);
    XML_SetStartDoctypeDeclHandler(r->parser, on_doctype);
    r->depth = 0;
    r->stopped = false;

    tg_status st = TG_OK;
    for (uint64_t at = 0; st == TG_OK && (at < size || size == 0);) {
        size_t n = size - at < room_bytes ? (size_t)(size - at) : room_bytes, got;
        if (size > 0) {
            st = tg_store_get_into(store, key, tg_range_at(at, n), room, room_bytes, &got, NULL,
                                   cancel, r->err);
            if (st != TG_OK)
                break;
            *crc = tg_crc32c(*crc, room, n);
        }
        size_t skip =
            at == 0 && encoding != NULL && n >= 3 && memcmp(room, mark, 3) == 0 ? 3 : 0;
        st = feed(r, room + skip, n - skip, at, at + n == size, code);
        at += n;
        if (size == 0)
            break;
    }
    XML_ParserFree(r->parser);
    return st;
}

tg_status tg_xml_read(tg_store *store, const char *key, uint8_t *room, size_t room_bytes,
                      const tg_xml_handlers *handlers, void *user, uint32_t *crc32c,
                      const tg_cancel *cancel, tg_error *err)
{
    tg_error local = {0};
    reading r = {.handlers = handlers, .user = user, .err = err != NULL ? err : &local};
    enum XML_Error code;
    uint32_t crc = 0;
    uint64_t size;

    TG_TRY(tg_store_size(store, key, &size, cancel, err));
    tg_status st = read_as(&r, NULL, store, key, size, room, room_bytes, &crc, &code, cancel);
    if (st == TG_CORRUPT && !r.stopped && is_encoding_error(code)) {
        handlers->again(user);
        st = read_as(&r, "ISO-8859-1", store, key, size, room, room_bytes, &crc, &code, cancel);
    }
    if (st == TG_OK && crc32c != NULL)
        *crc32c = crc;
    return st;
}

/* --- The parser alone ---------------------------------------------------------- */

static void no_start(void *user, const char *name, const char **attributes)
{
    (void)user, (void)name, (void)attributes;
}

static void no_end(void *user, const char *name)
{
    (void)user, (void)name;
}

tg_status tg_xml_read_bare(tg_store *store, const char *key, uint8_t *room, size_t room_bytes,
                           const tg_cancel *cancel, tg_error *err)
{
    uint64_t size;
    tg_status st = tg_store_size(store, key, &size, cancel, err);
    XML_Parser parser = st == TG_OK ? XML_ParserCreate(NULL) : NULL;

    if (parser == NULL)
        return st != TG_OK ? st : tg_fail(err, TG_NO_MEMORY, "no memory for an XML parser");
    XML_SetElementHandler(parser, no_start, no_end);
    for (uint64_t at = 0; at < size && st == TG_OK;) {
        size_t n = size - at < room_bytes ? (size_t)(size - at) : room_bytes, got;
        st = tg_store_get_into(store, key, tg_range_at(at, n), room, room_bytes, &got, NULL,
                               cancel, err);
        at += n;
        if (st == TG_OK &&
            XML_Parse(parser, (const char *)room, (int)n, at == size) != XML_STATUS_OK)
            st = tg_fail(err, TG_CORRUPT, "%s", XML_ErrorString(XML_GetErrorCode(parser)));
    }
    XML_ParserFree(parser);
    return st;
}
