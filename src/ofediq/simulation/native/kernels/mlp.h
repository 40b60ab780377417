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
    size_t lists[MAX_LAYERS];     /* of each layer's inputs that are not 0, in a cache: how many, and which */
    size_t deltas;                /* two rows of derivatives, in a cache */
    size_t widest;
};

static void mlp_import(const void *shape, const float *flat, float *inner) {
    const struct mlp *m = shape;
    for (int layer = 0; layer < m->depth; layer++) {
        size_t outputs = m->sizes[layer + 1], width = m->widths[layer + 1];
        for (int row = 0; row <= m->sizes[layer]; row++, flat += outputs, inner += width) {
            memset(inner + width - LANES, 0, LANES * sizeof(float));
            memcpy(inner, flat, outputs * sizeof(float));
        }
    }
}

static void mlp_export(const void *shape, const float *inner, float *flat) {
    const struct mlp *m = shape;
    for (int layer = 0; layer < m->depth; layer++) {
        size_t outputs = m->sizes[layer + 1], width = m->widths[layer + 1];
        for (int row = 0; row <= m->sizes[layer]; row++, flat += outputs, inner += width)
            memcpy(flat, inner, outputs * sizeof(float));
    }
}

static void mlp_pack(const void *shape, const float *inner, float *packed) {
    (void)shape, (void)inner, (void)packed; /* the inner order serves */
}

/* list = how many of the values are not 0, and which: after ReLU that is half of them. No branch depends on data. */
INLINE void list_nonzero(const float *values, int count, int32_t *list) {
    int32_t found = 0;
    for (int32_t k = 0; k < count; k++) {
        int32_t bits;
        memcpy(&bits, values + k, sizeof bits);
        list[1 + found] = k;
        found += (bits & 0x7FFFFFFF) != 0;
    }
    list[0] = found;
}

/* to[0 .. vectors) = bias + sum of inputs[k] * weights[k] over the list: the sum stays in registers. */
INLINE void dense_columns(const int vectors, const float *inputs, const int32_t *list, const float *weights,
                          size_t width, const float *bias, float *to) {
    vec sums[8];
    UNROLL for (int v = 0; v < vectors; v++) sums[v] = load(bias + v * LANES);
    for (int n = 1; n <= list[0]; n++) {
        vec input = spread(inputs[list[n]]);
        const float *row = weights + list[n] * width;
        UNROLL for (int v = 0; v < vectors; v++) sums[v] = multiply_add(input, load(row + v * LANES), sums[v]);
    }
    UNROLL for (int v = 0; v < vectors; v++) store(to + v * LANES, sums[v]);
}

/* One vector of columns: several sums at a time, since each addition waits for the one before. */
INLINE void dense_column(const float *inputs, const int32_t *list, const float *weights, size_t width,
                         const float *bias, float *to) {
    vec sums[4] = {load(bias)};
    int n = 1;
    for (; n + 3 <= list[0]; n += 4)
        UNROLL for (int v = 0; v < 4; v++)
            sums[v] = multiply_add(spread(inputs[list[n + v]]), load(weights + list[n + v] * width), sums[v]);
    for (; n <= list[0]; n++) sums[0] = multiply_add(spread(inputs[list[n]]), load(weights + list[n] * width), sums[0]);
    store(to, (sums[0] + sums[1]) + (sums[2] + sums[3]));
}

static void mlp_forward(const void *shape, const float *inner, const float *packed, const float *sample,
                        float *cache, int learns, float *outputs) {
    (void)packed, (void)learns;
    const struct mlp *m = shape;
    const float *inputs = sample;
    for (int layer = 0; layer < m->depth; layer++) {
        size_t width = m->widths[layer + 1], at = 0;
        const float *weights = inner + m->starts[layer], *bias = weights + m->sizes[layer] * width;
        float *to = cache + m->hidden[layer + 1];
        int32_t *list = (int32_t *)(cache + m->lists[layer]);
        list_nonzero(inputs, m->sizes[layer], list);
        for (; at + 8 * LANES <= width; at += 8 * LANES)
            dense_columns(8, inputs, list, weights + at, width, bias + at, to + at);
        for (; at + 4 * LANES <= width; at += 4 * LANES)
            dense_columns(4, inputs, list, weights + at, width, bias + at, to + at);
        for (; at < width; at += LANES) dense_column(inputs, list, weights + at, width, bias + at, to + at);
        if (layer + 1 < m->depth)
            for (at = 0; at < width; at += LANES) store(to + at, maximum((vec){0}, load(to + at)));
        inputs = to;
    }
    memcpy(outputs, inputs, m->sizes[m->depth] * sizeof(float));
}

static void mlp_backward(const void *shape, const float *inner, const float *sample, float *cache,
                         const float *deltas, float *gradient) {
    const struct mlp *m = shape;
    float *now = cache + m->deltas, *next = now + m->widest;
    memset(now, 0, m->widths[m->depth] * sizeof(float));
    memcpy(now, deltas, m->sizes[m->depth] * sizeof(float));
    for (int layer = m->depth - 1; layer >= 0; layer--) {
        size_t width = m->widths[layer + 1];
        const float *inputs = layer ? cache + m->hidden[layer] : sample, *weights = inner + m->starts[layer];
        const int32_t *list = (const int32_t *)(cache + m->lists[layer]);
        float *to = gradient + m->starts[layer];
        if (layer) memset(next, 0, m->widths[layer] * sizeof(float));
        for (int n = 1; n <= list[0]; n++) {
            size_t k = list[n];
            add_scaled(to + k * width, inputs[k], now, width);
            if (!layer) continue;
            vec sum = {0};
            for (size_t at = 0; at < width; at += LANES)
                sum = multiply_add(load(weights + k * width + at), load(now + at), sum);
            next[k] = sum_lanes(sum);
        }
        add_scaled(to + m->sizes[layer] * width, 1, now, width);
        float *swap = now;
        now = next, next = swap;
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
        m->lists[layer] = cache;
        cache += m->widths[layer] + LANES;
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
        .import_flat = mlp_import,
        .export_flat = mlp_export,
        .pack = mlp_pack,
        .forward = mlp_forward,
        .backward = mlp_backward,
    };
    return 1;
}

#endif
