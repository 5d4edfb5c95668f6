/* fuzz/replay.c - runs a fuzz target once on every file of the folders and
 * files named: the corpus, and every input that once failed. Lets plain ctest,
 * with any compiler, run them. A corpus with no file in it is a failure. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int n_run;

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        perror(path);
        return 1;
    }
    size_t cap = 1 << 22;
    uint8_t *data = malloc(cap);
    size_t size = data == NULL ? 0 : fread(data, 1, cap, f);
    (void)fclose(f);
    /* An exact copy, so that a sanitizer sees one byte too far. */
    uint8_t *exact = malloc(size == 0 ? 1 : size);
    if (data == NULL || exact == NULL)
        return 1;
    memcpy(exact, data, size);
    free(data);
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    n_run++;
    return 0;
}

static int run_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode))
        return run_file(path);
    DIR *d = opendir(path);
    int bad = d == NULL;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char sub[4096];
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
        bad |= run_path(sub);
    }
    if (d != NULL)
        (void)closedir(d);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0;
    for (int i = 1; i < argc; i++)
        bad |= run_path(argv[i]);
    printf("%d inputs\n", n_run);
    return bad != 0 || n_run == 0;
}
