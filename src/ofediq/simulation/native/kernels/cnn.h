/* Model I of the paper (ofediq/models/cnn.py): two convolutions and a softmax layer.
 *
 * Inner order: filters1 [9][o1], bias1, filters2 [3][o2][3 o1], bias2, dense [classes][flat], bias3 (padded).
 * Flat order: filters1 [9][o1], bias1, filters2 [9 o1][o2], bias2, dense [flat][classes], bias3.
 */
#ifndef OFEDIQ_CNN_H
#define OFEDIQ_CNN_H

#include "convolution.h"
#include "network.h"
#include "winograd.h"

struct cnn {
    struct layer first, second;
    int classes;
    size_t flat, outputs; /* inputs of the dense layer; its outputs, padded */
    size_t bias1, filters2, bias2, dense, bias3;                /* where each piece starts, inner order */
    size_t result1, corners1, result2, corners2, deltas1, deltas2, rows; /* in a cache: */
    size_t pixels, products;                                           /* for the second forward pass */
    size_t offsets, factors, winners, counts;                          /* lists for the backward pass */
};

static void cnn_import(const void *shape, const float *flat, float *inner) {
    const struct cnn *m = shape;
    size_t length = SIDE * (size_t)m->first.outputs, outputs = m->second.outputs;
    memcpy(inner, flat, m->filters2 * sizeof(float));
    flat += m->filters2;
    for (int i = 0; i < SIDE; i++, flat += length * outputs)
        transpose(inner + m->filters2 + i * length * outputs, length, flat, outputs, length, outputs);
    memcpy(inner + m->bias2, flat, outputs * sizeof(float));
    flat += outputs;
    transpose(inner + m->dense, m->flat, flat, m->classes, m->flat, m->classes);
    flat += m->flat * m->classes;
    memset(inner + m->bias3, 0, m->outputs * sizeof(float));
    memcpy(inner + m->bias3, flat, m->classes * sizeof(float));
}

static void cnn_export(const void *shape, const float *inner, float *flat) {
    const struct cnn *m = shape;
    size_t length = SIDE * (size_t)m->first.outputs, outputs = m->second.outputs;
    memcpy(flat, inner, m->filters2 * sizeof(float));
    flat += m->filters2;
    for (int i = 0; i < SIDE; i++, flat += length * outputs)
        transpose(flat, outputs, inner + m->filters2 + i * length * outputs, length, outputs, length);
    memcpy(flat, inner + m->bias2, outputs * sizeof(float));
    flat += outputs;
    transpose(flat, m->classes, inner + m->dense, m->flat, m->classes, m->flat);
    memcpy(flat + m->flat * m->classes, inner + m->bias3, m->classes * sizeof(float));
}

/* The first filters in panels, [outputs / panel][9][panel]; the second transformed. */
static void cnn_pack(const void *shape, const float *inner, float *packed) {
    const struct cnn *m = shape;
    const struct layer *first = &m->first, *second = &m->second;
    for (int at = 0; at < first->outputs; at += first->panel)
        for (int k = 0; k < SIDE * SIDE; k++, packed += first->panel)
            memcpy(packed, inner + (size_t)k * first->outputs + at, first->panel * sizeof(float));
    transform_filters(second, inner + m->filters2, packed);
}

static void forward_one(const struct cnn *m, const float *inner, const float *packed, const struct item *item) {
    float *cache = item->cache;
    int32_t *corners1 = item->learns ? (int32_t *)(cache + m->corners1) : NULL;
    int32_t *corners2 = item->learns ? (int32_t *)(cache + m->corners2) : NULL;
    float *result1 = cache + m->result1, *result2 = cache + m->result2, *rows = cache + m->rows;
    convolve(&m->first, item->sample, packed, inner + m->bias1, rows, result1, corners1);
    packed += (size_t)SIDE * SIDE * m->first.outputs;
    convolve_fast(&m->second, result1, packed, inner + m->bias2, cache + m->pixels, cache + m->products, result2,
                  corners2);
    for (int class = 0; class < m->classes; class++) {
        const float *weights = inner + m->dense + class * m->flat;
        vec sums[4] = {{0}};
        size_t at = 0;
        for (; at + 4 * LANES <= m->flat; at += 4 * LANES)
            UNROLL for (int v = 0; v < 4; v++)
                sums[v] = multiply_add(load(weights + at + v * LANES), load(result2 + at + v * LANES), sums[v]);
        for (; at < m->flat; at += LANES)
            sums[0] = multiply_add(load(weights + at), load(result2 + at), sums[0]);
        item->outputs[class] = sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])) + inner[m->bias3 + class];
    }
}

