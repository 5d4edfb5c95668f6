/* The frame table: rows in, Zarr arrays out, at every commit, after a crash, on top of an older
 * table; its memory and what one row costs. */
#include "base/crc32c.h"
#include "base/json.h"
#include "base/text.h"
#include "check.h"
#include "stream/frame_table.h"
#include "zarr/zarr.h"

#include <stdlib.h>

static const tg_stream_column user_columns[] = {
    {"gain", {TG_DT_FLOAT, 4}},
    {"note", {TG_DT_STRING, 0}},
    {"plate", {TG_DT_INT, 2}},
};
enum { N_USERS = 3, LARGE = 1 << 20, SMALL = 4096 };

static tg_frame_table_options make_options(int format, bool checksum, uint64_t frame_bytes,
                                           uint32_t n_users)
{
    tg_frame_table_options o = {
        .format = format, .group = "cam", .checksum = checksum, .frame_bytes = frame_bytes};
    CHECK_STATUS(tg_frame_columns_init(&o.users, user_columns, n_users, NULL), TG_OK);
    return o;
}

/* Row n of every test: each column a function of n of its own. */
static tg_frame_row row_of(uint64_t n)
{
    return (tg_frame_row){.sequence = 1000 + n,
                          .index = n % 7 == 3 ? TG_NO_INDEX : (int64_t)n,
                          .time_device = (int64_t)n * 17 - 5,
                          .time_host = INT64_C(1700000000000000000) + (int64_t)n,
                          .status = (uint8_t)(n % 8),
                          .crc32c = (uint32_t)(n * 2654435761U)};
}

static void note_of(uint64_t n, char note[64])
{
    if (n % 5 == 0)
        note[0] = '\0';
    else
        (void)snprintf(note, 64, "frame %" PRIu64 " \xC2\xB5%s", n, n % 2 ? "" : " even");
}

static tg_status add_row(tg_frame_table *t, const tg_frame_columns *c, uint64_t n)
{
    char note[64];
    uint8_t packed[256];
    size_t used = 0;
    float gain = (float)n / 4;
    int16_t plate = (int16_t)(n % 1000 - 500);
    note_of(n, note);
    const void *values[N_USERS] = {&gain, note, &plate};
    tg_frame_row row = row_of(n);
    tg_status st = tg_frame_values_pack(c, values, packed, sizeof packed, &used, NULL);
    return st != TG_OK ? st : tg_frame_table_add(t, &row, (tg_bytes){packed, used}, NULL, NULL);
}

static void add_rows(tg_frame_table *t, const tg_frame_table_options *o, uint64_t from,
                     uint64_t to)
{
    for (uint64_t n = from; n < to; n++) {
        tg_status st = add_row(t, &o->users, n);
        if (st != TG_OK) {
            CHECK_STATUS(st, TG_OK);
            return;
        }
    }
}

/* --- Reading back as any program would ------------------------------------ */

static uint64_t shape_of(tg_store *s, const char *path)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    tg_array_info info = {.size = sizeof info};
    if (tg_array_open(s, path, &a, NULL, NULL) != TG_OK ||
        tg_array_get_info(a, &info, NULL) != TG_OK)
        return UINT64_MAX;
    return info.shape[0];
}

static uint64_t wrong_items(tg_store *s, const char *name, uint64_t rows, size_t item_bytes,
                            void (*want)(uint64_t n, void *item))
{
    TG_AUTO_PTR(tg_array) a = NULL;
    TG_AUTO(tg_mem_ptr) items = tg_calloc((size_t)rows + 1, item_bytes);
    char path[64];
    const uint64_t zero = 0;
    uint64_t bad = 0;
    (void)snprintf(path, sizeof path, "cam/frames/%s", name);
    tg_error err = {0};
    if (tg_array_open(s, path, &a, NULL, &err) != TG_OK ||
        tg_array_read(a, &zero, &rows, items, NULL, NULL, &err) != TG_OK) {
        fprintf(stderr, "%s: %s\n", path, err.msg);
        return UINT64_MAX;
    }
    for (uint64_t n = 0; n < rows; n++) {
        uint64_t item = 0;
        want(n, &item);
        bad += memcmp((const uint8_t *)items + n * item_bytes, &item, item_bytes) != 0;
    }
    return bad;
}

#define WANT(column, expr)                            \
    static void want_##column(uint64_t n, void *item) \
    {                                                 \
        tg_frame_row row = row_of(n);                 \
        (void)row;                                    \
        __typeof__(expr) v = (expr);                  \
        memcpy(item, &v, sizeof v);                   \
    }
