/* interop_tool - makes, changes and reads one array from raw files, for tests that compare us
 * with other implementations. Values are native items in C order; strings a u32 length and
 * UTF-8 each.
 *
 *     interop_tool create URL PATH RAW key=value...   format dtype shape chunk shard start
 * codec separator fill names attributes pieces interop_tool write URL PATH RAW START COUNT part
 * of an array interop_tool read URL PATH RAW [START COUNT]
 */
#include "base/mem.h"
#include "tidegate/array.h"
#include "tidegate/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tg_error err;

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, err.msg);
    return 1;
}

/* "3,4" -> 3 4; "" -> none. The number of them. */
static uint32_t numbers(const char *text, uint64_t *out)
{
    uint32_t n = 0;
    while (*text != '\0' && n < TG_MAX_NDIM) {
        char *end = NULL;
        out[n++] = strtoull(text, &end, 10);
        text = end + (*end == ',');
    }
    return n;
}

static const uint64_t *list(const char *text, uint64_t *out)
{
    (void)numbers(text, out);
    return out;
}

static char *load(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    long n = -1;
    char *data = NULL;

    if (f == NULL)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0)
        n = ftell(f);
    rewind(f);
    data = n < 0 ? NULL : tg_alloc((size_t)n + 1);
    if (data != NULL && fread(data, 1, (size_t)n, f) != (size_t)n) {
        tg_free(data);
        data = NULL;
    }
    (void)fclose(f);
    *len = (size_t)n;
    return data;
}

static int save(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        return 1;
    size_t n = len == 0 ? 0 : fwrite(data, 1, len, f);
    return fclose(f) != 0 || n != len;
}

/* --- Strings ----------------------------------------------------------------- */

static int write_strings(tg_array *a, uint64_t start, uint64_t n, const char *raw)
{
    uint64_t *offsets = tg_calloc((size_t)n + 1, sizeof *offsets);
    char *text = tg_alloc(1 << 20);
    uint64_t len = 0;

    if (offsets == NULL || text == NULL)
        return 1;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t one = 0;
        memcpy(&one, raw, 4);
        memcpy(text + len, raw + 4, one);
        raw += 4 + one;
        len += one;
        offsets[i + 1] = len;
    }
    tg_status st = tg_array_write_strings(a, start, n, offsets, text, NULL, &err);
    tg_free(offsets);
    tg_free(text);
    return st == TG_OK ? 0 : fail("write strings");
}

static int read_strings(tg_array *a, uint64_t start, uint64_t n, const char *path)
{
    uint64_t *offsets = NULL;
    char *text = NULL;
    tg_text out = {0};

    if (tg_array_read_strings(a, start, n, 1 << 20, &offsets, &text, NULL, &err) != TG_OK)
        return fail("read strings");
    for (uint64_t i = 0; i < n; i++) {
        uint32_t len = (uint32_t)(offsets[i + 1] - offsets[i]);
        tg_text_add_n(&out, (const char *)&len, 4);
        tg_text_add_n(&out, text + offsets[i], len);
    }
    int bad = save(path, out.data, out.len);
    tg_free(offsets);
    tg_free(text);
    tg_text_free(&out);
    return bad;
}

/* --- Arrays -------------------------------------------------------------------- */

static size_t items_bytes(const tg_array_info *info, const uint64_t *count)
{
    size_t n = info->dtype.size;
    for (uint32_t i = 0; i < info->ndim; i++)
        n *= (size_t)count[i];
    return n;
}

/* In this many pieces along the first dimension, so that chunks are read, changed, written. */
static int write_pieces(tg_array *a, const uint64_t *start, const uint64_t *count,
                        const char *raw, uint64_t pieces)
{
    tg_array_info info = {.size = sizeof info};
    uint64_t at[TG_MAX_NDIM] = {0}, n[TG_MAX_NDIM] = {0};

    if (tg_array_get_info(a, &info, &err) != TG_OK)
        return fail("info");
    if (info.dtype.kind == TG_DT_STRING)
        return write_strings(a, start[0], count[0], raw);
    memcpy(at, start, info.ndim * sizeof *at);
    memcpy(n, count, info.ndim * sizeof *n);
    if (info.ndim == 0 || count[0] == 0)
        pieces = 1;
    for (uint64_t i = 0; i < pieces; i++) {
        if (info.ndim > 0) {
            uint64_t first = count[0] * i / pieces, last = count[0] * (i + 1) / pieces;
            at[0] = start[0] + first;
            n[0] = last - first;
        }
        if (tg_array_write(a, at, n, raw, NULL, NULL, &err) != TG_OK)
            return fail("write");
        raw += items_bytes(&info, n);
    }
    return 0;
}

static int do_write(tg_store *s, char **arg, int n_args)
{
    tg_array *a = NULL;
    uint64_t start[TG_MAX_NDIM] = {0}, count[TG_MAX_NDIM] = {0};
    size_t len = 0;
    char *raw = load(arg[1], &len);

    if (n_args < 4 || raw == NULL)
        return 1;
    if (tg_array_open(s, arg[0], &a, NULL, &err) != TG_OK)
        return fail("open");
    (void)numbers(arg[2], start);
    (void)numbers(arg[3], count);
    int bad = write_pieces(a, start, count, raw, 1);
    tg_array_free(a);
    tg_free(raw);
    return bad;
}

