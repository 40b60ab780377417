/* A convolution, followed by 2x2 max-pooling or not, one image at a time, channels last.
 *
 * Forward, sums over patches in tiles of 6 positions by a few vectors of channels that stay in registers; where 3x3
 * filters over many channels are pooled, winograd.h is faster. Backward only what the pooling let win and ReLU let
 * pass carries a derivative: both products follow lists of those, which costs a quarter of the dense work or less
 * behind a pooling, and half of it elsewhere.
 *
 * Inner order: filters [size][outputs][length], bias [outputs]; one row of one filter is [size x inputs], padded to
 * CHANNELS. Flat order: filters [size x size x given][asked], bias [asked].
 */
#ifndef OFEDIQ_CONVOLUTION_H
#define OFEDIQ_CONVOLUTION_H

#include "layer.h"

#define SIDE 3 /* of the filters that most convolutions have */

INLINE size_t filter_floats(const struct layer *l) { return (size_t)l->size * l->outputs * l->length; }

/* Positions in a row and column whose values are computed: without those that the pooling drops. */
INLINE int positions_across(const struct layer *l) { return l->pooled ? 2 * l->columns : l->columns; }
INLINE int positions_down(const struct layer *l) { return l->pooled ? 2 * l->rows : l->rows; }

/* One channel under 3x3 filters has kernels of its own. */
INLINE int is_single(const struct layer *l) { return l->size == SIDE && l->inputs == 1 && l->stride == 1; }

static void conv_import(const struct layer *l, const float *flat, float *inner) {
    size_t filter = l->outputs * l->length;
    if (l->given != l->inputs || l->asked != l->outputs || l->length != (size_t)l->size * l->inputs)
        memset(inner, 0, filter_floats(l) * sizeof(float));
    for (int i = 0; i < l->size; i++)
        for (int j = 0; j < l->size; j++, flat += (size_t)l->given * l->asked)
            transpose(inner + i * filter + j * l->inputs, l->length, flat, l->asked, l->given, l->asked);
    inner += filter_floats(l);
    memset(inner, 0, l->outputs * sizeof(float));
    if (l->bias) memcpy(inner, flat, l->asked * sizeof(float));
}

static void conv_export(const struct layer *l, const float *inner, float *flat) {
    size_t filter = l->outputs * l->length;
    for (int i = 0; i < l->size; i++)
        for (int j = 0; j < l->size; j++, flat += (size_t)l->given * l->asked)
            transpose(flat, l->asked, inner + i * filter + j * l->inputs, l->length, l->asked, l->given);
    if (l->bias) memcpy(flat, inner + filter_floats(l), l->asked * sizeof(float));
}

/* Filters in panels, [outputs / panel][size x size x inputs][panel]. */
static void pack_panels(const struct layer *l, const float *inner, float *packed) {
    size_t run = (size_t)l->size * l->inputs;
    for (int at = 0; at < l->outputs; at += l->panel)
        for (int i = 0; i < l->size; i++, packed += run * l->panel)
            transpose(packed, l->panel, inner + ((size_t)i * l->outputs + at) * l->length, l->length, l->panel, run);
}

