/* base/wider.h - one loop in two translations: for every processor, and for those with wider
 * vectors, chosen when it runs. What loops over integers, or over floats without fusing
 * products and sums (-ffp-contract=off), gives the same bits in both. */
#ifndef TG_BASE_WIDER_H
#define TG_BASE_WIDER_H

#include <stdbool.h>

#define TG_INLINE static inline __attribute__((always_inline))

extern bool tg_wider_off; /* for tests, before threads start: never the wider one */

#if defined(__x86_64__)
#define TG_WIDER      __attribute__((target("avx2")))
#define TG_HAVE_WIDER (!tg_wider_off && __builtin_cpu_supports("avx2"))
#else
#define TG_WIDER
#define TG_HAVE_WIDER false
#endif

/* static void NAME PARAMS, which does what BODY ARGS does, a TG_INLINE function. */
#define TG_DEFINE_WIDER(NAME, BODY, PARAMS, ARGS) TG_DEFINE_WIDER_AS(NAME, BODY, PARAMS, ARGS)
#define TG_DEFINE_WIDER_AS(NAME, BODY, PARAMS, ARGS) \
    static void NAME##_plain PARAMS                  \
    {                                                \
        BODY ARGS;                                   \
    }                                                \
    TG_WIDER static void NAME##_wider PARAMS         \
    {                                                \
        BODY ARGS;                                   \
    }                                                \
    static void NAME PARAMS                          \
    {                                                \
        if (TG_HAVE_WIDER)                           \
            NAME##_wider ARGS;                       \
        else                                         \
            NAME##_plain ARGS;                       \
    }

#endif
