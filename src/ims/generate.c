/* ims/generate.c - writes a made-up tissue as .imzML and .ibd, a spectrum at a time, with the
 * database that it is from and the truth about it. */
#include "base/sys.h"
#include "base/text.h"
#include "exec/exec.h"
#include "ims/digest.h"
#include "ims/inflate.h"
#include "ims/tissue.h"
#include "tidegate/annotate.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BUFFER_BYTES ((size_t)1 << 20)
#define SUM_DIGITS   40 /* of SHA-1 */
#define PATH_BYTES   4096

/* A file that is written in large pieces. */
typedef struct sink {
    char path[PATH_BYTES];
    tg_fd fd;
    uint64_t written; /* to the file; the rest is in the buffer */
    uint8_t *buffer;
    size_t n;
    tg_digest *digest; /* of all that goes out, or NULL */
} sink;

typedef struct number_kind {
    size_t bytes;
    const char *accession, *name;
} number_kind;

static const number_kind kinds[] = {
    [TG_IMS_NUMBER_F64] = {8, "MS:1000523", "64-bit float"},
    [TG_IMS_NUMBER_F32] = {4, "MS:1000521", "32-bit float"},
    [TG_IMS_NUMBER_I32] = {4, "MS:1000519", "32-bit integer"},
    [TG_IMS_NUMBER_I64] = {8, "MS:1000522", "64-bit integer"},
};
#define N_KINDS ((int)(sizeof kinds / sizeof kinds[0]))

typedef struct writer {
    const tg_ims_generate_options *o;
    tg_tissue_options tissue_options;
    tg_tissue *tissue;
    sink xml, ibd;
    tg_digest digest;
    uint8_t uuid[16];
    uint64_t sum_at; /* of the digits of the checksum in the .imzML */
    uint64_t axis_at, axis_bytes, axis_n;
    double *values; /* of one array */
    uint8_t *items, *packed;
    size_t most; /* values in an array */
    tg_ims_generate_result *result;
} writer;

/* --- Files --------------------------------------------------------------------------- */

