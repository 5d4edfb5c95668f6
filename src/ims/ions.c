/* ims/ions.c - modifiers, decoys, and the walk over all ions. */
#include "ims/ions.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- Modifiers -------------------------------------------------------------------------- */

static bool is_empty_modifier(const char *s)
{
    return strcmp(s, "[M]+") == 0 || strcmp(s, "[M]-") == 0;
}

/* mod + loss + adduct as one modifier. */
static tg_status join(tg_modifier *out, const char *mod, const char *loss, const char *adduct,
                      tg_error *err)
{
    char text[3 * TG_FORMULA_BYTES];
    int n =
        snprintf(text, sizeof text, "%s%s%s", is_empty_modifier(mod) ? "" : mod,
                 is_empty_modifier(loss) ? "" : loss, is_empty_modifier(adduct) ? "" : adduct);
    if (n < 0 || n >= TG_FORMULA_BYTES)
        return tg_fail(err, TG_INVALID, "modifier '%.40s...' is too long", text);
    return tg_modifier_parse(out, text, err);
}

static tg_status check_words(const char *const *words, size_t n, const char *what,
                             tg_error *err)
{
    tg_modifier m;
    for (size_t i = 0; i < n; i++) {
        if (words[i][0] == '\0')
            return tg_fail(err, TG_INVALID, "%s %zu is empty", what, i + 1);
        tg_status st = tg_modifier_parse(&m, words[i], err);
        if (st != TG_OK) {
            tg_error_prefix(err, "%s", what);
            return st;
        }
        for (size_t k = 0; k < i; k++)
            if (strcmp(words[k], words[i]) == 0)
                return tg_fail(err, TG_INVALID, "%s '%.40s' is given twice", what, words[i]);
    }
    return TG_OK;
}

static tg_status make_prefix(tg_ion_space *s, uint32_t prefix, const char *mod,
                             const char *loss, tg_error *err)
{
    const tg_ion_options *o = &s->options;
    for (size_t a = 0; a < o->n_adducts; a++) {
        uint32_t t = prefix * (uint32_t)o->n_adducts + (uint32_t)a;
        TG_TRY(join(&s->modifiers[t], mod, loss, o->adducts[a], err));
        s->targets[t] = (tg_ion_target){prefix, o->adducts[a], loss, mod};
    }
    for (uint32_t d = 0; d < TG_N_DECOY_ADDUCTS; d++)
        TG_TRY(join(&s->modifiers[s->n_targets + prefix * TG_N_DECOY_ADDUCTS + d], mod, loss,
                    tg_decoy_adduct(d), err));
    return TG_OK;
}

static tg_status make_modifiers(tg_ion_space *s, tg_error *err)
{
    const tg_ion_options *o = &s->options;
    uint32_t prefix = 0;

    for (size_t m = 0; m <= o->n_mods; m++)
        for (size_t l = 0; l <= o->n_losses; l++)
            TG_TRY(make_prefix(s, prefix++, m == 0 ? "" : o->mods[m - 1],
                               l == 0 ? "" : o->losses[l - 1], err));
    return TG_OK;
}

