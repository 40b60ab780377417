/* A valid 3x3 convolution with ReLU and 2x2 max-pooling, one image at a time, channels last.
 *
 * Forward it is dense, in tiles of 6 positions by a few vectors of channels that stay in registers. Backward only
 * the winners of the pooling carry a derivative, a quarter of the positions at most: both products follow lists of
 * winners, which costs a quarter of the dense work or less.
 */
#ifndef OFEDIQ_CONVOLUTION_H
#define OFEDIQ_CONVOLUTION_H

#include "vectors.h"

#define SIDE 3

struct layer {
    int width, inputs, outputs; /* of the image: columns and channels; channels of the result */
    int rows, columns;          /* of the pooled result */
    int panel;                  /* channels of the result that one tile computes */
};

static struct layer make_layer(int height, int width, int inputs, int outputs) {
    int panel = CHANNELS; /* fills the registers of machines with 8 lanes or 4; those with 16 have room for more */
    while (LANES == 16 && panel < 4 * LANES && outputs % (2 * panel) == 0) panel *= 2;
    return (struct layer){width, inputs, outputs, (height - 2) / 2, (width - 2) / 2, panel};
}

INLINE size_t layer_cells(const struct layer *l) { return (size_t)l->rows * l->columns; }
INLINE size_t layer_results(const struct layer *l) { return layer_cells(l) * l->outputs; }

/* out[p][n] = sum over the 3x3 patch of position p, for `positions` neighbours in a row and `vectors` of channels. */
INLINE void convolve_tile(const int positions, const int vectors, const float *image, size_t row, size_t inputs,
                          const float *weights, float *out) {
    vec sums[6][4];
    UNROLL for (int p = 0; p < positions; p++)
        UNROLL for (int v = 0; v < vectors; v++) sums[p][v] = (vec){0};
    for (int i = 0; i < SIDE; i++, image += row) {
        for (size_t k = 0; k < SIDE * inputs; k++, weights += vectors * LANES) {
            vec weight[4];
            UNROLL for (int v = 0; v < vectors; v++) weight[v] = load(weights + v * LANES);
            UNROLL for (int p = 0; p < positions; p++) {
                vec value = spread(image[p * inputs + k]);
                UNROLL for (int v = 0; v < vectors; v++) sums[p][v] = multiply_add(value, weight[v], sums[p][v]);
            }
        }
    }
    UNROLL for (int p = 0; p < positions; p++)
        UNROLL for (int v = 0; v < vectors; v++) store(out + (p * vectors + v) * LANES, sums[p][v]);
}

/* One row of positions; their number is even. */
INLINE void convolve_row(const int vectors, const struct layer *l, const float *image, const float *weights,
                         float *out) {
    size_t row = (size_t)l->width * l->inputs, inputs = l->inputs;
    int left = 2 * l->columns;
    for (; left >= 6; left -= 6, image += 6 * inputs, out += 6 * vectors * LANES)
        convolve_tile(6, vectors, image, row, inputs, weights, out);
    if (left == 4) convolve_tile(4, vectors, image, row, inputs, weights, out);
    if (left == 2) convolve_tile(2, vectors, image, row, inputs, weights, out);
}

/* Maximum of each quad, plus bias, ReLU; and which corner won, the first one in a tie. */
INLINE void pool(const struct layer *l, const float *upper, const float *lower, const float *bias, float *result,
                 int32_t *corners) {
    for (int column = 0; column < l->columns; column++, result += l->outputs) {
        for (int at = 0; at < l->panel; at += LANES) {
            const float *left = upper + 2 * column * l->panel + at, *below = lower + 2 * column * l->panel + at;
            vec a = load(left), b = load(left + l->panel), c = load(below), d = load(below + l->panel);
            vec largest = maximum(maximum(a, b), maximum(c, d));
            store(result + at, maximum((vec){0}, largest + load(bias + at)));
            if (!corners) continue;
            ivec first = (ivec)(a == largest), second = (ivec)(b == largest), third = (ivec)(c == largest);
            ivec code = ((third & 2) | (~third & 3));
            code = (second & 1) | (~second & code);
            store_codes(corners + (size_t)column * l->outputs + at, ~first & code);
        }
    }
}

