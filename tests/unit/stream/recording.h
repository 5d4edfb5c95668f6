/* tests/unit/stream/recording.h - what the recorder's tests share: frames whose pixels are a
 * hash of (array, sequence, pixel), a store of its own for each test, and reading all of it
 * back. */
#ifndef TG_TESTS_STREAM_RECORDING_H
#define TG_TESTS_STREAM_RECORDING_H

#include "../../check.h"
#include "base/crc32c.h"
#include "exec/exec.h"
#include "stream/frame_table.h"
#include "zarr/zarr.h"

#include <stdlib.h>
#include <unistd.h>

static inline uint64_t hash3(uint64_t array, uint64_t sequence, uint64_t pixel)
{
    uint64_t z = array * 0x9E3779B97F4A7C15u + sequence * 0xBF58476D1CE4E5B9u + pixel + 1;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* A frame of n items of `size` bytes. */
static inline void make_frame(uint8_t *dst, uint64_t array, uint64_t sequence, size_t n,
                              size_t size)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t v = hash3(array, sequence, i);
        memcpy(dst + i * size, &v, size);
    }
}

/* A directory that is removed at the end of the test's process: under $TMPDIR, or /tmp. */
static char scratch_root[256];

static inline void remove_scratch(void)
{
    char command[512];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", scratch_root);
    if (scratch_root[0] != '\0' && system(command) != 0)
        fprintf(stderr, "left behind: %s\n", scratch_root);
}

static inline const char *scratch(const char *name)
{
    static char path[4][512];
    static unsigned next;
    char *p = path[next++ % 4];

    if (scratch_root[0] == '\0') {
        const char *tmp = getenv("TMPDIR");
        (void)snprintf(scratch_root, sizeof scratch_root, "%s/tg-stream-XXXXXX",
                       tmp == NULL ? "/tmp" : tmp);
        if (mkdtemp(scratch_root) == NULL)
            abort();
        (void)atexit(remove_scratch);
    }
    (void)snprintf(p, 512, "%s/%s", scratch_root, name);
    return p;
}

static inline tg_runtime *new_runtime(uint64_t memory)
{
    tg_runtime *rt = NULL;
    tg_runtime_options o = {.size = sizeof o, .memory_bytes = memory, .threads = 2};
    if (tg_runtime_new(&o, &rt, NULL) != TG_OK)
        abort();
    return rt;
}

static inline bool is_zip(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".zip") == 0;
}

static inline tg_store *open_read(const char *path)
{
    tg_store *s = NULL;
    tg_error err = {0};
    tg_store_options o = {.size = sizeof o, .mode = TG_STORE_READ};
    tg_status st = is_zip(path) ? tg_store_open_zip(&s, path, &o, &err)
                                : tg_store_open_fs(&s, path, &o, &err);
    if (st != TG_OK)
        fprintf(stderr, "%s\n", err.msg);
    return s;
}

/* The published extent of the first axis (or the last one) of GROUP/0; UINT64_MAX: no array. */
static inline uint64_t shape_of(const char *path, const char *array, uint32_t axis)
{
    TG_AUTO_PTR(tg_store) s = open_read(path);
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};
    if (s == NULL || tg_array_open(s, array, &a, NULL, NULL) != TG_OK ||
        tg_array_get_info(a, &info, NULL) != TG_OK)
        return UINT64_MAX;
    return info.shape[axis];
}

/* Compare frame `index` (outer coordinates; y and x whole) with the one of (array, sequence),
 * or with zeros where sequence is UINT64_MAX. */
static inline bool frame_equals(tg_array *a, bool axis_last, uint32_t n_outer,
                                const uint64_t *index, uint64_t array, uint64_t sequence,
                                tg_error *err)
{
    tg_array_info info = {.size = sizeof info};
    uint64_t start[TG_MAX_NDIM] = {0}, count[TG_MAX_NDIM];
    size_t items = 1;
    bool same = false;

    if (tg_array_get_info(a, &info, err) != TG_OK)
        return false;
    for (uint32_t d = 0; d < info.ndim; d++) {
        uint32_t first = axis_last ? info.ndim - n_outer : 0;
        bool outer = d >= first && d < first + n_outer;
        start[d] = outer ? index[d - first] : 0;
        count[d] = outer ? 1 : info.shape[d];
        items *= (size_t)count[d];
    }
    uint8_t *got = tg_alloc(items * info.dtype.size), *want = tg_calloc(items, info.dtype.size);
    if (sequence != UINT64_MAX)
        make_frame(want, array, sequence, items, info.dtype.size);
    if (tg_array_read(a, start, count, got, NULL, NULL, err) == TG_OK)
        same = memcmp(got, want, items * info.dtype.size) == 0;
    tg_free(got);
    tg_free(want);
    return same;
}

/* Frames [0, n) of a one-dimensional array are those of sequence numbers 0.. */
static inline void check_frames(const char *path, const char *name, uint64_t array, uint64_t n)
{
    TG_AUTO_PTR(tg_store) s = open_read(path);
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_error err = {0};

    REQUIRE(s != NULL);
    REQUIRE_OK(tg_array_open(s, name, &a, NULL, &err));
    for (uint64_t i = 0; i < n; i++)
        if (!frame_equals(a, false, 1, &i, array, i, &err)) {
            fprintf(stderr, "frame %" PRIu64 ": %s\n", i, err.msg);
            test_failed(__FILE__, __LINE__, "frame differs");
            return;
        }
}

#define CHECK_OK(expr)                                          \
    do {                                                        \
        if ((expr) != TG_OK) {                                  \
            fprintf(stderr, "%s\n", err.msg);                   \
            test_failed(__FILE__, __LINE__, #expr " is TG_OK"); \
        }                                                       \
    } while (0)

#endif
