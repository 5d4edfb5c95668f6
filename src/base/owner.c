/* base/owner.c - what names a process for as long as it lives, and no other after it. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* gethostname() */
#endif
#include "base/owner.h"

#include "base/sys.h"
#include "tidegate/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The start of a file as text; "" if it cannot be read. */
static void read_text(int dir, const char *path, char *dst, size_t cap)
{
    TG_AUTO(tg_fd) fd = tg_sys_open(dir, path, O_RDONLY | O_NONBLOCK, 0);
    ssize_t n = fd < 0 ? -1 : tg_sys_read(fd, dst, cap - 1);
    dst[n < 0 ? 0 : n] = '\0';
}

void tg_boot_id(char id[TG_BOOT_ID_BYTES])
{
    read_text(AT_FDCWD, "/proc/sys/kernel/random/boot_id", id, TG_BOOT_ID_BYTES);
    id[strcspn(id, "\n")] = '\0';
}

/* When a process began, in ticks since boot; 0: no such process, or not known. */
static uint64_t start_time(uint64_t pid)
{
    char path[64], text[1024];
    uint64_t ticks = 0;

    (void)snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
    read_text(AT_FDCWD, path, text, sizeof text);
    /* The name in parentheses may hold blanks: field 3 is behind the last one that closes. */
    char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL)
        return 0;
    at[1 + strcspn(at + 1, " \n")] = '\0';
    return tg_parse_u64(at + 1, &ticks, NULL) == TG_OK ? ticks : 0;
}

void tg_owner_self(tg_owner *o)
{
    *o = (tg_owner){.pid = (uint64_t)getpid()};
    o->start = start_time(o->pid);
    tg_boot_id(o->boot);
    if (o->boot[0] == '\0')
        (void)snprintf(o->boot, sizeof o->boot, "-");
    if (gethostname(o->host, sizeof o->host - 1) != 0 || o->host[0] == '\0')
        (void)snprintf(o->host, sizeof o->host, "-");
}

size_t tg_owner_line(const tg_owner *o, char line[TG_OWNER_LINE])
{
    int n = snprintf(line, TG_OWNER_LINE, "%" PRIu64 " %s %" PRIu64 " %s\n", o->pid, o->boot,
                     o->start, o->host);
    return n < 0 ? 0 : (size_t)n;
}

void tg_owner_read(int dir, const char *path, char text[TG_OWNER_LINE])
{
    read_text(dir, path, text, TG_OWNER_LINE);
}

static const char *next_word(char **at)
{
    char *word = *at, *end = word + strcspn(word, " \n");

    *at = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

bool tg_owner_parse(const char *text, tg_owner *o)
{
    char line[TG_OWNER_LINE], *at = line;

    (void)snprintf(line, sizeof line, "%s", text);
    *o = (tg_owner){0};
    if (strchr(text, '\n') == NULL || tg_parse_u64(next_word(&at), &o->pid, NULL) != TG_OK ||
        o->pid == 0 || o->pid > INT32_MAX) /* kill() would mean a group of processes */
        return false;
    (void)snprintf(o->boot, sizeof o->boot, "%s", next_word(&at));
    if (tg_parse_u64(next_word(&at), &o->start, NULL) != TG_OK)
        return false;
    (void)snprintf(o->host, sizeof o->host, "%s", next_word(&at));
    return true;
}

bool tg_owner_alive(const tg_owner *o, const tg_owner *self)
{
    if (strcmp(o->host, self->host) != 0)
        return true; /* another machine's: nothing here can tell */
    if (strcmp(o->boot, self->boot) != 0)
        return false;
    if (kill((pid_t)o->pid, 0) != 0 && errno == ESRCH)
        return false;
    return o->start == 0 || start_time(o->pid) == o->start;
}
