/* What of its metadata decides how an array's bytes are read: who writes on in an array that is
 * there writes what the others in it are. */
#include "zarr/meta.h"

#include <string.h>

static tg_status differs(const char *path, const char *what, const char *there,
                         const char *ours, tg_error *err)
{
    return tg_fail(err, TG_INVALID,
                   "array '%s' is there with %s '%s', and would be written "
                   "with '%s'",
                   path, what, there, ours);
}

static tg_status check_codecs(const tg_array_meta *there, const tg_array_meta *ours,
                              const char *path, tg_error *err)
{
    char a[TG_CHAIN_TEXT_BYTES], b[TG_CHAIN_TEXT_BYTES];

    if (tg_chain_reads_alike(there->chain, ours->chain))
        return TG_OK;
    tg_chain_text(there->chain, a);
    tg_chain_text(ours->chain, b);
    return differs(path, "codecs", a, b, err);
}

static const char *index_text(const tg_array_meta *m)
{
    return m->index_at_start ? "start" : "end";
}

static const char *index_codec_text(const tg_array_meta *m)
{
    if (m->index_big_endian)
        return m->index_crc32c ? "bytes (big-endian) crc32c" : "bytes (big-endian)";
    return m->index_crc32c ? "bytes crc32c" : "bytes";
}

static tg_status check_index(const tg_array_meta *there, const tg_array_meta *ours,
                             const char *path, tg_error *err)
{
    if (there->index_at_start != ours->index_at_start)
        return differs(path, "shards whose index is at the", index_text(there),
                       index_text(ours), err);
    if (there->index_big_endian != ours->index_big_endian ||
        there->index_crc32c != ours->index_crc32c)
        return differs(path, "shards whose index has the codecs", index_codec_text(there),
                       index_codec_text(ours), err);
    if (memcmp(there->index_order, ours->index_order,
               there->info.ndim * sizeof there->index_order[0]) != 0)
        return differs(path, "shards in order", "transposed", "C", err);
    return TG_OK;
}

static tg_status check_keys(const tg_array_meta *there, const tg_array_meta *ours,
                            const char *path, tg_error *err)
{
    const uint64_t first[TG_MAX_NDIM] = {0};
    char a[TG_CHUNK_KEY_BYTES], b[TG_CHUNK_KEY_BYTES];

    tg_chunk_key(there, first, a);
    tg_chunk_key(ours, first, b);
    return strcmp(a, b) == 0 ? TG_OK : differs(path, "keys as", a, b, err);
}

tg_status tg_array_meta_stored_alike(const tg_array_meta *there, const tg_array_meta *ours,
                                     const char *path, tg_error *err)
{
    TG_TRY(check_codecs(there, ours, path, err));
    if (ours->info.sharded)
        TG_TRY(check_index(there, ours, path, err));
    TG_TRY(check_keys(there, ours, path, err));
    if (there->fill.len == ours->fill.len &&
        memcmp(there->fill.data, ours->fill.data, ours->fill.len) == 0)
        return TG_OK;
    return tg_fail(err, TG_INVALID,
                   "array '%s' is there with another fill value than it would be written with",
                   path);
}
