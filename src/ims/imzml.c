/* ims/imzml.c - opens a data set: reads its index, then judges what holds for all spectra
 * together: the pixels, the mode, the UUID. */
#include "ims/imzml.h"

#include "base/text.h"
#include "chem/sort.h"
#include "ims/imzml_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LEAST_ROOM ((uint64_t)1 << 20) /* for the text of the .imzML */
#define MOST_ROOM  ((uint64_t)16 << 20)

size_t tg_ims_type_bytes(tg_ims_type t)
{
    return t == TG_IMS_F64 || t == TG_IMS_I64 ? 8 : t == TG_IMS_NO_TYPE ? 0 : 4;
}

tg_imzml_options tg_imzml_options_of(const tg_ims_options *o)
{
    return (tg_imzml_options){(tg_ims_strictness)o->strict, o->duplicates_fail, o->grid_from_3d,
                              o->kind};
}

/* --- Oddities -------------------------------------------------------------------- */

static const char *const oddity_names[TG_N_ODDITIES] = {
    "uuid",    "spectrum_count",  "length",   "type",    "mode",
    "profile", "duplicate_pixel", "planes",   "density", "one_pixel",
    "skipped", "truncated",       "unsorted", "bad_mz",  "bad_intensity",
};

const char *tg_ims_oddity_name(tg_ims_oddity kind)
{
    return oddity_names[kind];
}

void tg_ims_note(tg_ims_odd odd[TG_N_ODDITIES], tg_ims_oddity kind, uint64_t count,
                 const char *fmt, ...)
{
    tg_ims_odd *o = &odd[kind];
    if (o->count == 0) {
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(o->first, sizeof o->first, fmt, ap);
        va_end(ap);
        size_t n = strlen(o->first);
        while (n > 0 && !tg_utf8_valid(o->first, n)) /* cut within a character */
            o->first[--n] = '\0';
    }
    o->count += count;
}