WANT(sequence, row.sequence)
WANT(index, row.index)
WANT(time_device, row.time_device)
WANT(time_host, row.time_host)
WANT(status, row.status)
WANT(crc32c, row.crc32c)
WANT(gain, (float)n / 4)
WANT(plate, (int16_t)(n % 1000 - 500))

static uint64_t wrong_notes(tg_store *s, uint64_t rows)
{
    TG_AUTO_PTR(tg_array) a = NULL;
    uint64_t *offsets = NULL, bad = 0;
    char *text = NULL, note[64];
    if (tg_array_open(s, "cam/frames/note", &a, NULL, NULL) != TG_OK ||
        tg_array_read_strings(a, 0, rows, 64 << 20, &offsets, &text, NULL, NULL) != TG_OK)
        return UINT64_MAX;
    for (uint64_t n = 0; n < rows; n++) {
        note_of(n, note);
        size_t len = (size_t)(offsets[n + 1] - offsets[n]);
        bad += len != strlen(note) || memcmp(text + offsets[n], note, len) != 0;
    }
    tg_free(offsets);
    tg_free(text);
    return bad;
}

/* Exactly `rows` rows, each right in every column. */
static void check_table(tg_store *s, const tg_frame_table_options *o, uint64_t rows)
{
    static const struct {
        const char *name;
        size_t size;
        void (*want)(uint64_t n, void *item);
        uint32_t user; /* which one it is, + 1 */
    } columns[] = {
        {"sequence", 8, want_sequence, 0},
        {"index", 8, want_index, 0},
        {"time_device", 8, want_time_device, 0},
        {"time_host", 8, want_time_host, 0},
        {"status", 1, want_status, 0},
        {"crc32c", 4, want_crc32c, 0},
        {"gain", 4, want_gain, 1},
        {"plate", 2, want_plate, 3},
    };
    uint64_t length = UINT64_MAX;
    CHECK_STATUS(tg_frame_table_length(s, "cam", &length, NULL, NULL), TG_OK);
    CHECK_U64(length, rows);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "cam/frames/%s", columns[i].name);
        bool there = columns[i].user <= o->users.n &&
                     (o->checksum || strcmp(columns[i].name, "crc32c") != 0);
        CHECK_U64(shape_of(s, path), there ? rows : UINT64_MAX);
        if (there)
            CHECK_U64(wrong_items(s, columns[i].name, rows, columns[i].size, columns[i].want),
                      0);
    }
    if (o->users.n >= 2)
        CHECK_U64(wrong_notes(s, rows), 0);
}

static tg_store *mem_store(void)
{
    tg_store *s = NULL;
    CHECK_STATUS(tg_store_open_mem(&s, NULL), TG_OK);
    return s;
}

/* --- The tests ------------------------------------------------------------ */

