/* zarr/meta.h - the metadata of one array as this folder sees it. */
#ifndef TG_ZARR_META_H
#define TG_ZARR_META_H

#include "zarr/zarr.h"

struct tg_array_meta {
    tg_array_info info; /* names point into doc */
    tg_shape chunk;     /* the inner chunk of a shard */
    tg_shape shard;     /* equal to chunk if not sharded */
    tg_shape grid;      /* inner chunks per shard, in the array's dimensions */
    uint64_t n_inner;   /* their number; 1 if not sharded */
    size_t chunk_bytes; /* decoded items of one inner chunk; 0 for strings */
    tg_chain *chain;    /* of the inner chunk; NULL until tg_array_meta_finish() */

    /* The shard's index. Its entries lie in C order of a grid whose dimension i is dimension
     * order[i] of the array: a transpose may stand before sharding_indexed. */
    bool index_at_start, index_big_endian, index_crc32c;
    uint32_t index_order[TG_MAX_NDIM];

    char separator;      /* of chunk keys */
    bool key_v2;         /* "0.1", not "c/0/1" */
    bool separator_said; /* v2: is there a "dimension_separator"? */
    char byte_order;     /* v2: '<', '>' or '|' */
    char order;          /* v2: 'C' or 'F' */

    tg_buf fill; /* one native item; of strings the text, terminated but for its len */

    tg_json *doc;              /* zarr.json or .zarray, as read */
    tg_json *attributes;       /* v2: .zattrs or an empty object; v3: NULL, they are in doc */
    tg_json *empty_attributes; /* what is handed out where doc has none */
    bool has_nan;              /* the text held a bare NaN: it may stay when rewritten */
};

/* A document of a store: JSON that may hold bare NaN tokens, the whole an object. */
TG_MUST_USE tg_status tg_document_parse(tg_json **out, bool *has_nan, const char *text,
                                        size_t len, tg_error *err);

/* Take over doc (and, v2, attributes; also on failure) and read it. */
TG_MUST_USE tg_status tg_array_meta_from_v3(tg_array_meta **out, tg_json *doc, bool has_nan,
                                            tg_error *err);
TG_MUST_USE tg_status tg_array_meta_from_v2(tg_array_meta **out, tg_json *doc,
                                            tg_json *attributes, bool has_nan, tg_error *err);

/* Attributes that a caller hands in: one JSON object; TG_INVALID. */
TG_MUST_USE tg_status tg_attributes_parse(tg_json **out, const char *text, tg_error *err);

/* Steps that both formats share. */
TG_MUST_USE tg_status tg_meta_new(tg_array_meta **out, int format, tg_error *err);
/* A list of ndim extents, each at least `least`. first: the list sets ndim. */
TG_MUST_USE tg_status tg_meta_extents(const tg_json *list, uint64_t least, bool first,
                                      uint32_t *ndim, uint64_t *extents, tg_error *err);
/* The fill value; doc's member `v`, for info.dtype. */
TG_MUST_USE tg_status tg_meta_fill(tg_array_meta *m, const tg_json *v, tg_error *err);
/* chunk, shard and dtype are known: derive grid, n_inner, chunk_bytes and info. */
TG_MUST_USE tg_status tg_meta_layout(tg_array_meta *m, tg_error *err);
/* A member of an object, or TG_CORRUPT saying that it is missing or which kind it has. */
TG_MUST_USE tg_status tg_member(const tg_json *object, const char *key, tg_json_kind kind,
                                const tg_json **out, tg_error *err);
/* {"name": n, "configuration": {...}} or "n" -> n and the configuration (NULL if none).
 * TG_CORRUPT for other members that must be understood. */
TG_MUST_USE tg_status tg_extension(const tg_json *v, const char **name,
                                   const tg_json **configuration, tg_error *err);
/* Does this value say {"must_understand": false}? */
bool tg_may_ignore(const tg_json *v);

/* sharding_indexed of a v3 codec list: fills in chunk, index_* and the codecs of the inner
 * chunk (a new root). *sharded is false, and nothing done, if the list has no such codec. */
TG_MUST_USE tg_status tg_meta_sharding(tg_array_meta *m, const tg_json *codecs, bool *sharded,
                                       tg_json **inner_codecs, tg_error *err);

#endif
