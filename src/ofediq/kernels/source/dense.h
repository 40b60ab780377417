/* A dense layer, some samples at a time.
 *
 * Inner order: weights [inputs][outputs] and bias [outputs], as in the flat order, but with rows padded to whole
 * vectors, and with rows of zeros for inputs that are padding. A narrow layer, of few outputs behind images, has its
 * weights the other way round, [outputs][length].
 */
#ifndef OFEDIQ_DENSE_H
#define OFEDIQ_DENSE_H

#include "layer.h"

enum { ABREAST = 4, STAYING = 4096 }; /* samples in a tile; weights that stay in the cache for all of them */

INLINE size_t dense_rows(const struct layer *l) { return (size_t)l->cells * l->inputs; }

/* Where the bias starts. */
INLINE size_t dense_weights(const struct layer *l) {
    return l->narrow ? l->asked * l->length : dense_rows(l) * l->outputs;
}

INLINE void copy_rows(float *to, size_t to_width, const float *from, size_t from_width, size_t rows) {
    size_t width = to_width < from_width ? to_width : from_width;
    if (to_width == from_width) width *= rows, rows = 1;
    for (size_t row = 0; row < rows; row++, to += to_width, from += from_width) {
        if (to_width > width) memset(to + to_width - LANES, 0, LANES * sizeof(float));
        memcpy(to, from, width * sizeof(float));
    }
}

static void dense_import(const struct layer *l, const float *flat, float *inner) {
    size_t outputs = l->narrow ? 1 : l->outputs, weights = dense_weights(l);
    if (l->narrow || l->inputs != l->given) memset(inner, 0, weights * sizeof(float));
    for (int cell = 0; cell < l->cells; cell++, flat += (size_t)l->given * l->asked) {
        float *to = inner + (size_t)cell * l->inputs * outputs;
        if (l->narrow)
            transpose(to, l->length, flat, l->asked, l->given, l->asked);
        else
            copy_rows(to, outputs, flat, l->asked, l->given);
    }
    memset(inner + weights, 0, l->outputs * sizeof(float));
    if (l->bias) memcpy(inner + weights, flat, l->asked * sizeof(float));
}

/* The same where rows become shorter: whole vectors, whose ends the next row overwrites. */
INLINE void close_rows(float *to, size_t to_width, const float *from, size_t from_width, size_t rows) {
    size_t whole = rounded_up(to_width, LANES), end = rows * to_width, row = 0;
    for (; row * to_width + whole <= end; row++, to += to_width, from += from_width)
        for (size_t at = 0; at < whole; at += LANES) store(to + at, load(from + at));
    copy_rows(to, to_width, from, from_width, rows - row);
}

static void dense_export(const struct layer *l, const float *inner, float *flat) {
    size_t outputs = l->narrow ? 1 : l->outputs;
    for (int cell = 0; cell < l->cells; cell++, flat += (size_t)l->given * l->asked) {
        const float *from = inner + (size_t)cell * l->inputs * outputs;
        if (l->narrow)
            transpose(flat, l->asked, from, l->length, l->asked, l->given);
        else
            close_rows(flat, l->asked, from, outputs, l->given);
    }
    if (l->bias) memcpy(flat, inner + dense_weights(l), l->asked * sizeof(float));
}

/* to[n][v] = sums so far + sum of inputs[n][k] * weights[k], for some samples and vectors of columns; the first part of a
 * sum begins with the bias. */
INLINE void dense_tile(const int samples, const int vectors, float *const *to, const float *const *inputs,
                       size_t count, const float *weights, size_t width, const float *bias) {
    vec sums[ABREAST][8];
    UNROLL for (int n = 0; n < samples; n++)
        UNROLL for (int v = 0; v < vectors; v++) sums[n][v] = load((bias ? bias : to[n]) + v * LANES);
    for (size_t k = 0; k < count; k++, weights += width) {
        vec row[8];
        UNROLL for (int v = 0; v < vectors; v++) row[v] = in_register(load(weights + v * LANES));
        UNROLL for (int n = 0; n < samples; n++) {
            vec input = spread(inputs[n][k]);
            UNROLL for (int v = 0; v < vectors; v++) sums[n][v] = multiply_add(input, row[v], sums[n][v]);
        }
    }
    UNROLL for (int n = 0; n < samples; n++)
        UNROLL for (int v = 0; v < vectors; v++) store(to[n] + v * LANES, sums[n][v]);
}

