/* cli/imzml.c - what is in a data set, and whether its .ibd is the right one and whole. */
#include "imzml.h"

#include "tidegate/annotate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool imzml_is_meant(const char *path)
{
    size_t n = strlen(path);
    return n > 6 && strcasecmp(path + n - 6, ".imzml") == 0;
}

/* One member of a JSON object a line. */
static void print_members(const char *json)
{
    int depth = 0;
    bool quoted = false;
    for (const char *p = json; *p != '\0'; p++) {
        if (*p == '"' && (p == json || p[-1] != '\\'))
            quoted = !quoted;
        depth += quoted ? 0 : *p == '{' || *p == '[' ? 1 : *p == '}' || *p == ']' ? -1 : 0;
        if ((p == json || (depth == 0 && p[1] == '\0')) && !quoted)
            continue; /* the outer braces */
        (void)putchar(*p);
        if (*p == ',' && depth == 1 && !quoted)
            (void)putchar('\n');
    }
    (void)putchar('\n');
}

int imzml_info(cli *c)
{
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    CLI_AUTO(cli_auto_free) char *json = NULL;
    const char *path = c->operands.item[0];

    if (cli_runtime(c, c->common->memory, &rt) != TG_OK ||
        tg_ims_info(rt, path, NULL, &json, c->cancel, &c->err) != TG_OK)
        return cli_refused(c);
    json_text(&c->json, "path", cli_shown(c, 0));
    json_raw(&c->json, "imzml", json);
    if (!c->common->json)
        print_members(json);
    return CLI_DONE;
}

typedef struct complaints {
    cli *c;
    json_out lines;
} complaints;

static void note(void *user, const char *line)
{
    complaints *k = user;
    char text[640];
    (void)snprintf(text, sizeof text, "bad: %s", line);
    cli_progress_log(&k->c->progress, text);
    json_text(&k->lines, NULL, line);
}

int imzml_verify(cli *c)
{
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    complaints k = {.c = c};
    uint64_t bad = 0;

    if (cli_runtime(c, c->common->memory, &rt) != TG_OK)
        return cli_refused(c);
    tg_status st = tg_ims_verify(rt, c->operands.item[0], note, &k, &bad, cli_progress_report,
                                 &c->progress, c->cancel, &c->err);
    cli_progress_end(&c->progress);
    json_u64(&c->json, "ok", st == TG_OK && bad == 0);
    json_u64(&c->json, "bad", bad);
    json_u64(&c->json, "unverifiable", 0);
    json_open_list(&c->json, "bad_keys");
    if (k.lines.len > 0)
        json_raw(&c->json, NULL, k.lines.text);
    json_close_list(&c->json);
    c->json.failed |= k.lines.failed;
    json_free(&k.lines);
    json_u64(&c->json, "rss_bytes_peak", cli_rss_peak());
    if (st == TG_CANCELLED)
        return CLI_INCOMPLETE;
    if (st != TG_OK)
        return cli_refused(c);
    cli_no_error(c);
    if (!c->common->json)
        (void)printf("%s: %s\n", cli_shown(c, 0), bad == 0 ? "ok" : "bad");
    return bad > 0 ? CLI_FAILED : CLI_DONE;
}