static int do_read(tg_store *s, char **arg, int n_args)
{
    tg_array *a = NULL;
    tg_array_info info = {.size = sizeof info};
    uint64_t start[TG_MAX_NDIM] = {0}, count[TG_MAX_NDIM] = {0};

    if (tg_array_open(s, arg[0], &a, NULL, &err) != TG_OK)
        return fail("open");
    if (tg_array_get_info(a, &info, &err) != TG_OK)
        return fail("info");
    memcpy(count, info.shape, sizeof count);
    if (n_args >= 4) {
        (void)numbers(arg[2], start);
        (void)numbers(arg[3], count);
    }
    int bad = 0;
    if (info.dtype.kind == TG_DT_STRING) {
        bad = read_strings(a, start[0], count[0], arg[1]);
    } else {
        size_t len = items_bytes(&info, count);
        void *items = tg_calloc(1, len + 1);
        if (tg_array_read(a, start, count, items, NULL, NULL, &err) != TG_OK)
            bad = fail("read");
        else
            bad = save(arg[1], items, len);
        tg_free(items);
    }
    tg_array_free(a);
    return bad;
}

/* --- Creating -------------------------------------------------------------------- */

typedef struct wish {
    tg_array_options o;
    uint64_t shape[TG_MAX_NDIM], chunk[TG_MAX_NDIM], shard[TG_MAX_NDIM], pieces;
    const char *names[TG_MAX_NDIM];
    char *fill; /* bytes of a file, or a string's text */
} wish;

static int set_option(wish *w, char *arg)
{
    char *v = strchr(arg, '=');
    size_t len = 0;

    if (v == NULL)
        return 1;
    *v++ = '\0';
    if (strcmp(arg, "format") == 0)
        w->o.format = (int)strtol(v, NULL, 10);
    else if (strcmp(arg, "dtype") == 0)
        return tg_dtype_parse(v, &w->o.dtype, &err) != TG_OK;
    else if (strcmp(arg, "shape") == 0)
        w->o.ndim = numbers(v, w->shape);
    else if (strcmp(arg, "chunk") == 0)
        w->o.chunk = list(v, w->chunk);
    else if (strcmp(arg, "shard") == 0)
        w->o.shard = list(v, w->shard);
    else if (strcmp(arg, "start") == 0)
        w->o.index_at_start = v[0] == '1';
    else if (strcmp(arg, "codec") == 0)
        w->o.codec = v;
    else if (strcmp(arg, "checksum") == 0)
        w->o.no_checksum = v[0] == '0';
    else if (strcmp(arg, "separator") == 0)
        w->o.separator = v[0];
    else if (strcmp(arg, "fill") == 0)
        w->o.fill = w->fill = load(v, &len);
    else if (strcmp(arg, "text") == 0)
        w->o.fill = v;
    else if (strcmp(arg, "attributes") == 0)
        w->o.attributes = v;
    else if (strcmp(arg, "pieces") == 0)
        w->pieces = strtoull(v, NULL, 10);
    else
        return 1;
    return 0;
}

static int do_create(tg_store *s, char **arg, int n_args)
{
    wish w = {.o = {.size = sizeof w.o, .shape = w.shape}, .pieces = 1};
    const uint64_t zero[TG_MAX_NDIM] = {0};
    tg_array *a = NULL;
    size_t len = 0;

    for (int i = 2; i < n_args; i++)
        if (set_option(&w, arg[i]) != 0)
            return fail(arg[i]);
    char *raw = load(arg[1], &len);
    if (raw == NULL)
        return 1;
    if (tg_array_create(s, arg[0], &w.o, &a, NULL, &err) != TG_OK)
        return fail("create");
    int bad = write_pieces(a, zero, w.shape, raw, w.pieces);
    tg_array_free(a);
    tg_free(raw);
    tg_free(w.fill);
    return bad;
}

int main(int argc, char **argv)
{
    tg_store_options o = {.size = sizeof o, .mode = TG_STORE_READ_WRITE, .no_sync = true};
    tg_store *s = NULL;
    char *prefix = NULL;
    int bad = 2;

    if (argc < 5)
        return 2;
    if (strcmp(argv[1], "create") == 0)
        o.mode = TG_STORE_OPEN_OR_CREATE;
    if (strcmp(argv[1], "read") == 0)
        o.mode = TG_STORE_READ;
    if (tg_store_open(argv[2], &o, &s, &prefix, &err) != TG_OK)
        return fail("store");
    if (strcmp(argv[1], "create") == 0)
        bad = do_create(s, argv + 3, argc - 3);
    else if (strcmp(argv[1], "write") == 0)
        bad = do_write(s, argv + 3, argc - 3);
    else if (strcmp(argv[1], "read") == 0)
        bad = do_read(s, argv + 3, argc - 3);
    if (tg_store_close(s, &err) != TG_OK)
        bad = fail("close");
    tg_store_free(s);
    tg_free(prefix);
    return bad;
}
