/* fuzz_recover_model.c - any records as what a journal says of a recording: a model within its
 * budget that keeps what its header promises, or a refusal; nothing is left either way. The
 * sums of the file are made right first. */
#include "journal_file.h"
#include "stream/recover_model.h"
#include "tidegate/runtime.h"

#include <fcntl.h>

enum { MOST = 1 << 18, MEMORY = 8 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_shards(const tg_found_lane *n)
{
    const tg_found_shard *s = n->shards.items;
    uint64_t chunks = 0;

    for (uint32_t p = 0; p < n->layout.n_planes; p++)
        chunks += n->layout.plane[p].shard_chunks;
    for (size_t i = 0; i < n->shards.n; i++) {
        must(i == 0 || s[i - 1].number < s[i].number);
        must(tg_found_shard_of((tg_found_lane *)(uintptr_t)n, s[i].number) == &s[i]);
        must(s[i].chunks != NULL && chunks * TG_RECORD_CHUNK_BYTES <= MEMORY);
    }
}

static void check_tails(const tg_found_lane *n)
{
    const tg_found_tail *t = n->tails.items;

    for (size_t i = 0; i < n->tails.n; i++) {
        must(!t[i].dead && t[i].record.place < n->layout.k);
        must(i == 0 || t[i - 1].record.layer < t[i].record.layer ||
             (t[i - 1].record.layer == t[i].record.layer && t[i - 1].at < t[i].at));
        must(t[i].good == (t[i].at < n->covered));
    }
}

static void check_layers(const tg_model *m, tg_found_lane *n)
{
    const tg_found_layer *l = n->layers.items;

    for (size_t i = 0; i < n->layers.n; i++) {
        must(m->zip || !l[i].good);
        must(l[i].good == (l[i].at < n->covered));
        must(i == 0 || l[i - 1].at < l[i].at);
        for (uint32_t c = 0; l[i].record.chunks != NULL && c < l[i].record.n_chunks; c++)
            (void)tg_record_chunk_get(l[i].record.chunks + (size_t)c * TG_RECORD_CHUNK_BYTES);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[MOST];
    tg_runtime_options ro = {.size = sizeof ro, .memory_bytes = MEMORY, .threads = 1};
    tg_runtime *rt = NULL;
    tg_model m;

    size = size > MOST ? MOST : size;
    if (size > 0)
        memcpy(file, data, size);
    (void)journal_make_right(file, size);
    must(tg_runtime_new(&ro, &rt, NULL) == TG_OK);
    size_t live = tg_mem_live();
    tg_status st =
        tg_model_read(&m, tg_runtime_budget(rt), AT_FDCWD, journal_in_a_file(file, size), NULL);
    for (uint32_t i = 0; st == TG_OK && i < m.n_lanes; i++) {
        check_shards(&m.lanes[i]);
        check_tails(&m.lanes[i]);
        check_layers(&m, &m.lanes[i]);
        st = tg_model_index(&m, &m.lanes[i], NULL);
    }
    if (st == TG_OK)
        must(m.room.used <= m.room.reserved && m.room.reserved <= MEMORY);
    if (m.room.budget != NULL)
        tg_model_free(&m);
    must(tg_mem_live() == live && tg_runtime_memory_used(rt) == 0);
    tg_runtime_free(rt);
    return 0;
}
