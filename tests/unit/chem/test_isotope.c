#include "chem/isotope.h"
#include "chem/isotopologue.h"
#include "table.h"

#include <math.h>

static void every_reference_isotopologue(void)
{
    table t;
    tg_atoms atoms;
    char formula[64] = "";
    int version = 0;
    size_t left = 0, rows = 0, n = 0;
    tg_isotopologue *list = NULL;
    TG_AUTO_PTR(tg_pattern) p = NULL;
    REQUIRE_OK(tg_pattern_new(&p, NULL));
    REQUIRE(table_open(&t, "isotopologues.csv"));
    CHECK(table_next(&t));
    while (table_next(&t)) {
        if (strcmp(formula, t.fields[1]) != 0 || atoi(t.fields[0]) != version) {
            CHECK_U64(left, 0);
            (void)snprintf(formula, sizeof formula, "%s", t.fields[1]);
            version = atoi(t.fields[0]);
            test_row = formula;
            CHECK_STATUS(tg_atoms_parse(&atoms, formula, NULL), TG_OK);
            CHECK_STATUS(tg_pattern_list(p, &atoms, &list, &n, NULL), TG_OK);
            left = n;
        }
        double mass = table_number(&t, 2), intensity = table_number(&t, 3), best = 1;
        size_t at = 0;
        for (size_t i = 0; i < n; i++)
            if (fabs(list[i].mass - mass) < best) {
                best = fabs(list[i].mass - mass);
                at = i;
            }
        CHECK(best <= 1e-9);
        CHECK(n > 0 && fabs(list[at].intensity - intensity) <= 1e-9);
        left--;
        rows++;
    }
    CHECK_U64(left, 0);
    test_row = "";
    CHECK_U64(rows, 406);
    table_close(&t);
}

static tg_isotope_settings settings_of(const table *t)
{
    tg_isotope_settings s = {.version = atoi(t->fields[0]),
                             .sigma = table_number(t, 2),
                             .charge = atoi(t->fields[3])};
    CHECK_STATUS(tg_instrument_parse(t->fields[1], &s.instrument, NULL), TG_OK);
    return s;
}

typedef struct asked {
    double mz;
    int times;
    bool answer;
} asked;

static tg_status note_asked(void *user, double mz, bool *seen, tg_error *err)
{
    asked *a = user;
    (void)err;
    a->mz = mz;
    a->times++;
    *seen = a->answer;
    return TG_OK;
}

/* Where the first centroid is asked about is where it lies, to the last bit, and asking changes
 * nothing; a "no" ends the calculation. */
static void check_asking(tg_isotope *iso, const char *ion, const tg_centroids *c, int *n_asked)
{
    tg_centroids again;
    bool left = true;
    asked yes = {.answer = true}, no = {.answer = false};
    CHECK_STATUS(tg_isotope_centroids_seen(iso, ion, note_asked, &yes, &again, &left, NULL),
                 TG_OK);
    CHECK(!left && yes.times <= 1);
    CHECK(memcmp(&again, c, sizeof again) == 0);
    CHECK(yes.times == 0 || memcmp(&yes.mz, &c->mz[0], sizeof yes.mz) == 0);
    CHECK_STATUS(tg_isotope_centroids_seen(iso, ion, note_asked, &no, &again, &left, NULL),
                 TG_OK);
    CHECK(left == (no.times == 1) && no.times == yes.times);
    *n_asked += yes.times;
}

static double worst_mz, worst_intensity;

static void check_centroids(const table *t, const tg_centroids *c)
{
    for (size_t k = 0; k < TG_MAX_CENTROIDS; k++) {
        double mz = table_number(t, 6 + k), intensity = table_number(t, 10 + k);
        double dm = mz > 0 ? fabs(c->mz[k] - mz) / mz : fabs(c->mz[k]);
        double di = fabs(c->intensity[k] - intensity);
        CHECK(dm <= 1e-9);
        CHECK(di <= 1e-6);
        worst_mz = fmax(worst_mz, dm);
        worst_intensity = fmax(worst_intensity, di);
    }
}

/* Unknown elements and too many isotopologues are errors; so is a grid of too many steps. The
 * others are limits of the library that made the table. */
static bool may_differ(const char *ion)
{
    return strcmp(ion, "Sn4") == 0;
}

static void every_reference_centroid(void)
{
    table t;
    tg_isotope_settings now = {0};
    tg_isotope *iso = NULL;
    size_t rows = 0;
    int n_asked = 0;
    REQUIRE(table_open(&t, "isotope_centroids.csv"));
    CHECK(table_next(&t));
    while (table_next(&t)) {
        tg_isotope_settings s = settings_of(&t);
        if (iso == NULL || memcmp(&s, &now, sizeof s) != 0) {
            tg_isotope_free(iso);
            iso = NULL;
            REQUIRE_OK(tg_isotope_new(&iso, &s, NULL));
            now = s;
        }
        char row[256];
        (void)snprintf(row, sizeof row, "v%d %s %g %+d %s", s.version, t.fields[1], s.sigma,
                       s.charge, t.fields[4]);
        test_row = row;
        tg_centroids c;
        tg_status st = tg_isotope_centroids(iso, t.fields[4], &c, NULL);
        if (!may_differ(t.fields[4]))
            CHECK((st == TG_OK) == (t.fields[5][0] == '\0'));
        if (st == TG_OK && t.fields[5][0] == '\0')
            check_centroids(&t, &c);
        if (st == TG_OK)
            check_asking(iso, t.fields[4], &c, &n_asked);
        test_row = "";
        rows++;
    }
    CHECK_U64(rows, 1890);
    CHECK(n_asked > 900); /* else nothing was saved, and nothing tested */
    fprintf(stderr, "worst m/z %.2g relative, intensity %.2g %%\n", worst_mz, worst_intensity);
    tg_isotope_free(iso);
    table_close(&t);
}

