/* fuzz_zip.c - any bytes as a ZIP: opened, listed and read without a fault; and
 * if they open, a value can be added, after which the archive opens again and
 * holds what it held. */
#include "store/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fd = -1;
static char path[64];
static uint8_t *room;

static void must(bool ok)
{
    if (!ok)
        abort();
}

struct walk {
    tg_store *s;
    char prefix[4096];
    uint64_t values, sum; /* of all that can be read */
    int depth;
};

static bool visit(void *user, const char *name)
{
    struct walk *w = user;
    size_t np = strlen(w->prefix), n = strlen(name), got = 0;
    uint64_t total = 0;

    must(n > 0 && np + n < sizeof w->prefix);
    memcpy(w->prefix + np, name, n + 1);
    if (name[n - 1] == '/' && w->depth < 40) {
        char prefix[4096];
        memcpy(prefix, w->prefix, np + n + 1);
        w->depth++;
        must(tg_store_list(w->s, prefix, visit, w, NULL, NULL) == TG_OK);
        w->depth--;
    } else if (name[n - 1] != '/') {
        must(tg_store_size(w->s, w->prefix, &total, NULL, NULL) == TG_OK);
        tg_status st = tg_store_get_into(w->s, w->prefix, tg_range_all(), room, ROOM, &got,
                                         &total, NULL, NULL);
        if (st == TG_OK) {
            must(got == total);
            w->values++;
            for (size_t i = 0; i < got; i++)
                w->sum = w->sum * 31 + room[i];
        }
        st = tg_store_get_into(w->s, w->prefix, tg_range_last(7), room, ROOM, &got, NULL, NULL,
                               NULL);
        must(st != TG_OK || got == (total < 7 ? total : 7));
    }
    w->prefix[np] = '\0';
    return true;
}

static tg_store *open_it(tg_store_mode mode)
{
    tg_store_options o = {sizeof o, mode, true, true};
    tg_store *s = NULL;
    return tg_store_open_zip(&s, path, &o, NULL) == TG_OK ? s : NULL;
}

static struct walk read_all(tg_store *s)
{
    struct walk w = {.s = s};
    must(tg_store_list(s, "", visit, &w, NULL, NULL) == TG_OK);
    return w;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char key[] = "added by the fuzz target";

    if (fd < 0) {
        char name[] = "/tmp/fuzz-zip-XXXXXX";
        fd = mkstemp(name);
        must(fd >= 0 && unlink(name) == 0);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        room = malloc(ROOM);
        must(room != NULL);
    }
    must(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    tg_store *s = open_it(TG_STORE_READ);
    if (s == NULL)
        return 0;
    must(tg_store_size(s, key, &(uint64_t){0}, NULL, NULL) == TG_NOT_FOUND);
    struct walk before = read_all(s);
    tg_store_free(s);
    s = open_it(TG_STORE_READ_WRITE);
    if (s == NULL) /* bytes before the archive: can only be read */
        return 0;
    must(tg_store_put(s, key, "", 0, NULL, NULL) == TG_OK);
    must(tg_store_close(s, NULL) == TG_OK);
    tg_store_free(s);
    s = open_it(TG_STORE_READ);
    must(s != NULL);
    must(tg_store_size(s, key, &(uint64_t){0}, NULL, NULL) == TG_OK);
    struct walk after = read_all(s);
    must(after.values == before.values + 1 && after.sum == before.sum);
    tg_store_free(s);
    return 0;
}
