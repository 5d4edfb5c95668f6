/* fuzz_op.c - any text as an operation for an array of three dimensions: refused with a
 * message, or opened, with as many bytes of scratch as it can tell. */
#include "region/function.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const axes[] = {"z", "y", "x"};
    const tg_shape shape = {3, {4, 30, 50}};
    tg_function_env env = {.in_shape = &shape, .in_chunk = &shape, .axes = axes, .jobs = 1};
    char text[512];
    tg_error err = {0};

    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    env.in_dtype = (tg_dtype){TG_DT_UINT, 2};
    tg_function *f = NULL;
    if (tg_function_open(&f, 'o', text, &env, &err) != TG_OK) {
        if (err.msg[0] == '\0' || f != NULL)
            abort();
        return 0;
    }
    if (f->ops->scratch_bytes != NULL)
        (void)f->ops->scratch_bytes(f, &shape, &f->facts.out_shape);
    tg_function_free(f);
    return 0;
}
