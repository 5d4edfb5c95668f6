/* nd/half.h - IEEE 754 half precision, to and from double. */
#ifndef TG_ND_HALF_H
#define TG_ND_HALF_H

#include <stdint.h>

double tg_half_to_double(uint16_t bits);
/* Rounds to nearest, ties to even; beyond the range: infinity. NaN becomes 0x7e00. */
uint16_t tg_half_from_double(double v);

#endif