/* All columns of a layer, for some of its inputs. Wide layers read the weights once for several samples. */
INLINE void dense_columns(const int samples, const struct layer *l, const float *inner, struct pass *pass, int first,
                          size_t row, size_t count) {
    const int wide = samples > 1 ? (LANES == 8 ? 3 : 4) : 8; /* as many sums as there are registers for */
    const float *weights = inner + row * l->outputs, *bias = row ? NULL : inner + dense_weights(l), *inputs[ABREAST];
    size_t width = l->outputs;
    float *to[ABREAST];
    UNROLL for (int n = 0; n < samples; n++) inputs[n] = pass->inputs[first + n] + row;
    for (size_t column = 0; column < width;) {
        UNROLL for (int n = 0; n < samples; n++) to[n] = pass->results[first + n] + column;
        const float *from = bias ? bias + column : NULL;
        if (column + wide * LANES <= width) {
            dense_tile(samples, wide, to, inputs, count, weights + column, width, from);
            column += wide * LANES;
        } else if (column + 2 * LANES <= width) {
            dense_tile(samples, 2, to, inputs, count, weights + column, width, from);
            column += 2 * LANES;
        } else {
            dense_tile(samples, 1, to, inputs, count, weights + column, width, from);
            column += LANES;
        }
    }
}

INLINE void narrow_forward(const struct layer *l, const float *inner, const float *inputs, float *result) {
    for (int output = 0; output < l->asked; output++) {
        const float *weights = inner + output * l->length;
        vec sums[4] = {{0}};
        size_t at = 0;
        for (; at + 4 * LANES <= l->length; at += 4 * LANES)
            UNROLL for (int v = 0; v < 4; v++)
                sums[v] = multiply_add(load(weights + at + v * LANES), load(inputs + at + v * LANES), sums[v]);
        for (; at < l->length; at += LANES) sums[0] = multiply_add(load(weights + at), load(inputs + at), sums[0]);
        float bias = inner[dense_weights(l) + output];
        result[output] = sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])) + bias;
    }
    for (int output = l->asked; output < l->outputs; output++) result[output] = 0;
}

static void dense_forward(const struct layer *l, const float *inner, struct pass *pass) {
    size_t rows = dense_rows(l), most = STAYING / l->outputs + 1;
    for (int n = 0; n < pass->count && l->narrow; n++) narrow_forward(l, inner, pass->inputs[n], pass->results[n]);
    for (size_t row = 0; row < rows && !l->narrow; row += most) {
        size_t count = row + most < rows ? most : rows - row;
        int n = 0;
        for (; n + ABREAST <= pass->count; n += ABREAST) dense_columns(ABREAST, l, inner, pass, n, row, count);
        for (; n < pass->count; n++) dense_columns(1, l, inner, pass, n, row, count);
    }
    for (int n = 0; n < pass->count; n++) activate(l, pass->results[n], slopes_of(l, pass, n), l->outputs);
}

/* to[v] += sum over the samples of inputs[n][k] * deltas[n][v]: one row of a weight gradient. */
INLINE void gradient_row(const int vectors, float *to, const float *const *inputs, size_t k, float *const *deltas,
                         size_t column, int count) {
    vec sums[8];
    UNROLL for (int v = 0; v < vectors; v++) sums[v] = load(to + v * LANES);
    for (int n = 0; n < count; n++) {
        vec input = spread(inputs[n][k]);
        UNROLL for (int v = 0; v < vectors; v++)
            sums[v] = multiply_add(input, load(deltas[n] + column + v * LANES), sums[v]);
    }
    UNROLL for (int v = 0; v < vectors; v++) store(to + v * LANES, sums[v]);
}

static void weight_gradient(const struct layer *l, float *to, const struct pass *pass) {
    size_t rows = dense_rows(l), width = l->outputs;
    for (size_t k = 0; k < rows; k++, to += width) {
        size_t column = 0;
        for (; column + 8 * LANES <= width; column += 8 * LANES)
            gradient_row(8, to + column, pass->inputs, k, pass->deltas, column, pass->count);
        for (; column < width; column += LANES)
            gradient_row(1, to + column, pass->inputs, k, pass->deltas, column, pass->count);
    }
    for (int n = 0; n < pass->count && l->bias; n++) add_scaled(to, 1, pass->deltas[n], width);
}

