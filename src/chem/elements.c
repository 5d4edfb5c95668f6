/* chem/elements.c - finds an element by its symbol. */
#include "chem/elements.h"

#include <string.h>

int tg_element_find(const char *symbol, size_t len)
{
    if (len == 0 || len > 2)
        return -1;
    for (int i = 0; i < TG_N_ELEMENTS; i++) {
        const char *s = tg_element_table[i].symbol;
        if (s[0] == symbol[0] && s[1] == (len == 2 ? symbol[1] : '\0'))
            return i;
    }
    return -1;
}

static const struct {
    char symbol[4];
    double mass;
} labels[TG_N_LABELS] = {
    {"Cx", 13.00335484}, {"Nx", 15.00010889}, {"Hx", 2.014101778},
    {"Ox", 17.99915961}, {"Sx", 33.967867},
};

int tg_label_find(const char *symbol, size_t len)
{
    for (int i = 0; i < TG_N_LABELS; i++)
        if (len == 2 && memcmp(symbol, labels[i].symbol, 2) == 0)
            return i;
    return -1;
}

double tg_label_mass(int label)
{
    return labels[label].mass;
}
