/* A random rotation, then dithered rounding (codec/rotated.py, codec/rotation.py): the same products and sums in the same
 * order as there. */
#ifndef OFEDIQ_ROTATED_H
#define OFEDIQ_ROTATED_H

#include "hadamard.h"
#include "quantizer.h"

#define MAX_ROTATED_NORM 0x1p120f
enum { WINDOWS = 3 };

struct dithered { /* scratch for one block, each with a vector of room */
    float *row, *window; /* aligned */
    uint32_t *words; /* of the rotation */
    float *draws;
};

/* Windows of a block: the first n coordinates, the last n, the first n again, n a power of two; one where n is all. */
INLINE int64_t window_at(int number, int64_t size, int64_t width) { return number == 1 ? size - width : 0; }

INLINE void flip_signs(float *row, const uint32_t *words, int number, int64_t width) {
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        uvec bits = (uvec)load_codes((const int32_t *)words + i) << number & 0x80000000u;
        store(row + i, (vec)((ivec)load(row + i) ^ (ivec)bits));
    }
    for (; i < width; i++) row[i] = words[i] << number & 0x80000000u ? -row[i] : row[i];
}

INLINE void rotate(const struct dithered *d, int64_t size, int back) {
    int64_t width = 1;
    while (2 * width <= size) width *= 2;
    int windows = width == size ? 1 : WINDOWS;
    float factor = (float)(1 / sqrt((double)width));
    for (int n = 0; n < windows; n++) {
        int number = back ? windows - 1 - n : n;
        int64_t at = window_at(number, size, width);
        float *row = at % CHANNELS ? d->window : d->row + at; /* vectors across cache lines cost twice */
        if (row == d->window) memcpy(row, d->row + at, width * sizeof(float));
        if (!back) flip_signs(row, d->words + at, number, width);
        transform(row, width, factor);
        if (back) flip_signs(row, d->words + at, number, width);
        if (row == d->window) memcpy(d->row + at, row, width * sizeof(float));
    }
}

INLINE vec floor_of(vec value) {
    vec whole = __builtin_convertvector(__builtin_convertvector(value, ivec), vec);
    return whole - keep((ivec)(value < whole), spread(1));
}

/* Symbols of a rotated block, counted, and in their place the numbers that they stand for. */
INLINE void dither(const struct dithered *d, int64_t size, float levels, float share, struct counted *found) {
    vec top = spread(levels);
    ivec lanes;
    for (int lane = 0; lane < LANES; lane++) lanes[lane] = lane;
    for (int64_t i = 0; i < size; i += LANES) {
        vec draw = load(d->draws + i), cell = floor_of(load(d->row + i) * levels + draw);
        cell = maximum(-top, -maximum(-cell, -top));
        ivec whole = __builtin_convertvector(cell, ivec), sign = whole >> 31;
        if (found) tally(&found->tallies, ((whole ^ sign) - sign) & (ivec)(lanes < (int32_t)(size - i)));
        store(d->row + i, (cell - (draw - 0.5f)) * share);
    }
}

/* total += what the server decodes from `update`; counts symbols and norms if someone asks for that. */
static void add_rotated(const struct quantizer *q, const float *update, const uint32_t round[2],
                        const uint32_t turn[2], struct dithered d, float *total, struct counted *found) {
    int64_t start = 0;
    for (int64_t block = 0; block < q->blocks; block++) {
        int64_t size = q->dim / q->blocks + (block < q->dim % q->blocks);
        float norm = norm_of(measure_block(update + start, size));
        if (norm > MAX_ROTATED_NORM) norm = MAX_ROTATED_NORM;
        if (found) count_norm(found, norm, size);
        if (norm > 0) {
            for (int64_t i = 0; i < size; i += LANES) {
                uvec words[2] = {numbers_from(start + i), numbers_from(start + i)};
                vec draw;
                words_of(1, words, turn);
                draws_of(1, words + 1, round, &draw);
                store(d.row + i, load(update + start + i) * (1 / norm));
                store_codes((int32_t *)d.words + i, (ivec)words[0]);
                store(d.draws + i, draw);
            }
            rotate(&d, size, 0);
            dither(&d, size, (float)q->levels, (float)(1.0 / q->levels), found);
            rotate(&d, size, 1);
            float *to = total + start;
            int64_t i = 0;
            for (; i + LANES <= size; i += LANES) store(to + i, load(to + i) + load(d.row + i) * norm);
            for (; i < size; i++) to[i] += d.row[i] * norm;
        }
        start += size;
    }
}

#endif
