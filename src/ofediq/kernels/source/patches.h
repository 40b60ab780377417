/* Convolutions of any shape as products of patches, in three ways that are each other's derivatives.
 *
 * A patch is `runs` pieces of an image, each `run` numbers long, that lie `offsets` behind the patch's start; so images
 * of any number of axes, strides, dilations and batches are all the same here. Channels come last: images are
 * [numbers], filters [runs x run][groups x units], maps [positions][groups x units]; the next group begins `run`
 * numbers further on in the image. No array of patches exists. Sums of one position stay in registers; so do those of
 * one filter.
 */
#ifndef OFEDIQ_PATCHES_H
#define OFEDIQ_PATCHES_H

#include "vectors.h"

enum { MAPS = 0, IMAGES = 1, FILTERS = 2 }; /* which of the three is asked for */
enum { MOST_ABREAST = 8 };

struct patches {
    int kind;
    int64_t positions, runs, run, groups, units;
    const int32_t *starts, *offsets;
};

INLINE int widest(void) { return LANES == 16 ? 4 : CHANNELS / LANES; }
INLINE int64_t patch_taps(const struct patches *p) { return p->runs * p->run; }
INLINE size_t wide_units(const struct patches *p) { return rounded_up(p->units, LANES); }
INLINE size_t wide_run(const struct patches *p) { return rounded_up(p->run, LANES); }

/* Of filters in the order that maps or images want them in. */
INLINE size_t packed_floats(const struct patches *p) {
    size_t maps = p->groups * patch_taps(p) * wide_units(p), images = p->groups * p->runs * p->units * wide_run(p);
    return p->kind == MAPS ? maps : p->kind == IMAGES ? images : 0;
}

/* How many vectors the next panel of `left` floats has. */
INLINE int vectors_of(size_t left) {
    int vectors = widest();
    while ((size_t)vectors * LANES > left) vectors /= 2;
    return vectors;
}

INLINE void put(float *to, const vec *values, int vectors, size_t count) {
    if (count >= (size_t)vectors * LANES) {
        UNROLL for (int v = 0; v < vectors; v++) store(to + v * LANES, values[v]);
        return;
    }
    float kept[4 * LANES];
    UNROLL for (int v = 0; v < vectors; v++) store(kept + v * LANES, values[v]);
    memcpy(to, kept, count * sizeof(float));
}

/* to[n][0 .. count) = sums over the patch that begins at rows[n]; `weights` are [taps][vectors]. */
INLINE void map_tile(const int abreast, const int vectors, const struct patches *p, const float *image,
                     const int32_t *starts, const float *weights, float *to, size_t step, size_t count) {
    vec sums[MOST_ABREAST][4];
    UNROLL for (int n = 0; n < abreast; n++)
        UNROLL for (int v = 0; v < vectors; v++) sums[n][v] = (vec){0};
    for (int64_t run = 0; run < p->runs; run++) {
        const float *rows[MOST_ABREAST];
        UNROLL for (int n = 0; n < abreast; n++) rows[n] = image + starts[n] + p->offsets[run];
        for (int64_t k = 0; k < p->run; k++, weights += vectors * LANES) {
            vec weight[4];
            UNROLL for (int v = 0; v < vectors; v++) weight[v] = in_register(load(weights + v * LANES));
            UNROLL for (int n = 0; n < abreast; n++) {
                vec value = spread(rows[n][k]);
                UNROLL for (int v = 0; v < vectors; v++) sums[n][v] = multiply_add(value, weight[v], sums[n][v]);
            }
        }
    }
    UNROLL for (int n = 0; n < abreast; n++) put(to + n * step, sums[n], vectors, count);
}

INLINE void map_panel(const int vectors, const struct patches *p, const float *image, const float *weights, float *to,
                      size_t count) {
    const int abreast = vectors == 1 ? 8 : 6;
    size_t step = p->groups * p->units;
    int64_t at = 0;
    for (; at + abreast <= p->positions; at += abreast)
        map_tile(abreast, vectors, p, image, p->starts + at, weights, to + at * step, step, count);
    for (; at < p->positions; at++) map_tile(1, vectors, p, image, p->starts + at, weights, to + at * step, step, count);
}

