/* What a server does with many vectors at once: their lengths, sketches of their directions, and their sum, added up in
 * the order that methods/robust/measures.py has, so that all bits are the same.
 */
#ifndef OFEDIQ_ROWS_H
#define OFEDIQ_ROWS_H

#include "vectors.h"

enum { SKETCH = 64, STRETCH = 2048 };

/* Sums of columns, one after another: 64 of the squares of a row's numbers, and `width` of the numbers times their
 * signs, a power of two from 64 on. */
static void fold_row(const float *row, const float *signs, int64_t dim, int64_t width, double *squares, double *folds) {
    int64_t i = 0;
    memset(squares, 0, SKETCH * sizeof *squares);
    memset(folds, 0, width * sizeof *folds);
    for (; i + SKETCH <= dim; i += SKETCH) {
        double *fold = folds + (i & (width - 1));
        for (int k = 0; k < SKETCH; k++) {
            double value = row[i + k];
            squares[k] += value * value;
            fold[k] += value * (double)signs[i + k];
        }
    }
    for (int k = 0; i + k < dim; k++) {
        double value = row[i + k];
        squares[k] += value * value;
        folds[(i & (width - 1)) + k] += value * (double)signs[i + k];
    }
}

/* lengths[n] and folds[n][width] of the rows. */
API void measure_rows(const float *const *rows, const float *signs, int64_t count, int64_t dim, int64_t width,
                      double *lengths, double *folds) {
    for (int64_t n = 0; n < count; n++) {
        double squares[SKETCH];
        fold_row(rows[n], signs, dim, width, squares, folds + n * width);
        for (int half = SKETCH / 2; half; half /= 2)
            for (int k = 0; k < half; k++) squares[k] += squares[k + half];
        lengths[n] = sqrt(squares[0]);
    }
}

/* total[dim] += the rows one after another, each times its factor and rounded. Four at a time: what they wait for is
 * the memory that the rows lie in, and four are read at once. */
API void add_rows(const float *const *rows, const double *factors, int64_t count, int64_t dim, float *restrict total) {
    static const float nothing[STRETCH];
    for (int64_t start = 0; start < dim; start += STRETCH) { /* short enough that the sum stays in the cache */
        int64_t some = dim - start < STRETCH ? dim - start : STRETCH;
        float *sum = total + start;
        for (int64_t n = 0; n < count; n += 4) {
            const float *row[4];
            double by[4];
            int whole = 1;
            for (int k = 0; k < 4; k++) { /* x + -0 is x, also where x is -0 */
                row[k] = n + k < count ? rows[n + k] + start : nothing;
                by[k] = n + k < count ? factors[n + k] : -1;
                whole &= by[k] == 1;
            }
            if (whole)
                for (int64_t i = 0; i < some; i++) sum[i] = sum[i] + row[0][i] + row[1][i] + row[2][i] + row[3][i];
            else
                for (int64_t i = 0; i < some; i++)
                    for (int k = 0; k < 4; k++) sum[i] += (float)((double)row[k][i] * by[k]);
        }
    }
}

#endif
