/* Convolutions of each channel by itself, with one filter: vectors hold channels, not units. As in `patches.h`. */
#ifndef OFEDIQ_DEPTHWISE_H
#define OFEDIQ_DEPTHWISE_H

#include "patches.h"

enum { PLACES_ABREAST = 9 }; /* of filters: 3 x 3 */

INLINE int is_depthwise(const struct patches *p) { return p->units == 1 && p->run == 1 && p->groups >= LANES; }

/* Where a vector of channels begins: the last one overlaps the one before. */
INLINE int64_t channels_at(const struct patches *p, int64_t channel) {
    return channel + LANES <= p->groups ? channel : p->groups - LANES;
}

INLINE void deep_tile(const int abreast, const struct patches *p, const float *image, const int32_t *starts,
                      const float *filters, float *maps) {
    vec sums[MOST_ABREAST];
    UNROLL for (int n = 0; n < abreast; n++) sums[n] = (vec){0};
    for (int64_t place = 0; place < p->runs; place++) {
        vec weight = load(filters + place * p->groups);
        const float *from = image + p->offsets[place];
        UNROLL for (int n = 0; n < abreast; n++) sums[n] = multiply_add(load(from + starts[n]), weight, sums[n]);
    }
    UNROLL for (int n = 0; n < abreast; n++) store(maps + n * p->groups, sums[n]);
}

static void deep_maps(const struct patches *p, const float *image, const float *filters, float *maps) {
    for (int64_t channel = 0; channel < p->groups; channel += LANES) {
        int64_t c = channels_at(p, channel), at = 0;
        for (; at + MOST_ABREAST <= p->positions; at += MOST_ABREAST)
            deep_tile(MOST_ABREAST, p, image + c, p->starts + at, filters + c, maps + at * p->groups + c);
        for (; at < p->positions; at++) deep_tile(1, p, image + c, p->starts + at, filters + c, maps + at * p->groups + c);
    }
}

static void deep_image(const struct patches *p, const float *maps, const float *filters, float *image) {
    ivec lanes;
    for (int lane = 0; lane < LANES; lane++) lanes[lane] = lane;
    for (int64_t channel = 0; channel < p->groups; channel += LANES) {
        int64_t c = channels_at(p, channel);
        ivec fresh = (ivec)(lanes >= (int32_t)(channel - c)); /* the others have got theirs */
        for (int64_t at = 0; at < p->positions; at++) {
            vec slope = keep(fresh, load(maps + at * p->groups + c));
            for (int64_t place = 0; place < p->runs; place++) {
                float *to = image + p->starts[at] + p->offsets[place] + c;
                store(to, multiply_add(slope, load(filters + place * p->groups + c), load(to)));
            }
        }
    }
}

INLINE void deep_sums(const int places, const struct patches *p, const float *image, const float *maps,
                      const int32_t *offsets, float *filters) {
    vec sums[PLACES_ABREAST];
    UNROLL for (int n = 0; n < places; n++) sums[n] = (vec){0};
    for (int64_t at = 0; at < p->positions; at++) {
        vec slope = load(maps + at * p->groups);
        const float *from = image + p->starts[at];
        UNROLL for (int n = 0; n < places; n++) sums[n] = multiply_add(load(from + offsets[n]), slope, sums[n]);
    }
    UNROLL for (int n = 0; n < places; n++) store(filters + n * p->groups, sums[n]);
}

static void deep_filters(const struct patches *p, const float *image, const float *maps, float *filters) {
    for (int64_t channel = 0; channel < p->groups; channel += LANES) {
        int64_t c = channels_at(p, channel), place = 0;
        for (; place + PLACES_ABREAST <= p->runs; place += PLACES_ABREAST)
            deep_sums(PLACES_ABREAST, p, image + c, maps + c, p->offsets + place, filters + place * p->groups + c);
        for (; place < p->runs; place++)
            deep_sums(1, p, image + c, maps + c, p->offsets + place, filters + place * p->groups + c);
    }
}

#endif
