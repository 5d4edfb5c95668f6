/* ims/imzml_read.c - the elements of an .imzML, and what they say of each spectrum. Knows
 * nothing of pixels. */
#include "ims/imzml_read.h"

#include "base/text.h"
#include "ims/terms.h"

#include <stdio.h>
#include <string.h>

#define MAX_GROUPS 1024

/* --- Parameters ---------------------------------------------------------------- */

static uint8_t type_of_term(uint32_t term)
{
    switch (term) {
    case TG_MS(1000521):
        return TG_IMS_F32;
    case TG_MS(1000523):
        return TG_IMS_F64;
    case TG_MS(1000519):
    case TG_IMS(1000141):
        return TG_IMS_I32;
    case TG_MS(1000522):
    case TG_IMS(1000142):
        return TG_IMS_I64;
    default:
        return TG_IMS_NO_TYPE;
    }
}

/* For the width of floats the name is what people meant; the encoded length decides later. */
static void take_type(tg_imzml_reader *r, tg_array_params *p, const tg_cv_param *cv)
{
    uint8_t type = type_of_term(cv->term), named = type_of_term(tg_term_of_name(cv->name));
    if (named != TG_IMS_NO_TYPE && named != type) {
        p->type_in_doubt = true;
        tg_ims_note(r->m->odd, TG_ODD_TYPE, 1, "%s is named '%.40s'", cv->accession, cv->name);
        type = named;
    }
    p->set |= TG_FIELD_TYPE;
    p->type = type;
}

static void take_array_param(tg_imzml_reader *r, tg_array_params *p, const tg_cv_param *cv)
{
    switch (cv->term) {
    case TG_MS(1000514):
    case TG_MS(1000515):
        p->set |= TG_FIELD_KIND;
        p->kind = cv->term == TG_MS(1000514) ? TG_KIND_MZ : TG_KIND_INTENSITY;
        break;
    case TG_MS(1000521):
    case TG_MS(1000523):
    case TG_MS(1000519):
    case TG_MS(1000522):
    case TG_IMS(1000141):
    case TG_IMS(1000142):
        take_type(r, p, cv);
        break;
    case TG_MS(1000574):
    case TG_MS(1000576):
        p->set |= TG_FIELD_DEFLATED;
        p->deflated = cv->term == TG_MS(1000574);
        break;
    case TG_MS(1000520): /* 16-bit float */
    case TG_MS(1001479): /* null-terminated text */
    case TG_MS(1002312): /* numpress, alone and with zlib */
    case TG_MS(1002313):
    case TG_MS(1002314):
    case TG_MS(1002746):
    case TG_MS(1002747):
    case TG_MS(1002748):
        p->unsupported = cv->term;
        break;
    default:
        break;
    }
}

static tg_term_number number_of(const char *text)
{
    tg_term_number n = {.given = true};
    n.bad = !tg_term_integer(text, &n.v, &n.negative);
    return n;
}