/* `weights` is packed in panels, [outputs / panel][9 inputs][panel]; `rows` holds two rows of one panel. */
INLINE void convolve_panels(const int vectors, const struct layer *l, const float *image, const float *weights,
                            const float *bias, float *rows, float *result, int32_t *corners) {
    size_t row = (size_t)l->width * l->inputs, length = 2 * (size_t)l->columns * l->panel;
    for (int at = 0; at < l->outputs; at += l->panel) {
        const float *panel = weights + (size_t)at * SIDE * SIDE * l->inputs;
        for (int pair = 0; pair < l->rows; pair++) {
            const float *from = image + 2 * pair * row;
            convolve_row(vectors, l, from, panel, rows);
            convolve_row(vectors, l, from + row, panel, rows + length);
            size_t to = (size_t)pair * l->columns * l->outputs + at;
            pool(l, rows, rows + length, bias + at, result + to, corners ? corners + to : NULL);
        }
    }
}

static void convolve(const struct layer *l, const float *image, const float *weights, const float *bias,
                     float *rows, float *result, int32_t *corners) {
    switch (l->panel / LANES) {
    case 1: convolve_panels(1, l, image, weights, bias, rows, result, corners); break;
    case 2: convolve_panels(2, l, image, weights, bias, rows, result, corners); break;
    default: convolve_panels(4, l, image, weights, bias, rows, result, corners);
    }
}

/* to[0 .. 16 blocks) += sum of factors[n] * from[offsets[n] .. + 16 blocks): the sum stays in registers. */
INLINE void add_listed(const int blocks, float *to, const float *from, const int32_t *offsets, const float *factors,
                       int count) {
    enum { PER = CHANNELS / LANES };
    vec sums[6 * PER];
    UNROLL for (int v = 0; v < blocks * PER; v++) sums[v] = load(to + v * LANES);
    for (int n = 0; n < count; n++) {
        const float *source = from + offsets[n];
        vec factor = spread(factors[n]);
        UNROLL for (int v = 0; v < blocks * PER; v++)
            sums[v] = multiply_add(factor, load(source + v * LANES), sums[v]);
    }
    UNROLL for (int v = 0; v < blocks * PER; v++) store(to + v * LANES, sums[v]);
}

/* The same for `length` floats, a multiple of 48. */
INLINE void add_listed_run(float *to, const float *from, const int32_t *offsets, const float *factors, int count,
                           size_t length) {
    if (!count) return;
    size_t at = 0;
    for (; at + 6 * CHANNELS <= length; at += 6 * CHANNELS)
        add_listed(6, to + at, from + at, offsets, factors, count);
    if (at < length) add_listed(3, to + at, from + at, offsets, factors, count);
}

/* Where the patch of the winning corner of `cell` starts in the image. */
INLINE int32_t patch_offset(const struct layer *l, int cell, int32_t corner) {
    int row = 2 * (cell / l->columns) + (corner >> 1), column = 2 * (cell % l->columns) + (corner & 1);
    return (row * l->width + column) * l->inputs;
}

/* Gradient of filters and bias from `deltas`, the derivatives by the pooled results (0 where ReLU was closed).
 *
 * `filters` and `bias` are added to; `filters` is [3][outputs][3 inputs]. `offsets` and `factors` hold one list.
 */
