#define _DEFAULT_SOURCE
#include "ims/ibd.h"
#include "ims/imzml.h"
#include "make_imzml.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

/* Every value of the data set is read as it was made. */
static tg_status read_back(const made *d, tg_store *store, const tg_imzml_options *o)
{
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO_PTR(tg_ibd) r = NULL;
    tg_ibd_spectrum s;
    tg_error e = {0};
    uint32_t n = d->width * d->height - d->leave_out;

    tg_status st = tg_imzml_open_store(&m, store, "t.imzML", o, NULL, NULL, &e);
    if (st != TG_OK) {
        fprintf(stderr, "%s\n", e.msg);
        return st;
    }
    CHECK_U64(m->n_spectra, n);
    CHECK_U64(m->n_pixels, n);
    CHECK(m->continuous == (d->continuous && n > 1));
    TG_TRY(tg_ibd_new(&r, m, 0, m->n_spectra, 300, &e));
    for (uint32_t k = 0; k < n; k++) {
        st = tg_ibd_next(r, &s, NULL, &e);
        if (st != TG_OK) {
            fprintf(stderr, "%s\n", e.msg);
            return st;
        }
        uint32_t at = d->reversed ? n - 1 - k : k;
        CHECK_U64(s.index, k);
        CHECK_U64(tg_imzml_pixel(m, s.at), at);
        CHECK_U64(s.at->count, d->count);
        for (uint32_t i = 0; i < d->count; i++) {
            CHECK(s.mz[i] == made_mz(d, at, i));
            CHECK((double)s.intensity[i] == made_intensity(at, i));
        }
    }
    CHECK_STATUS(tg_ibd_next(r, &s, NULL, NULL), TG_CLOSED);
    return TG_OK;
}

static void every_variant_reads_the_same(void)
{
    static const char *const texts[] = {"utf-8", "iso", "mark", "broken"};
    size_t rows = 0;
    for (int bits = 0; bits < 64; bits++)
        for (int mz = 0; mz < 4; mz++)
            for (int in = 0; in < 4; in++) {
                made d = {.continuous = bits & 1,
                          .deflated = (bits & 2) != 0,
                          .direct = (bits & 4) != 0,
                          .zero_based = (bits & 8) != 0,
                          .text = bits >> 4,
                          .mz_type = mz,
                          .intensity_type = in,
                          .width = 3,
                          .height = 2,
                          .count = 9,
                          .leave_out = 1};
                char row[96];
                (void)snprintf(row, sizeof row, "bits %d %s mz %s intensity %s", bits,
                               texts[d.text], made_types[mz].name, made_types[in].name);
                test_row = row;
                tg_store *store = make_store(&d);
                CHECK_STATUS(read_back(&d, store, NULL), TG_OK);
                tg_store_free(store);
                test_row = "";
                rows++;
            }
    CHECK_U64(rows, 1024);
}