static void commits_publish_what_was_written(void)
{
    static const struct {
        const char *name;
        int format;
        bool checksum;
        uint64_t frame_bytes;
        uint32_t users;
        uint64_t commits[6]; /* rows at each; ended by 0 */
    } rows[] = {
        {"v3", 3, true, LARGE, 3, {1, 10, 4096, 4097, 9000}},
        {"v3, no checksum", 3, false, LARGE, 3, {300, 4095, 4096, 8192, 8193}},
        {"v2", 2, true, LARGE, 3, {5, 255, 256, 257, 5000}},
        {"v2, own columns", 2, true, LARGE, 0, {4096, 8192}},
        {"small frames", 3, true, SMALL, 1, {70000, 131072, 131073}},
        {"more than one fill", 3, true, LARGE, 2, {20000}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TG_AUTO_PTR(tg_store) s = mem_store();
        TG_AUTO_PTR(tg_frame_table) t = NULL;
        tg_frame_table_options o =
            make_options(rows[i].format, rows[i].checksum, rows[i].frame_bytes, rows[i].users);
        test_row = rows[i].name;
        CHECK_STATUS(tg_frame_table_create(&t, s, &o, NULL, NULL), TG_OK);
        REQUIRE(t != NULL);
        check_table(s, &o, 0);
        uint64_t at = 0;
        for (size_t k = 0; k < 6 && rows[i].commits[k] != 0; k++) {
            add_rows(t, &o, at, rows[i].commits[k]);
            check_table(s, &o, at); /* nothing more is seen before the publish */
            at = rows[i].commits[k];
            CHECK_STATUS(tg_frame_table_write(t, NULL, NULL), TG_OK);
            check_table(s, &o, k == 0 ? 0 : rows[i].commits[k - 1]);
            CHECK_STATUS(tg_store_sync(s, NULL, NULL), TG_OK);
            CHECK_STATUS(tg_frame_table_publish(t, at, NULL, NULL), TG_OK);
            check_table(s, &o, at);
        }
        CHECK_U64(tg_frame_table_rows(t), at);
        add_rows(t, &o, at, at + 3);
        CHECK_STATUS(tg_frame_table_finish(t, NULL, NULL), TG_OK);
        check_table(s, &o, at + 3);
    }
    test_row = "";
}

static void columns_say_what_they_are(void)
{
    for (int format = 2; format <= 3; format++) {
        TG_AUTO_PTR(tg_store) s = mem_store();
        TG_AUTO_PTR(tg_frame_table) t = NULL;
        TG_AUTO_PTR(tg_node) n = NULL;
        TG_AUTO_PTR(tg_json) doc = NULL;
        tg_frame_table_options o = make_options(format, true, LARGE, 3);
        CHECK_STATUS(tg_frame_table_create(&t, s, &o, NULL, NULL), TG_OK);
        CHECK_STATUS(tg_node_open(s, "cam/frames", &n, NULL, NULL), TG_OK);
        REQUIRE(n != NULL);
        const char *text = tg_node_attributes(n);
        CHECK_STATUS(tg_json_parse(&doc, text, strlen(text), (tg_json_options){false}, NULL),
                     TG_OK);
        const tg_json *table = tg_json_get(doc, "frame_table");
        const tg_json *columns = tg_json_get(table, "columns");
        CHECK_U64(tg_json_size(columns), 9);
        const char *name = "", *unit = "", *lost = "";
        CHECK_STATUS(
            tg_json_string(tg_json_get(tg_json_at(columns, 7), "name"), &name, NULL, NULL),
            TG_OK);
        CHECK_STATUS(
            tg_json_string(tg_json_get(tg_json_at(columns, 3), "unit"), &unit, NULL, NULL),
            TG_OK);
        CHECK_STATUS(
            tg_json_string(tg_json_get(tg_json_get(table, "status"), "1"), &lost, NULL, NULL),
            TG_OK);
        CHECK(strcmp(name, "note") == 0 && strcmp(unit, "nanosecond") == 0 &&
              strcmp(lost, "lost") == 0);
        TG_AUTO_PTR(tg_array) a = NULL;
        tg_array_info info = {.size = sizeof info};
        CHECK_STATUS(tg_array_open(s, "cam/frames/index", &a, NULL, NULL), TG_OK);
        CHECK_STATUS(tg_array_get_info(a, &info, NULL), TG_OK);
        int64_t fill = 0;
        memcpy(&fill, info.fill, sizeof fill);
        CHECK(fill == -1 && info.chunk[0] == 4096 && !info.sharded);
        CHECK(format == 2 || strcmp(info.dimension_name[0], "frame") == 0);
    }
}

/* A run that ended, or died, at `published` of `added` rows; then more. */
static void going_on_behind_any_row(void)
{
    static const struct {
        const char *name;
        int format;
        uint64_t frame_bytes, published, added;
    } rows[] = {
        {"in the first chunk", 3, LARGE, 10, 10},
        {"at the end of a chunk", 3, LARGE, 8192, 8192},
        {"rows in chunks, not shape", 3, LARGE, 5000, 9000},
        {"v2", 2, LARGE, 5000, 9000},
        {"no rows", 3, LARGE, 0, 0},
        {"small frames", 3, SMALL, 65537, 65540},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TG_AUTO_PTR(tg_store) s = mem_store();
        TG_AUTO_PTR(tg_frame_table) t = NULL;
        tg_frame_table_options o = make_options(rows[i].format, true, rows[i].frame_bytes, 3);
        test_row = rows[i].name;
        CHECK_STATUS(tg_frame_table_create(&t, s, &o, NULL, NULL), TG_OK);
        REQUIRE(t != NULL);
        add_rows(t, &o, 0, rows[i].published);
        CHECK_STATUS(tg_frame_table_write(t, NULL, NULL), TG_OK);
        CHECK_STATUS(tg_frame_table_publish(t, rows[i].published, NULL, NULL), TG_OK);
        add_rows(t, &o, rows[i].published, rows[i].added);
        CHECK_STATUS(tg_frame_table_write(t, NULL, NULL), TG_OK);
        tg_frame_table_free(tg_steal(t));

        tg_frame_row last = {0};
        tg_status want = rows[i].published == 0 ? TG_NOT_FOUND : TG_OK;
        CHECK_STATUS(tg_frame_table_last(s, "cam", &last, NULL, NULL), want);
        if (want == TG_OK)
            CHECK_U64(last.sequence, 1000 + rows[i].published - 1);
        CHECK_STATUS(tg_frame_table_open(&t, s, &o, rows[i].published, NULL, NULL), TG_OK);
        REQUIRE(t != NULL);
        CHECK_U64(tg_frame_table_rows(t), rows[i].published);
        add_rows(t, &o, rows[i].published, rows[i].added + 5000);
        CHECK_STATUS(tg_frame_table_finish(t, NULL, NULL), TG_OK);
        check_table(s, &o, rows[i].added + 5000);
    }
    test_row = "";
}

static bool count_names(void *user, const char *name)
{
    (void)name;
    ++*(int *)user;
    return true;
}

static void recovering_twice_changes_nothing(void)
{
    TG_AUTO_PTR(tg_store) s = mem_store();
    tg_frame_table_options o = make_options(3, true, LARGE, 3);
    {
        TG_AUTO_PTR(tg_frame_table) t = NULL;
        CHECK_STATUS(tg_frame_table_create(&t, s, &o, NULL, NULL), TG_OK);
        REQUIRE(t != NULL);
        add_rows(t, &o, 0, 4000);
        CHECK_STATUS(tg_frame_table_write(t, NULL, NULL), TG_OK);
        CHECK_STATUS(tg_frame_table_publish(t, 4000, NULL, NULL), TG_OK);
        add_rows(t, &o, 4000, 13000); /* three chunks, of which the journal knows less */
        CHECK_STATUS(tg_frame_table_write(t, NULL, NULL), TG_OK);
    }
    o.rebuild = true;
    for (int pass = 0; pass < 2; pass++) {
        TG_AUTO_PTR(tg_frame_table) t = NULL;
        CHECK_STATUS(tg_frame_table_open(&t, s, &o, 0, NULL, NULL), TG_OK);
        REQUIRE(t != NULL);
        add_rows(t, &o, 0, 5000);
        CHECK_STATUS(tg_frame_table_finish(t, NULL, NULL), TG_OK);
        CHECK_STATUS(tg_frame_table_trim(t, NULL, NULL), TG_OK);
        check_table(s, &o, 5000);
        CHECK((tg_frame_table_puts(t) > 0) == (pass == 0));
    }
    int chunks = 0;
    CHECK_STATUS(tg_store_list(s, "cam/frames/status/c/", count_names, &chunks, NULL, NULL),
                 TG_OK);
    CHECK_U64((uint64_t)chunks, 2); /* those of 13,000 rows are gone */
}

/* The shapes of some columns were put, those of others not. */
static void a_crash_between_two_shapes(void)
{
    TG_AUTO_PTR(tg_store) s = mem_store();
    TG_AUTO_PTR(tg_store) failing = NULL;
    tg_frame_table_options o = make_options(3, true, LARGE, 0);
    CHECK_STATUS(tg_store_open_fault(&failing, s, NULL), TG_OK);
    TG_AUTO_PTR(tg_frame_table) t = NULL;
    CHECK_STATUS(tg_frame_table_create(&t, failing, &o, NULL, NULL), TG_OK);
    REQUIRE(t != NULL);
    add_rows(t, &o, 0, 100);
    CHECK_STATUS(tg_frame_table_write(t, NULL, NULL), TG_OK);
    tg_store_fail_at(failing, 3, true);
    CHECK_STATUS(tg_frame_table_publish(t, 100, NULL, NULL), TG_IO);
    tg_frame_table_free(tg_steal(t));
    CHECK_U64(shape_of(s, "cam/frames/sequence"), 100);
    uint64_t rows = 99;
    CHECK_STATUS(tg_frame_table_length(s, "cam", &rows, NULL, NULL), TG_OK);
    CHECK_U64(rows, 0);
    CHECK_STATUS(tg_frame_table_open(&t, s, &o, 0, NULL, NULL), TG_OK);
    REQUIRE(t != NULL);
    CHECK_STATUS(tg_frame_table_finish(t, NULL, NULL), TG_OK);
    check_table(s, &o, 0); /* all columns have the same length again */
}

static void another_table_is_refused(void)
{
    static const tg_stream_column other_dtype = {"gain", {TG_DT_FLOAT, 8}},
                                  other_name = {"shutter", {TG_DT_FLOAT, 4}};
    static const struct {
        const char *name, *says;
        const tg_stream_column *column;
        uint32_t n;
        bool checksum;
        uint64_t frame_bytes, rows;
        int format;
        bool missing;
    } rows[] = {
        {"another dtype", "gain", &other_dtype, 1, true, LARGE, 0, 3, false},
        {"another name", "shutter", &other_name, 1, true, LARGE, 0, 3, true},
        {"one too few", "gain", user_columns, 0, true, LARGE, 0, 3, false},
        {"no checksum", "crc32c", user_columns, 1, false, LARGE, 0, 3, false},
        {"another chunk", "sequence", user_columns, 1, true, SMALL, 0, 3, false},
        {"another format", "sequence", user_columns, 1, true, LARGE, 0, 2, false},
        {"too few rows", "sequence", user_columns, 1, true, LARGE, 11, 3, false},
    };
    TG_AUTO_PTR(tg_store) s = mem_store();
    TG_AUTO_PTR(tg_frame_table) t = NULL;
    tg_frame_table_options o = make_options(3, true, LARGE, 1);
    CHECK_STATUS(tg_frame_table_create(&t, s, &o, NULL, NULL), TG_OK);
    add_rows(t, &o, 0, 10);
    CHECK_STATUS(tg_frame_table_finish(t, NULL, NULL), TG_OK);
    tg_frame_table_free(tg_steal(t));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tg_error err = {0};
        tg_frame_table_options other = {.format = rows[i].format,
                                        .group = "cam",
                                        .checksum = rows[i].checksum,
                                        .frame_bytes = rows[i].frame_bytes};
        test_row = rows[i].name;
        CHECK_STATUS(tg_frame_columns_init(&other.users, rows[i].column, rows[i].n, NULL),
                     TG_OK);
        CHECK_STATUS(tg_frame_table_open(&t, s, &other, rows[i].rows, NULL, &err),
                     rows[i].missing ? TG_NOT_FOUND : TG_INVALID);
        CHECK(t == NULL && strstr(err.msg, rows[i].says) != NULL);
    }
    test_row = "";
    uint64_t n = 0;
    CHECK_STATUS(tg_frame_table_length(s, "nowhere", &n, NULL, NULL), TG_NOT_FOUND);
}