static void filter_gradient(const struct layer *l, const float *image, const float *deltas, const int32_t *corners,
                            int32_t *offsets, float *factors, float *filters, float *bias) {
    size_t length = SIDE * (size_t)l->inputs, row = (size_t)l->width * l->inputs;
    int cells = (int)layer_cells(l);
    for (int output = 0; output < l->outputs; output++) {
        int count = 0;
        float sum = 0;
        for (int cell = 0; cell < cells; cell++) {
            float delta = deltas[(size_t)cell * l->outputs + output];
            offsets[count] = patch_offset(l, cell, corners[(size_t)cell * l->outputs + output]);
            factors[count] = delta;
            count += delta != 0;
            sum += delta;
        }
        bias[output] += sum;
        for (int i = 0; i < SIDE; i++)
            add_listed_run(filters + (i * (size_t)l->outputs + output) * length, image + i * row, offsets, factors,
                           count, length);
    }
}

/* Derivatives by the image, added to `back` [height][width][inputs]; `filters` as above.
 *
 * `offsets` and `factors` hold [cells][4 corners][outputs], `counts` [cells][4].
 */
static void image_gradient(const struct layer *l, const float *filters, const float *deltas, const int32_t *corners,
                           int32_t *offsets, float *factors, int32_t *counts, float *back) {
    size_t length = SIDE * (size_t)l->inputs, row = (size_t)l->width * l->inputs;
    int cells = (int)layer_cells(l), outputs = l->outputs;
    for (int cell = 0; cell < cells; cell++) {
        int count[4] = {0};
        for (int output = 0; output < outputs; output++) {
            float delta = deltas[(size_t)cell * outputs + output];
            int corner = corners[(size_t)cell * outputs + output];
            size_t at = ((size_t)cell * 4 + corner) * outputs + count[corner];
            offsets[at] = output * (int32_t)length;
            factors[at] = delta;
            count[corner] += delta != 0;
        }
        for (int corner = 0; corner < 4; corner++) counts[cell * 4 + corner] = count[corner];
    }
    for (int i = 0; i < SIDE; i++) /* outermost, so that a third of the filters at a time stays in the cache */
        for (int list = 0; list < 4 * cells; list++)
            add_listed_run(back + i * row + patch_offset(l, list / 4, list % 4),
                           filters + i * (size_t)outputs * length, offsets + (size_t)list * outputs,
                           factors + (size_t)list * outputs, counts[list], length);
}

/* Gradient of the filters [9][outputs] and bias of a layer with one input channel. Here the winners of a cell lie in
 * one 4x4 window of the image: a dense sum over masked corners needs no lists. */
static void first_filter_gradient(const struct layer *l, const float *image, const float *deltas,
                                  const int32_t *corners, float *filters, float *bias) {
    for (int at = 0; at < l->outputs; at += LANES) {
        vec sums[SIDE * SIDE], sum = {0};
        UNROLL for (int k = 0; k < SIDE * SIDE; k++) sums[k] = (vec){0};
        for (int row = 0; row < l->rows; row++) {
            for (int column = 0; column < l->columns; column++) {
                size_t from = ((size_t)row * l->columns + column) * l->outputs + at;
                const float *window = image + (size_t)2 * row * l->width + 2 * column;
                vec delta = load(deltas + from), masked[4];
                ivec corner = load_codes(corners + from);
                UNROLL for (int c = 0; c < 4; c++) masked[c] = keep((ivec)(corner == c), delta);
                sum += delta;
                UNROLL for (int i = 0; i < 4; i++)
                    UNROLL for (int j = 0; j < 4; j++) {
                        vec pixel = spread(window[i * l->width + j]);
                        UNROLL for (int c = 0; c < 4; c++) {
                            int y = i - (c >> 1), x = j - (c & 1);
                            if (y < 0 || x < 0 || y >= SIDE || x >= SIDE) continue;
                            sums[y * SIDE + x] = multiply_add(masked[c], pixel, sums[y * SIDE + x]);
                        }
                    }
            }
        }
        UNROLL for (int k = 0; k < SIDE * SIDE; k++)
            store(filters + (size_t)k * l->outputs + at, load(filters + (size_t)k * l->outputs + at) + sums[k]);
        store(bias + at, load(bias + at) + sum);
    }
}

#endif
