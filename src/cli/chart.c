/* cli/chart.c - inline SVG charts. */
#include "chart.h"

#include <math.h>
#include <string.h>

void html_text(FILE *f, const char *s)
{
    for (; *s != '\0'; s++) {
        switch (*s) {
        case '<':
            (void)fputs("&lt;", f);
            break;
        case '>':
            (void)fputs("&gt;", f);
            break;
        case '&':
            (void)fputs("&amp;", f);
            break;
        case '"':
            (void)fputs("&quot;", f);
            break;
        default:
            (void)putc(*s, f);
        }
    }
}

static double clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

static double part(const chart_axis *a, double v)
{
    double p;
    if (a->log)
        p = v <= a->from ? 0 : (log10(v) - log10(a->from)) / (log10(a->to) - log10(a->from));
    else
        p = (v - a->from) / (a->to - a->from);
    return clamp(p, 0, 1);
}

static int width_of(const chart *c)
{
    return c->wide ? CHART_WIDE : CHART_NARROW;
}

static int right_of(const chart *c)
{
    return width_of(c) - 12;
}

double chart_x(const chart *c, double v)
{
    return CHART_LEFT + part(&c->x, v) * (right_of(c) - CHART_LEFT);
}

double chart_y(const chart *c, double v)
{
    return CHART_BOTTOM - part(&c->y, v) * (CHART_BOTTOM - CHART_TOP);
}

