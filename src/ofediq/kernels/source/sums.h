/* Sums along the middle axis of [outer][count][inner], in an order that threads do not change. */
#ifndef OFEDIQ_SUMS_H
#define OFEDIQ_SUMS_H

#include "vectors.h"

enum { COLUMNS = 1024, MANY_NUMBERS = 1 << 15 }; /* of one task */

struct adding { /* a job: one task is some rows, or some columns of one */
    const float *from;
    float *to;
    int64_t outer, count, inner;
    int64_t rows, across; /* of one task; tasks side by side */
};

/* The sums of `vectors` of columns. */
INLINE void add_columns(const int vectors, const float *from, int64_t count, int64_t inner, float *to) {
    vec sums[8];
    UNROLL for (int v = 0; v < vectors; v++) sums[v] = (vec){0};
    for (int64_t at = 0; at < count; at++, from += inner)
        UNROLL for (int v = 0; v < vectors; v++) sums[v] += load(from + v * LANES);
    UNROLL for (int v = 0; v < vectors; v++) store(to + v * LANES, sums[v]);
}

/* Sums of the few columns of rows that lie side by side, where their number divides LANES: whole vectors hold rows. */
INLINE void add_narrow(const float *from, int64_t count, int64_t inner, float *to) {
    int64_t numbers = count * inner, at = 0;
    vec sums[4] = {{0}};
    for (; at + 4 * LANES <= numbers; at += 4 * LANES)
        UNROLL for (int v = 0; v < 4; v++) sums[v] += load(from + at + v * LANES);
    vec sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (; at + LANES <= numbers; at += LANES) sum += load(from + at);
    for (int64_t column = 0; column < inner; column++) {
        float total = 0;
        for (int64_t lane = column; lane < LANES; lane += inner) total += sum[lane];
        for (int64_t rest = at + column; rest < numbers; rest += inner) total += from[rest];
        to[column] = total;
    }
}

static void add_row(const struct adding *a, const float *from, float *to, int64_t column, int64_t end) {
    for (; column + 8 * LANES <= end; column += 8 * LANES) add_columns(8, from + column, a->count, a->inner, to + column);
    for (; column + LANES <= end; column += LANES) add_columns(1, from + column, a->count, a->inner, to + column);
    if (column == end) return;
    memset(to + column, 0, (end - column) * sizeof(float));
    for (int64_t row = 0; row < a->count; row++)
        for (int64_t at = column; at < end; at++) to[at] += from[row * a->inner + at];
}

static void some_sums(void *job, int worker, int task) {
    const struct adding *a = job;
    (void)worker;
    int64_t column = task % a->across * (int64_t)COLUMNS, row = task / a->across * a->rows;
    int64_t end = column + COLUMNS < a->inner ? column + COLUMNS : a->inner;
    int64_t last = row + a->rows < a->outer ? row + a->rows : a->outer;
    for (; row < last; row++) {
        const float *from = a->from + row * a->count * a->inner;
        float *to = a->to + row * a->inner;
        if (a->inner <= LANES && LANES % a->inner == 0)
            add_narrow(from, a->count, a->inner, to);
        else
            add_row(a, from, to, column, end);
    }
}

static void run_adding(struct adding *a, int threads) {
    int64_t size = a->count * a->inner;
    a->across = (a->inner + COLUMNS - 1) / COLUMNS;
    a->rows = size < MANY_NUMBERS ? MANY_NUMBERS / (size + 1) + 1 : 1;
    int tasks = (int)((a->outer + a->rows - 1) / a->rows * a->across);
    run_tasks(some_sums, a, tasks, worth(threads, (double)a->outer * size / 4, tasks));
}

#endif
