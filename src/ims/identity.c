/* ims/identity.c - the digest of a data set, and the note of it. Knows nothing of peaks. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include "ims/identity.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/sys.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define EDGE      ((uint64_t)64 << 10) /* of the ibd, at both ends */
#define ROOM      ((size_t)1 << 20)
#define NOTE      "source.note"
#define NOTE_HEAD "tidegate-source 1\n"
/* A file that was changed within the tick of its file system's clock keeps its time: what is
 * younger than this is not noted. */
#define OLD_NS ((int64_t)2000000000)

/* --- Stamps ------------------------------------------------------------------------------ */

static bool is_local(const char *url)
{
    return strstr(url, "://") == NULL && strchr(url, '|') == NULL;
}

static bool stamp_file(tg_text *t, const char *path, int64_t now)
{
    struct stat st;
    if (tg_sys_stat(AT_FDCWD, path, &st, 0) != 0)
        return false;
    int64_t changed = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    tg_text_addf(t, "%llx %lld.%09ld %llx\n", (unsigned long long)st.st_size,
                 (long long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec,
                 (unsigned long long)st.st_ino);
    return now - changed > OLD_NS;
}

static void make_stamp(tg_identity *out, const tg_ims_source *s, const char *url)
{
    TG_AUTO(tg_text) t = {0};
    TG_AUTO(tg_text) ibd = {0};
    const char *slash = strrchr(url, '/');
    int64_t now = tg_clock_utc_ns();

    if (!is_local(url))
        return;
    tg_text_add_n(&ibd, url, slash == NULL ? 0 : (size_t)(slash - url) + 1);
    tg_text_add(&ibd, s->ibd_key);
    if (tg_text_status(&ibd, NULL) != TG_OK || !stamp_file(&t, url, now) ||
        !stamp_file(&t, ibd.data, now) || tg_text_status(&t, NULL) != TG_OK ||
        t.len >= sizeof out->stamp)
        return;
    memcpy(out->stamp, t.data, t.len + 1);
}

/* --- The note ------------------------------------------------------------------------------
 */

/* It becomes part of a name: nothing else may stand in it. */
static bool is_digest(const char *s, size_t n)
{
    return n > 0 && n < sizeof((tg_identity *)0)->digest && strspn(s, "0123456789abcdef-") >= n;
}

void tg_identity_recall(tg_identity *out, const tg_ims_source *s, const char *url,
                        tg_store *home, const tg_cancel *cancel)
{
    char note[512];
    size_t n, head = strlen(NOTE_HEAD);

    *out = (tg_identity){0};
    make_stamp(out, s, url);
    size_t stamp = strlen(out->stamp);
    if (stamp == 0 || tg_store_get_into(home, NOTE, tg_range_all(), note, sizeof note - 1, &n,
                                        NULL, cancel, NULL) != TG_OK)
        return;
    note[n] = '\0';
    if (n <= head + stamp + 1 || memcmp(note, NOTE_HEAD, head) != 0 ||
        memcmp(note + head, out->stamp, stamp) != 0 || note[n - 1] != '\n')
        return;
    const char *digest = note + head + stamp;
    size_t len = n - 1 - head - stamp;
    if (is_digest(digest, len))
        memcpy(out->digest, digest, len); /* the rest is zeros */
}

tg_status tg_identity_note(const tg_identity *id, tg_store *home, const tg_cancel *cancel,
                           tg_error *err)
{
    char note[512];
    if (id->stamp[0] == '\0')
        return TG_OK;
    int n = snprintf(note, sizeof note, NOTE_HEAD "%s%s\n", id->stamp, id->digest);
    return tg_store_put(home, NOTE, note, (size_t)n, cancel, err);
}

/* --- The digest ------------------------------------------------------------------------------
 */

/* Checksum of a range of a value, through a buffer. */
static tg_status sum_range(tg_store *store, const char *key, uint64_t from, uint64_t to,
                           uint32_t *crc, const tg_cancel *cancel, tg_error *err)
{
    TG_AUTO(tg_mem_ptr) room = tg_alloc(ROOM);
    if (room == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory to sum '%s'", key);
    for (uint64_t at = from; at < to;) {
        size_t n = to - at < ROOM ? (size_t)(to - at) : ROOM, got;
        TG_TRY(tg_store_get_into(store, key, tg_range_at(at, n), room, ROOM, &got, NULL, cancel,
                                 err));
        *crc = tg_crc32c(*crc, room, n);
        at += n;
    }
    return TG_OK;
}

tg_status tg_identity_make(tg_identity *id, const tg_ims_source *s, const uint32_t *xml_crc32c,
                           const tg_cancel *cancel, tg_error *err)
{
    uint64_t xml_bytes, ibd_bytes;
    uint32_t xml = 0, ibd = 0;

    TG_TRY(tg_store_size(s->store, s->xml_key, &xml_bytes, cancel, err));
    TG_TRY(tg_store_size(s->store, s->ibd_key, &ibd_bytes, cancel, err));
    if (xml_crc32c != NULL)
        xml = *xml_crc32c;
    else
        TG_TRY(sum_range(s->store, s->xml_key, 0, xml_bytes, &xml, cancel, err));
    uint64_t edge = ibd_bytes < EDGE ? ibd_bytes : EDGE;
    TG_TRY(sum_range(s->store, s->ibd_key, 0, edge, &ibd, cancel, err));
    TG_TRY(sum_range(s->store, s->ibd_key, ibd_bytes - edge, ibd_bytes, &ibd, cancel, err));
    (void)snprintf(id->digest, sizeof id->digest, "%llx-%08x-%llx-%08x",
                   (unsigned long long)xml_bytes, xml, (unsigned long long)ibd_bytes, ibd);
    return TG_OK;
}
