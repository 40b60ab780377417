/* What stands alone between convolutions and dense layers, one sample at a time: the largest or the mean of windows of
 * an image, and the norm over channels or units.
 *
 * Channels are whole vectors behind the first parameters, and as they come in front of them.
 */
#ifndef OFEDIQ_POOLING_H
#define OFEDIQ_POOLING_H

#include "layer.h"

INLINE int is_pooling(const struct layer *l) { return l->kind == POOL || l->kind == MEAN; }

/* Where the window of a cell starts in the image. */
INLINE size_t window_start(const struct layer *l, int y, int x) {
    return ((size_t)y * l->size * l->width + (size_t)x * l->across) * l->inputs;
}

/* The largest of a window and which place it has, the first one in a tie; a NaN wins. */
INLINE void largest_of(const struct layer *l, const float *window, float *result, int32_t *place) {
    vec best = load(window);
    ivec code = {0};
    for (int i = 0; i < l->size; i++)
        for (int j = !i; j < l->across; j++) {
            vec value = load(window + ((size_t)i * l->width + j) * l->inputs);
            ivec wins = (ivec)(value > best) | (ivec)(value != value);
            best = either(wins, value, best);
            code = (wins & (i * l->across + j)) | (~wins & code);
        }
    store(result, best);
    store_codes(place, code);
}

INLINE void largest_of_one(const struct layer *l, const float *window, float *result, int32_t *place) {
    *result = *window, *place = 0;
    for (int n = 1; n < l->size * l->across; n++) {
        float value = window[((size_t)(n / l->across) * l->width + n % l->across) * l->inputs];
        if (value > *result || value != value) *result = value, *place = n;
    }
}

static void pool_forward(const struct layer *l, const float *image, float *result, int32_t *places) {
    int whole = l->inputs % LANES ? 0 : l->inputs;
    for (int y = 0; y < l->rows; y++)
        for (int x = 0; x < l->columns; x++, result += l->inputs, places += l->inputs) {
            const float *window = image + window_start(l, y, x);
            for (int c = 0; c < whole; c += LANES) largest_of(l, window + c, result + c, places + c);
            for (int c = whole; c < l->inputs; c++) largest_of_one(l, window + c, result + c, places + c);
        }
}

/* Behind parameters only, so channels are whole vectors. */
static void pool_backward(const struct layer *l, const float *deltas, const int32_t *places, float *back) {
    memset(back, 0, (size_t)l->height * l->width * l->inputs * sizeof(float));
    for (int y = 0; y < l->rows; y++)
        for (int x = 0; x < l->columns; x++, deltas += l->inputs, places += l->inputs) {
            float *window = back + window_start(l, y, x);
            for (int n = 0; n < l->size * l->across; n++) {
                float *to = window + ((size_t)(n / l->across) * l->width + n % l->across) * l->inputs;
                for (int c = 0; c < l->inputs; c += LANES)
                    store(to + c, keep((ivec)(load_codes(places + c) == n), load(deltas + c)));
            }
        }
}

static void mean_forward(const struct layer *l, const float *image, float *result) {
    float share = 1.f / (float)(l->size * l->across);
    for (int y = 0; y < l->rows; y++)
        for (int x = 0; x < l->columns; x++, result += l->inputs) {
            const float *window = image + window_start(l, y, x);
            for (int c = 0; c < l->inputs; c++) result[c] = 0;
            for (int i = 0; i < l->size; i++, window += (size_t)l->width * l->inputs)
                for (int j = 0; j < l->across; j++)
                    for (int c = 0; c < l->inputs; c++) result[c] += window[j * l->inputs + c];
            for (int c = 0; c < l->inputs; c++) result[c] *= share;
        }
}

static void mean_backward(const struct layer *l, const float *deltas, float *back) {
    float share = 1.f / (float)(l->size * l->across);
    memset(back, 0, (size_t)l->height * l->width * l->inputs * sizeof(float));
    for (int y = 0; y < l->rows; y++)
        for (int x = 0; x < l->columns; x++, deltas += l->inputs) {
            float *window = back + window_start(l, y, x);
            for (int i = 0; i < l->size; i++, window += (size_t)l->width * l->inputs)
                for (int j = 0; j < l->across; j++)
                    for (int c = 0; c < l->inputs; c++) window[j * l->inputs + c] = deltas[c] * share;
        }
}

/* Inner order of a norm: scales [outputs], bias [outputs]. */
static void norm_import(const struct layer *l, const float *flat, float *inner) {
    memset(inner, 0, l->floats * sizeof(float));
    memcpy(inner, flat, l->asked * sizeof(float));
    if (l->bias) memcpy(inner + l->outputs, flat + l->asked, l->asked * sizeof(float));
}

static void norm_export(const struct layer *l, const float *inner, float *flat) {
    memcpy(flat, inner, l->asked * sizeof(float));
    if (l->bias) memcpy(flat + l->asked, inner + l->outputs, l->asked * sizeof(float));
}

/* Keeps what was normalised, [cells][outputs], then 1 / its spread, [cells]. */
static void norm_forward(const struct layer *l, const float *inner, const float *image, float *result, float *kept) {
    size_t cells = layer_cells(l), width = l->outputs;
    float *spreads = kept + cells * width, share = 1.f / (float)l->asked;
    for (size_t cell = 0; cell < cells; cell++, image += width, result += width, kept += width) {
        float mean = 0, square = 0;
        for (int c = 0; c < l->asked; c++) mean += image[c];
        mean *= share;
        for (int c = 0; c < l->asked; c++) square += (image[c] - mean) * (image[c] - mean);
        float spread = 1 / sqrtf(square * share + l->epsilon);
        spreads[cell] = spread;
        for (int c = 0; c < l->asked; c++) {
            kept[c] = (image[c] - mean) * spread;
            result[c] = kept[c] * inner[c] + inner[width + c];
        }
        for (size_t c = l->asked; c < width; c++) kept[c] = result[c] = 0;
    }
}

static void norm_backward(const struct layer *l, const float *inner, const float *kept, const float *deltas,
                          float *back, float *gradient) {
    size_t cells = layer_cells(l), width = l->outputs;
    const float *spreads = kept + cells * width;
    float share = 1.f / (float)l->asked;
    for (size_t cell = 0; cell < cells; cell++, kept += width, deltas += width, back += width) {
        float sum = 0, along = 0;
        for (int c = 0; c < l->asked; c++) {
            gradient[c] += deltas[c] * kept[c];
            if (l->bias) gradient[width + c] += deltas[c];
            back[c] = deltas[c] * inner[c];
            sum += back[c];
            along += back[c] * kept[c];
        }
        for (int c = 0; c < l->asked; c++)
            back[c] = spreads[cell] * (back[c] - sum * share - kept[c] * along * share);
        for (size_t c = l->asked; c < width; c++) back[c] = 0;
    }
}

#endif
