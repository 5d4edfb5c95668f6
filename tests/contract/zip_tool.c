/* zip_tool.c - a ZIP written, or read, for zip_interop.py to hold against Python's zipfile.
 *
 *     zip_tool write FILE     make it, or append to it, what zip_interop.py expects
 *     zip_tool read FILE      one line a value: size, CRC-32 of the bytes got, key */
#include "contract/stores.h"
#include "store/zip_write.h"

static tg_store *store;

static int fail(const char *what, const tg_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->msg);
    return 1;
}

static int write_values(const char *path)
{
    static const size_t lens[] = {0, 1, 5000, 300000, 3000000};
    tg_store_options o = {sizeof o, TG_STORE_OPEN_OR_CREATE, false, false};
    tg_error err = {0};
    TG_AUTO(tg_arena) a = {0};
    bool again;

    if (tg_store_open_zip(&store, path, &o, &err) != TG_OK ||
        tg_arena_map(&a, 3000000, &err) != TG_OK)
        return fail("open", &err);
    again = tg_zip_base_bytes(store) > 0;
    for (uint64_t i = 0; i < 5; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "%s/%llu", again ? "second" : "first",
                       (unsigned long long)i);
        test_fill(a.data, lens[i], i + (again ? 10 : 0), 0);
        if (tg_store_put(store, key, a.data, lens[i], NULL, &err) != TG_OK)
            return fail(key, &err);
    }
    const char *text = again ? "newer" : "older";
    if (tg_store_put(store, "same", text, 5, NULL, &err) != TG_OK ||
        tg_store_put(store, "\xc3\xa4/\xe6\x98\x9f", "utf-8", 5, NULL, &err) != TG_OK ||
        tg_store_close(store, &err) != TG_OK)
        return fail("close", &err);
    return 0;
}

static bool print_value(void *user, const char *name);

static int list(const char *prefix)
{
    tg_error err = {0};
    char copy[TEST_PATH];
    (void)snprintf(copy, sizeof copy, "%s", prefix);
    return tg_store_list(store, copy, print_value, copy, NULL, &err) == TG_OK
               ? 0
               : fail("list", &err);
}

static bool print_value(void *user, const char *name)
{
    TG_AUTO(tg_buf) b = {0};
    tg_error err = {0};
    char key[2 * TEST_PATH];
    size_t n = strlen(name);

    (void)snprintf(key, sizeof key, "%s%s", (const char *)user, name);
    if (n > 0 && name[n - 1] == '/')
        return list(key) == 0;
    if (tg_store_get(store, key, tg_range_all(), 64 << 20, &b, NULL, &err) != TG_OK)
        printf("%s: %s\n", tg_status_name(err.code), key);
    else
        printf("%zu %08x %s\n", b.len, tg_zip_crc32(0, b.data, b.len), key);
    return true;
}

static int read_values(const char *path)
{
    tg_error err = {0};
    if (tg_store_open_zip(&store, path, NULL, &err) != TG_OK) {
        printf("%s\n", tg_status_name(err.code));
        return fail("open", &err);
    }
    return list("");
}

int main(int argc, char **argv)
{
    int rc = 2;
    if (argc == 3 && strcmp(argv[1], "write") == 0)
        rc = write_values(argv[2]);
    else if (argc == 3 && strcmp(argv[1], "read") == 0)
        rc = read_values(argv[2]);
    tg_store_free(store);
    return rc;
}
