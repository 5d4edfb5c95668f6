/* store_victim.c - a writer to be killed, failed and cut off, and what must be
 * so afterwards.
 *
 *     store_victim write DIR LOG ROUNDS   put values; a line in LOG for each that is durable
 *     store_victim check DIR LOG          each of them is there; none is half there
 *
 * LOG lies outside DIR. A value is a function of its number, length included. */
#include "contract/stores.h"

static size_t length_of(unsigned i)
{
    static const size_t lens[] = {10, 5000, 70000, 1200001};
    return lens[i % 4] + i;
}

/* Values that share a directory, and directories made anew on the way. */
static void key_of(unsigned i, char *key, size_t room)
{
    (void)snprintf(key, room, "a/%u/%u/%u", i / 12, i / 4 % 3, i);
}

static int fail(const tg_error *err)
{
    fprintf(stderr, "store_victim: %s\n", err->msg);
    return 1;
}

static void acknowledge(int log, const char *word, unsigned i)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%s %u\n", word, i);
    if (write(log, line, (size_t)n) != n)
        _exit(9);
}

static tg_status put_object(tg_store *s, const char *key, const uint8_t *p, size_t n,
                            tg_error *err)
{
    TG_AUTO_PTR(tg_object) o = NULL;
    TG_TRY(tg_object_begin(s, key, (tg_object_options){.size_hint = n}, &o, NULL, err));
    tg_status st = tg_object_write(o, p, n / 2, NULL, err);
    if (st == TG_OK)
        st = tg_object_sync(o, NULL, err);
    if (st == TG_OK)
        st = tg_object_write(o, p + n / 2, n - n / 2, NULL, err);
    if (st == TG_OK)
        st = tg_object_seal(o, n, NULL, err);
    if (st != TG_OK)
        tg_object_abort(o);
    return st;
}

/* A key that is written again and again: its value begins with the round. */
static tg_status put_same(tg_store *s, unsigned i, uint8_t *p, tg_error *err)
{
    memset(p, (int)(i & 0xff), 3000);
    memcpy(p, &i, sizeof i);
    return i % 2 == 0 ? tg_store_put(s, "same", p, 3000, NULL, err)
                      : tg_store_put_lazy(s, "same", p, 3000, NULL, err);
}

static int run(tg_store *s, int log, unsigned rounds, uint8_t *p)
{
    tg_error err = {0};
    char key[64];
    unsigned lazy = 0;

    for (unsigned i = 0; i < rounds; i++) {
        size_t n = length_of(i);
        tg_status st;
        key_of(i, key, sizeof key);
        test_fill(p, n, i, 0);
        if (i % 5 == 3) {
            st = put_object(s, key, p, n, &err);
        } else if (i % 5 < 2) {
            st = tg_store_put_lazy(s, key, p, n, NULL, &err);
            lazy += st == TG_OK;
        } else {
            st = i % 2 == 0 ? tg_store_put(s, key, p, n, NULL, &err)
                            : tg_store_put_new(s, key, p, n, NULL, &err);
        }
        if (st == TG_OK && i % 5 >= 2)
            acknowledge(log, "value", i);
        if (st == TG_OK)
            st = put_same(s, i, p, &err);
        if (st == TG_OK && i % 2 == 0)
            acknowledge(log, "same", i);
        if (st == TG_OK && i % 5 == 4) {
            st = tg_store_sync(s, NULL, &err);
            for (unsigned j = i - 4; st == TG_OK && j < i - 2; j++)
                acknowledge(log, "value", j);
            if (st == TG_OK)
                acknowledge(log, "same", i);
        }
        if (st != TG_OK)
            return fail(&err);
    }
    return tg_store_close(s, &err) == TG_OK ? 0 : fail(&err);
}

/* --- Check ----------------------------------------------------------------------------- */

static int check_value(tg_store *s, unsigned i, bool must)
{
    TG_AUTO(tg_buf) b = {0};
    tg_error err = {0};
    char key[64];

    key_of(i, key, sizeof key);
    tg_status st = tg_store_get(s, key, tg_range_all(), 4 << 20, &b, NULL, &err);
    bool whole = st == TG_OK && b.len == length_of(i) && test_same(b.data, b.len, i, 0);
    if (whole || (!must && st == TG_NOT_FOUND))
        return 0;
    printf("value %u: %s\n", i, st != TG_OK ? err.msg : "not what was put");
    return 1;
}

static int check_same(tg_store *s, long least)
{
    TG_AUTO(tg_buf) b = {0};
    unsigned i = 0;

    tg_status st = tg_store_get(s, "same", tg_range_all(), 4 << 20, &b, NULL, NULL);
    if (st == TG_NOT_FOUND && least < 0)
        return 0;
    bool whole = st == TG_OK && b.len == 3000;
    if (whole)
        memcpy(&i, b.data, sizeof i);
    for (size_t j = sizeof i; whole && j < b.len; j++)
        whole = b.data[j] == (uint8_t)i;
    if (whole && (long)i >= least)
        return 0;
    printf("same: %s, round %u, want %ld or later\n", whole ? "whole" : "torn or gone", i,
           least);
    return 1;
}

static int check(const char *dir, const char *log_path)
{
    FILE *log = fopen(log_path, "r");
    TG_AUTO_PTR(tg_store) s = NULL;
    tg_store_options o = {sizeof o, TG_STORE_READ, false, false};
    static bool acked[100000];
    char word[16];
    unsigned i, last = 0, n = 0;
    long same = -1;
    int bad = 0;

    while (log != NULL && fscanf(log, "%15s %u\n", word, &i) == 2 && i < 100000) {
        if (word[0] == 's')
            same = (long)i;
        else
            acked[i] = true;
        last = i > last ? i : last;
        n++;
    }
    if (log != NULL)
        (void)fclose(log);
    if (tg_store_open_fs(&s, dir, &o, NULL) != TG_OK)
        return n > 0 ? printf("no store\n") > 0 : 0;
    for (i = 0; i < last + 10; i++)
        bad += check_value(s, i, acked[i]);
    bad += check_same(s, same);
    printf("%u acknowledged, %d bad\n", n, bad);
    return bad != 0;
}

int main(int argc, char **argv)
{
    tg_error err = {0};
    TG_AUTO_PTR(tg_store) s = NULL;
    TG_AUTO(tg_arena) a = {0};

    if (argc == 4 && strcmp(argv[1], "check") == 0)
        return check(argv[2], argv[3]);
    if (argc != 5 || strcmp(argv[1], "write") != 0)
        return 2;
    int log = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    tg_store_options o = {sizeof o, TG_STORE_OPEN_OR_CREATE, false, false};
    if (log < 0 || tg_arena_map(&a, 2 << 20, &err) != TG_OK ||
        tg_store_open_fs(&s, argv[2], &o, &err) != TG_OK)
        return fail(&err);
    return run(s, log, (unsigned)strtoul(argv[4], NULL, 10), a.data);
}