/* Number in annotation reports: what must be read without complaint. */
static void odd_but_right_files(void)
{
    static const struct {
        const char *name;
        made d;
        tg_ims_oddity note; /* that must be there; TG_N_ODDITIES: none at all */
    } rows[] = {
        {"5 no external data term", {.no_external = true}, TG_N_ODDITIES},
        {"7 irregular region", {.leave_out = 4}, TG_N_ODDITIES},
        {"11 no centroid, no profile tag", {.no_tags = true}, TG_ODD_PROFILE},
        {"16 unknown term",
         {.extra_file_param = "<cvParam accession=\"IMS:1000410\" name=\"meanndering\"/>"},
         TG_N_ODDITIES},
        {"17 no checksum", {0}, TG_N_ODDITIES},
        {"20 declared continuous, is processed", {.declared = "IMS:1000030"}, TG_ODD_MODE},
        {"declared processed, is continuous",
         {.continuous = true, .declared = "IMS:1000031"},
         TG_ODD_MODE},
        {"28 spectra in reverse order", {.reversed = true}, TG_N_ODDITIES},
        {"34 third array", {.third_array = true}, TG_N_ODDITIES},
        {"38 from 0", {.zero_based = true}, TG_N_ODDITIES},
        {"40 zlib of no values", {.deflated = true, .count = 0}, TG_N_ODDITIES},
        {"no UUID", {.no_uuid = true}, TG_ODD_UUID},
        {"indexedmzML", {.wrapped_in_index = true}, TG_N_ODDITIES},
        {"no encoded length", {.broken_what = "encoded", .broken_spectrum = 2}, TG_N_ODDITIES},
        {"offset in scientific notation",
         {.broken_what = "offset", .broken_value = "1.6e+01"},
         TG_N_ODDITIES},
        {"one pixel", {.width = 1, .height = 1}, TG_N_ODDITIES},
        {"10 position z is 0",
         {.extra_scan_param = "<cvParam accession=\"IMS:1000052\" value=\"0\"/>"},
         TG_N_ODDITIES},
        {"23 no pixel size, 26 no scan pattern, no level", {0}, TG_N_ODDITIES},
        {"a term of the array goes before its group's", {.group_lies = true}, TG_N_ODDITIES},
        {"number of spectra", {.declared_spectra = "9"}, TG_ODD_COUNT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made d = rows[i].d;
        TG_AUTO_PTR(tg_imzml) m = NULL;
        d.width = d.width == 0 ? 4 : d.width;
        d.height = d.height == 0 ? 2 : d.height;
        d.count = d.count == 0 && !d.deflated ? 5 : d.count;
        test_row = rows[i].name;
        tg_store *store = make_store(&d);
        CHECK_STATUS(read_back(&d, store, NULL), TG_OK);
        CHECK_STATUS(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, NULL), TG_OK);
        for (int k = 0; k < TG_N_ODDITIES && m != NULL; k++)
            CHECK((m->odd[k].count > 0) == (k == (int)rows[i].note));
        tg_imzml_free(tg_steal(m));
        tg_store_free(store);
        test_row = "";
    }
}

