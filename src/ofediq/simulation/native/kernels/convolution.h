/* A valid 3x3 convolution with ReLU and 2x2 max-pooling, one image at a time, channels last.
 *
 * Forward, images of one channel are dense sums in tiles of 6 positions by a few vectors of channels that stay in
 * registers; those of many channels are in winograd.h. Backward only the winners of the pooling carry a derivative, a
 * quarter of the positions at most: both products follow lists of winners, which costs a quarter of the dense work or
 * less.
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
INLINE void convolve_tile(const int positions, const int vectors, const float *image, size_t row,
                          const float *weights, float *out) {
    vec sums[6][4];
    UNROLL for (int p = 0; p < positions; p++)
        UNROLL for (int v = 0; v < vectors; v++) sums[p][v] = (vec){0};
    UNROLL for (int i = 0; i < SIDE; i++, image += row) {
        UNROLL for (int j = 0; j < SIDE; j++, weights += vectors * LANES) {
            vec weight[4];
            UNROLL for (int v = 0; v < vectors; v++) weight[v] = load(weights + v * LANES);
            UNROLL for (int p = 0; p < positions; p++) {
                vec value = spread(image[p + j]);
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
    int left = 2 * l->columns;
    for (; left >= 6; left -= 6, image += 6, out += 6 * vectors * LANES)
        convolve_tile(6, vectors, image, l->width, weights, out);
    if (left == 4) convolve_tile(4, vectors, image, l->width, weights, out);
    if (left == 2) convolve_tile(2, vectors, image, l->width, weights, out);
}

/* Maximum of a quad, plus bias, ReLU; and, where asked for, which corner won, the first one in a tie. */
INLINE void pool_quad(const vec quad[4], vec bias, float *result, int32_t *corner) {
    vec largest = maximum(maximum(quad[0], quad[1]), maximum(quad[2], quad[3]));
    store(result, maximum((vec){0}, largest + bias));
    if (!corner) return;
    ivec first = (ivec)(quad[0] == largest), second = (ivec)(quad[1] == largest), third = (ivec)(quad[2] == largest);
    ivec code = (third & 2) | (~third & 3);
    code = (second & 1) | (~second & code);
    store_codes(corner, ~first & code);
}

INLINE void pool(const struct layer *l, const float *upper, const float *lower, const float *bias, float *result,
                 int32_t *corners) {
    for (int column = 0; column < l->columns; column++, result += l->outputs) {
        for (int at = 0; at < l->panel; at += LANES) {
            const float *left = upper + 2 * column * l->panel + at, *below = lower + 2 * column * l->panel + at;
            vec quad[4] = {load(left), load(left + l->panel), load(below), load(below + l->panel)};
            int32_t *corner = corners ? corners + (size_t)column * l->outputs + at : NULL;
            pool_quad(quad, load(bias + at), result + at, corner);
        }
    }
}

INLINE void convolve_panels(const int vectors, const struct layer *l, const float *image, const float *weights,
                            const float *bias, float *rows, float *result, int32_t *corners) {
    size_t length = 2 * (size_t)l->columns * l->panel;
    for (int at = 0; at < l->outputs; at += l->panel, weights += SIDE * SIDE * l->panel) {
        for (int pair = 0; pair < l->rows; pair++) {
            const float *from = image + (size_t)2 * pair * l->width;
            convolve_row(vectors, l, from, weights, rows);
            convolve_row(vectors, l, from + l->width, weights, rows + length);
            size_t to = (size_t)pair * l->columns * l->outputs + at;
            pool(l, rows, rows + length, bias + at, result + to, corners ? corners + to : NULL);
        }
    }
}

/* An image of one channel. `weights` is packed in panels, [outputs / panel][9][panel]; `rows` holds two rows of one. */
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

/* Where the patch of each winner starts in the image. */
static void find_winners(const struct layer *l, const int32_t *corners, int32_t *winners) {
    int32_t below = l->width * l->inputs, right = l->inputs;
    for (int row = 0; row < l->rows; row++) {
        for (int column = 0; column < l->columns; column++) {
            int32_t start = 2 * (row * below + column * right);
            for (int at = 0; at < l->outputs; at += LANES, corners += LANES, winners += LANES) {
                ivec corner = load_codes(corners);
                store_codes(winners, start + (-(corner >> 1) & below) + (-(corner & 1) & right));
            }
        }
    }
}

/* Gradient of filters and bias from `deltas`, the derivatives by the pooled results (0 where ReLU was closed).
 *
 * `filters` and `bias` are added to; `filters` is [3][outputs][3 inputs]. `offsets` and `factors` hold one list.
 */
static void filter_gradient(const struct layer *l, const float *image, const float *deltas, const int32_t *winners,
                            int32_t *offsets, float *factors, float *filters, float *bias) {
    size_t length = SIDE * (size_t)l->inputs, row = (size_t)l->width * l->inputs, outputs = l->outputs;
    size_t cells = layer_cells(l);
    for (size_t output = 0; output < outputs; output++) {
        int count = 0;
        float sum = 0;
        for (size_t at = output; at < cells * outputs; at += outputs) {
            offsets[count] = winners[at];
            factors[count] = deltas[at];
            count += deltas[at] != 0;
            sum += deltas[at];
        }
        bias[output] += sum;
        for (int i = 0; i < SIDE; i++)
            add_listed_run(filters + (i * outputs + output) * length, image + i * row, offsets, factors, count,
                           length);
    }
}

/* Lists of the filters that won at each position, [cells][4 corners][outputs], and how long they are. */
static void list_by_position(const struct layer *l, const float *deltas, const int32_t *corners, int32_t *offsets,
                             float *factors, int32_t *counts) {
    size_t cells = layer_cells(l), outputs = l->outputs;
    int32_t length = SIDE * l->inputs;
    for (size_t cell = 0; cell < cells; cell++, deltas += outputs, corners += outputs, counts += 4) {
        counts[0] = counts[1] = counts[2] = counts[3] = 0;
        for (size_t output = 0; output < outputs; output++) {
            if (deltas[output] == 0) continue;
            size_t corner = corners[output], at = (cell * 4 + corner) * outputs + counts[corner]++;
            offsets[at] = (int32_t)output * length;
            factors[at] = deltas[output];
        }
    }
}

/* Derivatives by the image, added to `back` [height][width][inputs], from those lists; `filters` as above. */
static void image_gradient(const struct layer *l, const float *filters, const int32_t *offsets, const float *factors,
                           const int32_t *counts, float *back) {
    size_t inputs = l->inputs, length = SIDE * inputs, row = l->width * inputs, outputs = l->outputs;
    for (int i = 0; i < SIDE; i++, filters += outputs * length, back += row) { /* a third of the filters at a time */
        size_t list = 0;
        for (int y = 0; y < l->rows; y++)
            for (int x = 0; x < l->columns; x++)
                for (int corner = 0; corner < 4; corner++, list++)
                    add_listed_run(back + (2 * y + (corner >> 1)) * row + (2 * x + (corner & 1)) * inputs, filters,
                                   offsets + list * outputs, factors + list * outputs, counts[list], length);
    }
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
