/* unit/ims/make_imzml.h - small data sets of every kind, written by the tests into a memory
 * store: "t.imzML" and "t.ibd". */
#ifndef TG_TESTS_MAKE_IMZML_H
#define TG_TESTS_MAKE_IMZML_H

#include "check.h"
#include "ims/imzml.h"

#include <stdlib.h>
#include <zlib.h>

typedef struct made_type {
    tg_ims_type type;
    const char *accession, *name;
} made_type;

static const made_type made_types[] = {
    {TG_IMS_F32, "MS:1000521", "32-bit float"},
    {TG_IMS_F64, "MS:1000523", "64-bit float"},
    {TG_IMS_I32, "MS:1000519", "32-bit integer"},
    {TG_IMS_I64, "MS:1000522", "64-bit integer"},
};

enum { TEXT_UTF8, TEXT_ISO, TEXT_MARK, TEXT_BROKEN };

typedef struct made {
    bool continuous, deflated, direct, zero_based, third_array, no_external, no_tags, no_uuid;
    int mz_type, intensity_type; /* places in made_types */
    int text;                    /* TEXT_* */
    const char *declared;        /* mode term in place of the true one */
    const char *extra_file_param, *extra_array_param;
    uint32_t width, height, count;
    uint32_t leave_out; /* pixels at the end that have no spectrum */
    const char *extra_scan_param;
    const char *declared_spectra; /* in place of their number */
    bool group_lies;              /* of the types; what stands in the array itself is true */
    uint64_t shift; /* printed offsets, but for the file's head, are so much larger */
    bool wrapped;   /* ... and printed as numbers of 32 bits with a sign */
    bool reversed, wrapped_in_index, namespaced;
    /* one number of one spectrum replaced */
    const char *broken_what; /* "offset", "length", "encoded", "x", "y" */
    int broken_array;        /* 0 m/z, 1 intensity */
    uint32_t broken_spectrum;
    const char *broken_value;
} made;

#define MADE_UUID "554a27fa-79d2-4766-9a2c-862e6d78b1f3"
static const uint8_t made_uuid[16] = {0x55, 0x4a, 0x27, 0xfa, 0x79, 0xd2, 0x47, 0x66,
                                      0x9a, 0x2c, 0x86, 0x2e, 0x6d, 0x78, 0xb1, 0xf3};

typedef struct made_ibd {
    uint8_t *data;
    size_t len, cap;
} made_ibd;

static void ibd_add(made_ibd *b, const void *data, size_t n)
{
    while (b->len + n > b->cap) {
        b->cap = b->cap == 0 ? 1 << 16 : b->cap * 2;
        b->data = realloc(b->data, b->cap);
        if (b->data == NULL)
            abort();
    }
    if (n > 0)
        memcpy(b->data + b->len, data, n);
    b->len += n;
}

/* Values that every type can hold. */
static double made_mz(const made *d, uint32_t spectrum, uint32_t i)
{
    return 100 + 3.0 * i + (d->continuous ? 0 : spectrum);
}

static double made_intensity(uint32_t spectrum, uint32_t i)
{
    return (spectrum * 31 + i * 7) % 50;
}

static size_t made_items(uint8_t *dst, tg_ims_type t, uint32_t n, const double *values)
{
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        float f = (float)values[i];
        int32_t a = (int32_t)values[i];
        int64_t b = (int64_t)values[i];
        const void *p = t == TG_IMS_F32   ? (const void *)&f
                        : t == TG_IMS_F64 ? (const void *)&values[i]
                        : t == TG_IMS_I32 ? (const void *)&a
                                          : (const void *)&b;
        memcpy(dst + at, p, tg_ims_type_bytes(t));
        at += tg_ims_type_bytes(t);
    }
    return at;
}

typedef struct made_array {
    size_t offset, encoded;
} made_array;

