#include "chem/formula.h"
#include "table.h"

static void every_reference_ion(void)
{
    table t;
    size_t rows = 0;
    REQUIRE(table_open(&t, "formula_cases.csv"));
    CHECK(table_next(&t));
    while (table_next(&t)) {
        tg_formula f;
        tg_modifier m;
        char ion[256] = "";
        char row[256];
        (void)snprintf(row, sizeof row, "%s %s", t.fields[0], t.fields[1]);
        test_row = row;
        CHECK_STATUS(tg_formula_parse(&f, t.fields[0], false, NULL), TG_OK);
        tg_status st = tg_modifier_parse(&m, t.fields[1], NULL);
        if (st == TG_OK)
            st = tg_ion_formula(&f, &m, ion, sizeof ion, NULL);
        CHECK((st == TG_OK) == (t.fields[2][0] != '\0'));
        CHECK(strcmp(ion, t.fields[2]) == 0);
        rows++;
        test_row = "";
    }
    CHECK_U64(rows, 792);
    table_close(&t);
}

static void fixed_reader_sums_and_refuses(void)
{
    static const struct {
        const char *text, *want; /* want NULL: refused */
    } rows[] = {
        {"C5H2OH", "C5H3O"}, {"C10H10C2", "C12H10"},   {"C6H12O6.H2", NULL},  {"C6(H12)", NULL},
        {"C2H6Xy", NULL},    {"Cx6H12O6", "H12O6Cx6"}, {"C9999999999", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tg_formula f;
        tg_modifier m;
        char ion[64];
        test_row = rows[i].text;
        tg_status st = tg_formula_parse(&f, rows[i].text, true, NULL);
        CHECK_STATUS(st, rows[i].want != NULL ? TG_OK : TG_INVALID);
        if (st != TG_OK || rows[i].want == NULL)
            continue;
        CHECK_STATUS(tg_modifier_parse(&m, "", NULL), TG_OK);
        CHECK_STATUS(tg_ion_formula(&f, &m, ion, sizeof ion, NULL), TG_OK);
        CHECK(strcmp(ion, rows[i].want) == 0);
    }
}

static void order_of_modifier_parts_counts(void)
{
    tg_formula f;
    tg_modifier m;
    char ion[64];
    tg_error e = {0};
    CHECK_STATUS(tg_formula_parse(&f, "CH2", false, NULL), TG_OK);
    CHECK_STATUS(tg_modifier_parse(&m, "-H2O+HO", NULL), TG_OK);
    CHECK_STATUS(tg_ion_formula(&f, &m, ion, sizeof ion, &e), TG_NOT_FOUND);
    CHECK(strcmp(e.msg, "no such ion: O falls below 0") == 0);
    CHECK_STATUS(tg_modifier_parse(&m, "+O-H2O", NULL), TG_OK);
    CHECK_STATUS(tg_ion_formula(&f, &m, ion, sizeof ion, &e), TG_OK);
    CHECK(strcmp(ion, "C") == 0);
}

static void hostile_text_is_refused(void)
{
    char big[4096];
    tg_formula f;
    tg_modifier m;
    tg_atoms a;
    memset(big, 'C', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    CHECK_STATUS(tg_formula_parse(&f, big, false, NULL), TG_INVALID);
    CHECK_STATUS(tg_modifier_parse(&m, big, NULL), TG_INVALID);
    memset(big, '(', sizeof big - 1);
    CHECK_STATUS(tg_atoms_parse(&a, big, NULL), TG_INVALID);
    /* more different symbols than fit */
    size_t n = 0;
    for (char c = 'A'; c <= 'Z'; c++)
        for (char d = 'a'; d <= 'd'; d++) {
            big[n++] = c;
            big[n++] = d;
        }
    big[n] = '\0';
    CHECK_STATUS(tg_formula_parse(&f, big, false, NULL), TG_INVALID);
    CHECK_STATUS(tg_formula_parse(&f, "", false, NULL), TG_OK);
    CHECK_STATUS(tg_modifier_parse(&m, "", NULL), TG_OK);
    CHECK_STATUS(tg_ion_formula(&f, &m, big, sizeof big, NULL), TG_NOT_FOUND);
    CHECK_STATUS(tg_formula_parse(&f, "C6H6O1000", false, NULL), TG_OK);
    CHECK_STATUS(tg_ion_formula(&f, &m, big, 8, NULL), TG_INVALID);
}

static void upload_rules(void)
{
    tg_error e = {0};
    CHECK_STATUS(tg_formula_check_strict("C54H102O6", &e), TG_OK);
    CHECK_STATUS(tg_formula_check_strict("C54H102O6XYZ", &e), TG_INVALID);
    CHECK(strstr(e.msg, "unknown element X") != NULL);
    CHECK_STATUS(tg_formula_check_strict("C83H146O17.P2", &e), TG_INVALID);
    CHECK(strstr(e.msg, "'.' is not allowed") != NULL);
    CHECK_STATUS(tg_formula_check_strict("", &e), TG_INVALID);
}

static void strict_reader_of_atoms(void)
{
    static const struct {
        const char *text, *same, *message; /* same as this formula, or refused with this */
    } rows[] = {
        {"C6H12O6", "C6H12O6", NULL},
        {"CH3(CH2)4COOH", "C6H12O2", NULL},
        {"CuSO4.5H2O", "CuH10SO9", NULL},
        {"C2H6O+H", "C2H7O", NULL},
        {"C2H6O-H2O", "C2H4", NULL},
        {"C0H4", "H4", NULL},
        {"(C2(H2O)2)3", "C6H12O6", NULL},
        {"Xx", NULL, "unknown element Xx"},
        {"C70000", NULL, "the number is too big"},
        {"CH4-O", NULL, "fewer than 0 atoms of O"},
        {"C(H2", NULL, "is never closed"},
        {"CH2)", NULL, "is no part of a formula"},
        {"C H", NULL, "is no part of a formula"},
        {"", NULL, "nothing at position 0"},
        {"C..H", NULL, "nothing at position 2"},
        {"C0", NULL, "a formula of nothing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tg_atoms a, b;
        tg_error e = {0};
        test_row = rows[i].text;
        tg_status st = tg_atoms_parse(&a, rows[i].text, &e);
        CHECK_STATUS(st, rows[i].same != NULL ? TG_OK : TG_INVALID);
        if (rows[i].same == NULL) {
            CHECK(strstr(e.msg, rows[i].message) != NULL);
            continue;
        }
        CHECK_STATUS(tg_atoms_parse(&b, rows[i].same, &e), TG_OK);
        CHECK_U64(a.n, b.n);
        for (uint32_t k = 0; k < a.n; k++) {
            uint32_t count = 0;
            for (uint32_t j = 0; j < b.n; j++)
                if (b.of[j].element == a.of[k].element)
                    count = b.of[j].count;
            CHECK_U64(a.of[k].count, count);
        }
    }
}

static const struct test tests[] = {
    {"every_reference_ion", every_reference_ion},
    {"fixed_reader_sums_and_refuses", fixed_reader_sums_and_refuses},
    {"order_of_modifier_parts_counts", order_of_modifier_parts_counts},
    {"hostile_text_is_refused", hostile_text_is_refused},
    {"upload_rules", upload_rules},
    {"strict_reader_of_atoms", strict_reader_of_atoms},
};

TEST_MAIN(tests)
