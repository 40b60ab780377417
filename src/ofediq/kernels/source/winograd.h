/* A 3x3 convolution with 2x2 max-pooling by Winograd's F(2x2, 3x3): one quad of the pooling is one tile
 * of 4x4 pixels, and takes 16 products for each pair of channels where the sums over patches take 36.
 *
 * Everything happens at 16 "frequencies": image and filters are transformed (additions, and halves for the filters),
 * multiplied as matrices, and the products transformed back. Equal columns or rows of a tile have zeros at three of
 * four frequencies, exactly, so that neighbours which are tied by them stay tied.
 */
#ifndef OFEDIQ_WINOGRAD_H
#define OFEDIQ_WINOGRAD_H

#include "convolution.h"

#define TILE_SIDE 4
#define FREQUENCIES (TILE_SIDE * TILE_SIDE)

/* Floats of the transformed filters, with the room of one panel that `transform_filters` works in. */
INLINE size_t filter_frequencies(const struct layer *l) {
    return (size_t)(FREQUENCIES * l->outputs + SIDE * SIDE * l->panel) * l->inputs;
}
INLINE size_t image_frequencies(const struct layer *l) { return FREQUENCIES * layer_cells(l) * l->inputs; }
INLINE size_t panel_products(const struct layer *l) { return FREQUENCIES * layer_cells(l) * l->panel; }

INLINE void transform_pixels(const vec d[TILE_SIDE], vec to[TILE_SIDE]) {
    to[0] = d[0] - d[2];
    to[1] = d[1] + d[2];
    to[2] = d[2] - d[1];
    to[3] = d[1] - d[3];
}

/* to: [16][cells][inputs]. Neighbours in a row share two columns of pixels. */
static void transform_image(const struct layer *l, const float *image, float *to) {
    size_t inputs = l->inputs, row = l->width * inputs, stride = layer_cells(l) * inputs;
    for (int y = 0; y < l->rows; y++, image += 2 * row) {
        for (size_t at = 0; at < inputs; at += LANES) {
            const float *from = image + at;
            float *out = to + (size_t)y * l->columns * inputs + at;
            vec columns[TILE_SIDE][TILE_SIDE]; /* [column][frequency down] */
            for (int x = 0; x < l->columns; x++, out += inputs) {
                int known = x ? 2 : 0;
                if (known) memcpy(columns, columns + 2, 2 * sizeof *columns);
                for (int j = known; j < TILE_SIDE; j++, from += inputs) {
                    vec pixels[TILE_SIDE];
                    UNROLL for (int i = 0; i < TILE_SIDE; i++) pixels[i] = load(from + i * row);
                    transform_pixels(pixels, columns[j]);
                }
                UNROLL for (int i = 0; i < TILE_SIDE; i++) {
                    vec across[TILE_SIDE], done[TILE_SIDE];
                    UNROLL for (int j = 0; j < TILE_SIDE; j++) across[j] = columns[j][i];
                    transform_pixels(across, done);
                    UNROLL for (int j = 0; j < TILE_SIDE; j++) store(out + (i * TILE_SIDE + j) * stride, done[j]);
                }
            }
        }
    }
}

INLINE void transform_weights(const vec g[SIDE], vec to[TILE_SIDE]) {
    vec outer = g[0] + g[2];
    to[0] = g[0];
    to[1] = (outer + g[1]) * 0.5f;
    to[2] = (outer - g[1]) * 0.5f;
    to[3] = g[2];
}

/* filters: [3][outputs][3 inputs]; to: [outputs / panel][16][inputs][panel], then a panel's room. */
static void transform_filters(const struct layer *l, const float *filters, float *to) {
    size_t inputs = l->inputs, panel = l->panel, length = SIDE * inputs;
    float *plain = to + (size_t)FREQUENCIES * l->outputs * inputs; /* [3][3 inputs][panel] */
    for (size_t first = 0; first < (size_t)l->outputs; first += panel, to += FREQUENCIES * inputs * panel) {
        for (int i = 0; i < SIDE; i++)
            transpose(plain + i * length * panel, panel, filters + (i * l->outputs + first) * length, length, panel,
                      length);
        for (size_t at = 0; at < inputs * panel; at += LANES) {
            vec down[SIDE][TILE_SIDE], across[SIDE], done[TILE_SIDE];
            UNROLL for (int j = 0; j < SIDE; j++) {
                vec weights[SIDE];
                UNROLL for (int i = 0; i < SIDE; i++)
                    weights[i] = load(plain + (i * SIDE + j) * inputs * panel + at);
                transform_weights(weights, down[j]);
            }
            UNROLL for (int i = 0; i < TILE_SIDE; i++) {
                UNROLL for (int j = 0; j < SIDE; j++) across[j] = down[j][i];
                transform_weights(across, done);
                UNROLL for (int j = 0; j < TILE_SIDE; j++)
                    store(to + (i * TILE_SIDE + j) * inputs * panel + at, done[j]);
            }
        }
    }
}