static tg_status sink_open(sink *s, const char *stem, const char *extension, tg_error *err)
{
    int n = snprintf(s->path, sizeof s->path, "%s%s", stem, extension);
    if (n < 0 || (size_t)n >= sizeof s->path)
        return tg_fail(err, TG_INVALID, "'%.80s...' is too long a path", stem);
    s->buffer = tg_alloc(BUFFER_BYTES);
    if (s->buffer == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to write '%s'", s->path);
    s->fd = tg_sys_open(AT_FDCWD, s->path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    return s->fd < 0 ? tg_fail_errno(err, "make '%s'", s->path) : TG_OK;
}

static tg_status sink_flush(sink *s, tg_error *err)
{
    TG_TRY(tg_fd_write_at(s->fd, s->buffer, s->n, s->written, s->path, err));
    s->written += s->n;
    s->n = 0;
    return TG_OK;
}

static tg_status sink_add(sink *s, const void *data, size_t n, tg_error *err)
{
    const uint8_t *p = data;
    if (s->digest != NULL)
        tg_digest_add(s->digest, p, n);
    while (n > 0) {
        size_t part = BUFFER_BYTES - s->n < n ? BUFFER_BYTES - s->n : n;
        memcpy(s->buffer + s->n, p, part);
        s->n += part;
        p += part;
        n -= part;
        if (s->n == BUFFER_BYTES)
            TG_TRY(sink_flush(s, err));
    }
    return TG_OK;
}

static tg_status sink_text(sink *s, const tg_text *t, tg_error *err)
{
    TG_TRY(tg_text_status(t, err));
    return sink_add(s, t->data, t->len, err);
}

static uint64_t sink_at(const sink *s)
{
    return s->written + s->n;
}

static void sink_free(sink *s)
{
    tg_fd_auto(&s->fd);
    tg_free(s->buffer);
}

/* --- Arrays ------------------------------------------------------------------------------ */

static void convert(uint8_t *to, tg_ims_number kind, const double *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float f = (float)from[i];
        int64_t l = llround(from[i]);
        int32_t k = (int32_t)(l > INT32_MAX ? INT32_MAX : l);
        const void *p = kind == TG_IMS_NUMBER_F64   ? (const void *)&from[i]
                        : kind == TG_IMS_NUMBER_F32 ? (const void *)&f
                        : kind == TG_IMS_NUMBER_I32 ? (const void *)&k
                                                    : (const void *)&l;
        memcpy(to + i * kinds[kind].bytes, p, kinds[kind].bytes);
    }
}

/* w->values as one array of the .ibd: where it begins, and its bytes there. */
static tg_status add_array(writer *w, tg_ims_number kind, size_t n, uint64_t *at,
                           uint64_t *bytes, tg_error *err)
{
    size_t length = n * kinds[kind].bytes;
    const uint8_t *data = w->items;

    convert(w->items, kind, w->values, n);
    if (w->o->deflated) {
        tg_bytes from = {w->items, length};
        TG_TRY(tg_ims_deflate(from, w->packed, tg_ims_deflate_bound(length), &length, err));
        data = w->packed;
    }
    *at = sink_at(&w->ibd);
    *bytes = length;
    return sink_add(&w->ibd, data, length, err);
}

/* --- The document ---------------------------------------------------------------------- */

#define CV(cv, accession, name, value)                                         \
    "<cvParam cvRef=\"" cv "\" accession=\"" accession "\" name=\"" name "\" " \
    "value=\"" value "\"/>"

static void add_group(tg_text *t, const char *id, const char *what, const number_kind *kind,
                      bool deflated)
{
    tg_text_addf(t,
                 "<referenceableParamGroup id=\"%s\">%s"
                 "<cvParam cvRef=\"MS\" accession=\"%s\" name=\"%s\" value=\"\"/>%s%s"
                 "</referenceableParamGroup>\n",
                 id, what, kind->accession, kind->name,
                 deflated ? CV("MS", "MS:1000574", "zlib compression", "")
                          : CV("MS", "MS:1000576", "no compression", ""),
                 CV("IMS", "IMS:1000101", "external data", "true"));
}

static void add_settings(tg_text *t, const tg_tissue_options *o)
{
    tg_text_addf(t,
                 "<scanSettingsList count=\"1\"><scanSettings id=\"settings\">"
                 "<cvParam cvRef=\"IMS\" accession=\"IMS:1000042\" name=\"max count of pixels "
                 "x\" value=\"%u\"/><cvParam cvRef=\"IMS\" accession=\"IMS:1000043\" "
                 "name=\"max count of pixels y\" value=\"%u\"/></scanSettings>"
                 "</scanSettingsList>\n"
                 "<softwareList count=\"1\"><software id=\"tidegate\" version=\"1\"/>"
                 "</softwareList>\n"
                 "<instrumentConfigurationList count=\"1\"><instrumentConfiguration "
                 "id=\"instrument\"/></instrumentConfigurationList>\n"
                 "<dataProcessingList count=\"1\"><dataProcessing id=\"made\"/>"
                 "</dataProcessingList>\n",
                 o->width, o->height);
}

static void add_uuid(tg_text *t, const uint8_t uuid[16])
{
    tg_text_add(t, "{");
    for (int i = 0; i < 16; i++)
        tg_text_addf(t, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    tg_text_add(t, "}");
}

static tg_status write_head(writer *w, uint64_t n_spectra, tg_error *err)
{
    TG_AUTO(tg_text) t = {0};
    const tg_ims_generate_options *o = w->o;

    tg_text_addf(&t,
                 "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n"
                 "<mzML xmlns=\"http://psi.hupo.org/ms/mzml\" version=\"1.1\">\n"
                 "<cvList count=\"2\"><cv id=\"MS\" fullName=\"PSI-MS\" URI=\"\"/>"
                 "<cv id=\"IMS\" fullName=\"Imaging MS\" URI=\"\"/></cvList>\n"
                 "<fileDescription><fileContent>%s%s"
                 "<cvParam cvRef=\"IMS\" accession=\"IMS:1000080\" name=\"universally unique "
                 "identifier\" value=\"",
                 CV("MS", "MS:1000579", "MS1 spectrum", ""),
                 o->continuous ? CV("IMS", "IMS:1000030", "continuous", "")
                               : CV("IMS", "IMS:1000031", "processed", ""));
    add_uuid(&t, w->uuid);
    tg_text_add(&t, "\"/><cvParam cvRef=\"IMS\" accession=\"IMS:1000091\" name=\"ibd SHA-1\" "
                    "value=\"");
    w->sum_at = t.len;
    tg_text_addf(&t, "%0*d\"/></fileContent></fileDescription>\n", SUM_DIGITS, 0);
    tg_text_add(&t, "<referenceableParamGroupList count=\"3\">\n");
    add_group(&t, "mzArray", CV("MS", "MS:1000514", "m/z array", ""), &kinds[o->mz],
              o->deflated);
    add_group(&t, "intensityArray", CV("MS", "MS:1000515", "intensity array", ""),
              &kinds[o->intensity], o->deflated);
    tg_text_add(&t, "<referenceableParamGroup id=\"spectrum\">" CV("MS", "MS:1000127",
                                                                   "centroid spectrum", "")
                        CV("MS", "MS:1000130", "positive scan", "") "</referenceableParamGroup>"
                                                                    "\n"
                                                                    "</"
                                                                    "referenceableParamGroupLis"
                                                                    "t>\n");
    add_settings(&t, &w->tissue_options);
    tg_text_addf(&t,
                 "<run id=\"run\" defaultInstrumentConfigurationRef=\"instrument\">"
                 "<spectrumList count=\"%llu\" defaultDataProcessingRef=\"made\">\n",
                 (unsigned long long)n_spectra);
    return sink_text(&w->xml, &t, err);
}

static void add_binary(tg_text *t, const char *group, uint64_t n, uint64_t at, uint64_t bytes)
{
    tg_text_addf(t,
                 "<binaryDataArray encodedLength=\"0\"><referenceableParamGroupRef ref=\"%s\"/>"
                 "<cvParam cvRef=\"IMS\" accession=\"IMS:1000103\" name=\"external array "
                 "length\" value=\"%llu\"/><cvParam cvRef=\"IMS\" accession=\"IMS:1000102\" "
                 "name=\"external offset\" value=\"%llu\"/><cvParam cvRef=\"IMS\" "
                 "accession=\"IMS:1000104\" name=\"external encoded length\" value=\"%llu\"/>"
                 "<binary/></binaryDataArray>",
                 group, (unsigned long long)n, (unsigned long long)at,
                 (unsigned long long)bytes);
}

typedef struct place {
    uint32_t x, y, z;
} place;

static tg_status write_spectrum_text(writer *w, const place *p, double tic, uint64_t n,
                                     const uint64_t at[2], const uint64_t bytes[2],
                                     tg_error *err)
{
    TG_AUTO(tg_text) t = {0};
    unsigned long long index = w->result->spectra;
    uint32_t first = w->o->zero_based ? 0 : 1;

    tg_text_addf(
        &t,
        "<spectrum id=\"Scan=%llu\" index=\"%llu\" defaultArrayLength=\"0\">"
        "<referenceableParamGroupRef ref=\"spectrum\"/><cvParam cvRef=\"MS\" "
        "accession=\"MS:1000285\" name=\"total ion current\" value=\"%.9g\"/>"
        "<scanList count=\"1\"><scan><cvParam cvRef=\"IMS\" accession=\"IMS:1000050\" "
        "name=\"position x\" value=\"%u\"/><cvParam cvRef=\"IMS\" accession=\"IMS:1000051\" "
        "name=\"position y\" value=\"%u\"/>",
        index + 1, index, tic, p->x + first, p->y + first);
    if (w->o->depth > 1)
        tg_text_addf(&t,
                     "<cvParam cvRef=\"IMS\" accession=\"IMS:1000052\" name=\"position z\" "
                     "value=\"%u\"/>",
                     p->z + first);
    tg_text_add(&t, "</scan></scanList><binaryDataArrayList count=\"2\">");
    add_binary(&t, "mzArray", n, at[0], bytes[0]);
    add_binary(&t, "intensityArray", n, at[1], bytes[1]);
    tg_text_add(&t, "</binaryDataArrayList></spectrum>\n");
    return sink_text(&w->xml, &t, err);
}

/* --- Spectra ------------------------------------------------------------------------------ */

static tg_status write_axis(writer *w, tg_error *err)
{
    size_t n;
    const double *axis = tg_tissue_axis(w->tissue, &n);
    memcpy(w->values, axis, n * sizeof *axis);
    w->axis_n = n;
    return add_array(w, w->o->mz, n, &w->axis_at, &w->axis_bytes, err);
}

static tg_status write_continuous(writer *w, const tg_peak *peaks, size_t n, uint64_t at[2],
                                  uint64_t bytes[2], tg_error *err)
{
    memset(w->values, 0, w->axis_n * sizeof *w->values);
    for (size_t i = 0; i < n; i++)
        w->values[peaks[i].pixel] += (double)peaks[i].intensity;
    at[0] = w->axis_at;
    bytes[0] = w->axis_bytes;
    return add_array(w, w->o->intensity, w->axis_n, &at[1], &bytes[1], err);
}

static tg_status write_processed(writer *w, const tg_peak *peaks, size_t n, uint64_t at[2],
                                 uint64_t bytes[2], tg_error *err)
{
    for (size_t i = 0; i < n; i++)
        w->values[i] = tg_peak_mz(peaks[i].key);
    TG_TRY(add_array(w, w->o->mz, n, &at[0], &bytes[0], err));
    for (size_t i = 0; i < n; i++)
        w->values[i] = (double)peaks[i].intensity;
    return add_array(w, w->o->intensity, n, &at[1], &bytes[1], err);
}

static tg_status write_spectrum(writer *w, const place *p, tg_error *err)
{
    const tg_peak *peaks;
    uint64_t at[2] = {0}, bytes[2] = {0};
    double tic = 0;
    size_t n;

    tg_tissue_pixel(w->tissue, p->x, p->y, p->z, &peaks, &n);
    for (size_t i = 0; i < n; i++)
        tic += (double)peaks[i].intensity;
    TG_TRY(w->o->continuous ? write_continuous(w, peaks, n, at, bytes, err)
                            : write_processed(w, peaks, n, at, bytes, err));
    uint64_t length = w->o->continuous ? w->axis_n : n;
    TG_TRY(write_spectrum_text(w, p, tic, length, at, bytes, err));
    w->result->spectra++;
    w->result->peaks += length;
    return TG_OK;
}

/* Step through n places so that neighbours come far apart, each once. */
static uint64_t stride_of(uint64_t n)
{
    uint64_t a = (uint64_t)((double)n * 0.6180339887) | 1;
    for (;; a += 2) {
        uint64_t x = n, y = a % n == 0 ? 1 : a % n;
        while (y != 0) {
            uint64_t r = x % y;
            x = y;
            y = r;
        }
        if (x == 1)
            return a;
    }
}

static tg_status write_spectra(writer *w, tg_reporter *reporter, const tg_cancel *cancel,
                               tg_error *err)
{
    const tg_tissue_options *m = &w->tissue_options;
    uint64_t n = (uint64_t)m->width * m->height * w->o->depth;
    uint64_t stride = w->o->shuffled && n > 1 ? stride_of(n) : 1;

    for (uint64_t i = 0, at = 0; i < n; i++, at = (at + stride) % n) {
        place p = {(uint32_t)(at % m->width), (uint32_t)(at / m->width % m->height),
                   (uint32_t)(at / m->width / m->height)};
        if (i % 256 == 0) {
            TG_TRY(tg_cancel_check(cancel, err));
            tg_reporter_add(reporter, i == 0 ? 0 : 256, 0);
        }
        if (tg_tissue_has_pixel(w->tissue, p.x, p.y))
            TG_TRY(write_spectrum(w, &p, err));
    }
    return TG_OK;
}

static uint64_t count_spectra(const writer *w)
{
    uint64_t n = 0;
    for (uint32_t y = 0; y < w->tissue_options.height; y++)
        for (uint32_t x = 0; x < w->tissue_options.width; x++)
            n += tg_tissue_has_pixel(w->tissue, x, y);
    return n * w->o->depth;
}

/* --- What is wrong on purpose, and the sum ----------------------------------------------- */

static void make_uuid(writer *w)
{
    uint64_t s = w->o->seed;
    for (int i = 0; i < 16; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        w->uuid[i] = (uint8_t)(s >> 56);
    }
    w->uuid[6] = (uint8_t)((w->uuid[6] & 15) | 64); /* version 4, as of random numbers */
    w->uuid[8] = (uint8_t)((w->uuid[8] & 63) | 128);
}

static tg_status finish_files(writer *w, tg_error *err)
{
    char hex[65];
    uint64_t cut = sink_at(&w->ibd) * 3 / 4;

    TG_TRY(sink_flush(&w->xml, err));
    TG_TRY(sink_flush(&w->ibd, err));
    tg_digest_end(&w->digest, hex);
    if (w->o->broken == TG_IMS_BROKEN_CHECKSUM)
        hex[0] = hex[0] == '0' ? '1' : '0';
    TG_TRY(tg_fd_write_at(w->xml.fd, hex, SUM_DIGITS, w->sum_at, w->xml.path, err));
    if (w->o->broken == TG_IMS_BROKEN_CUT && tg_sys_truncate(w->ibd.fd, (off_t)cut) != 0)
        return tg_fail_errno(err, "cut '%s'", w->ibd.path);
    w->result->xml_bytes = w->xml.written;
    w->result->ibd_bytes = w->ibd.written;
    TG_TRY(tg_fd_close(&w->xml.fd, w->xml.path, err));
    return tg_fd_close(&w->ibd.fd, w->ibd.path, err);
}

static tg_status write_data(writer *w, tg_reporter *reporter, const tg_cancel *cancel,
                            tg_error *err)
{
    TG_AUTO(tg_text) end = {0};
    uint8_t first[16];

    make_uuid(w);
    memcpy(first, w->uuid, sizeof first);
    first[0] ^= w->o->broken == TG_IMS_BROKEN_UUID ? 0xff : 0;
    TG_TRY(sink_add(&w->ibd, first, sizeof first, err));
    TG_TRY(write_head(w, count_spectra(w), err));
    if (w->o->continuous)
        TG_TRY(write_axis(w, err));
    TG_TRY(write_spectra(w, reporter, cancel, err));
    tg_text_add(&end, "</spectrumList></run></mzML>\n");
    TG_TRY(sink_text(&w->xml, &end, err));
    return finish_files(w, err);
}

/* --- Database and truth ---------------------------------------------------------------------
 */

static tg_status write_table(const char *stem, const char *extension, const tg_text *t,
                             tg_error *err)
{
    sink s = {.fd = -1};
    tg_status st = sink_open(&s, stem, extension, err);
    if (st == TG_OK)
        st = sink_text(&s, t, err);
    if (st == TG_OK)
        st = sink_flush(&s, err);
    if (st == TG_OK)
        st = tg_fd_close(&s.fd, s.path, err);
    sink_free(&s);
    return st;
}

static tg_status write_tables(const writer *w, tg_error *err)
{
    TG_AUTO(tg_text) db = {0};
    TG_AUTO(tg_text) truth = {0};

    tg_text_add(&db, "id,name,formula\n");
    for (uint32_t i = 0; i < TG_N_TISSUE_FORMULAS; i++)
        tg_text_addf(&db, "M%03u,made-up %u,%s\n", i + 1, i + 1, tg_tissue_formulas[i]);
    TG_TRY(write_table(w->o->out, ".db.csv", &db, err));
    tg_text_add(&truth, "formula,adduct,ion,shape,amplitude\n");
    for (uint32_t i = 0; i < w->tissue_options.planted; i++) {
        const tg_planted *p = tg_tissue_planted(w->tissue, i);
        tg_text_addf(&truth, "%s,%s,%s,%u,%.6g\n", tg_tissue_formulas[p->formula],
                     tg_tissue_adducts[p->adduct], p->ion, p->shape, p->amplitude);
    }
    return write_table(w->o->out, ".truth.csv", &truth, err);
}

/* --- All of it --------------------------------------------------------------------------- */

static tg_status check_options(const tg_ims_generate_options *o, tg_error *err)
{
    if (o->size != sizeof *o)
        return tg_fail(err, TG_INVALID, "options of %zu bytes, want %zu", o->size, sizeof *o);
    if (o->out == NULL || o->out[0] == '\0')
        return tg_fail(err, TG_INVALID, "made-up data want a name");
    if (o->mz < 0 || (int)o->mz >= N_KINDS || o->intensity < 0 || (int)o->intensity >= N_KINDS)
        return tg_fail(err, TG_INVALID, "kinds of numbers %d and %d: want 0 to %d", (int)o->mz,
                       (int)o->intensity, N_KINDS - 1);
    if (o->depth == 0 || o->depth > 1024)
        return tg_fail(err, TG_INVALID, "%u planes: want 1 to 1024", o->depth);
    if (o->continuous && o->fill > 0)
        return tg_fail(err, TG_INVALID,
                       "continuous spectra have one length: fill is for others");
    return TG_OK;
}

static tg_status take_room(writer *w, tg_error *err)
{
    const tg_tissue_options *m = &w->tissue_options;
    size_t n = ((size_t)m->planted + m->families) * TG_TISSUE_ISOTOPES + 8 * (size_t)m->noise;
    w->most = (n > m->fill ? n : m->fill) + 1;
    w->values = tg_alloc_array(w->most, sizeof *w->values);
    w->items = tg_alloc_array(w->most, sizeof(double));
    w->packed = w->o->deflated ? tg_alloc(tg_ims_deflate_bound(w->most * 8)) : NULL;
    if (w->values == NULL || w->items == NULL || (w->o->deflated && w->packed == NULL))
        return tg_fail(err, TG_NO_MEMORY, "no memory for a spectrum of %zu peaks", w->most);
    return TG_OK;
}

static tg_status generate(writer *w, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_reporter) reporter = NULL;
    const tg_tissue_options *m = &w->tissue_options;

    TG_TRY(tg_tissue_new(&w->tissue, m, err));
    TG_TRY(take_room(w, err));
    TG_TRY(sink_open(&w->xml, w->o->out, ".imzML", err));
    TG_TRY(sink_open(&w->ibd, w->o->out, ".ibd", err));
    tg_digest_begin(&w->digest, TG_SUM_SHA1);
    w->ibd.digest = &w->digest;
    TG_TRY(tg_reporter_new(&reporter, w->o->progress, w->o->progress_user, "generate",
                           (uint64_t)m->width * m->height * w->o->depth, err));
    TG_TRY(write_data(w, reporter, cancel, err));
    return write_tables(w, err);
}

tg_status tg_ims_generate(tg_runtime *rt, const tg_ims_generate_options *options,
                          tg_ims_generate_result *result, const tg_cancel *cancel,
                          tg_error *err)
{
    writer w = {.o = options, .xml = {.fd = -1}, .ibd = {.fd = -1}, .result = result};

    if (result->size != sizeof *result)
        return tg_fail(err, TG_INVALID, "result of %zu bytes, want %zu", result->size,
                       sizeof *result);
    *result = (tg_ims_generate_result){.size = sizeof *result};
    TG_TRY(check_options(options, err));
    w.tissue_options = (tg_tissue_options){options->width,   options->height,    options->seed,
                                           options->planted, options->families,  options->noise,
                                           options->fill,    options->continuous};
    uint64_t bytes = 3 * tg_tissue_bytes(&w.tissue_options) + 4 * BUFFER_BYTES;
    TG_TRY(tg_budget_reserve(tg_runtime_budget(rt), bytes, "making data up", err));
    tg_status st = generate(&w, cancel, err);
    sink_free(&w.xml);
    sink_free(&w.ibd);
    tg_free(w.values);
    tg_free(w.items);
    tg_free(w.packed);
    tg_tissue_free(w.tissue);
    tg_budget_release(tg_runtime_budget(rt), bytes);
    return st;
}