/* 1, 2 or 5 times a power of ten, so that there are about `n` steps. */
static double round_step(double range, int n)
{
    double raw = range / n, power = pow(10, floor(log10(raw))), m = raw / power;
    return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

static void label_of(const chart_axis *a, double v, char *room, size_t cap)
{
    if (a->label != NULL)
        a->label(v, room, cap);
    else if (fabs(v) >= 1e6)
        (void)snprintf(room, cap, "%.1e", v);
    else
        (void)snprintf(room, cap, "%.6g", v);
}

static void x_tick(const chart *c, double v)
{
    char label[48];
    double x = chart_x(c, v);
    bool last = x > right_of(c) - 16; /* its words end within the drawing */
    label_of(&c->x, v, label, sizeof label);
    (void)fprintf(c->f, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>", x, CHART_TOP, CHART_BOTTOM);
    (void)fprintf(c->f, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">",
                  last ? right_of(c) + 10.0 : x, CHART_BOTTOM + 15, last ? "end" : "middle");
    html_text(c->f, label);
    (void)fputs("</text>\n", c->f);
}

static void y_tick(const chart *c, double v)
{
    char label[48];
    double y = chart_y(c, v);
    label_of(&c->y, v, label, sizeof label);
    (void)fprintf(c->f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", CHART_LEFT, y, right_of(c));
    (void)fprintf(c->f, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                  CHART_LEFT - 6, y + 3.5);
    html_text(c->f, label);
    (void)fputs("</text>\n", c->f);
}

static void ticks(const chart *c, const chart_axis *a, int about,
                  void (*tick)(const chart *, double))
{
    if (a->log) {
        int last = (int)floor(log10(a->to) + 1e-9);
        for (int k = (int)ceil(log10(a->from) - 1e-9); k <= last; k++)
            tick(c, pow(10, k));
        return;
    }
    double step = fmax(round_step(a->to - a->from, about), a->least_step);
    int first = (int)ceil(a->from / step - 1e-9), last = (int)floor(a->to / step + 1e-9);
    for (int k = first; k <= last; k++)
        tick(c, k * step);
}

void chart_begin(chart *c, const char *alt)
{
    if (!(c->y.to > c->y.from))
        c->y.to = c->y.from + 1;
    if (!(c->x.to > c->x.from))
        c->x.to = c->x.from + 1;
    if (!c->y.log) {
        double step = round_step(c->y.to - c->y.from, 5);
        c->y.to = ceil(c->y.to / step - 1e-9) * step;
    }
    (void)fprintf(c->f, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", width_of(c),
                  CHART_HEIGHT);
    html_text(c->f, alt);
    (void)fputs("\">\n", c->f);
    ticks(c, &c->x, c->wide ? 14 : 7, x_tick);
    ticks(c, &c->y, 5, y_tick);
    (void)fprintf(c->f, "<text class=\"axis\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                  (CHART_LEFT + right_of(c)) / 2, CHART_HEIGHT - 8);
    html_text(c->f, c->x.title);
    (void)fprintf(c->f,
                  "</text>\n<text class=\"axis\" transform=\"translate(13 %d) rotate(-90)\""
                  " text-anchor=\"middle\">",
                  (CHART_TOP + CHART_BOTTOM) / 2);
    html_text(c->f, c->y.title);
    (void)fputs("</text>\n", c->f);
}

void chart_end(const chart *c)
{
    (void)fprintf(c->f, "<path class=\"frame\" d=\"M%d %dV%dH%d\"/>\n</svg>\n", CHART_LEFT,
                  CHART_TOP, CHART_BOTTOM, right_of(c));
}

static void points(const chart *c, const double *x, const double *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)fprintf(c->f, "%s%.1f %.1f", i == 0 ? "M" : "L", chart_x(c, x[i]),
                      chart_y(c, y[i]));
}

void chart_line(const chart *c, const char *css_class, const double *x, const double *y,
                size_t n, bool fill)
{
    if (n == 0)
        return;
    if (fill) {
        (void)fprintf(c->f, "<path class=\"area %s\" d=\"", css_class);
        points(c, x, y, n);
        (void)fprintf(c->f, "L%.1f %dL%.1f %dZ\"/>\n", chart_x(c, x[n - 1]), CHART_BOTTOM,
                      chart_x(c, x[0]), CHART_BOTTOM);
    }
    (void)fprintf(c->f, "<path class=\"line %s\" d=\"", css_class);
    points(c, x, y, n);
    (void)fputs("\"/>\n", c->f);
}

void chart_bar(const chart *c, const char *css_class, double x0, double x1, double y)
{
    double left = chart_x(c, x0), right = chart_x(c, x1), top = chart_y(c, y);
    (void)fprintf(
        c->f, "<rect class=\"bar %s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
        css_class, left + 0.5, top, right - left > 1 ? right - left - 1 : 1,
        CHART_BOTTOM - top);
}

void chart_dot(const chart *c, const char *css_class, double x, double y)
{
    (void)fprintf(c->f, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n",
                  css_class, chart_x(c, x), chart_y(c, y));
}

void chart_mark_x(const chart *c, const char *css_class, double v, const char *words, int row)
{
    double x = chart_x(c, v);
    bool left = x > (CHART_LEFT + right_of(c)) / 2.0; /* words on the side with more room */
    (void)fprintf(c->f, "<path class=\"mark %s\" d=\"M%.1f %dV%d\"/>\n", css_class, x,
                  CHART_TOP, CHART_BOTTOM);
    (void)fprintf(c->f, "<text class=\"note %s\" x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">",
                  css_class, left ? x - 5 : x + 5, CHART_TOP + 11 + row * 14,
                  left ? "end" : "start");
    html_text(c->f, words);
    (void)fputs("</text>\n", c->f);
}

void chart_mark_y(const chart *c, const char *css_class, double v, const char *words, bool left)
{
    double y = chart_y(c, v);
    (void)fprintf(c->f, "<path class=\"mark %s\" d=\"M%d %.1fH%d\"/>\n", css_class, CHART_LEFT,
                  y, right_of(c));
    (void)fprintf(c->f, "<text class=\"note %s\" x=\"%d\" y=\"%.1f\" text-anchor=\"%s\">",
                  css_class, left ? CHART_LEFT + 6 : right_of(c) - 4,
                  y < CHART_TOP + 14 ? y + 13 : y - 4, left ? "start" : "end");
    html_text(c->f, words);
    (void)fputs("</text>\n", c->f);
}