/* What is wrong, and the words for it. */
static void wrong_files_are_refused_by_name(void)
{
    static const struct {
        const char *name;
        made d;
        tg_ims_strictness strictness;
        const char *message;
    } rows[] = {
        {"2 lengths differ",
         {.broken_what = "length",
          .broken_spectrum = 3,
          .broken_value = "4",
          .broken_array = 1},
         TG_IMS_NORMAL,
         "spectrum 3: m/z array of 5 values at"},
        {"2 lengths differ, as is encoded",
         {.broken_what = "length",
          .broken_spectrum = 3,
          .broken_value = "4",
          .broken_array = 1},
         TG_IMS_STRICT,
         "spectrum 3: intensity array: 4 values of 4 bytes, but 20 bytes"},
        {"14 negative offset",
         {.broken_what = "offset", .broken_spectrum = 1, .broken_value = "-1820130816"},
         TG_IMS_NORMAL,
         "spectrum 1: m/z array: offset is -1820130816, below 0"},
        {"31 count of 2^32",
         {.broken_what = "length", .broken_spectrum = 2, .broken_value = "4294967296"},
         TG_IMS_STRICT,
         "spectrum 2: m/z array: 4294967296 values"},
        {"35 ibd ends early",
         {.broken_what = "offset", .broken_spectrum = 6, .broken_value = "100000"},
         TG_IMS_NORMAL,
         "spectrum 6: m/z array ends at byte 100000 + 20, but the .ibd has"},
        {"50 offset and length overflow",
         {.broken_what = "offset",
          .broken_spectrum = 0,
          .broken_value = "18446744073709551610"},
         TG_IMS_NORMAL,
         "spectrum 0: m/z array ends at byte 18446744073709551610 + 20"},
        {"50 count of 2^63",
         {.deflated = true,
          .broken_what = "length",
          .broken_spectrum = 0,
          .broken_value = "9223372036854775808"},
         TG_IMS_NORMAL,
         "spectrum 0: m/z array: 9223372036854775808 values cannot come out of"},
        {"number beyond 64 bits",
         {.broken_what = "offset",
          .broken_spectrum = 0,
          .broken_value = "99999999999999999999"},
         TG_IMS_NORMAL,
         "spectrum 0: m/z array: offset is no whole number below 2^64"},
        {"no offset",
         {.broken_what = "offset", .broken_spectrum = 5},
         TG_IMS_NORMAL,
         "spectrum 5: m/z array has no offset"},
        {"no position",
         {.broken_what = "x", .broken_spectrum = 5},
         TG_IMS_NORMAL,
         "spectrum 5: no position x"},
        {"position of 2^40",
         {.broken_what = "y", .broken_spectrum = 5, .broken_value = "1099511627776"},
         TG_IMS_NORMAL,
         "spectrum 5: position y is no whole number of 31 bits"},
        {"box beyond 2^32",
         {.broken_what = "y", .broken_spectrum = 5, .broken_value = "2000000000"},
         TG_IMS_NORMAL,
         "more than 2^32 - 1 pixels"},
        {"f16",
         {.extra_array_param = "<cvParam accession=\"MS:1000520\" name=\"16-bit float\"/>"},
         TG_IMS_NORMAL,
         "spectrum 0: m/z array: encoding MS:1000520 is not supported"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made d = rows[i].d;
        TG_AUTO_PTR(tg_imzml) m = NULL;
        tg_error e = {0};
        tg_imzml_options o = {.strictness = rows[i].strictness};
        d.width = 4;
        d.height = 2;
        d.count = 5;
        test_row = rows[i].name;
        tg_store *store = make_store(&d);
        tg_status st = tg_imzml_open_store(&m, store, "t.imzML", &o, NULL, NULL, &e);
        CHECK(st == TG_CORRUPT || st == TG_UNSUPPORTED);
        if (strstr(e.msg, rows[i].message) == NULL)
            test_failed(__FILE__, __LINE__, e.msg);
        CHECK(strstr(e.msg, "'t.imzML': ") == e.msg);
        tg_store_free(store);
        test_row = "";
    }
}

/* 13: offsets beyond 2^31 and 2^32, in a file that is mostly a hole; 14: the former as writers
 * of 32 bits print them, which is refused, and read where that is asked for. */
static void offsets_are_of_64_bits(void)
{
    static const struct {
        const char *name;
        uint64_t shift;
        bool wrapped;
        tg_ims_strictness strictness;
        const char *message;
    } rows[] = {
        {"beyond 2^31", (uint64_t)1 << 31, false, TG_IMS_NORMAL, NULL},
        {"beyond 2^32", (uint64_t)5 << 31, false, TG_IMS_NORMAL, NULL},
        {"wrapped", (uint64_t)1 << 31, true, TG_IMS_NORMAL,
         "spectrum 0: m/z array: offset is -2147483632, below 0"},
        {"wrapped, lenient", (uint64_t)1 << 31, true, TG_IMS_LENIENT, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        made d = {.width = 4,
                  .height = 2,
                  .count = 5,
                  .shift = rows[i].shift,
                  .wrapped = rows[i].wrapped};
        char dir[] = "/tmp/tg-imzml-XXXXXX", path[64];
        const tg_store_options so = {.size = sizeof so, .mode = TG_STORE_READ_WRITE};
        TG_AUTO(tg_text) x = {0};
        TG_AUTO_PTR(tg_store) store = NULL;
        TG_AUTO_PTR(tg_imzml) m = NULL;
        tg_error e = {0};
        tg_imzml_options o = {.strictness = rows[i].strictness};
        made_ibd b = {0};
        test_row = rows[i].name;
        make_files(&d, &x, &b);
        REQUIRE(mkdtemp(dir) != NULL);
        REQUIRE_OK(tg_store_open_fs(&store, dir, &so, NULL));
        REQUIRE_OK(tg_store_put(store, "t.imzML", x.data, x.len, NULL, NULL));
        (void)snprintf(path, sizeof path, "%s/t.ibd", dir);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        REQUIRE(fd >= 0);
        CHECK(pwrite(fd, b.data, 16, 0) == 16);
        CHECK(pwrite(fd, b.data + 16, b.len - 16, (off_t)(16 + d.shift)) ==
              (ssize_t)b.len - 16);
        (void)close(fd);
        tg_status st = tg_imzml_open_store(&m, store, "t.imzML", &o, NULL, NULL, &e);
        if (rows[i].message == NULL) {
            CHECK_STATUS(st, TG_OK);
            CHECK_STATUS(read_back(&d, store, &o), TG_OK);
            CHECK(tg_imzml_spectrum(m, 0)->offset[TG_IMS_MZ] == 16 + d.shift);
        } else {
            CHECK_STATUS(st, TG_CORRUPT);
            if (strstr(e.msg, rows[i].message) == NULL)
                test_failed(__FILE__, __LINE__, e.msg);
        }
        (void)unlink(path);
        (void)snprintf(path, sizeof path, "%s/t.imzML", dir);
        (void)unlink(path);
        (void)rmdir(dir);
        free(b.data);
        test_row = "";
    }
}

/* 43: the box is 4 G pixels, of which two are there. 4, 37: forty bytes a spectrum, whatever
 * the length of the document. */
static void memory_follows_the_spectra(void)
{
    const tg_runtime_options ro = {
        .size = sizeof ro, .memory_bytes = (uint64_t)8 << 20, .threads = 1};
    made far = {.width = 2,
                .height = 1,
                .count = 5,
                .broken_what = "y",
                .broken_spectrum = 1,
                .broken_value = "2000000000"};
    made many = {.width = 150, .height = 150, .count = 1};
    TG_AUTO_PTR(tg_runtime) rt = NULL;
    TG_AUTO_PTR(tg_store) store = make_store(&far);
    TG_AUTO_PTR(tg_store) large = make_store(&many);
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO_PTR(tg_imzml) n = NULL;
    uint64_t text = 0;
    REQUIRE_OK(tg_runtime_new(&ro, &rt, NULL));
    REQUIRE_OK(
        tg_imzml_open_store(&m, store, "t.imzML", NULL, tg_runtime_budget(rt), NULL, NULL));
    CHECK(m->width == 2 && m->height == 2000000000 && m->n_pixels == 2);
    CHECK_U64(m->odd[TG_ODD_DENSITY].count, 1);
    tg_imzml_free(tg_steal(m));

    REQUIRE_OK(tg_store_size(large, "t.imzML", &text, NULL, NULL));
    CHECK(text > (uint64_t)16 << 20); /* twice the budget */
    REQUIRE_OK(
        tg_imzml_open_store(&n, large, "t.imzML", NULL, tg_runtime_budget(rt), NULL, NULL));
    CHECK_U64(n->n_spectra, 22500);
    CHECK(tg_budget_used(tg_runtime_budget(rt)) <= (22500 + 4096) * (uint64_t)44);
    tg_imzml_free(tg_steal(n));
    CHECK_U64(tg_budget_used(tg_runtime_budget(rt)), 0);
}

/* What must be there beside the .imzML. */
static void an_ibd_that_is_none(void)
{
    made d = {.width = 2, .height = 1, .count = 0, .deflated = true};
    tg_text x = {0};
    made_ibd b = {0};
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO_PTR(tg_imzml) m = NULL;
    tg_error e = {0};
    make_files(&d, &x, &b);
    REQUIRE_OK(tg_store_open_mem(&store, NULL));
    REQUIRE_OK(tg_store_put(store, "a/t.imzML", x.data, x.len, NULL, NULL));
    CHECK_STATUS(tg_imzml_open_store(&m, store, "a/t.imzML", NULL, NULL, NULL, &e),
                 TG_NOT_FOUND);
    CHECK(strstr(e.msg, "'a/t.imzML' has no 'a/t.ibd' beside it") != NULL);
    REQUIRE_OK(tg_store_put(store, "a/t.ibd", b.data, 15, NULL, NULL));
    CHECK_STATUS(tg_imzml_open_store(&m, store, "a/t.imzML", NULL, NULL, NULL, &e), TG_CORRUPT);
    CHECK(strstr(e.msg, "'a/t.ibd' has 15 bytes, fewer than its UUID") != NULL);
    tg_text_free(&x);
    free(b.data);
}

static void lenient_leaves_out_what_is_wrong(void)
{
    made d = {.width = 4,
              .height = 2,
              .count = 5,
              .broken_what = "length",
              .broken_spectrum = 3,
              .broken_value = "4",
              .broken_array = 1};
    tg_imzml_options o = {.strictness = TG_IMS_LENIENT};
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO_PTR(tg_imzml) cut = NULL;
    TG_AUTO_PTR(tg_imzml) wrapped = NULL;
    tg_store *store = make_store(&d);
    REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", &o, NULL, NULL, NULL));
    CHECK_U64(m->n_spectra, 7);
    CHECK_U64(m->odd[TG_ODD_SKIPPED].count, 1);
    CHECK(strstr(m->odd[TG_ODD_SKIPPED].first, "spectrum 3: m/z array of 5 values") != NULL);
    CHECK(!m->truncated);
    tg_store_free(store);

    d = (made){.width = 4,
               .height = 2,
               .count = 5,
               .broken_what = "offset",
               .broken_spectrum = 6,
               .broken_value = "100000"};
    store = make_store(&d);
    REQUIRE_OK(tg_imzml_open_store(&cut, store, "t.imzML", &o, NULL, NULL, NULL));
    CHECK_U64(cut->n_spectra, 6); /* the complete prefix */
    CHECK(cut->truncated);
    CHECK_U64(cut->odd[TG_ODD_TRUNCATED].count, 1);
    tg_store_free(store);

    /* an offset that a 32-bit writer wrapped is 2^32 too small: beyond this ibd, and said so */
    d.broken_value = "-16";
    store = make_store(&d);
    REQUIRE_OK(tg_imzml_open_store(&wrapped, store, "t.imzML", &o, NULL, NULL, NULL));
    CHECK(strstr(wrapped->odd[TG_ODD_TRUNCATED].first, "byte 4294967280 + 20") != NULL);
    tg_store_free(store);
}

static void length_that_does_not_fit_is_told(void)
{
    made d = {.width = 2,
              .height = 1,
              .count = 5,
              .broken_what = "encoded",
              .broken_spectrum = 1,
              .broken_value = "12",
              .broken_array = 0};
    TG_AUTO_PTR(tg_imzml) m = NULL;
    tg_error e = {0};
    tg_store *store = make_store(&d);
    /* three m/z values are left, five intensities: never the shorter one in silence */
    CHECK_STATUS(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, &e), TG_CORRUPT);
    CHECK(strstr(e.msg, "spectrum 1: m/z array of 3 values") != NULL);
    tg_store_free(store);
}

/* 8: for the width of floats the name is believed, and the encoded length decides. */
static void name_and_accession_disagree(void)
{
    static const char *const params[] = {
        "<cvParam accession=\"MS:1000521\" name=\"64-bit float\"/>",
        "<cvParam accession=\"MS:1000523\" name=\"32-bit float\"/>",
        "<cvParam accession=\"MS:1000521\" name=\"64-bit float\"/>",
    };
    static const int true_type[] = {1, 0, 0};
    for (int i = 0; i < 3; i++) {
        made d = {.width = 2,
                  .height = 1,
                  .count = 5,
                  .mz_type = true_type[i],
                  .intensity_type = true_type[i],
                  .extra_array_param = params[i]};
        TG_AUTO_PTR(tg_imzml) m = NULL;
        tg_store *store = make_store(&d);
        test_row = params[i];
        CHECK_STATUS(read_back(&d, store, NULL), TG_OK);
        REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, NULL));
        CHECK(m->odd[TG_ODD_TYPE].count > 0);
        tg_imzml_free(tg_steal(m));
        tg_store_free(store);
        test_row = "";
    }
}