/* out[p][n] = sum over the 3x3 patch of position p, for `positions` neighbours in a row and `vectors` of channels. */
INLINE void single_tile(const int positions, const int vectors, const float *image, size_t row,
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

/* The same for filters of any size over any number of channels. */
INLINE void patch_tile(const int positions, const int vectors, const struct layer *l, const float *image,
                       const float *weights, float *out) {
    const size_t inputs = l->inputs, run = l->size * inputs, row = l->width * inputs, step = l->stride * inputs;
    vec sums[6][4];
    UNROLL for (int p = 0; p < positions; p++)
        UNROLL for (int v = 0; v < vectors; v++) sums[p][v] = (vec){0};
    for (int i = 0; i < l->size; i++, image += row) {
        for (size_t k = 0; k < run; k++, weights += vectors * LANES) {
            vec weight[4];
            UNROLL for (int v = 0; v < vectors; v++) weight[v] = load(weights + v * LANES);
            UNROLL for (int p = 0; p < positions; p++) {
                vec value = spread(image[p * step + k]);
                UNROLL for (int v = 0; v < vectors; v++) sums[p][v] = multiply_add(value, weight[v], sums[p][v]);
            }
        }
    }
    UNROLL for (int p = 0; p < positions; p++)
        UNROLL for (int v = 0; v < vectors; v++) store(out + (p * vectors + v) * LANES, sums[p][v]);
}

INLINE void some_positions(const int positions, const int vectors, const struct layer *l, const float *image,
                           const float *weights, float *out) {
    if (is_single(l))
        single_tile(positions, vectors, image, l->width, weights, out);
    else
        patch_tile(positions, vectors, l, image, weights, out);
}

/* One row of positions. */
INLINE void convolve_row(const int vectors, const struct layer *l, const float *image, const float *weights,
                         float *out) {
    int left = positions_across(l), step = l->stride * l->inputs;
    for (; left >= 6; left -= 6, image += 6 * step, out += 6 * vectors * LANES)
        some_positions(6, vectors, l, image, weights, out);
    for (; left >= 2; left -= 2, image += 2 * step, out += 2 * vectors * LANES)
        some_positions(2, vectors, l, image, weights, out);
    if (left) some_positions(1, vectors, l, image, weights, out);
}

/* Maximum of a quad, plus bias, but not below `least`; and, where asked for, which corner won, the first one in a tie. */
INLINE void pool_quad(const vec quad[4], vec bias, vec least, float *result, int32_t *corner) {
    vec largest = maximum(maximum(quad[0], quad[1]), maximum(quad[2], quad[3]));
    store(result, maximum(least, largest + bias));
    if (!corner) return;
    ivec first = (ivec)(quad[0] == largest), second = (ivec)(quad[1] == largest), third = (ivec)(quad[2] == largest);
    ivec code = (third & 2) | (~third & 3);
    code = (second & 1) | (~second & code);
    store_codes(corner, ~first & code);
}

/* One row of results of one panel, from two rows of positions or from one. */
INLINE void finish_row(const struct layer *l, const float *rows, const float *bias, float *result,
                       int32_t *corners) {
    const float *lower = rows + 2 * (size_t)l->columns * l->panel;
    for (int column = 0; column < l->columns; column++, result += l->outputs) {
        for (int at = 0; at < l->panel; at += LANES) {
            if (!l->pooled) {
                store(result + at, maximum(least(l), load(rows + column * l->panel + at) + load(bias + at)));
                continue;
            }
            const float *left = rows + 2 * column * l->panel + at, *below = lower + 2 * column * l->panel + at;
            vec quad[4] = {load(left), load(left + l->panel), load(below), load(below + l->panel)};
            int32_t *corner = corners ? corners + (size_t)column * l->outputs + at : NULL;
            pool_quad(quad, load(bias + at), least(l), result + at, corner);
        }
    }
}

INLINE void convolve_panels(const int vectors, const struct layer *l, const float *image, const float *weights,
                            const float *bias, float *rows, float *result, int32_t *corners) {
    size_t row = (size_t)l->stride * l->width * l->inputs, second = (size_t)positions_across(l) * l->panel;
    for (int at = 0; at < l->outputs; at += l->panel, weights += (size_t)l->size * l->size * l->inputs * l->panel) {
        for (int y = 0; y < l->rows; y++) {
            const float *from = image + (l->pooled ? 2 * y : y) * row;
            for (int half = 0; half <= l->pooled; half++)
                convolve_row(vectors, l, from + half * row, weights, rows + half * second);
            size_t to = (size_t)y * l->columns * l->outputs + at;
            finish_row(l, rows, bias + at, result + to, corners ? corners + to : NULL);
        }
    }
}

/* `weights` from `pack_panels`; `rows` holds two rows of one panel. */
static void convolve(const struct layer *l, const float *image, const float *weights, const float *bias,
                     float *rows, float *result, int32_t *corners) {
    switch (panel_vectors(l)) {
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

/* The same for `length` floats, a multiple of CHANNELS. */
INLINE void add_listed_run(float *to, const float *from, const int32_t *offsets, const float *factors, int count,
                           size_t length) {
    if (!count) return;
    size_t at = 0;
    for (; at + 6 * CHANNELS <= length; at += 6 * CHANNELS)
        add_listed(6, to + at, from + at, offsets, factors, count);
    for (; at + 3 * CHANNELS <= length; at += 3 * CHANNELS)
        add_listed(3, to + at, from + at, offsets, factors, count);
    for (; at < length; at += CHANNELS) add_listed(1, to + at, from + at, offsets, factors, count);
}

/* Where the patch of each winner starts in the image; without pooling everyone wins. */
static void find_winners(const struct layer *l, const int32_t *corners, int32_t *winners) {
    int32_t below = l->stride * l->width * l->inputs, right = l->stride * l->inputs;
    for (int row = 0; row < l->rows; row++) {
        for (int column = 0; column < l->columns; column++) {
            int32_t start = row * below + column * right;
            for (int at = 0; at < l->outputs; at += LANES, winners += LANES) {
                if (!l->pooled) {
                    store_codes(winners, start - (ivec){0});
                    continue;
                }
                ivec corner = load_codes(corners);
                store_codes(winners, 2 * start + (-(corner >> 1) & below) + (-(corner & 1) & right));
                corners += LANES;
            }
        }
    }
}

/* Gradient of filters and bias from `deltas`, the derivatives by the results (0 where ReLU was closed), added to
 * `gradient`. `offsets` and `factors` hold one list.
 */
static void filter_gradient(const struct layer *l, const float *image, const float *deltas, const int32_t *winners,
                            int32_t *offsets, float *factors, float *gradient) {
    size_t row = (size_t)l->width * l->inputs, outputs = l->outputs, run = (size_t)l->size * l->inputs;
    size_t cells = layer_cells(l);
    for (size_t output = 0; output < (size_t)l->asked; output++) {
        int count = 0;
        float sum = 0;
        for (size_t at = output; at < cells * outputs; at += outputs) {
            offsets[count] = winners[at];
            factors[count] = deltas[at];
            count += deltas[at] != 0;
            sum += deltas[at];
        }
        if (l->bias) gradient[filter_floats(l) + output] += sum;
        for (int i = 0; i < l->size; i++) {
            float *filter = gradient + (i * outputs + output) * l->length;
            add_listed_run(filter, image + i * row, offsets, factors, count, l->length);
            for (size_t at = run; at < l->length; at++) filter[at] = 0; /* what lies beside the patch */
        }
    }
}

/* Lists of the filters that won at each position, [cells][corners][outputs], and how long they are. */
static void list_by_position(const struct layer *l, const float *deltas, const int32_t *corners, int32_t *offsets,
                             float *factors, int32_t *counts) {
    size_t cells = layer_cells(l), outputs = l->outputs;
    int places = l->pooled ? 4 : 1;
    for (size_t cell = 0; cell < cells; cell++, deltas += outputs, counts += places) {
        for (int place = 0; place < places; place++) counts[place] = 0;
        for (size_t output = 0; output < outputs; output++) {
            if (deltas[output] == 0) continue;
            size_t place = l->pooled ? corners[cell * outputs + output] : 0;
            size_t at = (cell * places + place) * outputs + counts[place]++;
            offsets[at] = (int32_t)(output * l->length);
            factors[at] = deltas[output];
        }
    }
}

/* Derivatives by the image, added to `back` [height][width][inputs], from those lists. */
static void image_gradient(const struct layer *l, const float *filters, const int32_t *offsets, const float *factors,
                           const int32_t *counts, float *back) {
    size_t inputs = l->inputs, row = l->width * inputs, outputs = l->outputs;
    size_t across = l->stride * inputs, down = l->stride * row;
    int places = l->pooled ? 4 : 1, step = l->pooled ? 2 : 1;
    for (int i = 0; i < l->size; i++, filters += outputs * l->length, back += row) { /* a part of the filters at a time */
        size_t list = 0;
        for (int y = 0; y < l->rows; y++)
            for (int x = 0; x < l->columns; x++)
                for (int place = 0; place < places; place++, list++)
                    add_listed_run(back + (step * y + (place >> 1)) * down + (step * x + (place & 1)) * across,
                                   filters, offsets + list * outputs, factors + list * outputs, counts[list],
                                   l->length);
    }
}

/* Gradient of 3x3 filters over one channel that is pooled. Here the winners of a cell lie in one 4x4 window of the
 * image: a dense sum over masked corners needs no lists. */
static void single_filter_gradient(const struct layer *l, const float *image, const float *deltas,
                                   const int32_t *corners, float *gradient) {
    size_t filter = l->outputs * l->length;
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
        for (int k = 0; k < SIDE * SIDE; k++)
            for (int lane = 0; lane < LANES; lane++)
                gradient[k / SIDE * filter + (at + lane) * l->length + k % SIDE] += sums[k][lane];
        float *bias = gradient + filter_floats(l) + at;
        if (l->bias) store(bias, load(bias) + sum);
    }
}

#endif