/* Filters in panels of units, [groups][panels][taps][vectors x LANES]. */
static void pack_units(const struct patches *p, const float *filters, float *packed) {
    size_t step = p->groups * p->units;
    for (int64_t group = 0; group < p->groups; group++, filters += p->units)
        for (size_t at = 0, width; at < wide_units(p); at += width) {
            size_t left = p->units - at;
            width = vectors_of(wide_units(p) - at) * LANES;
            size_t count = left < width ? left : width;
            for (int64_t k = 0; k < patch_taps(p); k++, packed += width) {
                memcpy(packed, filters + k * step + at, count * sizeof(float));
                memset(packed + count, 0, (width - count) * sizeof(float));
            }
        }
}

static void make_maps(const struct patches *p, const float *image, const float *packed, float *maps) {
    for (int64_t group = 0; group < p->groups; group++, image += p->run, maps += p->units)
        for (size_t at = 0; at < wide_units(p);) {
            int vectors = vectors_of(wide_units(p) - at);
            switch (vectors) {
            case 1: map_panel(1, p, image, packed, maps + at, p->units - at); break;
            case 2: map_panel(2, p, image, packed, maps + at, p->units - at); break;
            default: map_panel(4, p, image, packed, maps + at, p->units - at);
            }
            packed += patch_taps(p) * vectors * LANES, at += vectors * LANES;
        }
}

/* image[starts[n] .. + width) += the sums over the units of maps[n] and `weights`, [units][vectors]. */
INLINE void image_tile(const int abreast, const int vectors, const struct patches *p, const float *maps, size_t step,
                       const int32_t *starts, const float *weights, float *image) {
    vec sums[MOST_ABREAST][4];
    UNROLL for (int n = 0; n < abreast; n++)
        UNROLL for (int v = 0; v < vectors; v++) sums[n][v] = (vec){0};
    for (int64_t unit = 0; unit < p->units; unit++, weights += vectors * LANES) {
        vec weight[4];
        UNROLL for (int v = 0; v < vectors; v++) weight[v] = in_register(load(weights + v * LANES));
        UNROLL for (int n = 0; n < abreast; n++) {
            vec value = spread(maps[n * step + unit]);
            UNROLL for (int v = 0; v < vectors; v++) sums[n][v] = multiply_add(value, weight[v], sums[n][v]);
        }
    }
    UNROLL for (int n = 0; n < abreast; n++) /* one after another: patches overlap */
        UNROLL for (int v = 0; v < vectors; v++) {
            float *to = image + starts[n] + v * LANES;
            store(to, load(to) + sums[n][v]);
        }
}

INLINE void image_panel(const int vectors, const struct patches *p, const float *maps, const float *weights, float *image) {
    const int abreast = vectors == 1 ? 8 : 6;
    size_t step = p->groups * p->units;
    int64_t at = 0;
    for (; at + abreast <= p->positions; at += abreast)
        image_tile(abreast, vectors, p, maps + at * step, step, p->starts + at, weights, image);
    for (; at < p->positions; at++) image_tile(1, vectors, p, maps + at * step, step, p->starts + at, weights, image);
}

/* Filters in panels of the numbers of a run, [groups][runs][panels][units][vectors x LANES]. */
static void pack_runs(const struct patches *p, const float *filters, float *packed) {
    size_t step = p->groups * p->units;
    memset(packed, 0, packed_floats(p) * sizeof(float));
    for (int64_t group = 0; group < p->groups; group++)
        for (int64_t run = 0; run < p->runs; run++) {
            const float *from = filters + group * p->units + run * p->run * step;
            for (size_t at = 0, width; at < wide_run(p); at += width, packed += p->units * width) {
                size_t left = p->run - at;
                width = vectors_of(wide_run(p) - at) * LANES;
                transpose(packed, width, from + at * step, step, left < width ? left : width, p->units);
            }
        }
}