/* 32, 44: two spectra on one pixel. */
static void spectra_on_one_pixel(void)
{
    made d = {.width = 4,
              .height = 1,
              .count = 5,
              .broken_what = "x",
              .broken_spectrum = 2,
              .broken_value = "1"};
    tg_imzml_options strict = {.duplicates_fail = true};
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO_PTR(tg_imzml) none = NULL;
    tg_error e = {0};
    tg_store *store = make_store(&d);
    REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, NULL));
    CHECK_U64(m->n_spectra, 4);
    CHECK_U64(m->n_pixels, 3);
    CHECK_U64(m->odd[TG_ODD_DUPLICATE].count, 1);
    CHECK_U64(tg_imzml_pixel(m, tg_imzml_spectrum(m, 2)), 0);
    CHECK_U64(tg_imzml_pixel(m, tg_imzml_spectrum(m, 3)), 2);
    CHECK_STATUS(tg_imzml_open_store(&none, store, "t.imzML", &strict, NULL, NULL, &e),
                 TG_CORRUPT);
    CHECK(strstr(e.msg, "1 spectra lie on pixels that have one") != NULL);
    tg_store_free(store);
}

/* 46: SCiLS: positions all 1, the true ones as user parameters. */
static void grid_from_3d_positions(void)
{
    static const char xml[] =
        "<mzML><scanSettings><cvParam accession=\"IMS:1000046\" value=\"50\"/></scanSettings>"
        "<spectrumList count=\"2\">"
        "<spectrum><cvParam accession=\"IMS:1000050\" value=\"1\"/><cvParam "
        "accession=\"IMS:1000051\" value=\"1\"/><userParam name=\"3DPositionX\" "
        "value=\"100.2\"/><userParam name=\"3DPositionY\" value=\"50\"/>%s</spectrum>"
        "<spectrum><cvParam accession=\"IMS:1000050\" value=\"1\"/><cvParam "
        "accession=\"IMS:1000051\" value=\"1\"/><userParam name=\"3DPositionX\" "
        "value=\"199.7\"/><userParam name=\"3DPositionY\" value=\"50\"/>%s</spectrum>"
        "</spectrumList></mzML>";
    static const char arrays[] =
        "<binaryDataArray><cvParam accession=\"MS:1000514\"/><cvParam "
        "accession=\"MS:1000521\"/>"
        "<cvParam accession=\"IMS:1000102\" value=\"16\"/><cvParam accession=\"IMS:1000103\" "
        "value=\"1\"/></binaryDataArray><binaryDataArray><cvParam accession=\"\" "
        "name=\"intensity array\"/><cvParam accession=\"null\" name=\"32-bit float\"/>"
        "<cvParam accession=\"IMS:1000102\" value=\"20\"/><cvParam accession=\"IMS:1000103\" "
        "value=\"1\"/></binaryDataArray>";
    char text[4096];
    uint8_t ibd[24] = {0};
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO_PTR(tg_imzml) flat = NULL;
    TG_AUTO_PTR(tg_imzml) m = NULL;
    int n = snprintf(text, sizeof text, xml, arrays, arrays);
    REQUIRE_OK(tg_store_open_mem(&store, NULL));
    REQUIRE_OK(tg_store_put(store, "t.imzML", text, (size_t)n, NULL, NULL));
    REQUIRE_OK(tg_store_put(store, "t.IBD", ibd, sizeof ibd, NULL, NULL));
    REQUIRE_OK(tg_imzml_open_store(&flat, store, "t.imzML", NULL, NULL, NULL, NULL));
    CHECK_U64(flat->odd[TG_ODD_ONE_PIXEL].count, 1);
    tg_imzml_options o = {.grid_from_3d = true};
    REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", &o, NULL, NULL, NULL));
    CHECK_U64(m->width, 3);
    CHECK_U64(m->height, 1);
    CHECK_U64(m->n_pixels, 2);
}

