/* ims/look.c - describes a data set, and verifies its .ibd. */
#include "base/text.h"
#include "ims/digest.h"
#include "ims/ibd.h"
#include "tidegate/annotate.h"

#include <stdio.h>
#include <string.h>

#define BATCH ((uint64_t)8 << 20)

static tg_status open_data(tg_imzml **out, tg_runtime *rt, const char *url,
                           const tg_ims_options *options, const tg_cancel *cancel,
                           tg_error *err)
{
    tg_imzml_options o = {0};
    if (options != NULL) {
        if (options->size != sizeof *options)
            return tg_fail(err, TG_INVALID, "options of %zu bytes, want %zu", options->size,
                           sizeof *options);
        o = tg_imzml_options_of(options);
    }
    return tg_imzml_open(out, url, &o, tg_runtime_budget(rt), cancel, err);
}

/* --- Information ----------------------------------------------------------------------- */

static const char *const type_names[] = {"unknown", "float32", "float64", "int32", "int64"};

static void add_arrays(tg_text *t, const tg_imzml *m)
{
    static const char *const names[2] = {"mz", "intensity"};
    const tg_spectrum *s = tg_imzml_spectrum(m, 0);
    for (int k = 0; k < 2; k++)
        tg_text_addf(t, ",\"%s\":{\"dtype\":\"%s\",\"compression\":\"%s\"}", names[k],
                     type_names[s->type[k]], s->deflated[k] ? "zlib" : "none");
}

static void describe(tg_text *t, const tg_imzml *m)
{
    char uuid[33] = "";
    for (int i = 0; i < 16 && m->has_uuid; i++)
        (void)snprintf(uuid + (size_t)2 * i, 3, "%02x", m->uuid[i]);
    tg_text_addf(t,
                 "{\"kind\":\"imzML\",\"spectra\":%llu,\"pixels\":%llu,\"width\":%u,"
                 "\"height\":%u,\"x_min\":%d,\"y_min\":%d,\"values\":%llu,\"ibd_bytes\":%llu",
                 (unsigned long long)m->n_spectra, (unsigned long long)m->n_pixels, m->width,
                 m->height, m->x_min, m->y_min, (unsigned long long)m->n_peaks,
                 (unsigned long long)m->ibd_bytes);
    tg_text_addf(t, ",\"mode\":\"%s\",\"polarity\":\"%s\",\"spectrum_kind\":\"%s\"",
                 m->continuous ? "continuous" : "processed",
                 m->positive == m->negative ? "unknown"
                 : m->positive              ? "positive"
                                            : "negative",
                 m->declared_centroid == m->declared_profile ? "unknown"
                 : m->declared_centroid                      ? "centroid"
                                                             : "profile");
    add_arrays(t, m);
    tg_text_addf(t, ",\"pixel_size_um\":[%g,%g],\"uuid\":\"%s\",\"checksum\":\"%s%s%s\"",
                 m->pixel_size[0], m->pixel_size[1], uuid,
                 m->sum == TG_SUM_NONE ? "" : tg_digest_name(m->sum),
                 m->sum == TG_SUM_NONE ? "" : " ", m->sum_hex);
    tg_text_add(t, ",\"oddities\":[");
    tg_ims_oddities_json(t, m->odd);
    tg_text_add(t, "]}");
}

tg_status tg_ims_info(tg_runtime *rt, const char *url, const tg_ims_options *options,
                      char **json, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO_PTR(tg_imzml) m = NULL;
    TG_AUTO(tg_text) t = {0};

    TG_TRY(open_data(&m, rt, url, options, cancel, err));
    describe(&t, m);
    TG_TRY(tg_text_status(&t, err));
    *json = tg_text_steal(&t);
    return TG_OK;
}

/* --- Verification ------------------------------------------------------------------------- */

typedef struct check {
    tg_imzml *m;
    void (*tell)(void *user, const char *line);
    void *user;
    uint64_t bad;
    tg_progress_fn progress;
    void *progress_user;
    const tg_cancel *cancel;
} check;

static void complain(check *c, const char *line)
{
    c->bad++;
    if (c->tell != NULL)
        c->tell(c->user, line);
}

