/* tests/contract/stores.h - a folder for a test, and bytes that tell where they come from. */
#ifndef TG_TESTS_STORES_H
#define TG_TESTS_STORES_H

#include "check.h"
#include "store/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEST_PATH 4096

/* A new folder under $TMPDIR, else /tmp. */
static inline void test_folder(char *path)
{
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(path, TEST_PATH, "%s/tg-test-XXXXXX", tmp == NULL ? "/tmp" : tmp);
    if (mkdtemp(path) == NULL) {
        perror(path);
        exit(1);
    }
}

static inline void test_remove(int at, const char *name)
{
    if (unlinkat(at, name, 0) == 0)
        return;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            test_remove(dirfd(d), e->d_name);
    }
    if (d != NULL)
        (void)closedir(d);
    (void)unlinkat(at, name, AT_REMOVEDIR);
}

/* Byte i of value number `seed`: no two values, and no two places of one, look alike. */
static inline uint8_t test_byte(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u ^ (i + 1) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 31;
    return (uint8_t)(x * 0x94d049bb133111ebu >> 56);
}

static inline void test_fill(void *dst, size_t n, uint64_t seed, uint64_t at)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)dst)[i] = test_byte(seed, at + i);
}

static inline bool test_same(const void *got, size_t n, uint64_t seed, uint64_t at)
{
    for (size_t i = 0; i < n; i++) {
        if (((const uint8_t *)got)[i] != test_byte(seed, at + i))
            return false;
    }
    return true;
}

#endif