static made_array made_write(made_ibd *b, const made *d, int type, uint32_t n,
                             const double *values)
{
    uint8_t raw[8 * 1024], packed[9 * 1024];
    size_t bytes = made_items(raw, made_types[type].type, n, values);
    made_array a = {b->len, bytes};
    if (d->deflated && n > 0) {
        uLongf packed_bytes = sizeof packed;
        if (compress(packed, &packed_bytes, raw, bytes) != Z_OK)
            abort();
        ibd_add(b, packed, packed_bytes);
        a.encoded = packed_bytes;
    } else {
        ibd_add(b, raw, bytes);
    }
    return a;
}

static void made_array_params(tg_text *x, const made *d, int which)
{
    int type = which == 0 ? d->mz_type : d->intensity_type;
    const made_type *t = &made_types[d->group_lies ? 3 - type : type];
    tg_text_addf(x,
                 "<cvParam cvRef=\"MS\" accession=\"%s\" name=\"%s\"/>"
                 "<cvParam accession=\"%s\" name=\"%s\" value=''/>"
                 "<cvParam accession=\"%s\" name=\"%s\"/>",
                 which == 0 ? "MS:1000514" : "MS:1000515",
                 which == 0 ? "m/z array" : "intensity array", t->accession, t->name,
                 d->deflated ? "MS:1000574" : "MS:1000576",
                 d->deflated ? "zlib compression" : "no compression");
    if (!d->no_external)
        tg_text_add(x, "<cvParam accession=\"IMS:1000101\" name=\"external data\"/>");
    if (d->extra_array_param != NULL)
        tg_text_add(x, d->extra_array_param);
}

static void made_number(tg_text *x, const made *d, uint32_t spectrum, int array,
                        const char *what, const char *accession, unsigned long long v)
{
    bool broken = d->broken_what != NULL && strcmp(d->broken_what, what) == 0 &&
                  d->broken_spectrum == spectrum && d->broken_array == array;
    if (broken && d->broken_value == NULL)
        return;
    tg_text_addf(x, "<cvParam value=\"");
    if (broken)
        tg_text_add(x, d->broken_value);
    else if (d->wrapped && strcmp(what, "offset") == 0)
        tg_text_addf(x, "%d", (int)(int32_t)(uint32_t)v);
    else
        tg_text_addf(x, "%llu", v);
    tg_text_addf(x, "\" accession=\"%s\"/>\n", accession);
}

static void made_head(tg_text *x, const made *d, uint32_t n_spectra)
{
    static const char *const prologs[] = {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
        "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>",
        "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
    };
    tg_text_add(x, prologs[d->text]);
    if (d->wrapped_in_index)
        tg_text_add(x, "<indexedmzML>");
    tg_text_add(x,
                "<mzML xmlns=\"http://psi.hupo.org/ms/mzml\"><fileDescription><fileContent>");
    tg_text_addf(x, "<cvParam accession=\"%s\" name=\"\" value=\"\"/>",
                 d->declared != NULL ? d->declared
                 : d->continuous     ? "IMS:1000030"
                                     : "IMS:1000031");
    if (!d->no_uuid)
        tg_text_add(x, "<cvParam accession=\"IMS:1000080\" value=\"{" MADE_UUID "}\"/>");
    if (d->extra_file_param != NULL)
        tg_text_add(x, d->extra_file_param);
    tg_text_addf(x,
                 "</fileContent></fileDescription>\n<sampleList><sample name=\"%s\"/>"
                 "</sampleList><referenceableParamGroupList count=\"2\">",
                 d->text == TEXT_ISO || d->text == TEXT_BROKEN ? "5 \xb5m" : "sample");
    if (!d->direct)
        for (int k = 0; k < 2; k++) {
            tg_text_addf(x, "<referenceableParamGroup id=\"group %d\">", k);
            made_array_params(x, d, k);
            tg_text_add(x, "</referenceableParamGroup>\n");
        }
    tg_text_add(x, "<referenceableParamGroup id=\"tags\">");
    if (!d->no_tags)
        tg_text_add(x, "<cvParam accession=\"MS:1000127\" name=\"centroid spectrum\"/>"
                       "<cvParam accession=\"MS:1000130\" name=\"positive scan\"/>");
    tg_text_addf(x, "</referenceableParamGroup></referenceableParamGroupList>"
                    "<run><spectrumList count=\"");
    if (d->declared_spectra != NULL)
        tg_text_addf(x, "%s\">\n", d->declared_spectra);
    else
        tg_text_addf(x, "%u\">\n", n_spectra);
}

