/* Half precision by the arithmetic of doubles, which hold every half exactly.
 * Knows nothing of arrays; fill values need no speed. */
#include "nd/half.h"

#include <math.h>

double tg_half_to_double(uint16_t bits)
{
    int exponent = (bits >> 10) & 0x1f;
    double mantissa = bits & 0x3ff;
    double v = 0;

    if (exponent == 0x1f)
        v = mantissa != 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        v = ldexp(mantissa, -24);
    else
        v = ldexp(mantissa + 1024, exponent - 25);
    return (bits & 0x8000) != 0 ? -v : v;
}

uint16_t tg_half_from_double(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(v);

    if (isnan(v))
        return 0x7e00;
    if (a >= 65520) /* half way between the largest half and the next power of two */
        return (uint16_t)(sign | 0x7c00);
    if (a < ldexp(1, -14)) /* subnormal: units of 2^-24; 1024 of them are the first normal */
        return (uint16_t)(sign | (uint16_t)nearbyint(ldexp(a, 24)));
    int exponent = 0;
    double fraction = frexp(a, &exponent); /* in [0.5, 1) */
    /* A mantissa that rounds up to 2048 carries into the exponent by itself. */
    int mantissa = (int)nearbyint(ldexp(fraction, 11)) - 1024;
    return (uint16_t)(sign | (uint16_t)(((exponent + 14) << 10) + mantissa));
}
