/* region/npy.h: a header is a Python dict of three known keys, read by hand. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_NOFOLLOW */
#endif
#include "region/npy.h"

#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- The header --------------------------------------------------------------------------- */

typedef struct reader {
    const uint8_t *data;
    size_t at, end;
    tg_error *err;
} reader;

static tg_status bad(const reader *r, const char *want)
{
    tg_status st =
        tg_fail(r->err, TG_CORRUPT, ".npy: byte %zu of the header: want %s", r->at, want);
    tg_error_at(r->err, NULL, r->at);
    return st;
}

static int peek(reader *r)
{
    while (r->at < r->end && (r->data[r->at] == ' ' || r->data[r->at] == '\n' ||
                              r->data[r->at] == '\t' || r->data[r->at] == '\r'))
        r->at++;
    return r->at < r->end ? r->data[r->at] : -1;
}

static bool take(reader *r, char c)
{
    if (peek(r) != c)
        return false;
    r->at++;
    return true;
}

static tg_status take_string(reader *r, char word[32])
{
    const int quote = peek(r);
    size_t n = 0;

    if (quote != '\'' && quote != '"')
        return bad(r, "a string");
    for (r->at++; r->at < r->end && r->data[r->at] != quote; r->at++) {
        if (n == 31 || r->data[r->at] < ' ' || r->data[r->at] > '~' || r->data[r->at] == '\\')
            return bad(r, "a string of at most 31 plain characters");
        word[n++] = (char)r->data[r->at];
    }
    word[n] = '\0';
    return take(r, (char)quote) ? TG_OK : bad(r, "the end of a string");
}

static tg_status take_descr(reader *r, tg_npy *out)
{
    const uint16_t one = 1;
    const char native = *(const uint8_t *)&one == 1 ? '<' : '>';
    char word[32], order = '|';

    if (peek(r) == '[' || peek(r) == '(')
        return tg_fail(r->err, TG_UNSUPPORTED,
                       ".npy: its items are records, want numbers of one type");
    TG_TRY(take_string(r, word));
    TG_TRY(tg_dtype_parse_typestr(word, &out->dtype, &order, r->err));
    if (out->dtype.kind == TG_DT_STRING)
        return tg_fail(r->err, TG_UNSUPPORTED,
                       ".npy: its items are Python's objects, want numbers");
    out->swapped = order != '|' && order != native;
    return TG_OK;
}

static tg_status take_order(reader *r, tg_npy *out)
{
    static const char *const words[2] = {"False", "True"};

    (void)peek(r);
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(words[i]);
        if (r->end - r->at < n || memcmp(r->data + r->at, words[i], n) != 0)
            continue;
        r->at += n;
        out->fortran = i == 1;
        return TG_OK;
    }
    return bad(r, "True or False");
}

static tg_status take_extent(reader *r, uint64_t *n)
{
    const int first = peek(r);

    if (first < '0' || first > '9')
        return bad(r, "a whole number");
    *n = 0;
    for (; r->at < r->end && r->data[r->at] >= '0' && r->data[r->at] <= '9'; r->at++)
        if (__builtin_mul_overflow(*n, 10u, n) ||
            __builtin_add_overflow(*n, (uint64_t)(r->data[r->at] - '0'), n))
            return bad(r, "a number of at most 64 bits");
    if (r->at < r->end && r->data[r->at] == 'L') /* as Python 2 wrote them */
        r->at++;
    return TG_OK;
}

static tg_status take_shape(reader *r, tg_npy *out)
{
    out->shape.ndim = 0;
    if (!take(r, '('))
        return bad(r, "a tuple");
    while (!take(r, ')')) {
        if (out->shape.ndim == TG_MAX_NDIM)
            return bad(r, "at most 32 dimensions");
        TG_TRY(take_extent(r, &out->shape.n[out->shape.ndim++]));
        if (!take(r, ',') && peek(r) != ')')
            return bad(r, "',' or ')'");
    }
    return TG_OK;
}

static tg_status take_member(reader *r, tg_npy *out, unsigned *seen)
{
    static const char *const keys[3] = {"descr", "fortran_order", "shape"};
    char key[32];
    unsigned i = 0;

    TG_TRY(take_string(r, key));
    while (i < 3 && strcmp(key, keys[i]) != 0)
        i++;
    if (i == 3 || (*seen & 1u << i) != 0)
        return bad(r, "descr, fortran_order and shape, each once");
    *seen |= 1u << i;
    if (!take(r, ':'))
        return bad(r, "':'");
    return i == 0 ? take_descr(r, out) : i == 1 ? take_order(r, out) : take_shape(r, out);
}

