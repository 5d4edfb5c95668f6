/* fuzz/fuzz_args.c - the words of the command line: the first line names the verb, each further
 * one is an argument. No verb runs; what is read is read again from its parts. */
#include "cli/cli.h"
#include "cli/record.h"
#include "cli/region.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_WORDS = 200, MOST_BYTES = 1 << 16 };

static union {
    cli_common common;
    record_options record;
    unsigned char bytes[CLI_OPTIONS_BYTES];
} options;

static void parse_verb(const cli_verb *verb, int n, const char *const *words)
{
    static record_layout layout;
    cli_operands operands;
    tg_error err;
    if (cli_parse_verb(verb, n, words, &options, &operands, &err) != TG_OK ||
        verb != &cli_record)
        return;
    (void)!record_layout_parse(&options.record, &layout, &err);
    for (size_t i = 0; i < options.record.from.n; i++) {
        record_source s = {0};
        (void)!record_parse_source(options.record.from.item[i], &s, &err);
    }
}

/* A region that is taken lies within the array, and a walk through it ends. */
static void parse_region(const char *word)
{
    static const uint64_t shape[3] = {5, 70, 3}, chunk[3] = {2, 16, 3};
    cli_region r;
    tg_error err;
    if (region_parse(word, shape, 3, &r, &err) != TG_OK)
        return;
    uint64_t items = 0, seen = 0;
    if (!region_items(&r, &items) || items > 5 * 70 * 3)
        __builtin_trap();
    region_walk w = {.region = &r, .chunk = chunk, .most = 7};
    while (region_next(&w))
        seen += w.count[0] * w.count[1] * w.count[2];
    if (seen != items)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[MOST_BYTES + 1];
    const char *words[MOST_WORDS];
    int n = 0;
    size = size < MOST_BYTES ? size : MOST_BYTES;
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *p = text; p != NULL && n < MOST_WORDS;) {
        char *end = strchr(p, '\n');
        words[n++] = p;
        if (end != NULL)
            *end++ = '\0';
        p = end;
    }
    const cli_verb *verb = cli_find_verb(words[0]);
    (void)cli_nearest_verb(words[0]);
    if (verb != NULL)
        parse_verb(verb, n - 1, words + 1);
    else
        parse_region(words[0]);
    return 0;
}