/* `image` has room for a run behind its end: what lies beside a run gets zeros. */
static void make_image(const struct patches *p, const float *maps, const float *packed, float *image) {
    for (int64_t group = 0; group < p->groups; group++, image += p->run, maps += p->units)
        for (int64_t run = 0; run < p->runs; run++)
            for (size_t at = 0; at < wide_run(p);) {
                int vectors = vectors_of(wide_run(p) - at);
                float *to = image + p->offsets[run] + at;
                switch (vectors) {
                case 1: image_panel(1, p, maps, packed, to); break;
                case 2: image_panel(2, p, maps, packed, to); break;
                default: image_panel(4, p, maps, packed, to);
                }
                packed += p->units * vectors * LANES, at += vectors * LANES;
            }
}

/* to[n][0 .. count) = sums over all positions of number n of a run and the units of its map. */
INLINE void filter_tile(const int abreast, const int vectors, const struct patches *p, const float *image,
                        const float *maps, size_t width, float *to, size_t step, size_t count) {
    vec sums[MOST_ABREAST][4];
    UNROLL for (int n = 0; n < abreast; n++)
        UNROLL for (int v = 0; v < vectors; v++) sums[n][v] = (vec){0};
    for (int64_t at = 0; at < p->positions; at++, maps += width) {
        const float *row = image + p->starts[at];
        vec delta[4];
        UNROLL for (int v = 0; v < vectors; v++) delta[v] = in_register(load(maps + v * LANES));
        UNROLL for (int n = 0; n < abreast; n++) {
            vec value = spread(row[n]);
            UNROLL for (int v = 0; v < vectors; v++) sums[n][v] = multiply_add(value, delta[v], sums[n][v]);
        }
    }
    UNROLL for (int n = 0; n < abreast; n++) put(to + n * step, sums[n], vectors, count);
}

INLINE void filter_panel(const int vectors, const struct patches *p, const float *image, const float *maps, size_t width,
                         float *to, size_t count) {
    const int abreast = vectors == 1 ? 8 : 6;
    size_t step = p->groups * p->units;
    for (int64_t run = 0; run < p->runs; run++) {
        const float *from = image + p->offsets[run];
        int64_t k = 0;
        for (; k + abreast <= p->run; k += abreast, to += abreast * step)
            filter_tile(abreast, vectors, p, from + k, maps, width, to, step, count);
        for (; k + 3 <= p->run; k += 3, to += 3 * step)
            filter_tile(3, vectors, p, from + k, maps, width, to, step, count);
        for (; k < p->run; k++, to += step) filter_tile(1, vectors, p, from + k, maps, width, to, step, count);
    }
}

/* `kept` is scratch for the maps of a group where their units are no whole vectors. */
static void make_filters(const struct patches *p, const float *image, const float *maps, float *filters, float *kept) {
    size_t step = p->groups * p->units, wide = wide_units(p);
    int whole = p->units % LANES == 0;
    size_t width = whole ? step : wide;
    for (int64_t group = 0; group < p->groups; group++, image += p->run, filters += p->units, maps += p->units) {
        const float *from = maps;
        if (!whole) {
            for (int64_t at = 0; at < p->positions; at++) {
                memcpy(kept + at * wide, maps + at * step, p->units * sizeof(float));
                memset(kept + at * wide + p->units, 0, (wide - p->units) * sizeof(float));
            }
            from = kept;
        }
        for (size_t at = 0; at < wide;) {
            int vectors = vectors_of(wide - at);
            switch (vectors) {
            case 1: filter_panel(1, p, image, from + at, width, filters + at, p->units - at); break;
            case 2: filter_panel(2, p, image, from + at, width, filters + at, p->units - at); break;
            default: filter_panel(4, p, image, from + at, width, filters + at, p->units - at);
            }
            at += vectors * LANES;
        }
    }
}

static void pack_filters(const struct patches *p, const float *filters, float *packed) {
    if (p->kind == MAPS) pack_units(p, filters, packed);
    if (p->kind == IMAGES) pack_runs(p, filters, packed);
}

#endif
