/* A program of somebody else's: opens a runtime and asks for the version. */
#include <stdio.h>
#include <string.h>
#include <tidegate/tidegate.h>

int main(void)
{
    tg_error err;
    tg_runtime *rt = NULL;
    tg_runtime_options options;

    memset(&err, 0, sizeof err);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.memory_bytes = (uint64_t)64 << 20;
    options.threads = 1;
    if (tg_runtime_new(&options, &rt, &err) != TG_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    printf("tidegate %s, budget %llu bytes\n", tg_version(),
           (unsigned long long)tg_runtime_memory_bytes(rt));
    tg_runtime_free(rt);
    return 0;
}