/* 19 and the UUID: a warning here, a fault for verify. */
static void uuid_of_another_file(void)
{
    made d = {.width = 2, .height = 1, .count = 5};
    tg_text x = {0};
    made_ibd b = {0};
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO_PTR(tg_imzml) m = NULL;
    make_files(&d, &x, &b);
    b.data[3] ^= 1;
    REQUIRE_OK(tg_store_open_mem(&store, NULL));
    REQUIRE_OK(tg_store_put(store, "t.imzML", x.data, x.len, NULL, NULL));
    REQUIRE_OK(tg_store_put(store, "t.ibd", b.data, b.len, NULL, NULL));
    REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, NULL));
    CHECK(strcmp(m->odd[TG_ODD_UUID].first,
                 "UUID of the .ibd is 554a27fb79d247669a2c862e6d78b1f3, the .imzML says "
                 "554a27fa79d247669a2c862e6d78b1f3") == 0);
    tg_text_free(&x);
    free(b.data);
}

static tg_status open_text(const char *text, size_t n, tg_error *e)
{
    static const uint8_t ibd[200] = {0};
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_TRY(tg_store_open_mem(&store, e));
    TG_TRY(tg_store_put(store, "t.imzML", text, n, NULL, e));
    TG_TRY(tg_store_put(store, "t.ibd", ibd, sizeof ibd, NULL, e));
    return tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, e);
}