/* A string of JSON. What is no UTF-8 was read as ISO-8859-1 before, so bytes are text here. */
static void json_string(tg_text *out, const char *s)
{
    tg_text_add(out, "\"");
    for (; *s != '\0'; s++) {
        if (*s == '"' || *s == '\\')
            tg_text_addf(out, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            tg_text_addf(out, "\\u%04x", (unsigned)*s);
        else
            tg_text_add_n(out, s, 1);
    }
    tg_text_add(out, "\"");
}

void tg_ims_oddities_json(tg_text *out, const tg_ims_odd odd[TG_N_ODDITIES])
{
    bool first = true;
    for (int k = 0; k < TG_N_ODDITIES; k++) {
        if (odd[k].count == 0)
            continue;
        tg_text_addf(out, "%s{\"kind\":\"%s\",\"count\":%llu,\"first\":", first ? "" : ",",
                     oddity_names[k], (unsigned long long)odd[k].count);
        json_string(out, odd[k].first);
        tg_text_add(out, "}");
        first = false;
    }
}

/* --- The index ---------------------------------------------------------------------- */

static tg_status reserve(tg_imzml *m, uint64_t bytes, tg_error *err)
{
    if (m->budget == NULL)
        return TG_OK;
    TG_TRY(tg_budget_reserve(m->budget, bytes, "index of spectra", err));
    m->reserved += bytes;
    return TG_OK;
}

static void release(tg_imzml *m, uint64_t bytes)
{
    if (m->budget == NULL)
        return;
    tg_budget_release(m->budget, bytes);
    m->reserved -= bytes;
}

static tg_status grow_block_list(tg_imzml *m, tg_error *err)
{
    size_t want = m->cap_blocks == 0 ? 16 : m->cap_blocks * 2;
    tg_spectrum **b = tg_alloc_array(want, sizeof(tg_spectrum *));
    if (b == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for an index of spectra");
    if (m->n_blocks > 0)
        memcpy(b, m->blocks, m->n_blocks * sizeof(tg_spectrum *));
    tg_free(m->blocks);
    m->blocks = b;
    m->cap_blocks = want;
    return TG_OK;
}

tg_status tg_imzml_grow(tg_imzml *m, tg_error *err)
{
    const uint64_t bytes = TG_SPECTRA_PER_BLOCK * sizeof(tg_spectrum);

    if (m->n_spectra < m->n_blocks * (uint64_t)TG_SPECTRA_PER_BLOCK)
        return TG_OK;
    if (m->n_spectra >= UINT32_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "more than %u spectra", UINT32_MAX);
    if (m->n_blocks == m->cap_blocks)
        TG_TRY(grow_block_list(m, err));
    TG_TRY(reserve(m, bytes, err));
    tg_spectrum *b = tg_alloc(bytes);
    if (b == NULL) {
        release(m, bytes);
        return tg_fail(err, TG_NO_MEMORY, "no memory for an index of spectra");
    }
    m->blocks[m->n_blocks++] = b;
    return TG_OK;
}

void tg_imzml_forget(tg_imzml *m)
{
    *m = (tg_imzml){
        .source = m->source,
        .ibd_bytes = m->ibd_bytes,
        .blocks = m->blocks,
        .n_blocks = m->n_blocks,
        .cap_blocks = m->cap_blocks,
        .budget = m->budget,
        .reserved = m->reserved,
    };
}

/* --- Pixels --------------------------------------------------------------------------- */

static tg_status find_box(tg_imzml *m, tg_error *err)
{
    int32_t x0 = INT32_MAX, y0 = INT32_MAX, x1 = INT32_MIN, y1 = INT32_MIN;

    for (uint64_t i = 0; i < m->n_spectra; i++) {
        const tg_spectrum *s = tg_imzml_spectrum(m, i);
        x0 = s->x < x0 ? s->x : x0;
        x1 = s->x > x1 ? s->x : x1;
        y0 = s->y < y0 ? s->y : y0;
        y1 = s->y > y1 ? s->y : y1;
    }
    int64_t w = (int64_t)x1 - x0 + 1, h = (int64_t)y1 - y0 + 1;
    if (w > UINT32_MAX || h > UINT32_MAX || w * h >= UINT32_MAX)
        return tg_fail(err, TG_UNSUPPORTED,
                       "pixels lie in a box of %lld x %lld: more than 2^32 - 1 pixels",
                       (long long)w, (long long)h);
    m->x_min = x0;
    m->y_min = y0;
    m->width = (uint32_t)w;
    m->height = (uint32_t)h;
    return TG_OK;
}

static uint32_t position(const tg_imzml *m, const tg_spectrum *s)
{
    return (uint32_t)((int64_t)s->y - m->y_min) * m->width +
           (uint32_t)((int64_t)s->x - m->x_min);
}

static int rising_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static tg_status map_pixels(tg_imzml *m, tg_error *err)
{
    TG_TRY(find_box(m, err));
    TG_TRY(reserve(m, m->n_spectra * sizeof *m->positions, err));
    m->positions = tg_alloc_array(m->n_spectra, sizeof *m->positions);
    if (m->positions == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %llu pixels",
                       (unsigned long long)m->n_spectra);
    bool sorted = true;
    for (uint64_t i = 0; i < m->n_spectra; i++) {
        m->positions[i] = position(m, tg_imzml_spectrum(m, i));
        sorted = sorted && (i == 0 || m->positions[i - 1] < m->positions[i]);
    }
    if (!sorted)
        tg_heap_sort(m->positions, m->n_spectra, sizeof *m->positions, rising_u32);
    uint64_t n = 1;
    for (uint64_t i = 1; i < m->n_spectra; i++)
        if (m->positions[i] != m->positions[n - 1])
            m->positions[n++] = m->positions[i];
    m->n_pixels = n;
    return TG_OK;
}

uint32_t tg_imzml_pixel(const tg_imzml *m, const tg_spectrum *s)
{
    uint32_t at = position(m, s);
    uint64_t lo = 0, hi = m->n_pixels;
    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (m->positions[mid] <= at)
            lo = mid;
        else
            hi = mid;
    }
    return (uint32_t)lo;
}

static tg_status judge_pixels(tg_imzml *m, const tg_imzml_options *o, tg_error *err)
{
    uint64_t twice = m->n_spectra - m->n_pixels, box = (uint64_t)m->width * m->height;

    if (m->n_pixels == 1 && m->n_spectra > 1) {
        tg_ims_note(m->odd, TG_ODD_ONE_PIXEL, 1,
                    "all %llu spectra are on pixel (%d, %d); 3DPositionX/Y may hold the "
                    "positions: grid from 3D positions",
                    (unsigned long long)m->n_spectra, m->x_min, m->y_min);
    }
    if (twice > 0) {
        if (o->duplicates_fail)
            return tg_fail(err, TG_CORRUPT, "%llu spectra lie on pixels that have one",
                           (unsigned long long)twice);
        tg_ims_note(m->odd, TG_ODD_DUPLICATE, twice,
                    "%llu spectra lie on pixels that have one: they are added up",
                    (unsigned long long)twice);
    }
    if (m->n_pixels < box / 20)
        tg_ims_note(m->odd, TG_ODD_DENSITY, 1, "%llu pixels in a box of %u x %u",
                    (unsigned long long)m->n_pixels, m->width, m->height);
    return TG_OK;
}

/* --- Mode and UUID ---------------------------------------------------------------------- */

static void judge_mode(tg_imzml *m, tg_ims_kind kind)
{
    const tg_spectrum *a = tg_imzml_spectrum(m, 0);
    bool one = m->n_spectra > 1 && a->count > 0; /* empty arrays have no place */

    for (uint64_t i = 1; i < m->n_spectra && one; i++) {
        const tg_spectrum *s = tg_imzml_spectrum(m, i);
        one = s->offset[TG_IMS_MZ] == a->offset[TG_IMS_MZ] && s->count == a->count &&
              s->type[TG_IMS_MZ] == a->type[TG_IMS_MZ] &&
              s->deflated[TG_IMS_MZ] == a->deflated[TG_IMS_MZ];
    }
    m->continuous = one;
    if (m->declared_continuous && !one && m->n_spectra > 1)
        tg_ims_note(m->odd, TG_ODD_MODE, 1,
                    "declared continuous, but the m/z arrays lie at different offsets");
    if (m->declared_processed && !m->declared_continuous && one)
        tg_ims_note(m->odd, TG_ODD_MODE, 1,
                    "declared processed, but all spectra share one m/z array");
    m->kind_given = kind != TG_IMS_KIND_AS_DECLARED;
    if (m->kind_given) {
        m->declared_centroid = kind == TG_IMS_KIND_CENTROID;
        m->declared_profile = !m->declared_centroid;
    }
    if (!m->declared_centroid && !m->declared_profile)
        tg_ims_note(m->odd, TG_ODD_PROFILE, 1,
                    "neither declared as centroid nor as profile data");
    else if (m->declared_profile && !m->declared_centroid)
        tg_ims_note(m->odd, TG_ODD_PROFILE, 1, "profile data: windows count too much of it");
}

static void format_uuid(const uint8_t u[16], char dst[33])
{
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(dst + 2 * i, 3, "%02x", u[i]);
}

static tg_status check_uuid(tg_imzml *m, const tg_cancel *cancel, tg_error *err)
{
    uint8_t found[16];
    size_t n;
    char a[33], b[33];

    if (m->ibd_bytes < sizeof found)
        return tg_fail(err, TG_CORRUPT, "'%s' has %llu bytes, fewer than its UUID",
                       m->source.ibd_key, (unsigned long long)m->ibd_bytes);
    TG_TRY(tg_store_get_into(m->source.store, m->source.ibd_key, tg_range_at(0, sizeof found),
                             found, sizeof found, &n, NULL, cancel, err));
    format_uuid(found, a);
    format_uuid(m->uuid, b);
    if (!m->has_uuid)
        tg_ims_note(m->odd, TG_ODD_UUID, 1, "the .imzML gives no UUID; the .ibd begins with %s",
                    a);
    else if (memcmp(found, m->uuid, sizeof found) != 0)
        tg_ims_note(m->odd, TG_ODD_UUID, 1, "UUID of the .ibd is %s, the .imzML says %s", a, b);
    return TG_OK;
}

/* --- Opening --------------------------------------------------------------------------------
 */

/* An eighth of what is free, as for the .ibd: few requests. */
static uint64_t room_for_text(const tg_imzml *m, uint64_t size)
{
    uint64_t n = m->budget == NULL
                     ? LEAST_ROOM
                     : (tg_budget_total(m->budget) - tg_budget_used(m->budget)) / 8;
    n = n < MOST_ROOM ? n : MOST_ROOM;
    n = n < size ? n : size;
    return n > LEAST_ROOM ? n : LEAST_ROOM;
}

static tg_status read_document(tg_imzml *m, const tg_imzml_options *options,
                               const tg_cancel *cancel, tg_error *err)
{
    uint64_t size;
    TG_TRY(tg_store_size(m->source.store, m->source.xml_key, &size, cancel, err));
    size_t n = (size_t)room_for_text(m, size);
    TG_TRY(reserve(m, n + TG_XML_MEMORY_BYTES, err));
    uint8_t *room = tg_alloc(n);
    tg_status st = room == NULL ? tg_fail(err, TG_NO_MEMORY, "no memory for %zu bytes", n)
                                : tg_imzml_read(m, options, room, n, cancel, err);
    tg_free(room);
    release(m, n + TG_XML_MEMORY_BYTES);
    return st;
}

static tg_status open_all(tg_imzml *m, const tg_imzml_options *options, const tg_cancel *cancel,
                          tg_error *err)
{
    TG_TRY(reserve(m, tg_store_own_bytes(m->source.store), err));
    TG_TRY(tg_store_size(m->source.store, m->source.ibd_key, &m->ibd_bytes, cancel, err));
    tg_status st = read_document(m, options, cancel, err);
    if (st == TG_OK && m->n_spectra == 0)
        st = tg_fail(err, TG_CORRUPT, "no spectrum");
    if (st == TG_OK)
        st = map_pixels(m, err);
    if (st == TG_OK)
        st = judge_pixels(m, options, err);
    if (st != TG_OK) {
        tg_error_prefix(err, "'%s'", m->source.xml_key);
        tg_error_at(err, m->source.xml_key, TG_NO_OFFSET);
        return st;
    }
    judge_mode(m, options->kind);
    return check_uuid(m, cancel, err);
}

static tg_status open_source(tg_imzml **out, tg_ims_source *source,
                             const tg_imzml_options *options, tg_budget *budget,
                             const tg_cancel *cancel, tg_error *err)
{
    tg_imzml_options o = {0};
    TG_AUTO_PTR(tg_imzml) m = tg_calloc(1, sizeof *m);

    if (options != NULL)
        o = *options;
    if (m == NULL) {
        tg_ims_source_close(source);
        return tg_fail(err, TG_NO_MEMORY, "no memory for a data set");
    }
    m->source = *source;
    m->budget = budget;
    TG_TRY(open_all(m, &o, cancel, err));
    *out = tg_steal(m);
    return TG_OK;
}

tg_status tg_imzml_open(tg_imzml **out, const char *url, const tg_imzml_options *options,
                        tg_budget *budget, const tg_cancel *cancel, tg_error *err)
{
    tg_ims_source source;
    TG_TRY(tg_ims_source_open(&source, url, cancel, err));
    return open_source(out, &source, options, budget, cancel, err);
}

tg_status tg_imzml_open_store(tg_imzml **out, tg_store *store, const char *key,
                              const tg_imzml_options *options, tg_budget *budget,
                              const tg_cancel *cancel, tg_error *err)
{
    tg_ims_source source;
    TG_TRY(tg_ims_source_of_store(&source, store, key, cancel, err));
    return open_source(out, &source, options, budget, cancel, err);
}

void tg_imzml_free(tg_imzml *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < m->n_blocks; i++)
        tg_free(m->blocks[i]);
    tg_free(m->blocks);
    tg_free(m->positions);
    if (m->budget != NULL)
        tg_budget_release(m->budget, m->reserved);
    tg_ims_source_close(&m->source);
    tg_free(m);
}