/* to[n][k] = the product of row k of the weights and deltas[n], for four rows and some samples. */
INLINE void product_tile(const int samples, float *const *to, size_t k, const float *weights, size_t width,
                         float *const *deltas) {
    vec sums[2][4] = {{{0}}};
    for (size_t at = 0; at < width; at += LANES) {
        vec delta[2];
        UNROLL for (int n = 0; n < samples; n++) delta[n] = load(deltas[n] + at);
        UNROLL for (int row = 0; row < 4; row++) {
            vec weight = load(weights + row * width + at);
            UNROLL for (int n = 0; n < samples; n++) sums[n][row] = multiply_add(weight, delta[n], sums[n][row]);
        }
    }
    UNROLL for (int n = 0; n < samples; n++) store_sums(to[n] + k, sums[n]);
}

/* Derivatives by a layer's inputs, padded with zeros. */
INLINE void input_gradient(const int samples, const struct layer *l, const float *weights, float *const *to,
                           float *const *deltas) {
    size_t k = 0, rows = dense_rows(l), width = l->outputs;
    for (; k + 4 <= rows; k += 4, weights += 4 * width) product_tile(samples, to, k, weights, width, deltas);
    for (; k < rows; k++, weights += width) {
        for (int n = 0; n < samples; n++) {
            vec sum = {0};
            for (size_t at = 0; at < width; at += LANES)
                sum = multiply_add(load(weights + at), load(deltas[n] + at), sum);
            to[n][k] = sum_lanes(sum);
        }
    }
    for (int n = 0; n < samples; n++)
        for (size_t at = rows; at % LANES; at++) to[n][at] = 0;
}

INLINE void narrow_backward(const struct layer *l, const float *inner, const float *inputs, const float *deltas,
                            float *back, float *gradient) {
    memset(back, 0, l->length * sizeof(float));
    for (int output = 0; output < l->asked; output++) {
        add_scaled(back, deltas[output], inner + output * l->length, l->length);
        add_scaled(gradient + output * l->length, deltas[output], inputs, l->length);
        if (l->bias) gradient[dense_weights(l) + output] += deltas[output];
    }
}

/* The gradient of one sample in the flat order, over whatever was there: whole vectors, whose ends the next row
 * overwrites. */
static void write_gradient(const struct layer *l, const float *inputs, const float *deltas, float *flat) {
    size_t asked = l->asked, width = l->outputs, rows = (size_t)l->cells * l->given, close = width / asked + 1;
    size_t row = 0, padding = l->inputs - l->given;
    for (int cell = 0; cell < l->cells; cell++, inputs += padding)
        for (int k = 0; k < l->given; k++, row++, inputs++, flat += asked) {
            vec input = spread(*inputs);
            if (row + close <= rows)
                for (size_t at = 0; at < width; at += LANES) store(flat + at, input * load(deltas + at));
            else
                for (size_t at = 0; at < asked; at++) flat[at] = *inputs * deltas[at];
        }
    if (l->bias) memcpy(flat, deltas, asked * sizeof(float));
}

/* gradient += those of all samples; their derivatives go back where someone asks for them. Where `flat` is given, that of
 * the only sample goes there. */
static void dense_backward(const struct layer *l, const float *inner, struct pass *pass, float *gradient, float *flat) {
    int n = 0;
    for (; n < pass->count; n++)
        activate_back(l, pass->deltas[n], pass->results[n], pass->caches[n] + l->slopes, l->outputs);
    if (l->narrow) {
        for (n = 0; n < pass->count; n++)
            narrow_backward(l, inner, pass->inputs[n], pass->deltas[n], pass->back[n], gradient);
        return;
    }
    if (flat)
        write_gradient(l, pass->inputs[0], pass->deltas[0], flat);
    else
        weight_gradient(l, gradient, pass);
    if (!l->further) return;
    for (n = 0; n + 2 <= pass->count; n += 2) input_gradient(2, l, inner, pass->back + n, pass->deltas + n);
    if (n < pass->count) input_gradient(1, l, inner, pass->back + n, pass->deltas + n);
}

#endif
