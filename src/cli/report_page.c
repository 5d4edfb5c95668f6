/* cli/report_page.c - the frame of a report page. */
#include "report_page.h"

#include "chart.h"
#include "tidegate/memory.h"
#include "tidegate/version.h"

#include <stdarg.h>
#include <time.h>

static const char style[] =
    ":root{color-scheme:light dark;--paper:#f6f7f9;--card:#fff;--ink:#1c2430;--soft:#5c6878;"
    "--rule:#dfe4ea;--grid:#e9edf1;--in:#2563eb;--out:#0d9488;--queue:#7c3aed;--mem:#b45309;"
    "--bad:#dc2626;--good:#15803d;--four:#be185d;--five:#4d7c0f}\n"
    "@media (prefers-color-scheme:dark){:root{--paper:#12161c;--card:#1a2029;--ink:#e6eaf0;"
    "--soft:#9aa7b7;--rule:#2c3542;--grid:#252d38;--in:#6ea0ff;--out:#3fc9b8;--queue:#b197fc;"
    "--mem:#f0a54a;--bad:#ff7b72;--good:#5fd38a;--four:#f472b6;--five:#a3d65c}}\n"
    "@media print{:root{color-scheme:light;--paper:#fff;--card:#fff;--ink:#000;--soft:#444;"
    "--rule:#bbb;--grid:#ddd;--in:#2563eb;--out:#0d9488;--queue:#7c3aed;--mem:#b45309;"
    "--bad:#b91c1c;--good:#15803d}.card{break-inside:avoid}body{font-size:11px}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",sans-serif}\n"
    "main{max-width:1180px;margin:0 auto;padding:28px 20px 40px}\n"
    "h1{font-size:24px;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}\n"
    "h2{font-size:15px;margin:0}\n"
    ".verdict{margin:0 0 18px;font-weight:600;color:var(--bad)}"
    ".verdict.ok{color:var(--good)}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;"
    "margin-bottom:14px}\n"
    ".tile,.card{background:var(--card);border:1px solid var(--rule);border-radius:10px}\n"
    ".tile{padding:12px 14px}.tile b{display:block;font-size:21px;line-height:1.25;"
    "font-variant-numeric:tabular-nums}\n"
    ".tile span,.tile small{color:var(--soft);font-size:12.5px;display:block}\n"
    ".cards{display:grid;grid-template-columns:1fr 1fr;gap:14px}\n"
    ".card{padding:14px 16px;min-width:0}.wide{grid-column:1/-1}\n"
    "@media (max-width:820px){.cards{grid-template-columns:1fr}}\n"
    ".card p{margin:2px 0 8px;color:var(--soft);font-size:13px}\n"
    "svg{display:block;width:100%;height:auto}\n"
    "svg text{font-size:11px;fill:var(--soft)}svg .axis{font-size:11.5px}\n"
    "svg .note{font-size:11px;fill:var(--ink);paint-order:stroke;stroke:var(--card);"
    "stroke-width:3px;stroke-linejoin:round}\n"
    ".grid{stroke:var(--grid);stroke-width:1;fill:none}.frame{stroke:var(--soft);fill:none}\n"
    ".line{fill:none;stroke-width:1.6;stroke-linejoin:round}"
    ".area{stroke:none;fill-opacity:.18}"
    ".mark{fill:none;stroke-width:1.2;stroke-dasharray:4 3}\n"
    ".line.in{stroke:var(--in)}.line.out{stroke:var(--out)}.line.queue{stroke:var(--queue)}"
    ".line.mem{stroke:var(--mem)}.line.bad{stroke:var(--bad)}.line.four{stroke:var(--four)}"
    ".line.five{stroke:var(--five)}\n"
    ".area.in{fill:var(--in)}.area.out{fill:var(--out)}.area.queue{fill:var(--queue)}"
    ".area.mem{fill:var(--mem)}.area.bad{fill:var(--bad)}\n"
    ".bar.in{fill:var(--in)}.bar.out{fill:var(--out)}.bar.queue{fill:var(--queue)}"
    ".bar.mem{fill:var(--mem)}.bar{fill-opacity:.8}\n"
    ".dot.in{fill:var(--in)}.dot.out{fill:var(--out)}.dot.queue{fill:var(--queue)}"
    ".dot.mem{fill:var(--mem)}.dot.four{fill:var(--four)}.dot.five{fill:var(--five)}\n"
    ".mark.soft{stroke:var(--soft)}.mark.stop{stroke:var(--bad)}.mark.mem{stroke:var(--mem)}"
    ".mark.ink{stroke:var(--ink)}\n"
    ".key{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:12.5px;color:var(--soft);"
    "margin-top:2px}.key i{display:inline-block;width:12px;height:3px;border-radius:2px;"
    "vertical-align:middle;margin-right:6px}\n"
    "i.in{background:var(--in)}i.out{background:var(--out)}i.queue{background:var(--queue)}"
    "i.mem{background:var(--mem)}i.bad{background:var(--bad)}i.four{background:var(--four)}"
    "i.five{background:var(--five)}\n"
    "table{border-collapse:collapse;width:100%;font-size:13.5px;"
    "font-variant-numeric:tabular-nums}\n"
    "td,th{padding:4px 8px 4px 0;border-bottom:1px solid var(--grid);text-align:left;"
    "vertical-align:top;overflow-wrap:anywhere}th{color:var(--soft);font-weight:500}\n"
    "td.n,th.n{text-align:right;white-space:nowrap}tr.best td{font-weight:700}"
    "tr.no td{color:var(--soft)}.bad td,.bad th{color:var(--bad)}\n"
    ".meter{display:inline-block;height:8px;border-radius:4px;background:var(--in);"
    "opacity:.75;vertical-align:middle}.best .meter{background:var(--good);opacity:1}\n"
    ".shots{display:grid;grid-template-columns:repeat(auto-fill,minmax(148px,1fr));gap:14px}\n"
    "figure{margin:0;min-width:0}figure img{display:block;width:100%;height:150px;"
    "object-fit:contain;object-position:left bottom;image-rendering:pixelated;"
    "filter:url(#colours)}\n"
    "figcaption{font-size:12px;line-height:1.35;color:var(--soft);overflow-wrap:anywhere;"
    "margin-top:4px}figcaption b{color:var(--ink);display:block}\n"
    "footer{margin-top:18px;color:var(--soft);font-size:12.5px}\n";

