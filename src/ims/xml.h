/* ims/xml.h - reads an XML document of any size, element by element, in little memory.
 * Documents with a DOCTYPE are refused, and with it every entity of their own.
 *
 * Some writers label Windows-1252 as UTF-8: where the text is no valid UTF-8 the document is
 * read again from its start as ISO-8859-1, which gives every byte a meaning. */
#ifndef TG_IMS_XML_H
#define TG_IMS_XML_H

#include "store/store.h"

#include <stdbool.h>

/* Names come without a namespace prefix. attributes: name, value, name, value, ..., NULL;
 * borrowed for the call. A failure ends the reading and is returned. */
typedef struct tg_xml_handlers {
    tg_status (*start)(void *user, const char *name, const char **attributes, tg_error *err);
    tg_status (*end)(void *user, const char *name, tg_error *err);
    void (*again)(void *user); /* forget all: the document starts from the beginning */
} tg_xml_handlers;

#define TG_XML_MEMORY_BYTES ((size_t)4 << 20)   /* most that the parser itself takes */
#define TG_XML_MAX_TOKEN    ((uint64_t)1 << 20) /* a tag with all its attributes, a comment */
#define TG_XML_MAX_DEPTH    64

/* room: a read at a time, lent by the caller. *crc32c (may be NULL): checksum of the document.
 * TG_CORRUPT with the line: not XML, too deep, a token too long, cut off. TG_UNSUPPORTED: a
 * DOCTYPE. */
TG_MUST_USE tg_status tg_xml_read(tg_store *store, const char *key, uint8_t *room,
                                  size_t room_bytes, const tg_xml_handlers *handlers,
                                  void *user, uint32_t *crc32c, const tg_cancel *cancel,
                                  tg_error *err);
/* What the parser alone takes: the same document with handlers that do nothing. */
TG_MUST_USE tg_status tg_xml_read_bare(tg_store *store, const char *key, uint8_t *room,
                                       size_t room_bytes, const tg_cancel *cancel,
                                       tg_error *err);

#endif
