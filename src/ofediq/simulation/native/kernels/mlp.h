/* Models II and III of the paper (ofediq/models/mlp.py): dense layers with ReLU between them.
 *
 * Inner order: each layer's weights [inputs][outputs] and bias [outputs], as in the flat order, but with rows padded
 * to whole vectors. Padding is zero, and so is its gradient.
 */
#ifndef OFEDIQ_MLP_H
#define OFEDIQ_MLP_H

#include "network.h"

#define MAX_LAYERS 16

struct mlp {
    int depth;
    int sizes[MAX_LAYERS + 1];    /* units, from the features to the outputs */
    size_t widths[MAX_LAYERS + 1]; /* the same, padded */
    size_t starts[MAX_LAYERS];    /* of each layer, inner order */
    size_t hidden[MAX_LAYERS + 1]; /* of each layer's inputs in a cache; the last one: of the outputs */
    size_t deltas;                /* two rows of derivatives, in a cache */
    size_t widest;
};

/* Copies every row of every layer, the bias included. */
INLINE void copy_rows(const struct mlp *m, float *to, const float *from, int into_inner) {
    for (int layer = 0; layer < m->depth; layer++) {
        size_t outputs = m->sizes[layer + 1], width = m->widths[layer + 1], rows = m->sizes[layer] + 1;
        if (width == outputs) outputs = width *= rows, rows = 1; /* nothing is padded */
        size_t to_width = into_inner ? width : outputs, from_width = into_inner ? outputs : width;
        for (size_t row = 0; row < rows; row++, to += to_width, from += from_width) {
            if (into_inner) memset(to + width - LANES, 0, LANES * sizeof(float));
            memcpy(to, from, outputs * sizeof(float));
        }
    }
}

static void mlp_import(const void *shape, const float *flat, float *inner) { copy_rows(shape, inner, flat, 1); }

static void mlp_export(const void *shape, const float *inner, float *flat) { copy_rows(shape, flat, inner, 0); }

static void mlp_pack(const void *shape, const float *inner, float *packed) {
    (void)shape, (void)inner, (void)packed; /* the inner order serves */
}

enum { ABREAST = 4 }; /* samples in a tile */

/* to[n][v] = bias + sum of inputs[n][k] * weights[k], for some samples and vectors of columns. */
INLINE void dense_tile(const int samples, const int vectors, float *const *to, const float *const *inputs, int count,
                       const float *weights, size_t width, const float *bias) {
    vec sums[ABREAST][8];
    UNROLL for (int n = 0; n < samples; n++)
        UNROLL for (int v = 0; v < vectors; v++) sums[n][v] = load(bias + v * LANES);
    for (int k = 0; k < count; k++, weights += width) {
        UNROLL for (int n = 0; n < samples; n++) {
            vec input = spread(inputs[n][k]);
            UNROLL for (int v = 0; v < vectors; v++)
                sums[n][v] = multiply_add(input, load(weights + v * LANES), sums[n][v]);
        }
    }
    UNROLL for (int n = 0; n < samples; n++)
        UNROLL for (int v = 0; v < vectors; v++) store(to[n] + v * LANES, sums[n][v]);
}

/* All columns of a layer. Wide layers read the weights once for several samples. */
INLINE void dense_layer(const int samples, float *const *to, const float *const *inputs, int count,
                        const float *weights, size_t width, const float *bias) {
    const int wide = samples > 1 ? (LANES == 8 ? 2 : 4) : 8; /* as many sums as there are registers for */
    float *at[ABREAST];
    for (size_t column = 0; column < width;) {
        UNROLL for (int n = 0; n < samples; n++) at[n] = to[n] + column;
        if (column + wide * LANES <= width) {
            dense_tile(samples, wide, at, inputs, count, weights + column, width, bias + column);
            column += wide * LANES;
        } else {
            dense_tile(samples, 1, at, inputs, count, weights + column, width, bias + column);
            column += LANES;
        }
    }
}

static void mlp_forward(const void *shape, const float *inner, const float *packed, const struct item *items,
                        int count) {
    (void)packed;
    const struct mlp *m = shape;
    const float *inputs[MAX_BATCH];
    float *to[MAX_BATCH];
    for (int n = 0; n < count; n++) inputs[n] = items[n].sample;
    for (int layer = 0; layer < m->depth; layer++) {
        size_t width = m->widths[layer + 1];
        const float *weights = inner + m->starts[layer], *bias = weights + m->sizes[layer] * width;
        for (int n = 0; n < count; n++) to[n] = items[n].cache + m->hidden[layer + 1];
        int n = 0;
        for (; n + ABREAST <= count; n += ABREAST)
            dense_layer(ABREAST, to + n, inputs + n, m->sizes[layer], weights, width, bias);
        for (; n < count; n++) dense_layer(1, to + n, inputs + n, m->sizes[layer], weights, width, bias);
        for (n = 0; n < count; n++) {
            inputs[n] = to[n];
            if (layer + 1 < m->depth)
                for (size_t at = 0; at < width; at += LANES) store(to[n] + at, maximum((vec){0}, load(to[n] + at)));
        }
    }
    for (int n = 0; n < count; n++) memcpy(items[n].outputs, inputs[n], m->sizes[m->depth] * sizeof(float));
}

