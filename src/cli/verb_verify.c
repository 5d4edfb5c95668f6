/* cli/verb_verify.c - verify: read every stored unit below a path and say what is wrong. */
#include "imzml.h"
#include "place.h"
#include "tidegate/verify.h"

#include <inttypes.h>
#include <stdio.h>

#define MOST_NAMED 1000 /* bad keys in the JSON; all are counted and go to standard error */

typedef struct findings {
    cli *c;
    json_out keys; /* members of the list bad_keys */
    uint64_t n;
} findings;

static void note_bad(void *user, const char *key, const char *what, const tg_error *why)
{
    findings *f = user;
    char line[900];
    (void)snprintf(line, sizeof line, "bad: %.240s%s%s: %.500s", key,
                   what[0] != '\0' ? ", " : "", what, why->msg);
    cli_progress_log(&f->c->progress, line);
    if (f->n++ >= MOST_NAMED)
        return;
    json_open(&f->keys, NULL);
    json_text(&f->keys, "key", key);
    json_text(&f->keys, "part", what[0] != '\0' ? what : NULL);
    json_text(&f->keys, "message", why->msg);
    json_close(&f->keys);
}

static void report(cli *c, const tg_verify_result *r, const json_out *keys)
{
    json_u64(&c->json, "ok", r->ok);
    json_u64(&c->json, "bad", r->bad);
    json_u64(&c->json, "unverifiable", r->unverifiable);
    json_u64(&c->json, "bytes", r->bytes);
    json_open_list(&c->json, "bad_keys");
    if (keys->len > 0)
        json_raw(&c->json, NULL, keys->text);
    json_close_list(&c->json);
    c->json.failed |= keys->failed;
    json_u64(&c->json, "rss_bytes_peak", cli_rss_peak());
    if (!c->common->json) {
        char size[24];
        (void)printf("%s: %" PRIu64 " ok, %" PRIu64 " bad, %" PRIu64 " unverifiable, %s read\n",
                     cli_shown(c, 0), r->ok, r->bad, r->unverifiable,
                     cli_bytes_text(r->bytes, size, sizeof size));
    }
}

static int run(cli *c, void *options)
{
    (void)options;
    CLI_AUTO(cli_auto_runtime) tg_runtime *rt = NULL;
    CLI_AUTO(place_close) cli_place place = {0};
    if (imzml_is_meant(c->operands.item[0]))
        return imzml_verify(c);
    if (cli_runtime(c, c->common->memory, &rt) != TG_OK ||
        place_open(c, c->operands.item[0], &place) != TG_OK)
        return cli_refused(c);

    findings found = {.c = c};
    tg_verify_result r = {.size = sizeof r};
    tg_status st = tg_verify(rt, place.store, place.prefix, note_bad, &found,
                             cli_progress_report, &c->progress, &r, c->cancel, &c->err);
    cli_progress_end(&c->progress);
    report(c, &r, &found.keys);
    json_free(&found.keys);
    if (st == TG_CANCELLED)
        return CLI_INCOMPLETE;
    if (st != TG_OK)
        return r.ok + r.bad + r.unverifiable == 0 ? cli_refused(c) : CLI_FAILED;
    cli_no_error(c);
    return r.bad > 0 ? CLI_FAILED : CLI_DONE;
}

const cli_verb cli_verify = {
    .name = "verify",
    .operands = "PATH",
    .least = 1,
    .most = 1,
    .summary = "check every checksum, every index, every shape",
    .example = "  tidegate verify run.zarr\n  tidegate verify --json run.zip\n",
    .run = run,
};