static tg_status seed_decoys(tg_ion_space *s, tg_error *err)
{
    const tg_ion_options *o = &s->options;
    size_t n = o->n_adducts + o->n_mods + o->n_losses, k = 0;
    const char **exclude = tg_alloc_array(n + 1, sizeof *exclude);

    if (exclude == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for modifiers");
    for (size_t i = 0; i < o->n_adducts; i++)
        exclude[k++] = o->adducts[i];
    for (size_t i = 0; i < o->n_mods; i++)
        exclude[k++] = o->mods[i];
    for (size_t i = 0; i < o->n_losses; i++)
        exclude[k++] = o->losses[i];
    tg_decoys_init(&s->decoys, o->seed, o->decoys, exclude, n);
    tg_free(exclude);
    if (s->decoys.sample == 0)
        return tg_fail(err, TG_INVALID, "%u decoys: no rate can be estimated", o->decoys);
    return TG_OK;
}

static tg_status check_options(const tg_ion_options *o, tg_error *err)
{
    if (o->version != 1 && o->version != 3)
        return tg_fail(err, TG_INVALID, "version %d of the procedure: want 1 or 3", o->version);
    if (o->n_adducts == 0)
        return tg_fail(err, TG_INVALID, "no adducts");
    TG_TRY(check_words(o->adducts, o->n_adducts, "adduct", err));
    TG_TRY(check_words(o->losses, o->n_losses, "neutral loss", err));
    TG_TRY(check_words(o->mods, o->n_mods, "chemical modification", err));
    if (o->n_adducts > TG_MAX_MODIFIERS || o->n_losses > TG_MAX_MODIFIERS ||
        o->n_mods > TG_MAX_MODIFIERS ||
        (o->n_losses + 1) * (o->n_mods + 1) * o->n_adducts > TG_MAX_MODIFIERS)
        return tg_fail(err, TG_INVALID, "more than %d modifiers", TG_MAX_MODIFIERS);
    return TG_OK;
}

tg_status tg_ion_space_new(tg_ion_space **out, const tg_moldb *const *dbs, size_t n_dbs,
                           const tg_ion_options *options, tg_error *err)
{
    TG_TRY(check_options(options, err));
    TG_AUTO_PTR(tg_ion_space) s = tg_calloc(1, sizeof *s);
    if (s == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for modifiers");
    s->dbs = dbs;
    s->n_dbs = n_dbs;
    s->options = *options;
    s->n_prefixes = (uint32_t)((options->n_losses + 1) * (options->n_mods + 1));
    s->n_targets = s->n_prefixes * (uint32_t)options->n_adducts;
    s->n_modifiers = s->n_targets + s->n_prefixes * TG_N_DECOY_ADDUCTS;
    s->first_formula = tg_calloc(n_dbs + 1, sizeof *s->first_formula);
    s->modifiers = tg_calloc(s->n_modifiers, sizeof *s->modifiers);
    s->targets = tg_calloc(s->n_targets, sizeof *s->targets);
    if (s->first_formula == NULL || s->modifiers == NULL || s->targets == NULL)
        return tg_fail(err, TG_NO_MEMORY, "no memory for %u modifiers", s->n_modifiers);
    for (size_t d = 0; d < n_dbs; d++)
        s->first_formula[d + 1] = s->first_formula[d] + dbs[d]->n_formulas;
    if (s->first_formula[n_dbs] > UINT32_MAX)
        return tg_fail(err, TG_UNSUPPORTED, "more than %u formulas", UINT32_MAX);
    TG_TRY(make_modifiers(s, err));
    TG_TRY(seed_decoys(s, err));
    *out = tg_steal(s);
    return TG_OK;
}

void tg_ion_space_free(tg_ion_space *s)
{
    if (s == NULL)
        return;
    tg_free(s->first_formula);
    tg_free(s->modifiers);
    tg_free(s->targets);
    tg_free(s);
}

size_t tg_ion_db_of(const tg_ion_space *s, uint64_t formula, uint64_t *place)
{
    size_t d = 0;
    while (formula >= s->first_formula[d + 1])
        d++;
    *place = formula - s->first_formula[d];
    return d;
}

/* --- The walk ------------------------------------------------------------------------------
 */

typedef struct walk {
    const tg_ion_space *s;
    tg_ion_fn fn;
    void *user;
    tg_ion_step step;
    tg_decoys decoys;
    uint8_t draw[TG_N_DECOY_ADDUCTS];
} walk;

static tg_status visit_target(walk *w, uint32_t target, tg_error *err)
{
    w->step.modifier = target;
    w->step.set = TG_NO_SET;
    return w->fn(w->user, &w->step, err);
}

static tg_status visit_decoys(walk *w, uint32_t prefix, tg_error *err)
{
    for (uint32_t i = 0; i < w->decoys.sample; i++) {
        w->step.modifier = w->s->n_targets + prefix * TG_N_DECOY_ADDUCTS + w->draw[i];
        w->step.set = i;
        TG_TRY(w->fn(w->user, &w->step, err));
    }
    return TG_OK;
}

/* Version 1: a draw for each target modifier, also for those that are not asked for. */
static tg_status walk_v1(walk *w, uint32_t only, tg_error *err)
{
    for (uint32_t t = 0; t < w->s->n_targets; t++) {
        tg_decoys_draw(&w->decoys, w->draw);
        if (only != TG_ALL_TARGETS && only != t)
            continue;
        TG_TRY(visit_target(w, t, err));
        TG_TRY(visit_decoys(w, w->s->targets[t].prefix, err));
    }
    return TG_OK;
}

static tg_status walk_v3(walk *w, uint32_t only, tg_error *err)
{
    tg_decoys_draw(&w->decoys, w->draw);
    if (only != TG_ALL_TARGETS) {
        TG_TRY(visit_target(w, only, err));
        return visit_decoys(w, w->s->targets[only].prefix, err);
    }
    for (uint32_t t = 0; t < w->s->n_targets; t++)
        TG_TRY(visit_target(w, t, err));
    for (uint32_t p = 0; p < w->s->n_prefixes; p++)
        TG_TRY(visit_decoys(w, p, err));
    return TG_OK;
}

tg_status tg_ions_walk(const tg_ion_space *s, size_t db, uint32_t target, tg_ion_fn fn,
                       void *user, const tg_cancel *cancel, tg_error *err)
{
    tg_formula parsed;
    walk w = {.s = s, .fn = fn, .user = user, .decoys = s->decoys};

    w.step.parsed = &parsed;
    for (uint64_t i = 0; i < s->dbs[db]->n_formulas; i++) {
        if (i % 1024 == 0)
            TG_TRY(tg_cancel_check(cancel, err));
        TG_TRY(
            tg_formula_parse(&parsed, tg_moldb_formula(s->dbs[db], i), s->options.fixed, err));
        w.step.formula = s->first_formula[db] + i;
        TG_TRY(s->options.version == 1 ? walk_v1(&w, target, err) : walk_v3(&w, target, err));
    }
    return TG_OK;
}

/* --- An ion ----------------------------------------------------------------------------------
 */

/* Two independent sums of the name, each of 64 bits; a collision of both among a million ions
 * has a chance of 1e-27. */
static uint64_t mix(uint64_t h)
{
    h ^= h >> 31;
    h *= 0x7fb5d329728ea185u;
    h ^= h >> 27;
    h *= 0x81dadef4bc2dd44du;
    return h ^ (h >> 33);
}

static void hash_name(const char *s, size_t n, uint64_t hash[2])
{
    uint64_t a = 0x9e3779b97f4a7c15u + n, b = 0xc2b2ae3d27d4eb4fu - n;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, s + i, n - i < 8 ? n - i : 8);
        a = mix(a ^ word);
        b = mix(b + word * 0x165667b19e3779f9u);
    }
    hash[0] = a;
    hash[1] = b;
}