static tg_status take_dict(reader *r, tg_npy *out)
{
    unsigned seen = 0;

    if (!take(r, '{'))
        return bad(r, "'{'");
    while (!take(r, '}')) {
        TG_TRY(take_member(r, out, &seen));
        if (!take(r, ',') && peek(r) != '}')
            return bad(r, "',' or '}'");
    }
    if (seen != 7)
        return bad(r, "descr, fortran_order and shape");
    return peek(r) == -1 ? TG_OK : bad(r, "nothing behind '}'");
}

tg_status tg_npy_parse(tg_npy *out, const uint8_t *data, size_t len, tg_error *err)
{
    const bool wide = len > 6 && data[6] > 1;
    const size_t start = wide ? 12 : 10;

    *out = (tg_npy){.dtype = {TG_DT_NONE, 0}};
    if (len < start || memcmp(data, "\x93NUMPY", 6) != 0)
        return tg_fail(err, TG_CORRUPT, ".npy: its first bytes are not those of such a file");
    if (data[6] == 0 || data[6] > 3 || data[7] != 0)
        return tg_fail(err, TG_UNSUPPORTED, ".npy: version %d.%d, want 1.0, 2.0 or 3.0",
                       data[6], data[7]);
    uint64_t n = data[8] | (uint64_t)data[9] << 8;
    if (wide)
        n |= (uint64_t)data[10] << 16 | (uint64_t)data[11] << 24;
    if (n > TG_NPY_HEADER_MAX - start)
        return tg_fail(err, TG_CORRUPT, ".npy: a header of %" PRIu64 " bytes, want at most %zu",
                       n, TG_NPY_HEADER_MAX - start);
    if (n > len - start)
        return tg_fail(err, TG_CORRUPT,
                       ".npy: truncated: %zu bytes, the header alone has %" PRIu64, len,
                       start + n);
    reader r = {.data = data, .at = start, .end = start + (size_t)n, .err = err};
    TG_TRY(take_dict(&r, out));
    out->data_start = r.end;
    return TG_OK;
}

static char kind_letter(tg_dtype_kind kind)
{
    switch (kind) {
    case TG_DT_BOOL:
        return 'b';
    case TG_DT_INT:
        return 'i';
    case TG_DT_UINT:
        return 'u';
    case TG_DT_FLOAT:
        return 'f';
    case TG_DT_COMPLEX:
        return 'c';
    default:
        return 'V';
    }
}

size_t tg_npy_header(char room[1280], tg_dtype dtype, const tg_shape *shape)
{
    const uint16_t one = 1;
    const char native = *(const uint8_t *)&one == 1 ? '<' : '>';
    const char order = dtype.size == 1 || dtype.kind == TG_DT_RAW ? '|' : native;
    size_t n = 10;

    n += (size_t)snprintf(room + n, 1280 - n,
                          "{'descr': '%c%c%" PRIu32 "', 'fortran_order': False, 'shape': (",
                          order, kind_letter(dtype.kind), dtype.size);
    for (uint32_t d = 0; d < shape->ndim; d++)
        n += (size_t)snprintf(room + n, 1280 - n, "%" PRIu64 ",", shape->n[d]);
    n += (size_t)snprintf(room + n, 1280 - n, "), }");
    while ((n + 1) % 64 != 0)
        room[n++] = ' ';
    room[n++] = '\n';
    const uint8_t start[10] = {0x93,
                               'N',
                               'U',
                               'M',
                               'P',
                               'Y',
                               1,
                               0,
                               (uint8_t)((n - 10) & 255),
                               (uint8_t)((n - 10) >> 8)};
    memcpy(room, start, sizeof start);
    return n;
}

/* --- Files -------------------------------------------------------------------------------- */

static void shape_of(const tg_region_view *v, tg_shape *s)
{
    *s = (tg_shape){.ndim = v->ndim};
    memcpy(s->n, v->shape, v->ndim * sizeof *s->n);
}