/* to[v] += sum over the samples of inputs[n][k] * deltas[n][v]: one row of a weight gradient. */
INLINE void gradient_row(const int vectors, float *to, const float *const *inputs, int k, const float *const *deltas,
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

static void weight_gradient(float *to, size_t width, const float *const *inputs, int rows,
                            const float *const *deltas, int count) {
    for (int k = 0; k < rows; k++, to += width) {
        size_t column = 0;
        for (; column + 8 * LANES <= width; column += 8 * LANES)
            gradient_row(8, to + column, inputs, k, deltas, column, count);
        for (; column < width; column += LANES) gradient_row(1, to + column, inputs, k, deltas, column, count);
    }
    for (int n = 0; n < count; n++) add_scaled(to, 1, deltas[n], width);
}

/* to[n][k] = the product of row k of the weights and deltas[n], for four rows and some samples. */
INLINE void product_tile(const int samples, float *const *to, int k, const float *weights, size_t width,
                         const float *const *deltas) {
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

/* Derivatives by a layer's inputs. */
INLINE void input_gradient(const int samples, float *const *to, int rows, const float *weights, size_t width,
                           const float *const *deltas) {
    int k = 0;
    for (; k + 4 <= rows; k += 4, weights += 4 * width) product_tile(samples, to, k, weights, width, deltas);
    for (; k < rows; k++, weights += width) {
        for (int n = 0; n < samples; n++) {
            vec sum = {0};
            for (size_t at = 0; at < width; at += LANES)
                sum = multiply_add(load(weights + at), load(deltas[n] + at), sum);
            to[n][k] = sum_lanes(sum);
        }
    }
}

/* A unit that was not above zero passes nothing back. */
INLINE void close_units(float *deltas, const float *inputs, int count) {
    for (int at = count; at % LANES; at++) deltas[at] = 0;
    for (int at = 0; at < count; at += LANES)
        store(deltas + at, keep((ivec)(load(inputs + at) > 0), load(deltas + at)));
}

static void mlp_backward(const void *shape, const float *inner, const struct item *items, int count,
                         float *gradient) {
    const struct mlp *m = shape;
    const float *inputs[MAX_BATCH], *now[MAX_BATCH];
    float *next[MAX_BATCH];
    size_t outputs = m->sizes[m->depth];
    for (int n = 0; n < count; n++) {
        next[n] = items[n].cache + m->deltas;
        memset(next[n] + outputs, 0, (m->widths[m->depth] - outputs) * sizeof(float));
        memcpy(next[n], items[n].deltas, outputs * sizeof(float));
    }
    for (int layer = m->depth - 1; layer >= 0; layer--) {
        size_t width = m->widths[layer + 1], turn = (m->depth - layer) % 2; /* two rows of deltas take turns */
        const float *weights = inner + m->starts[layer];
        for (int n = 0; n < count; n++) {
            inputs[n] = layer ? items[n].cache + m->hidden[layer] : items[n].sample;
            now[n] = next[n];
            next[n] = items[n].cache + m->deltas + turn * m->widest;
        }
        weight_gradient(gradient + m->starts[layer], width, inputs, m->sizes[layer], now, count);
        if (!layer) break;
        int n = 0;
        for (; n + 2 <= count; n += 2)
            input_gradient(2, next + n, m->sizes[layer], weights, width, now + n);
        if (n < count) input_gradient(1, next + n, m->sizes[layer], weights, width, now + n);
        for (n = 0; n < count; n++) close_units(next[n], inputs[n], m->sizes[layer]);
    }
}

/* Returns whether the kernels can run these sizes. */
static int make_mlp(const int32_t *sizes, int count, struct mlp *m, struct network *network) {
    if (count < 2 || count > MAX_LAYERS + 1) return 0;
    size_t dim = 0, inner = 0, cache = 0, widest = 0;
    m->depth = count - 1;
    for (int layer = 0; layer < count; layer++) {
        if (sizes[layer] < 1) return 0;
        m->sizes[layer] = sizes[layer];
        m->widths[layer] = rounded_up(sizes[layer], LANES);
        if (m->widths[layer] > widest) widest = m->widths[layer];
        m->hidden[layer] = cache;
        if (layer) cache += m->widths[layer];
    }
    for (int layer = 0; layer < m->depth; layer++) {
        m->starts[layer] = inner;
        inner += (size_t)(sizes[layer] + 1) * m->widths[layer + 1];
        dim += (size_t)(sizes[layer] + 1) * sizes[layer + 1];
    }
    m->widest = widest;
    m->deltas = cache;
    *network = (struct network){
        .shape = m,
        .dim = dim,
        .inner = inner,
        .packed = 0,
        .cache = cache + 2 * widest,
        .outputs = sizes[count - 1],
        .batch = MAX_BATCH,
        .import_flat = mlp_import,
        .export_flat = mlp_export,
        .pack = mlp_pack,
        .forward = mlp_forward,
        .backward = mlp_backward,
    };
    return 1;
}

#endif
