/* tidegate/dtype.h - the type of an array's items. */
#ifndef TG_DTYPE_H
#define TG_DTYPE_H

#include "tidegate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TG_MAX_NDIM 32

/* Numbers in memory are native-endian. Complex is real, imaginary. A string is
 * of variable length and never lies in a plain buffer (see array.h). */
typedef enum tg_dtype_kind {
    TG_DT_NONE,
    TG_DT_BOOL,
    TG_DT_INT,     /* 1, 2, 4, 8 bytes */
    TG_DT_UINT,    /* 1, 2, 4, 8 bytes */
    TG_DT_FLOAT,   /* 2, 4, 8 bytes, IEEE 754 */
    TG_DT_COMPLEX, /* 8, 16 bytes */
    TG_DT_STRING,  /* Zarr v3 "string", v2 "|O" with vlen-utf8 */
    TG_DT_RAW      /* r<N>, "|VN": opaque bytes */
} tg_dtype_kind;

typedef struct tg_dtype {
    tg_dtype_kind kind;
    uint32_t size; /* bytes of one item; 0 for a string */
} tg_dtype;

/* "uint16", "u16", "int8", "float32", "f4", "<u2", "bool", "complex64", "string", "r24". A
 * number after a letter counts bits if there is such a type, else bytes: "u8" is uint8, as
 * people say it; numpy's "<u8" is uint64. ">u2" is refused: numbers in memory are native.
 * TG_INVALID names what it got and lists what is known. */
TG_API TG_MUST_USE tg_status tg_dtype_parse(const char *name, tg_dtype *out, tg_error *err);
/* numpy's and Zarr v3's name, such as "uint16"; static, or in `room` (16 bytes) for r<N>. */
TG_API const char *tg_dtype_name(tg_dtype t, char room[16]);

#ifdef __cplusplus
}
#endif
#endif