void page_begin(FILE *f, const char *title, const char *verdict, bool good)
{
    (void)fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                "<title>",
                f);
    html_text(f, title);
    (void)fprintf(f, " - tidegate</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>",
                  style);
    html_text(f, title);
    (void)fprintf(f, "</h1>\n<p class=\"verdict%s\">", good ? " ok" : "");
    html_text(f, verdict);
    (void)fputs("</p>\n", f);
}

void page_end(FILE *f)
{
    char when[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", &utc);
    (void)fprintf(f,
                  "<footer>tidegate %s, %s. All times are of the monotonic clock; 1 MiB is "
                  "1,048,576 bytes.</footer>\n</main>\n</body>\n</html>\n",
                  tg_version(), when);
}

void page_tile(FILE *f, const char *label, const char *value, const char *small)
{
    (void)fputs("<div class=\"tile\"><span>", f);
    html_text(f, label);
    (void)fputs("</span><b>", f);
    html_text(f, value);
    (void)fputs("</b><small>", f);
    html_text(f, small);
    (void)fputs("</small></div>\n", f);
}

void page_card_begin(FILE *f, const char *heading, const char *words, bool wide)
{
    (void)fprintf(f, "<section class=\"card%s\">\n<h2>", wide ? " wide" : "");
    html_text(f, heading);
    (void)fputs("</h2>\n", f);
    if (words != NULL) {
        (void)fputs("<p>", f);
        html_text(f, words);
        (void)fputs("</p>\n", f);
    }
}

void page_card_end(FILE *f)
{
    (void)fputs("</section>\n", f);
}

void page_key(FILE *f, const char *const *names_and_classes)
{
    (void)fputs("<div class=\"key\">", f);
    for (const char *const *p = names_and_classes; p[0] != NULL; p += 2) {
        (void)fprintf(f, "<span><i class=\"%s\"></i>", p[1]);
        html_text(f, p[0]);
        (void)fputs("</span>", f);
    }
    (void)fputs("</div>\n", f);
}

void page_rows(FILE *f, const report_rows *rows)
{
    (void)fputs("<table>\n", f);
    for (size_t i = 0; i < rows->n; i++) {
        (void)fprintf(f, "<tr%s><th>", rows->row[i].bad ? " class=\"bad\"" : "");
        html_text(f, rows->row[i].label);
        (void)fputs("</th><td>", f);
        html_text(f, rows->row[i].value);
        (void)fputs("</td></tr>\n", f);
    }
    (void)fputs("</table>\n", f);
}

static void rows_card(FILE *f, const char *heading, const report_rows *rows)
{
    page_card_begin(f, heading, NULL, false);
    page_rows(f, rows);
    page_card_end(f);
}

void page_tables(FILE *f, const report_rows *numbers, const report_rows *settings)
{
    rows_card(f, "Numbers", numbers);
    rows_card(f, "Settings", settings);
    (void)fputs("</div>\n", f);
    page_end(f);
}

void report_row(report_rows *rows, const char *label, const char *fmt, ...)
{
    if (rows->n == REPORT_ROWS)
        return;
    (void)snprintf(rows->row[rows->n].label, sizeof rows->row[0].label, "%s", label);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(rows->row[rows->n].value, sizeof rows->row[0].value, fmt, args);
    va_end(args);
    rows->row[rows->n++].bad = false;
}

void report_flag(report_rows *rows, bool bad)
{
    if (rows->n > 0)
        rows->row[rows->n - 1].bad = bad;
}

bool page_series_new(page_series *s, size_t room)
{
    *s = (page_series){.x = tg_alloc_array(room + 1, sizeof *s->x),
                       .y = tg_alloc_array(room + 1, sizeof *s->y)};
    return s->x != NULL && s->y != NULL;
}

void page_series_free(page_series *s)
{
    tg_free(s->x);
    tg_free(s->y);
}

void page_series_push(page_series *s, double x, double y)
{
    s->x[s->n] = x;
    s->y[s->n++] = y;
}

double page_series_highest(const page_series *s)
{
    double most = 0;
    for (size_t i = 0; i < s->n; i++)
        most = s->y[i] > most ? s->y[i] : most;
    return most;
}