static void a_zip_gets_each_value_once(void)
{
    for (int format = 2; format <= 3; format++) {
        TG_AUTO_PTR(tg_store) s = mem_store();
        TG_AUTO_PTR(tg_store) counted = NULL;
        TG_AUTO_PTR(tg_frame_table) t = NULL;
        tg_frame_table_options o = make_options(format, true, LARGE, 3);
        o.once = true;
        CHECK_STATUS(tg_store_open_count(&counted, s, NULL), TG_OK);
        CHECK_STATUS(tg_frame_table_create(&t, counted, &o, NULL, NULL), TG_OK);
        REQUIRE(t != NULL);
        CHECK_U64(tg_store_counted(counted).puts, 0);
        for (uint64_t n = 0; n < 9000; n += 500) {
            add_rows(t, &o, n, n + 500);
            CHECK_STATUS(tg_frame_table_write(t, NULL, NULL), TG_OK);
            CHECK_STATUS(tg_frame_table_publish(t, n + 500, NULL, NULL), TG_OK);
        }
        CHECK_U64(shape_of(s, "cam/frames/sequence"), UINT64_MAX);
        CHECK_STATUS(tg_frame_table_finish(t, NULL, NULL), TG_OK);
        /* 8 columns of 3 chunks and strings of 36, 9 arrays (v2: with attributes), a group. */
        uint64_t documents = format == 3 ? 10 : 11;
        CHECK_U64(tg_store_counted(counted).puts, 8 * 3 + 36 + documents);
        check_table(s, &o, 9000);
    }
}