static void made_spectrum(tg_text *x, const made *d, uint32_t s, const made_array a[2])
{
    static const char *const at[2] = {"x", "y"};
    uint32_t pos[2] = {s % d->width + !d->zero_based, s / d->width + !d->zero_based};
    tg_text_addf(x,
                 "<spectrum id=\"Scan=%u\" index=\"%u\">"
                 "<referenceableParamGroupRef ref=\"tags\"/><scanList count=\"1\"><scan>",
                 s, s);
    for (int k = 0; k < 2; k++)
        made_number(x, d, s, 0, at[k], k == 0 ? "IMS:1000050" : "IMS:1000051", pos[k]);
    if (d->extra_scan_param != NULL)
        tg_text_add(x, d->extra_scan_param);
    tg_text_add(x, "</scan></scanList><binaryDataArrayList count=\"2\">");
    for (int k = 0; k < 2; k++) {
        tg_text_add(x, "<binaryDataArray encodedLength=\"0\">");
        if (d->direct)
            made_array_params(x, d, k);
        else
            tg_text_addf(x, "<referenceableParamGroupRef ref=\"group %d\"/>", k);
        if (d->group_lies)
            tg_text_addf(x, "<cvParam accession=\"%s\" name=\"\"/>",
                         made_types[k == 0 ? d->mz_type : d->intensity_type].accession);
        made_number(x, d, s, k, "length", "IMS:1000103", d->count);
        made_number(x, d, s, k, "encoded", "IMS:1000104", a[k].encoded);
        made_number(x, d, s, k, "offset", "IMS:1000102", a[k].offset + d->shift);
        tg_text_add(x, "<binary/></binaryDataArray>");
    }
    if (d->third_array)
        tg_text_add(x, "<binaryDataArray><cvParam accession=\"MS:1002816\" name=\"mean ion "
                       "mobility array\"/><cvParam accession=\"IMS:1000102\" "
                       "value=\"99999999999\"/><binary/></binaryDataArray>");
    tg_text_add(x, "</binaryDataArrayList></spectrum>\n");
}

/* Both files as bytes: text in *x, the other in *b. */
static void make_files(const made *d, tg_text *x, made_ibd *b)
{
    double values[1024];
    uint32_t n = d->width * d->height - d->leave_out;
    made_array shared = {0, 0};

    ibd_add(b, made_uuid, sizeof made_uuid);
    made_head(x, d, n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t s = d->reversed ? n - 1 - k : k;
        made_array a[2];
        for (uint32_t i = 0; i < d->count; i++)
            values[i] = made_mz(d, s, i);
        if (!d->continuous || k == 0)
            shared = made_write(b, d, d->mz_type, d->count, values);
        a[0] = shared;
        for (uint32_t i = 0; i < d->count; i++)
            values[i] = made_intensity(s, i);
        a[1] = made_write(b, d, d->intensity_type, d->count, values);
        made_spectrum(x, d, s, a);
    }
    tg_text_addf(x, "</spectrumList></run></mzML>%s",
                 d->wrapped_in_index ? "<indexList count=\"0\"/></indexedmzML>" : "");
}

static tg_store *make_store(const made *d)
{
    tg_store *store = NULL;
    tg_text x = {0};
    made_ibd b = {0};
    make_files(d, &x, &b);
    if (tg_store_open_mem(&store, NULL) != TG_OK ||
        tg_store_put(store, "t.imzML", x.data, x.len, NULL, NULL) != TG_OK ||
        tg_store_put(store, "t.ibd", b.data, b.len, NULL, NULL) != TG_OK)
        abort();
    tg_text_free(&x);
    free(b.data);
    return store;
}

#endif
