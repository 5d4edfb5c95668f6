#include "check.h"
#include "ims/db.h"

static tg_status parse(tg_moldb **db, const char *text, tg_moldb_options o, tg_text *notes,
                       tg_error *e)
{
    return tg_moldb_parse(db, "t", (tg_bytes){(const uint8_t *)text, strlen(text)}, &o, NULL,
                          notes, e);
}

static void formulas_come_sorted_and_once(void)
{
    TG_AUTO_PTR(tg_moldb) db = NULL;
    const char *text = "\xef\xbb\xbfName;Formula;x;ID\r\nglucose;C6H12O6;1;a\r\n"
                       "\"water; plain\";H2O;2;b\r\nfructose;C6H12O6;3;c\r\n";
    REQUIRE_OK(parse(&db, text, (tg_moldb_options){0}, NULL, NULL));
    CHECK_U64(db->n_formulas, 2);
    CHECK_U64(db->n_molecules, 3);
    CHECK(strcmp(tg_moldb_formula(db, 0), "C6H12O6") == 0);
    CHECK(strcmp(tg_moldb_formula(db, 1), "H2O") == 0);
    CHECK_U64(db->first[1] - db->first[0], 2);
    CHECK(strcmp(db->molecules[1].name, "fructose") == 0 &&
          strcmp(db->molecules[1].id, "c") == 0 && db->molecules[1].line == 4);
    CHECK(strcmp(db->molecules[2].name, "water; plain") == 0);
    CHECK_U64(db->n_notes, 0);
}

static void only_the_formula_is_needed(void)
{
    static const char *const texts[] = {"formula\nH2O\n", "sf,\nH2O,", "i\tsf\n1\tH2O"};
    for (size_t i = 0; i < 3; i++) {
        TG_AUTO_PTR(tg_moldb) db = NULL;
        test_row = texts[i];
        CHECK_STATUS(parse(&db, texts[i], (tg_moldb_options){0}, NULL, NULL), TG_OK);
        CHECK(db != NULL && db->n_formulas == 1 &&
              strcmp(tg_moldb_formula(db, 0), "H2O") == 0 && db->molecules[0].name[0] == '\0');
        tg_moldb_free(tg_steal(db));
        test_row = "";
    }
}

static void odd_rows_are_told_with_their_line(void)
{
    TG_AUTO_PTR(tg_moldb) db = NULL;
    TG_AUTO_PTR(tg_moldb) fixed = NULL;
    const char *text = "formula\nC6H12O6.H2O\n \n123\nC2H6XyO\nC5H2OH\n";
    REQUIRE_OK(parse(&db, text, (tg_moldb_options){0}, NULL, NULL));
    CHECK_U64(db->n_formulas, 3);
    CHECK(strcmp(db->notes.data, "line 2: 'C6H12O6.H2O' is read as C6H2O\n"
                                 "line 4: formula holds no symbol: left out\n"
                                 "line 5: 'C2H6XyO': unknown element Xy: has no ion\n") == 0 ||
          strstr(db->notes.data, "line 3: no formula: left out\n") != NULL);
    REQUIRE_OK(parse(&fixed, text, (tg_moldb_options){.fixed = true}, NULL, NULL));
    CHECK_U64(fixed->n_formulas, 1); /* C5H2OH */
    CHECK(strstr(fixed->notes.data, "line 5: left out: 'C2H6XyO': unknown element Xy") != NULL);
}