static int64_t nano(double mass)
{
    return (int64_t)llround(mass * 1e9);
}

static int64_t main_isotope(const tg_element *e)
{
    uint32_t best = e->first;
    for (uint32_t i = e->first; i < (uint32_t)e->first + e->n; i++)
        if (tg_isotope_table[i].abundance > tg_isotope_table[best].abundance)
            best = i;
    return nano(tg_isotope_table[best].mass);
}

static bool mass_of(const char *text, int64_t *mass)
{
    tg_atoms a;
    int64_t sum = 0;

    if (tg_atoms_parse(&a, text, NULL) != TG_OK)
        return false;
    for (uint32_t i = 0; i < a.n; i++) {
        if (a.of[i].count > TG_MAX_ION_ATOMS)
            return false;
        sum += (int64_t)a.of[i].count * main_isotope(&tg_element_table[a.of[i].element]);
    }
    for (int i = 0; i < TG_N_LABELS; i++) {
        if (a.labels[i] > TG_MAX_ION_ATOMS)
            return false;
        sum += (int64_t)a.labels[i] * nano(tg_label_mass(i));
    }
    *mass = sum;
    return a.n > 0;
}

tg_status tg_ion_make(const tg_ion_space *s, const tg_formula *formula, uint32_t modifier,
                      tg_ion *out, tg_error *err)
{
    assert(modifier < s->n_modifiers);
    tg_status st =
        tg_ion_formula(formula, &s->modifiers[modifier], out->text, sizeof out->text, err);
    if (st == TG_INVALID || (st == TG_OK && !mass_of(out->text, &out->mass)))
        return tg_fail(err, TG_NOT_FOUND, "'%.80s' with '%.80s' has no isotope pattern",
                       formula->text, s->modifiers[modifier].text);
    TG_TRY(st);
    hash_name(out->text, strlen(out->text), out->hash);
    return TG_OK;
}

tg_status tg_ion_make_at(const tg_ion_space *s, uint64_t formula, uint32_t modifier,
                         tg_ion *out, tg_error *err)
{
    tg_formula parsed;
    uint64_t place;
    size_t db = tg_ion_db_of(s, formula, &place);

    TG_TRY(
        tg_formula_parse(&parsed, tg_moldb_formula(s->dbs[db], place), s->options.fixed, err));
    return tg_ion_make(s, &parsed, modifier, out, err);
}