/* deltas = 0 where the result is: ReLU passes nothing back there. */
INLINE void close_relu(float *deltas, const float *results, size_t count) {
    for (size_t at = 0; at < count; at += LANES)
        store(deltas + at, keep((ivec)(load(results + at) > 0), load(deltas + at)));
}

static void cnn_forward(const void *shape, const float *inner, const float *packed, const struct item *items,
                        int count) {
    for (int n = 0; n < count; n++) forward_one(shape, inner, packed, items + n);
}

static void backward_one(const struct cnn *m, const float *inner, const struct item *item, float *gradient) {
    float *cache = item->cache;
    const float *deltas = item->deltas;
    const float *result1 = cache + m->result1, *result2 = cache + m->result2;
    const int32_t *corners1 = (const int32_t *)(cache + m->corners1);
    const int32_t *corners2 = (const int32_t *)(cache + m->corners2);
    float *deltas1 = cache + m->deltas1, *deltas2 = cache + m->deltas2, *factors = cache + m->factors;
    int32_t *offsets = (int32_t *)(cache + m->offsets), *counts = (int32_t *)(cache + m->counts);
    int32_t *winners = (int32_t *)(cache + m->winners);

    memset(deltas2, 0, m->flat * sizeof(float));
    for (int class = 0; class < m->classes; class++) {
        add_scaled(deltas2, deltas[class], inner + m->dense + class * m->flat, m->flat);
        add_scaled(gradient + m->dense + class * m->flat, deltas[class], result2, m->flat);
        gradient[m->bias3 + class] += deltas[class];
    }
    close_relu(deltas2, result2, m->flat);
    find_winners(&m->second, corners2, winners);
    filter_gradient(&m->second, result1, deltas2, winners, offsets, factors, gradient + m->filters2,
                    gradient + m->bias2);
    size_t image = (size_t)m->first.rows * m->first.columns * m->first.outputs;
    memset(deltas1, 0, image * sizeof(float));
    list_by_position(&m->second, deltas2, corners2, offsets, factors, counts);
    image_gradient(&m->second, inner + m->filters2, offsets, factors, counts, deltas1);
    close_relu(deltas1, result1, image);
    first_filter_gradient(&m->first, item->sample, deltas1, corners1, gradient, gradient + m->bias1);
}

static void cnn_backward(const void *shape, const float *inner, const struct item *items, int count,
                         float *gradient) {
    for (int n = 0; n < count; n++) backward_one(shape, inner, items + n, gradient);
}

/* Returns whether the kernels can run this shape. */
static int make_cnn(int height, int width, int filters1, int filters2, int classes, struct cnn *m,
                    struct network *network) {
    if (height < 10 || width < 10 || classes < 1 || filters1 < 1 || filters2 < 1) return 0;
    if (filters1 % CHANNELS || filters2 % CHANNELS) return 0;
    m->first = make_layer(height, width, 1, filters1);
    m->second = make_layer(m->first.rows, m->first.columns, filters1, filters2);
    m->classes = classes;
    m->flat = layer_results(&m->second);
    m->outputs = rounded_up(classes, CHANNELS);
    size_t area = SIDE * SIDE, image = layer_results(&m->first);
    m->bias1 = area * filters1;
    m->filters2 = m->bias1 + filters1;
    m->bias2 = m->filters2 + area * filters1 * filters2;
    m->dense = m->bias2 + filters2;
    m->bias3 = m->dense + classes * m->flat;

    size_t at = 0;
    m->result1 = at, at += image;
    m->corners1 = at, at += image;
    m->deltas1 = at, at += image;
    m->result2 = at, at += m->flat;
    m->corners2 = at, at += m->flat;
    m->deltas2 = at, at += m->flat;
    m->rows = at, at += 4 * (size_t)m->first.columns * m->first.panel;
    m->pixels = at, at += image_frequencies(&m->second);
    m->products = at, at += panel_products(&m->second);
    m->offsets = at, at += 4 * m->flat;
    m->factors = at, at += 4 * m->flat;
    m->winners = at, at += m->flat;
    m->counts = at, at += rounded_up(4 * layer_cells(&m->second), CHANNELS);
    *network = (struct network){
        .shape = m,
        .dim = (area + 1) * filters1 + (area * filters1 + 1) * filters2 + (m->flat + 1) * classes,
        .inner = m->bias3 + m->outputs,
        .packed = area * filters1 + filter_frequencies(&m->second),
        .cache = at,
        .outputs = classes,
        .batch = 1,
        .import_flat = cnn_import,
        .export_flat = cnn_export,
        .pack = cnn_pack,
        .forward = cnn_forward,
        .backward = cnn_backward,
    };
    return 1;
}

#endif