static tg_status check_sum(check *c, uint8_t *room, tg_error *err)
{
    tg_imzml *m = c->m;
    TG_AUTO_PTR(tg_reporter) reporter = NULL;
    tg_digest d;
    char hex[65], line[240];
    size_t n;

    if (m->sum == TG_SUM_NONE)
        return TG_OK;
    TG_TRY(tg_reporter_new(&reporter, c->progress, c->progress_user, "checksum", m->ibd_bytes,
                           err));
    tg_digest_begin(&d, m->sum);
    for (uint64_t at = 0; at < m->ibd_bytes; at += n) {
        n = m->ibd_bytes - at < BATCH ? (size_t)(m->ibd_bytes - at) : (size_t)BATCH;
        TG_TRY(tg_store_get_into(m->source.store, m->source.ibd_key, tg_range_at(at, n), room,
                                 BATCH, &n, NULL, c->cancel, err));
        tg_digest_add(&d, room, n);
        tg_reporter_add(reporter, n, n);
    }
    tg_digest_end(&d, hex);
    if (strcmp(hex, m->sum_hex) != 0) {
        (void)snprintf(line, sizeof line, "%s of the .ibd is %s, the .imzML says %s",
                       tg_digest_name(m->sum), hex, m->sum_hex);
        complain(c, line);
    }
    return TG_OK;
}

/* Every array is read and inflated; the first broken one ends it. */
static tg_status check_arrays(check *c, tg_error *err)
{
    TG_AUTO_PTR(tg_ibd) r = NULL;
    TG_AUTO_PTR(tg_reporter) reporter = NULL;
    tg_ibd_spectrum s;
    tg_error why = {0};
    tg_status st;

    TG_TRY(tg_ibd_new(&r, c->m, 0, c->m->n_spectra, BATCH, err));
    TG_TRY(tg_reporter_new(&reporter, c->progress, c->progress_user, "spectra", c->m->n_spectra,
                           err));
    while ((st = tg_ibd_next(r, &s, c->cancel, &why)) == TG_OK)
        tg_reporter_add(reporter, 1, (uint64_t)s.at->encoded[0] + s.at->encoded[1]);
    if (st == TG_CORRUPT) {
        complain(c, why.msg);
        return TG_OK;
    }
    if (st != TG_CLOSED && err != NULL)
        *err = why;
    return st == TG_CLOSED ? TG_OK : st;
}

static tg_status check_all(check *c, tg_budget *budget, tg_error *err)
{
    uint64_t bytes = BATCH + tg_ibd_bytes(c->m, BATCH);

    if (c->m->odd[TG_ODD_UUID].count > 0)
        complain(c, c->m->odd[TG_ODD_UUID].first);
    TG_TRY(tg_budget_reserve(budget, bytes, "verifying the .ibd", err));
    uint8_t *room = tg_alloc(BATCH);
    tg_status st = room == NULL ? tg_fail(err, TG_NO_MEMORY, "no memory to verify") : TG_OK;
    if (st == TG_OK)
        st = check_sum(c, room, err);
    tg_free(room);
    if (st == TG_OK)
        st = check_arrays(c, err);
    tg_budget_release(budget, bytes);
    return st;
}

tg_status tg_ims_verify(tg_runtime *rt, const char *url,
                        void (*tell)(void *user, const char *line), void *user, uint64_t *bad,
                        tg_progress_fn progress, void *progress_user, const tg_cancel *cancel,
                        tg_error *err)
{
    TG_AUTO_PTR(tg_imzml) m = NULL;
    tg_error why = {0};
    check c = {.tell = tell,
               .user = user,
               .progress = progress,
               .progress_user = progress_user,
               .cancel = cancel};

    tg_status st = open_data(&m, rt, url, NULL, cancel, &why);
    if (st == TG_CORRUPT || st == TG_UNSUPPORTED) { /* the document itself is bad */
        complain(&c, why.msg);
        *bad = c.bad;
        return TG_OK;
    }
    if (st != TG_OK) {
        if (err != NULL)
            *err = why;
        return st;
    }
    c.m = m;
    st = check_all(&c, tg_runtime_budget(rt), err);
    *bad = c.bad;
    return st;
}
