/* base/owner.h - who has a lock: the line in it names its owner, so that a reader knows whom to
 * ask, and a dead owner is recognised without a daemon. The line is
 * "PID BOOT-ID START-TIME HOST\n"; START-TIME in ticks since boot, 0 where it is not known. */
#ifndef TG_BASE_OWNER_H
#define TG_BASE_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TG_BOOT_ID_BYTES 40
#define TG_OWNER_LINE    384

typedef struct tg_owner {
    uint64_t pid, start;
    char boot[TG_BOOT_ID_BYTES], host[256];
} tg_owner;

/* The boot id of this machine, "" where it has none. */
void tg_boot_id(char id[TG_BOOT_ID_BYTES]);
void tg_owner_self(tg_owner *o); /* this process */
/* Returns the bytes of the line, without the NUL behind them. */
size_t tg_owner_line(const tg_owner *o, char line[TG_OWNER_LINE]);
/* The start of a file as text; "" if it cannot be read. */
void tg_owner_read(int dir, const char *path, char text[TG_OWNER_LINE]);
/* false: no whole line. */
bool tg_owner_parse(const char *text, tg_owner *o);
/* One of another machine counts as alive: nothing here can tell. */
bool tg_owner_alive(const tg_owner *o, const tg_owner *self);

#endif