/* 50: XML cut off at every byte, too deep, too long, with entities. */
static void hostile_xml(void)
{
    made d = {.width = 2, .height = 1, .count = 2};
    tg_text x = {0};
    made_ibd b = {0};
    tg_error e = {0};
    make_files(&d, &x, &b);
    CHECK_STATUS(open_text(x.data, x.len, &e), TG_OK);
    for (size_t n = 0; n < x.len; n++)
        CHECK(open_text(x.data, n, &e) == TG_CORRUPT);
    tg_text_free(&x);
    free(b.data);

    for (int i = 0; i < 100000; i++)
        tg_text_add(&x, "<a>");
    CHECK_STATUS(open_text(x.data, x.len, &e), TG_CORRUPT);
    CHECK(strstr(e.msg, "nested deeper than 64") != NULL);
    tg_text_free(&x);

    tg_text_add(&x, "<mzML a=\"");
    for (int i = 0; i < 3 << 20; i++)
        tg_text_add_n(&x, "x", 1);
    tg_text_add(&x, "\"/>");
    tg_status st = open_text(x.data, x.len, &e);
    CHECK(st == TG_CORRUPT || st == TG_NO_MEMORY);
    tg_text_free(&x);

    static const char bomb[] =
        "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;\">]>"
        "<mzML>&b;</mzML>";
    CHECK_STATUS(open_text(bomb, sizeof bomb - 1, &e), TG_UNSUPPORTED);
    CHECK(strstr(e.msg, "DOCTYPE 'x': refused") != NULL);
    static const char html[] = "<html><body>404</body></html>";
    CHECK_STATUS(open_text(html, sizeof html - 1, &e), TG_CORRUPT);
    CHECK(strstr(e.msg, "no spectrum") != NULL);
}

