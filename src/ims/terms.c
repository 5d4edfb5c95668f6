/* ims/terms.c - reads accessions, names of terms, and numbers. */
#include "ims/terms.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

uint32_t tg_term_of_accession(const char *a)
{
    uint32_t bit = a[0] == 'I' ? TG_TERM_IMS : 0, v = 0;

    while (*a != '\0' && *a != ':')
        a++;
    if (*a == '\0' || a[1] == '\0')
        return 0;
    for (a++; *a >= '0' && *a <= '9'; a++)
        v = v < 100000000 ? v * 10 + (uint32_t)(*a - '0') : v;
    return *a != '\0' || v == 0 ? 0 : v | bit;
}

static const struct {
    const char *name;
    uint32_t term;
} names[] = {
    {"continuous", TG_IMS(1000030)},
    {"processed", TG_IMS(1000031)},
    {"max count of pixels x", TG_IMS(1000042)},
    {"max count of pixels y", TG_IMS(1000043)},
    {"pixel size", TG_IMS(1000046)},
    {"pixel size x", TG_IMS(1000046)},
    {"pixel size (x)", TG_IMS(1000046)},
    {"pixel size y", TG_IMS(1000047)},
    {"position x", TG_IMS(1000050)},
    {"position y", TG_IMS(1000051)},
    {"position z", TG_IMS(1000052)},
    {"universally unique identifier", TG_IMS(1000080)},
    {"ibd MD5", TG_IMS(1000090)},
    {"ibd SHA-1", TG_IMS(1000091)},
    {"ibd SHA-256", TG_IMS(1000092)},
    {"external offset", TG_IMS(1000102)},
    {"external array length", TG_IMS(1000103)},
    {"external encoded length", TG_IMS(1000104)},
    {"m/z array", TG_MS(1000514)},
    {"intensity array", TG_MS(1000515)},
    {"32-bit float", TG_MS(1000521)},
    {"64-bit float", TG_MS(1000523)},
    {"32-bit integer", TG_MS(1000519)},
    {"64-bit integer", TG_MS(1000522)},
    {"16-bit float", TG_MS(1000520)},
    {"zlib compression", TG_MS(1000574)},
    {"no compression", TG_MS(1000576)},
    {"centroid spectrum", TG_MS(1000127)},
    {"profile spectrum", TG_MS(1000128)},
    {"positive scan", TG_MS(1000130)},
    {"negative scan", TG_MS(1000129)},
};

uint32_t tg_term_of_name(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i].name) == 0)
            return names[i].term;
    return 0;
}

/* Four names of an element: a call for each is a twentieth of the reading. */
static inline bool same(const char *a, const char *b)
{
    while (*a == *b && *a != '\0')
        a++, b++;
    return *a == *b;
}

tg_cv_param tg_cv_param_of(const char **attributes)
{
    tg_cv_param p = {0, "", "", ""};

    for (const char **a = attributes; a[0] != NULL; a += 2) {
        if (a[0][0] == 'a' && same(a[0], "accession"))
            p.accession = a[1];
        else if (a[0][0] == 'v' && same(a[0], "value"))
            p.value = a[1];
        else if (a[0][0] == 'n' && same(a[0], "name"))
            p.name = a[1];
    }
    p.term = tg_term_of_accession(p.accession);
    if (p.term == 0)
        p.term = tg_term_of_name(p.name);
    return p;
}

static bool exact_double(const char *text, uint64_t *v, bool *negative)
{
    double d;
    if (tg_parse_double(text, &d, NULL) != TG_OK)
        return false;
    *negative = d < 0;
    d = fabs(d);
    if (d != floor(d) || d >= 0x1p53)
        return false;
    *v = (uint64_t)d;
    return true;
}

bool tg_term_integer(const char *text, uint64_t *v, bool *negative)
{
    const char *c = text;
    uint64_t sum = 0;

    while (*c == ' ' || *c == '\t' || *c == '\n' || *c == '\r')
        c++;
    *negative = *c == '-';
    if (*c == '-' || *c == '+')
        c++;
    if (*c < '0' || *c > '9')
        return false;
    for (; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(sum, (uint64_t)10, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*c - '0'), &sum))
            return false;
    while (*c == ' ' || *c == '\t' || *c == '\n' || *c == '\r')
        c++;
    if (*c != '\0')
        return exact_double(text, v, negative);
    *v = sum;
    return true;
}