/* to[cell] = sum over the channels of pixels[cell][k] * weights[k], for some cells and a panel's vectors. */
INLINE void multiply_cells(const int cells, const int vectors, const float *pixels, size_t inputs,
                           const float *weights, float *to) {
    vec sums[5][4];
    UNROLL for (int c = 0; c < cells; c++)
        UNROLL for (int v = 0; v < vectors; v++) sums[c][v] = (vec){0};
    for (size_t k = 0; k < inputs; k++, weights += vectors * LANES) {
        vec weight[4];
        UNROLL for (int v = 0; v < vectors; v++) weight[v] = load(weights + v * LANES);
        UNROLL for (int c = 0; c < cells; c++) {
            vec pixel = spread(pixels[c * inputs + k]);
            UNROLL for (int v = 0; v < vectors; v++) sums[c][v] = multiply_add(pixel, weight[v], sums[c][v]);
        }
    }
    UNROLL for (int c = 0; c < cells; c++)
        UNROLL for (int v = 0; v < vectors; v++) store(to + (c * vectors + v) * LANES, sums[c][v]);
}

/* All cells at all frequencies, for one panel of channels. */
INLINE void multiply_panel(const int vectors, const struct layer *l, const float *pixels, const float *weights,
                           float *products) {
    const size_t inputs = l->inputs, panel = (size_t)vectors * LANES;
    for (int frequency = 0; frequency < FREQUENCIES; frequency++, weights += inputs * panel) {
        size_t left = layer_cells(l);
        for (; left >= 5; left -= 5, pixels += 5 * inputs, products += 5 * panel)
            multiply_cells(5, vectors, pixels, inputs, weights, products);
        for (; left; left--, pixels += inputs, products += panel)
            multiply_cells(1, vectors, pixels, inputs, weights, products);
    }
}

/* Back from the frequencies of one cell, pooled. */
INLINE void pool_products(const struct layer *l, const float *products, const float *bias, float *result,
                          int32_t *corners) {
    size_t cells = layer_cells(l), stride = cells * l->panel;
    for (size_t cell = 0; cell < cells; cell++, result += l->outputs) {
        for (int at = 0; at < l->panel; at += LANES, products += LANES) {
            vec upper[TILE_SIDE], lower[TILE_SIDE];
            UNROLL for (int j = 0; j < TILE_SIDE; j++) {
                const float *from = products + j * stride;
                vec a = load(from), b = load(from + TILE_SIDE * stride), c = load(from + 2 * TILE_SIDE * stride);
                vec d = load(from + 3 * TILE_SIDE * stride);
                upper[j] = a + (b + c);
                lower[j] = (b - c) - d;
            }
            vec quad[4] = {upper[0] + (upper[1] + upper[2]), (upper[1] - upper[2]) - upper[3],
                           lower[0] + (lower[1] + lower[2]), (lower[1] - lower[2]) - lower[3]};
            pool_quad(quad, load(bias + at), least(l), result + at, corners ? corners + cell * l->outputs + at : NULL);
        }
    }
}

/* `filters` from `transform_filters`; `pixels` and `products` are scratch. */
static void convolve_fast(const struct layer *l, const float *image, const float *filters, const float *bias,
                          float *pixels, float *products, float *result, int32_t *corners) {
    transform_image(l, image, pixels);
    for (int at = 0; at < l->outputs; at += l->panel, filters += (size_t)FREQUENCIES * l->inputs * l->panel) {
        switch (panel_vectors(l)) {
        case 1: multiply_panel(1, l, pixels, filters, products); break;
        case 2: multiply_panel(2, l, pixels, filters, products); break;
        default: multiply_panel(4, l, pixels, filters, products);
        }
        pool_products(l, products, bias + at, result + at, corners ? corners + at : NULL);
    }
}

#endif