static void memory_is_what_was_said(void)
{
    static const uint64_t frame_bytes[] = {LARGE, SMALL};
    for (int i = 0; i < 2; i++) {
        TG_AUTO_PTR(tg_store) s = NULL;
        TG_AUTO_PTR(tg_frame_table) t = NULL;
        char dir[] = "/tmp/tg_table_XXXXXX";
        REQUIRE(mkdtemp(dir) != NULL);
        tg_store_options so = {
            .size = sizeof so, .mode = TG_STORE_OPEN_OR_CREATE, .no_sync = true};
        CHECK_STATUS(tg_store_open_fs(&s, dir, &so, NULL), TG_OK);
        tg_frame_table_options o = make_options(3, true, frame_bytes[i], 3);
        size_t before = tg_mem_live();
        tg_mem_reset();
        CHECK_STATUS(tg_frame_table_create(&t, s, &o, NULL, NULL), TG_OK);
        REQUIRE(t != NULL);
        char note[TG_FRAME_TEXT_MAX + 1];
        memset(note, 'n', TG_FRAME_TEXT_MAX);
        note[TG_FRAME_TEXT_MAX] = '\0'; /* the longest that there can be */
        const void *values[N_USERS] = {NULL, note, NULL};
        TG_AUTO(tg_mem_ptr) packed = tg_alloc(o.users.values_bound);
        size_t n = 0;
        CHECK_STATUS(
            tg_frame_values_pack(&o.users, values, packed, o.users.values_bound, &n, NULL),
            TG_OK);
        for (uint64_t k = 0; k < 1100; k++) {
            tg_frame_row row = row_of(k);
            CHECK_STATUS(tg_frame_table_add(t, &row, (tg_bytes){packed, n}, NULL, NULL), TG_OK);
        }
        CHECK_STATUS(tg_frame_table_finish(t, NULL, NULL), TG_OK);
        size_t took = tg_mem_highwater() - before;
        CHECK(took <= tg_frame_table_bytes(&o) + o.users.values_bound);
        CHECK(took * 3 > tg_frame_table_bytes(&o)); /* nor a multiple of it */
        char command[64];
        (void)snprintf(command, sizeof command, "rm -rf %s", dir);
        CHECK(system(command) == 0);
    }
}

