/* cli/chart.h - inline SVG charts: axes with round ticks and units, areas, lines, bars, marks.
 * Colours come from the page's style by class, so that light, dark and print agree. Knows
 * nothing of recording. */
#ifndef TG_CLI_CHART_H
#define TG_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The drawing in its own units: about as many pixels as it takes on a wide screen, so that
 * words have one size in all charts. */
enum {
    CHART_WIDE = 1130,
    CHART_NARROW = 545,
    CHART_HEIGHT = 250,
    CHART_LEFT = 60,
    CHART_TOP = 14,
    CHART_BOTTOM = 206
};

typedef struct chart_axis {
    double from, to;
    bool log;          /* base 10; from > 0 */
    const char *title; /* with the unit */
    double least_step; /* between two ticks; 0: any */
    /* What a tick says; NULL: the number. */
    void (*label)(double v, char *room, size_t cap);
} chart_axis;

typedef struct chart {
    FILE *f;
    bool wide;
    chart_axis x, y;
} chart;

/* y.to is rounded up to a tick where the axis is linear. alt: what the chart shows, for those
 * who do not see it. */
void chart_begin(chart *c, const char *alt);
void chart_end(const chart *c);
double chart_x(const chart *c, double v);
double chart_y(const chart *c, double v);
/* n points, x rising. `fill`: down to the axis as well. */
void chart_line(const chart *c, const char *css_class, const double *x, const double *y,
                size_t n, bool fill);
void chart_bar(const chart *c, const char *css_class, double x0, double x1, double y);
void chart_dot(const chart *c, const char *css_class, double x, double y);
/* A vertical or horizontal mark across the plot, with words at its end (a horizontal one's
 * right end, or its left). */
void chart_mark_x(const chart *c, const char *css_class, double v, const char *words, int row);
void chart_mark_y(const chart *c, const char *css_class, double v, const char *words,
                  bool left);
/* Text with the characters that mean something in HTML replaced. */
void html_text(FILE *f, const char *s);

#endif
