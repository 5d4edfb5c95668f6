/* Damaged arrays of others (tests/golden/corrupt.txt): each is an error that names the key and
 * says what is wrong, never data. */
#include "check.h"
#include "zarr/zarr.h"

#include <stdlib.h>

typedef struct damage {
    char array[80], key[40], action[8], a[60], b[60], words[80];
} damage;

static void blanks(char *s)
{
    for (; *s != '\0'; s++)
        if (*s == '~')
            *s = ' ';
}

/* array key action a [b] words...; false: a comment or an empty line. */
static bool parse(const char *line, damage *d)
{
    int n = 0;

    memset(d, 0, sizeof *d);
    if (line[0] == '#' ||
        sscanf(line, "%79s %39s %7s %59s%n", d->array, d->key, d->action, d->a, &n) != 4)
        return false;
    if (strcmp(d->action, "text") == 0) {
        int m = 0;
        if (sscanf(line + n, " %59s%n", d->b, &m) != 1)
            return false;
        n += m;
    }
    (void)snprintf(d->words, sizeof d->words, "%.79s", line + n + 1);
    d->words[strcspn(d->words, "\n")] = '\0';
    blanks(d->a);
    blanks(d->b);
    return d->words[0] != '\0';
}

/* All documents and chunks of an array, into memory. */
typedef struct copying {
    tg_store *from, *to;
    char prefix[200];
    size_t skip; /* of the prefix: the array's own path */
    tg_status status;
} copying;

static bool copy_name(void *user, const char *name)
{
    copying *c = user;
    TG_AUTO(tg_buf) value = {0};
    char key[300];

    (void)snprintf(key, sizeof key, "%s%s", c->prefix, name);
    if (key[strlen(key) - 1] == '/') {
        copying below = *c;
        (void)snprintf(below.prefix, sizeof below.prefix, "%.199s", key);
        c->status = tg_store_list(c->from, key, copy_name, &below, NULL, NULL);
        if (c->status == TG_OK)
            c->status = below.status;
        return c->status == TG_OK;
    }
    c->status = tg_store_get(c->from, key, tg_range_all(), 1 << 20, &value, NULL, NULL);
    if (c->status == TG_OK)
        c->status = tg_store_put(c->to, key + c->skip, value.data, value.len, NULL, NULL);
    return c->status == TG_OK;
}

static tg_status replace_text(const damage *d, tg_buf *b, tg_buf *out)
{
    TG_AUTO(tg_text) t = {0};
    const char *text = (const char *)b->data;
    char *copy = tg_calloc(b->len + 1, 1);

    if (copy == NULL)
        return TG_NO_MEMORY;
    memcpy(copy, text, b->len);
    char *at = strstr(copy, d->a);
    if (at != NULL) {
        tg_text_add_n(&t, copy, (size_t)(at - copy));
        tg_text_add(&t, d->b);
        tg_text_add(&t, at + strlen(d->a));
    }
    tg_free(copy);
    TG_TRY(tg_text_status(&t, NULL));
    if (at == NULL)
        return TG_NOT_FOUND;
    TG_TRY(tg_buf_resize(out, t.len, NULL));
    memcpy(out->data, t.data, t.len);
    return TG_OK;
}

static tg_status apply(tg_store *s, const damage *d)
{
    TG_AUTO(tg_buf) b = {0};
    TG_AUTO(tg_buf) out = {0};
    long n = strtol(d->a, NULL, 10);

    TG_TRY(tg_store_get(s, d->key, tg_range_all(), 1 << 20, &b, NULL, NULL));
    if (strcmp(d->action, "text") == 0) {
        TG_TRY(replace_text(d, &b, &out));
        return tg_store_put(s, d->key, out.data, out.len, NULL, NULL);
    }
    if (strcmp(d->action, "cut") == 0)
        return (size_t)n > b.len ? TG_INVALID
                                 : tg_store_put(s, d->key, b.data, (size_t)n, NULL, NULL);
    if (strcmp(d->action, "add") == 0) {
        TG_TRY(tg_buf_resize(&out, b.len + (size_t)n, NULL));
        memcpy(out.data, b.data, b.len);
        memset(out.data + b.len, 0, (size_t)n);
        return tg_store_put(s, d->key, out.data, out.len, NULL, NULL);
    }
    size_t at = n < 0 ? b.len - (size_t)-n : (size_t)n;
    if (strcmp(d->action, "flip") != 0 || at >= b.len)
        return TG_INVALID;
    b.data[at] ^= 1;
    return tg_store_put(s, d->key, b.data, b.len, NULL, NULL);
}

static tg_status read_all(tg_store *s, tg_error *err)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};
    const uint64_t zero[TG_MAX_NDIM] = {0};
    static uint8_t items[1 << 16];
    uint64_t *offsets = NULL;
    char *text = NULL;

    TG_TRY(tg_array_open(s, "", &a, NULL, err));
    TG_TRY(tg_array_get_info(a, &info, err));
    if (info.dtype.kind != TG_DT_STRING)
        return tg_array_read(a, zero, info.shape, items, NULL, NULL, err);
    tg_status st =
        tg_array_read_strings(a, 0, info.shape[0], 1 << 16, &offsets, &text, NULL, err);
    tg_free(offsets);
    tg_free(text);
    return st;
}

static void check_damage(tg_store *golden, const damage *d)
{
    TG_AUTO_PTR(tg_store) s = NULL;
    copying c = {.from = golden};
    tg_error err = {0};

    (void)snprintf(c.prefix, sizeof c.prefix, "%s/", d->array);
    c.skip = strlen(c.prefix);
    REQUIRE_OK(tg_store_open_mem(&s, NULL));
    c.to = s;
    REQUIRE_OK(tg_store_list(golden, c.prefix, copy_name, &c, NULL, NULL));
    REQUIRE_OK(c.status);
    REQUIRE_OK(read_all(s, &err));
    REQUIRE_OK(apply(s, d));
    tg_status st = read_all(s, &err);
    if (strcmp(d->words, "ok") == 0) {
        CHECK_STATUS(st, TG_OK);
        return;
    }
    CHECK(st == TG_CORRUPT || st == TG_UNSUPPORTED);
    if (st == TG_OK)
        return;
    if (strstr(err.msg, d->words) == NULL)
        test_failed(__FILE__, __LINE__, err.msg);
    if (strcmp(d->action, "text") != 0 &&
        (strcmp(err.key, d->key) != 0 || strstr(err.msg, d->key) == NULL))
        test_failed(__FILE__, __LINE__, err.msg);
}

static void damage_is_never_data(void)
{
    TG_AUTO_PTR(tg_store) golden = NULL;
    FILE *f = fopen(TG_TEST_DATA "/golden/corrupt.txt", "r");
    char line[300], row[200];
    damage d;
    int n = 0;

    REQUIRE(f != NULL);
    if (tg_store_open_zip(&golden, TG_TEST_DATA "/golden/golden.zip", NULL, NULL) == TG_OK)
        while (fgets(line, sizeof line, f) != NULL)
            if (parse(line, &d)) {
                (void)snprintf(row, sizeof row, "%s %s %s %s", d.array, d.key, d.action, d.a);
                test_row = row;
                check_damage(golden, &d);
                n++;
            }
    (void)fclose(f);
    test_row = "";
    CHECK(n >= 30);
}

static const struct test tests[] = {
    {"damage_is_never_data", damage_is_never_data},
};

TEST_MAIN(tests)