static void take_spectrum_kind(tg_imzml_reader *r, tg_ims_group *g, const tg_cv_param *cv)
{
    tg_imzml *m = r->m;
    switch (cv->term) {
    case TG_MS(1000127):
        *(g != NULL ? &g->centroid : &m->declared_centroid) = true;
        break;
    case TG_MS(1000128):
        *(g != NULL ? &g->profile : &m->declared_profile) = true;
        break;
    case TG_MS(1000130):
        *(g != NULL ? &g->positive : &m->positive) = true;
        break;
    case TG_MS(1000129):
        *(g != NULL ? &g->negative : &m->negative) = true;
        break;
    default:
        break;
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* "{554A27FA-79D2-...}", bare, with or without dashes. */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
    int n = 0;
    for (; *text != '\0'; text++) {
        int d = hex_digit(*text);
        if (d < 0) {
            if (strchr("{}-() \t\r\n", *text) == NULL)
                return false;
            continue;
        }
        if (n == 32)
            return false;
        uuid[n / 2] = (uint8_t)(n % 2 == 0 ? d << 4 : uuid[n / 2] | d);
        n++;
    }
    return n == 32;
}

static void take_sum(tg_imzml *m, tg_ims_sum kind, const char *text)
{
    size_t want = kind == TG_SUM_MD5 ? 32 : kind == TG_SUM_SHA1 ? 40 : 64, n = 0;
    char hex[65] = "";
    for (; *text != '\0'; text++) {
        int d = hex_digit(*text);
        if (d < 0)
            continue;
        if (n == want)
            return;
        hex[n++] = "0123456789abcdef"[d];
    }
    if (n != want || kind < m->sum) /* the longest of several is the one to check */
        return;
    m->sum = kind;
    memcpy(m->sum_hex, hex, sizeof hex);
}

static void take_file_param(tg_imzml_reader *r, const tg_cv_param *cv)
{
    tg_imzml *m = r->m;
    tg_term_number n;

    switch (cv->term) {
    case TG_IMS(1000030):
        m->declared_continuous = true;
        break;
    case TG_IMS(1000031):
        m->declared_processed = true;
        break;
    case TG_IMS(1000080):
        m->has_uuid = parse_uuid(cv->value, m->uuid);
        break;
    case TG_IMS(1000090):
        take_sum(m, TG_SUM_MD5, cv->value);
        break;
    case TG_IMS(1000091):
        take_sum(m, TG_SUM_SHA1, cv->value);
        break;
    case TG_IMS(1000092):
        take_sum(m, TG_SUM_SHA256, cv->value);
        break;
    case TG_IMS(1000042):
    case TG_IMS(1000043):
        n = number_of(cv->value);
        if (!n.bad && !n.negative)
            *(cv->term == TG_IMS(1000042) ? &m->declared_width : &m->declared_height) = n.v;
        break;
    case TG_IMS(1000046):
    case TG_IMS(1000047): {
        double size;
        if (tg_parse_double(cv->value, &size, NULL) == TG_OK && size > 0) {
            m->pixel_size[cv->term == TG_IMS(1000047)] = size;
            if (m->pixel_size[1] == 0) /* one size is for both axes until y has its own */
                m->pixel_size[1] = size;
        }
        break;
    }
    default:
        take_spectrum_kind(r, NULL, cv);
    }
}

static void take_spectrum_param(tg_imzml_reader *r, const tg_cv_param *cv)
{
    switch (cv->term) {
    case TG_IMS(1000050):
        r->x = number_of(cv->value);
        break;
    case TG_IMS(1000051):
        r->y = number_of(cv->value);
        break;
    case TG_IMS(1000052):
        r->z = number_of(cv->value);
        break;
    default:
        take_spectrum_kind(r, NULL, cv);
    }
}

static void take_param(tg_imzml_reader *r, const tg_cv_param *cv)
{
    if (r->in_array) {
        switch (cv->term) {
        case TG_IMS(1000102):
            r->array.offset = number_of(cv->value);
            break;
        case TG_IMS(1000103):
            r->array.count = number_of(cv->value);
            break;
        case TG_IMS(1000104):
            r->array.encoded = number_of(cv->value);
            break;
        default:
            take_array_param(r, &r->array.direct, cv);
        }
    } else if (r->in_spectrum) {
        take_spectrum_param(r, cv);
    } else if (r->group != NULL) {
        take_array_param(r, &r->group->array, cv);
        take_spectrum_kind(r, r->group, cv);
    } else {
        take_file_param(r, cv);
    }
}

/* "3DPositionX" of SCiLS exports, in um. */
static void take_user_param(tg_imzml_reader *r, const char **attributes)
{
    tg_cv_param p = tg_cv_param_of(attributes);
    double v;
    int axis = strcmp(p.name, "3DPositionX") == 0   ? 0
               : strcmp(p.name, "3DPositionY") == 0 ? 1
                                                    : -1;
    if (axis < 0 || !r->in_spectrum || tg_parse_double(p.value, &v, NULL) != TG_OK)
        return;
    r->position_3d[axis] = v;
    r->has_3d[axis] = true;
}

/* --- Groups --------------------------------------------------------------------- */

static const char *attribute(const char **attributes, const char *name)
{
    for (const char **a = attributes; a[0] != NULL; a += 2)
        if (strcmp(a[0], name) == 0)
            return a[1];
    return NULL;
}

static tg_status begin_group(tg_imzml_reader *r, const char **attributes, tg_error *err)
{
    const char *id = attribute(attributes, "id");

    if (id == NULL || strlen(id) >= TG_GROUP_ID_BYTES)
        return tg_fail(err, TG_CORRUPT, "referenceableParamGroup with no id of 1 to %d bytes",
                       TG_GROUP_ID_BYTES - 1);
    if (r->n_groups == MAX_GROUPS)
        return tg_fail(err, TG_CORRUPT, "more than %d parameter groups", MAX_GROUPS);
    if (r->n_groups == r->cap_groups) {
        size_t want = r->cap_groups == 0 ? 8 : r->cap_groups * 2;
        tg_ims_group *g = tg_alloc_array(want, sizeof *g);
        if (g == NULL)
            return tg_fail(err, TG_NO_MEMORY, "no memory for %zu parameter groups", want);
        if (r->n_groups > 0)
            memcpy(g, r->groups, r->n_groups * sizeof *g);
        tg_free(r->groups);
        r->groups = g;
        r->cap_groups = want;
    }
    r->group = &r->groups[r->n_groups++];
    *r->group = (tg_ims_group){0};
    (void)snprintf(r->group->id, sizeof r->group->id, "%s", id);
    return TG_OK;
}

static void merge_params(tg_array_params *to, const tg_array_params *from)
{
    if ((from->set & TG_FIELD_KIND) != 0)
        to->kind = from->kind;
    if ((from->set & TG_FIELD_TYPE) != 0) {
        to->type = from->type;
        to->type_in_doubt = from->type_in_doubt;
    }
    if ((from->set & TG_FIELD_DEFLATED) != 0)
        to->deflated = from->deflated;
    if (from->unsupported != 0)
        to->unsupported = from->unsupported;
    to->set |= from->set;
}

static tg_status use_group(tg_imzml_reader *r, const char **attributes, tg_error *err)
{
    const char *ref = attribute(attributes, "ref");

    for (size_t i = 0; ref != NULL && i < r->n_groups; i++) {
        const tg_ims_group *g = &r->groups[i];
        if (strcmp(g->id, ref) != 0)
            continue;
        if (r->in_array) {
            merge_params(&r->array.grouped, &g->array);
        } else if (r->group != NULL) {
            return tg_fail(err, TG_CORRUPT, "parameter group '%s' refers to a group",
                           r->group->id);
        } else {
            r->m->declared_centroid |= g->centroid;
            r->m->declared_profile |= g->profile;
            r->m->positive |= g->positive;
            r->m->negative |= g->negative;
        }
        return TG_OK;
    }
    if (!r->in_array)
        return TG_OK; /* says nothing about arrays: not needed */
    return tg_fail(err, TG_CORRUPT,
                   "spectrum %llu: refers to parameter group '%.80s', which is not defined",
                   (unsigned long long)r->n_seen, ref == NULL ? "" : ref);
}

/* --- A spectrum -------------------------------------------------------------------- */

static void begin_spectrum(tg_imzml_reader *r, const char **attributes)
{
    const char *n = attribute(attributes, "defaultArrayLength");

    r->in_spectrum = true;
    r->has[0] = r->has[1] = false;
    r->x = r->y = r->z = r->default_count = (tg_term_number){0};
    r->has_3d[0] = r->has_3d[1] = false;
    if (n != NULL)
        r->default_count = number_of(n);
}

static void end_array(tg_imzml_reader *r)
{
    tg_array_params p = r->array.grouped;
    merge_params(&p, &r->array.direct);
    r->array.direct = p;
    r->in_array = false;
    if (p.kind == TG_KIND_NONE) /* ion mobility and the like: never read */
        return;
    r->found[p.kind - 1] = r->array;
    r->has[p.kind - 1] = true;
}

static tg_status add_spectrum(tg_imzml_reader *r, const tg_spectrum *s, tg_error *err)
{
    tg_imzml *m = r->m;
    uint64_t bytes = (uint64_t)s->encoded[0] + s->encoded[1];

    TG_TRY(tg_imzml_grow(m, err));
    *tg_imzml_spectrum(m, m->n_spectra++) = *s;
    m->n_peaks += s->count;
    if (bytes > m->max_spectrum_bytes)
        m->max_spectrum_bytes = bytes;
    if (s->count > m->max_count)
        m->max_count = s->count;
    if (s->offset[TG_IMS_MZ] > r->last_offset)
        r->last_offset = s->offset[TG_IMS_MZ];
    if (r->z.given && !r->z.bad) {
        r->many_z |= r->any_z && r->z.v != r->first_z;
        r->first_z = r->z.v;
        r->any_z = true;
    }
    return TG_OK;
}

static tg_status end_spectrum(tg_imzml_reader *r, tg_error *err)
{
    tg_spectrum s = {0};
    tg_error why = {0};

    r->in_spectrum = false;
    tg_status st = r->ended ? TG_OK : tg_imzml_settle(r, &s, &why);
    unsigned long long index = r->n_seen++;
    if (r->ended)
        return TG_OK;
    if (st == TG_OK)
        return add_spectrum(r, &s, err);
    if (r->options.strictness != TG_IMS_LENIENT)
        return tg_fail(err, st == TG_INCOMPLETE ? TG_CORRUPT : st, "spectrum %llu: %s", index,
                       why.msg);
    r->ended = r->m->truncated = st == TG_INCOMPLETE;
    tg_ims_note(r->m->odd, st == TG_INCOMPLETE ? TG_ODD_TRUNCATED : TG_ODD_SKIPPED, 1,
                "spectrum %llu: %s", index, why.msg);
    return TG_OK;
}

/* --- Elements --------------------------------------------------------------------------- */

static tg_status on_start(void *user, const char *name, const char **attributes, tg_error *err)
{
    tg_imzml_reader *r = user;

    if (name[0] == 'c' && strcmp(name, "cvParam") == 0) {
        tg_cv_param cv = tg_cv_param_of(attributes);
        take_param(r, &cv);
    } else if (strcmp(name, "binaryDataArray") == 0) {
        if (!r->in_spectrum || r->in_array)
            return tg_fail(err, TG_CORRUPT, "binaryDataArray outside a spectrum");
        r->array = (tg_array_state){0};
        r->in_array = true;
    } else if (strcmp(name, "spectrum") == 0) {
        if (r->in_spectrum)
            return tg_fail(err, TG_CORRUPT, "spectrum %llu holds a spectrum",
                           (unsigned long long)r->n_seen);
        begin_spectrum(r, attributes);
    } else if (strcmp(name, "referenceableParamGroupRef") == 0) {
        return use_group(r, attributes, err);
    } else if (strcmp(name, "userParam") == 0) {
        take_user_param(r, attributes);
    } else if (strcmp(name, "referenceableParamGroup") == 0) {
        return begin_group(r, attributes, err);
    } else if (strcmp(name, "spectrumList") == 0) {
        const char *n = attribute(attributes, "count");
        tg_term_number count = number_of(n == NULL ? "" : n);
        r->m->declared_spectra = count.bad || count.negative ? 0 : count.v;
    }
    return TG_OK;
}

static tg_status on_end(void *user, const char *name, tg_error *err)
{
    tg_imzml_reader *r = user;

    if (name[0] == 'c')
        return TG_OK;
    if (r->in_array && strcmp(name, "binaryDataArray") == 0)
        end_array(r);
    else if (r->in_spectrum && strcmp(name, "spectrum") == 0)
        return end_spectrum(r, err);
    else if (r->group != NULL && strcmp(name, "referenceableParamGroup") == 0)
        r->group = NULL;
    return TG_OK;
}

static void on_again(void *user)
{
    tg_imzml_reader *r = user;
    tg_ims_group *groups = r->groups;
    size_t cap = r->cap_groups;

    tg_imzml_forget(r->m);
    *r = (tg_imzml_reader){
        .m = r->m, .options = r->options, .groups = groups, .cap_groups = cap};
}

tg_status tg_imzml_read(tg_imzml *m, const tg_imzml_options *options, uint8_t *room,
                        size_t room_bytes, const tg_cancel *cancel, tg_error *err)
{
    static const tg_xml_handlers handlers = {on_start, on_end, on_again};
    tg_imzml_reader r = {.m = m, .options = *options};

    tg_status st = tg_xml_read(m->source.store, m->source.xml_key, room, room_bytes, &handlers,
                               &r, &m->xml_crc32c, cancel, err);
    if (st == TG_OK && r.n_seen != m->declared_spectra)
        tg_ims_note(m->odd, TG_ODD_COUNT, 1, "spectrumList says %llu spectra, there are %llu",
                    (unsigned long long)m->declared_spectra, (unsigned long long)r.n_seen);
    if (st == TG_OK && r.many_z)
        tg_ims_note(m->odd, TG_ODD_PLANES, 1,
                    "spectra have several z: those at one (x, y) are added up");
    tg_free(r.groups);
    return st;
}