tg_status tg_npy_write(int dir, const char *name, const tg_region_view *view, tg_error *err)
{
    char header[1280];
    size_t bytes = 0;
    tg_shape shape;

    shape_of(view, &shape);
    const size_t n = tg_npy_header(header, view->dtype, &shape);
    TG_TRY(tg_shape_bytes(&shape, view->dtype.size, &bytes, err));
    tg_fd fd = tg_sys_open(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return tg_fail_errno(err, "make %s", name);
    tg_status st = tg_fd_write_at(fd, header, n, 0, name, err);
    if (st == TG_OK)
        st = tg_fd_write_at(fd, view->data, bytes, n, name, err);
    if (st == TG_OK)
        return tg_fd_close(&fd, name, err);
    (void)tg_sys_close(fd);
    return st;
}

static void add_shape(char *room, size_t cap, const tg_shape *s)
{
    size_t n = (size_t)snprintf(room, cap, "(");

    for (uint32_t d = 0; d < s->ndim && n < cap; d++)
        n += (size_t)snprintf(room + n, cap - n, "%s%" PRIu64, d == 0 ? "" : ", ", s->n[d]);
    if (n < cap)
        (void)snprintf(room + n, cap - n, s->ndim == 1 ? ",)" : ")");
}

static tg_status check(const tg_npy *npy, const tg_region_view *v, tg_error *err)
{
    char got[160], want[160], a[16], b[16];
    tg_shape shape;

    shape_of(v, &shape);
    if (npy->dtype.kind != v->dtype.kind || npy->dtype.size != v->dtype.size)
        return tg_fail(err, TG_INVALID, "it holds %s, want %s (--dtype says which)",
                       tg_dtype_name(npy->dtype, a), tg_dtype_name(v->dtype, b));
    if (tg_shape_equal(&npy->shape, &shape))
        return TG_OK;
    add_shape(got, sizeof got, &npy->shape);
    add_shape(want, sizeof want, &shape);
    return tg_fail(err, TG_INVALID, "its shape is %s, want %s", got, want);
}

/* n items of a Fortran-ordered file from item `first` on. */
static void scatter(const tg_npy *npy, const tg_region_view *v, const uint8_t *items,
                    uint64_t first, uint64_t n)
{
    const size_t size = v->dtype.size;

    for (uint64_t i = first; i < first + n; i++, items += size) {
        uint8_t *to = v->data;
        uint64_t left = i;
        for (uint32_t d = 0; d < v->ndim; d++) {
            to += (int64_t)(left % npy->shape.n[d]) * v->strides[d];
            left /= npy->shape.n[d];
        }
        memcpy(to, items, size);
    }
}

static tg_status read_items(int fd, const char *name, const tg_npy *npy,
                            const tg_region_view *v, uint64_t items, uint8_t *room,
                            tg_error *err)
{
    const size_t size = v->dtype.size, most = TG_NPY_HEADER_MAX / size;
    const size_t unit = tg_dtype_swap_bytes(v->dtype);
    const bool plain = !npy->fortran || v->ndim < 2;

    if (plain && !npy->swapped)
        return tg_fd_read_at(fd, v->data, (size_t)items * size, npy->data_start, name, err);
    if (most == 0)
        return tg_fail(err, TG_UNSUPPORTED, "%s: items of %zu bytes in Fortran's order", name,
                       size);
    for (uint64_t i = 0; i < items;) {
        const size_t n = items - i < most ? (size_t)(items - i) : most;
        TG_TRY(tg_fd_read_at(fd, room, n * size, npy->data_start + i * size, name, err));
        if (npy->swapped)
            tg_nd_swap(room, room, n * size / unit, unit);
        if (plain)
            memcpy((uint8_t *)v->data + i * size, room, n * size);
        else
            scatter(npy, v, room, i, n);
        i += n;
    }
    return TG_OK;
}

tg_status tg_npy_read(int dir, const char *name, const tg_region_view *view, uint8_t *room,
                      tg_error *err)
{
    /* Not to wait for the other end of a pipe that somebody has put there. */
    TG_AUTO(tg_fd) fd = tg_sys_open(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    struct stat s;
    tg_npy npy;
    uint64_t items = 0;
    tg_shape shape;

    if (fd < 0 && errno == ENOENT)
        return tg_fail(err, TG_NOT_FOUND, "there is no %s", name);
    if (fd < 0 || tg_sys_stat_fd(fd, &s) != 0)
        return tg_fail_errno(err, "open %s", name);
    if (!S_ISREG(s.st_mode))
        return tg_fail(err, TG_INVALID, "%s is no regular file", name);
    const uint64_t size = (uint64_t)s.st_size;
    const size_t n = size < TG_NPY_HEADER_MAX ? (size_t)size : TG_NPY_HEADER_MAX;
    TG_TRY(tg_fd_read_at(fd, room, n, 0, name, err));
    TG_TRY(tg_npy_parse(&npy, room, n, err));
    TG_TRY(check(&npy, view, err));
    shape_of(view, &shape);
    TG_TRY(tg_shape_items(&shape, &items, err));
    if (size - npy.data_start != items * view->dtype.size)
        return tg_fail(err, TG_CORRUPT,
                       ".npy: %" PRIu64 " bytes of items, want %" PRIu64 " (truncated?)",
                       size - npy.data_start, items * view->dtype.size);
    return read_items(fd, name, &npy, view, items, room, err);
}