/* 1: zlib streams that are cut, too long or no zlib at all name the spectrum and the array. */
static void broken_zlib_names_the_spectrum(void)
{
    made d = {.width = 3, .height = 1, .count = 40, .deflated = true};
    tg_text x = {0};
    made_ibd b = {0};
    tg_error e = {0};
    TG_AUTO_PTR(tg_store) store = NULL;
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO_PTR(tg_ibd) r = NULL;
    tg_ibd_spectrum s;
    make_files(&d, &x, &b);
    REQUIRE_OK(tg_store_open_mem(&store, NULL));
    REQUIRE_OK(tg_store_put(store, "t.imzML", x.data, x.len, NULL, NULL));
    REQUIRE_OK(tg_store_put(store, "t.ibd", b.data, b.len, NULL, NULL));
    REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, NULL));
    size_t at = (size_t)tg_imzml_spectrum(m, 1)->offset[TG_IMS_INTENSITY];
    memset(b.data + at + 4, 0xff, 10);
    REQUIRE_OK(tg_store_put(store, "t.ibd", b.data, b.len, NULL, NULL));
    REQUIRE_OK(tg_ibd_new(&r, m, 0, 3, 1 << 20, NULL));
    CHECK_STATUS(tg_ibd_next(r, &s, NULL, &e), TG_OK);
    CHECK_STATUS(tg_ibd_next(r, &s, NULL, &e), TG_CORRUPT);
    char want[96];
    (void)snprintf(want, sizeof want, "spectrum 1: intensity array at byte %zu: ", at);
    CHECK(strstr(e.msg, want) == e.msg);
    CHECK(strcmp(e.key, "t.ibd") == 0 && e.offset == at);
    tg_text_free(&x);
    free(b.data);
}

/* Ranges in file order are one request; a large gap makes two. */
static void requests_are_few(void)
{
    made d = {.width = 50, .height = 4, .count = 30};
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO_PTR(tg_ibd) r = NULL;
    tg_ibd_spectrum s;
    tg_store *store = make_store(&d);
    REQUIRE_OK(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, NULL));
    REQUIRE_OK(tg_ibd_new(&r, m, 0, m->n_spectra, 1 << 20, NULL));
    while (tg_ibd_next(r, &s, NULL, NULL) == TG_OK) {
    }
    CHECK_U64(tg_ibd_requests(r), 1);
    CHECK_U64(tg_ibd_bytes_read(r), m->ibd_bytes - 16);
    tg_imzml_free(tg_steal(m));
    tg_store_free(store);
}

