/* Slots of a nameless file. Free ones are chained through their own first bytes, so that the
 * table of them takes no memory. */
#include "region/swap.h"

#include "base/crc32c.h"

#include <errno.h>
#include <fcntl.h>

void tg_swap_init(tg_swap *s, const tg_folder *side, const char *name, uint64_t slot_bytes)
{
    *s = (tg_swap){.fd = -1,
                   .slot_bytes = slot_bytes < 8 ? 8 : slot_bytes,
                   .free = TG_NO_SLOT,
                   .side = side,
                   .name = name};
    tg_mutex_init(&s->lock);
}

void tg_swap_destroy(tg_swap *s)
{
    if (s->fd >= 0)
        (void)tg_sys_close(s->fd); /* nobody reads it any more */
    tg_mutex_destroy(&s->lock);
}

static tg_status make(tg_swap *s, tg_error *err)
{
    s->fd = tg_sys_open(s->side->dir, s->name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (s->fd < 0)
        return tg_folder_fail(s->side, "make", s->name, err);
    return tg_folder_drop(s->side, s->name, err);
}

static tg_status take_slot(tg_swap *s, uint64_t *slot, tg_error *err)
{
    TG_LOCKED_FOR_IO(&s->lock);
    if (s->fd < 0)
        TG_TRY(make(s, err));
    s->written += s->slot_bytes;
    if (s->free == TG_NO_SLOT) {
        *slot = s->n_slots++;
        return TG_OK;
    }
    *slot = s->free;
    return tg_fd_read_at(s->fd, &s->free, sizeof s->free, *slot * s->slot_bytes, s->name, err);
}

static tg_status give_slot(tg_swap *s, uint64_t slot, tg_error *err)
{
    TG_LOCKED_FOR_IO(&s->lock);
    TG_TRY(tg_fd_write_at(s->fd, &s->free, sizeof s->free, slot * s->slot_bytes, s->name, err));
    s->free = slot;
    return TG_OK;
}

tg_status tg_swap_out(tg_swap *s, const void *data, uint64_t *slot, uint32_t *sum,
                      tg_error *err)
{
    TG_TRY(take_slot(s, slot, err));
    *sum = tg_crc32c(0, data, (size_t)s->slot_bytes);
    return tg_fd_write_at(s->fd, data, (size_t)s->slot_bytes, *slot * s->slot_bytes, s->name,
                          err);
}

tg_status tg_swap_in(tg_swap *s, uint64_t slot, uint32_t sum, void *data, tg_error *err)
{
    TG_TRY(
        tg_fd_read_at(s->fd, data, (size_t)s->slot_bytes, slot * s->slot_bytes, s->name, err));
    uint32_t got = tg_crc32c(0, data, (size_t)s->slot_bytes);
    if (got != sum)
        return tg_fail(err, TG_CORRUPT, "'%.200s/%s', slot %llu: crc32c %08x, want %08x",
                       s->side->path, s->name, (unsigned long long)slot, got, sum);
    return give_slot(s, slot, err);
}