static void broken_files_say_why(void)
{
    static const struct {
        const char *name, *text, *message;
    } rows[] = {
        {"no column", "a,b\n1,2\n", "database 't': missing columns: 'formula'"},
        {"no rows", "formula\n", "database 't': no rows"},
        {"empty", "", "missing columns: 'formula'"},
        {"no usable", "formula\n12\n", "no row with a formula; first: line 2: formula holds"},
        {"open quote", "formula\n\"H2O\n", "database 't': "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO_PTR(tg_moldb) db = NULL;
        tg_error e = {0};
        test_row = rows[i].name;
        CHECK_STATUS(parse(&db, rows[i].text, (tg_moldb_options){0}, NULL, &e), TG_CORRUPT);
        if (strstr(e.msg, rows[i].message) == NULL)
            test_failed(__FILE__, __LINE__, e.msg);
        test_row = "";
    }
}

/* METASPACE's own right and broken files under its upload rules. */
static void upload_rules(void)
{
    static const struct {
        const char *file, *message, *notes; /* message NULL: accepted */
    } rows[] = {
        {"moldb.csv", NULL, NULL},
        {"db-empty-values.csv", "2 broken values; line 2: id: empty value",
         "line 2: id: empty value\nline 4: name: empty value\n"},
        {"db-missing-columns.csv", "missing columns: 'formula'", NULL},
        {"db-wrong-formulas.csv", "line 2: formula: 'C54H102O6XYZ': unknown element X",
         "line 3: formula: 'C83H146O17.P2': '.' is not allowed in a formula\n"},
        {"db-wrong-sep.csv", "missing columns: 'id', 'name', 'formula'", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TG_AUTO_PTR(tg_moldb) db = NULL;
        TG_AUTO(tg_text) notes = {0};
        tg_moldb_options o = {.strict = true};
        tg_error e = {0};
        char path[512];
        test_row = rows[i].file;
        (void)snprintf(path, sizeof path, "%s/data/ims/metaspace/moldbs/%s", TG_TEST_DATA,
                       rows[i].file);
        tg_status st = tg_moldb_open(&db, path, &o, NULL, &notes, NULL, &e);
        CHECK_STATUS(st, rows[i].message == NULL ? TG_OK : TG_CORRUPT);
        if (rows[i].message != NULL && strstr(e.msg, rows[i].message) == NULL)
            test_failed(__FILE__, __LINE__, e.msg);
        if (rows[i].notes != NULL && strstr(notes.data, rows[i].notes) == NULL)
            test_failed(__FILE__, __LINE__, notes.data);
        if (rows[i].message == NULL && db != NULL) {
            CHECK_U64(db->n_formulas, 3);
            CHECK(strcmp(db->name, "moldb") == 0);
        }
        tg_moldb_free(tg_steal(db));
        tg_text_free(&notes);
        test_row = "";
    }
}

static void too_many_rows_for_an_upload(void)
{
    TG_AUTO(tg_text) text = {0};
    TG_AUTO_PTR(tg_moldb) db = NULL;
    TG_AUTO_PTR(tg_moldb) strict = NULL;
    tg_error e = {0};
    tg_text_add(&text, "id\tname\tformula\n");
    for (int i = 0; i < 100001; i++)
        tg_text_addf(&text, "%d\tx\tC%dH%d\n", i, i % 100 + 1, i % 77 + 1);
    REQUIRE_OK(tg_text_status(&text, NULL));
    REQUIRE_OK(parse(&db, text.data, (tg_moldb_options){0}, NULL, NULL));
    CHECK_U64(db->n_molecules, 100001);
    CHECK_U64(db->n_formulas, 7700);
    CHECK_STATUS(parse(&strict, text.data, (tg_moldb_options){.strict = true}, NULL, &e),
                 TG_CORRUPT);
    CHECK(strstr(e.msg, "100001 rows, 100000 are the most") != NULL);
}

static tg_status parse_small(void)
{
    TG_AUTO_PTR(tg_moldb) db = NULL;
    return parse(&db, "id,formula\n1,H2O\n2,C6H6.HCl\n", (tg_moldb_options){0}, NULL, NULL);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(parse_small());
}

static const struct test tests[] = {
    {"formulas_come_sorted_and_once", formulas_come_sorted_and_once},
    {"only_the_formula_is_needed", only_the_formula_is_needed},
    {"odd_rows_are_told_with_their_line", odd_rows_are_told_with_their_line},
    {"broken_files_say_why", broken_files_say_why},
    {"upload_rules", upload_rules},
    {"too_many_rows_for_an_upload", too_many_rows_for_an_upload},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