static void upstream_examples(void)
{
    static const struct {
        const char *path;
        uint64_t n_spectra, n_peaks;
        bool continuous;
        uint32_t width, height;
    } rows[] = {
        {"pyimzml/Example_Continuous.imzML", 9, 9 * 8399, true, 3, 3},
        {"pyimzml/Example_Processed.imzML", 9, 9 * 8399, false, 3, 3},
        {"untreated_tiny/Untreated_3_434_tiny.imzML", 8, 8199, false, 2, 4},
        {"synthetic-own/synthetic.imzML", 1693, 0, false, 48, 36},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[1024];
        tg_error e = {0};
        TG_AUTO_PTR(tg_imzml) m = NULL;
        TG_AUTO_PTR(tg_ibd) r = NULL;
        tg_ibd_spectrum s;
        test_row = rows[i].path;
        (void)snprintf(path, sizeof path, "%s/%s", TG_TEST_DATA "/data/ims", rows[i].path);
        tg_status st = tg_imzml_open(&m, path, NULL, NULL, NULL, &e);
        if (st != TG_OK)
            test_failed(__FILE__, __LINE__, e.msg);
        REQUIRE(st == TG_OK);
        CHECK_U64(m->n_spectra, rows[i].n_spectra);
        CHECK_U64(m->width, rows[i].width);
        CHECK_U64(m->height, rows[i].height);
        CHECK(m->continuous == rows[i].continuous);
        if (rows[i].n_peaks > 0)
            CHECK_U64(m->n_peaks, rows[i].n_peaks);
        CHECK_U64(m->odd[TG_ODD_UUID].count, 0);
        CHECK_U64(m->odd[TG_ODD_LENGTH].count, 0);
        REQUIRE_OK(tg_ibd_new(&r, m, 0, m->n_spectra, 1 << 22, NULL));
        uint64_t n = 0;
        while ((st = tg_ibd_next(r, &s, NULL, &e)) == TG_OK) {
            for (uint32_t k = 1; k < s.at->count; k++)
                CHECK(s.mz[k] > s.mz[k - 1]);
            n++;
        }
        CHECK_STATUS(st, TG_CLOSED);
        CHECK_U64(n, rows[i].n_spectra);
        tg_imzml_free(tg_steal(m));
        tg_ibd_free(tg_steal(r));
        test_row = "";
    }
}

static tg_status open_and_read(tg_store *store)
{
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO_PTR(tg_ibd) r = NULL;
    tg_ibd_spectrum s;
    tg_status st;
    tg_error e = {0};
    TG_TRY(tg_imzml_open_store(&m, store, "t.imzML", NULL, NULL, NULL, &e));
    TG_TRY(tg_ibd_new(&r, m, 0, m->n_spectra, 4096, &e));
    while ((st = tg_ibd_next(r, &s, NULL, &e)) == TG_OK) {
    }
    return st == TG_CLOSED ? TG_OK : st;
}

static void every_allocation_may_fail(void)
{
    made d = {.width = 3, .height = 2, .count = 20, .deflated = true};
    tg_store *store = make_store(&d);
    CHECK_EVERY_ALLOC(open_and_read(store));
    tg_store_free(store);
}

static const struct test tests[] = {
    {"every_variant_reads_the_same", every_variant_reads_the_same},
    {"odd_but_right_files", odd_but_right_files},
    {"wrong_files_are_refused_by_name", wrong_files_are_refused_by_name},
    {"offsets_are_of_64_bits", offsets_are_of_64_bits},
    {"memory_follows_the_spectra", memory_follows_the_spectra},
    {"an_ibd_that_is_none", an_ibd_that_is_none},
    {"lenient_leaves_out_what_is_wrong", lenient_leaves_out_what_is_wrong},
    {"length_that_does_not_fit_is_told", length_that_does_not_fit_is_told},
    {"name_and_accession_disagree", name_and_accession_disagree},
    {"spectra_on_one_pixel", spectra_on_one_pixel},
    {"grid_from_3d_positions", grid_from_3d_positions},
    {"uuid_of_another_file", uuid_of_another_file},
    {"hostile_xml", hostile_xml},
    {"broken_zlib_names_the_spectrum", broken_zlib_names_the_spectrum},
    {"requests_are_few", requests_are_few},
    {"upstream_examples", upstream_examples},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(tests)