static void hydronium_anchor(void)
{
    static const double mz[] = {19.01782151, 20.02209015, 20.02411389, 21.02208220};
    static const double intensity[] = {100, .03834305, .03478671, .20563718};
    tg_isotope_settings s = {.version = 1, .sigma = .000619, .charge = 1};
    tg_centroids c;
    TG_AUTO_PTR(tg_isotope) iso = NULL;
    REQUIRE_OK(tg_isotope_new(&iso, &s, NULL));
    REQUIRE_OK(tg_isotope_centroids(iso, "H3O", &c, NULL));
    for (int k = 0; k < 4; k++) {
        CHECK(fabs(c.mz[k] - mz[k]) < 6e-9);
        CHECK(fabs(c.intensity[k] - intensity[k]) < 6e-9);
    }
}

static void labels_shift_and_charges_divide(void)
{
    tg_isotope_settings s = {.version = 3, .sigma = .001238, .charge = 1};
    tg_centroids plain, labelled, twice;
    TG_AUTO_PTR(tg_isotope) iso = NULL;
    TG_AUTO_PTR(tg_isotope) doubly = NULL;
    REQUIRE_OK(tg_isotope_new(&iso, &s, NULL));
    REQUIRE_OK(tg_isotope_centroids(iso, "H12O6", &plain, NULL));
    REQUIRE_OK(tg_isotope_centroids(iso, "H12O6Cx6", &labelled, NULL));
    for (uint32_t k = 0; k < plain.n; k++)
        CHECK(fabs(labelled.mz[k] - plain.mz[k] - 6 * 13.00335484) < 1e-12);
    CHECK_STATUS(tg_isotope_centroids(iso, "Cx6", &labelled, NULL), TG_INVALID);
    s.charge = 2;
    s.divide_by_charge = true;
    REQUIRE_OK(tg_isotope_new(&doubly, &s, NULL));
    REQUIRE_OK(tg_isotope_centroids(doubly, "C60H2", &twice, NULL));
    CHECK(fabs(twice.mz[0] - (60 * 12 + 2 * 1.007825032 - 2 * TG_ELECTRON_MASS) / 2) < 1e-4);
    CHECK(twice.mz[1] - twice.mz[0] < 0.51);
}

static void resolving_power_gives_sigma(void)
{
    double fwhm = 400 / 100000.0;
    double s = tg_sigma_of_resolving_power(TG_ORBITRAP, 100000, 400);
    CHECK(fabs(s * pow(2, 1.5) * TG_SIGMA_TO_FWHM - fwhm) < 1e-12);
    s = tg_sigma_of_resolving_power(TG_FTICR, 100000, 400);
    CHECK(fabs(s * 4 * TG_SIGMA_TO_FWHM - fwhm) < 1e-12);
    s = tg_sigma_of_resolving_power(TG_TOF, 100000, 400);
    CHECK(fabs(s * 2 * TG_SIGMA_TO_FWHM - fwhm) < 1e-12);
}

static tg_status make_and_use(void)
{
    tg_isotope_settings s = {.version = 3, .sigma = .001238, .charge = 1};
    tg_centroids c;
    TG_AUTO_PTR(tg_isotope) iso = NULL;
    TG_TRY(tg_isotope_new(&iso, &s, NULL));
    return tg_isotope_centroids(iso, "C34H27N4O8Br5Sn2", &c, NULL);
}

static void every_allocation_may_fail(void)
{
    CHECK_EVERY_ALLOC(make_and_use());
}

static void wrong_settings_are_refused(void)
{
    tg_isotope *iso = NULL;
    tg_isotope_settings s = {.version = 2, .sigma = .001};
    CHECK_STATUS(tg_isotope_new(&iso, &s, NULL), TG_INVALID);
    s = (tg_isotope_settings){.version = 3, .sigma = NAN};
    CHECK_STATUS(tg_isotope_new(&iso, &s, NULL), TG_INVALID);
    CHECK(iso == NULL);
}

static const struct test tests[] = {
    {"every_reference_isotopologue", every_reference_isotopologue},
    {"every_reference_centroid", every_reference_centroid},
    {"hydronium_anchor", hydronium_anchor},
    {"labels_shift_and_charges_divide", labels_shift_and_charges_divide},
    {"resolving_power_gives_sigma", resolving_power_gives_sigma},
    {"every_allocation_may_fail", every_allocation_may_fail},
    {"wrong_settings_are_refused", wrong_settings_are_refused},
};

TEST_MAIN(tests)