static tg_status make_and_finish(tg_store *s, const tg_frame_table_options *o)
{
    TG_AUTO_PTR(tg_frame_table) t = NULL;
    tg_frame_row row = row_of(1);
    uint8_t packed[64];
    size_t n = 0;
    tg_error err = {0};
    TG_TRY(tg_frame_values_pack(&o->users, NULL, packed, sizeof packed, &n, &err));
    TG_TRY(tg_frame_table_create(&t, s, o, NULL, &err));
    TG_TRY(tg_frame_table_add(t, &row, (tg_bytes){packed, n}, NULL, &err));
    return tg_frame_table_finish(t, NULL, &err);
}

static tg_status open_again(tg_store *s, const tg_frame_table_options *o)
{
    TG_AUTO_PTR(tg_frame_table) t = NULL;
    tg_frame_row row = {0};
    TG_TRY(tg_frame_table_last(s, "cam", &row, NULL, NULL));
    return tg_frame_table_open(&t, s, o, 1, NULL, NULL);
}

static void every_allocation_may_fail(void)
{
    /* The store keeps what was put, so a store of its own is warmed for the run that is
     * counted. */
    TG_AUTO_PTR(tg_store) s = mem_store();
    tg_frame_table_options o = make_options(3, true, LARGE, 3);
    CHECK_STATUS(make_and_finish(s, &o), TG_OK);
    CHECK_EVERY_ALLOC(make_and_finish(s, &o));
    CHECK_EVERY_ALLOC(open_again(s, &o));
}

static void every_store_call_may_fail(void)
{
    tg_frame_table_options o = make_options(2, true, LARGE, 3);
    long n = 0;
    tg_status st = TG_IO;
    while (st == TG_IO && n < 1000) {
        TG_AUTO_PTR(tg_store) s = mem_store();
        TG_AUTO_PTR(tg_store) failing = NULL;
        CHECK_STATUS(tg_store_open_fault(&failing, s, NULL), TG_OK);
        tg_store_fail_at(failing, ++n, false);
        st = make_and_finish(failing, &o);
    }
    CHECK_STATUS(st, TG_OK);
    CHECK(n > 20);
}

static const struct test tests[] = {
    {"commits publish what was written", commits_publish_what_was_written},
    {"columns say what they are", columns_say_what_they_are},
    {"going on behind any row", going_on_behind_any_row},
    {"recovering twice changes nothing", recovering_twice_changes_nothing},
    {"a crash between two shapes", a_crash_between_two_shapes},
    {"another table is refused", another_table_is_refused},
    {"a ZIP gets each value once", a_zip_gets_each_value_once},
    {"memory is what was said", memory_is_what_was_said},
    {"every allocation may fail", every_allocation_may_fail},
    {"every store call may fail", every_store_call_may_fail},
};
TEST_MAIN(tests)
