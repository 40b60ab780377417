/* The (s, b)-stochastic quantiser with the draws of ofediq/randomness.py, bit for bit the codec's symbols. */
#ifndef OFEDIQ_QUANTIZER_H
#define OFEDIQ_QUANTIZER_H

#include <math.h>

#include "vectors.h"

#define MAX_NORM 0x1.ffffep127f /* codec/arithmetic.py: 2^128 (1 - 2^-20) */
#define TINY 0x1p-80f

struct quantizer {
    int64_t dim, blocks;
    int32_t levels;
};

INLINE uint32_t mix(uint32_t word) {
    word ^= word >> 16;
    word *= 0x7FEB352Du;
    word ^= word >> 15;
    word *= 0x846CA68Bu;
    return word ^ (word >> 16);
}

INLINE uvec mix_vector(uvec word) {
    word ^= word >> 16;
    word *= 0x7FEB352Du;
    word ^= word >> 15;
    word *= 0x846CA68Bu;
    return word ^ (word >> 16);
}

/* randomness.stream_key for the purpose ROUND. */
static void round_key(uint32_t seed, uint32_t step, uint32_t client, uint32_t key[2]) {
    const uint32_t tag = 2u * 0x85EBCA6Bu;
    uint32_t left = mix(mix(mix(seed ^ 0x9E3779B9u) + step) ^ tag);
    uint32_t right = mix(mix(mix(seed ^ 0xD1B54A33u) ^ step) + tag);
    key[0] = mix(left + client);
    key[1] = mix(mix(client ^ 0xC2B2AE35u) + right);
}

INLINE float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* What codec/arithmetic.py, block_norms, needs of a block: largest size and, in units that follow from it, the sum of
 * squares of whole numbers, which no order of adding can change. */
struct measured {
    float most, square;
};

enum { MANY = 64, TILE = 1024, PIECE = 1 << 13 };

/* Sizes as bit patterns: their order is that of the sizes, and a NaN is the largest. */
INLINE ivec sizes_of(const float *from) { return (ivec)load(from) & 0x7FFFFFFF; }

INLINE ivec larger(ivec a, ivec b) {
    ivec more = a > b;
    return (a & more) | (b & ~more);
}

INLINE ivec square_of(ivec sizes, vec scale) {
    ivec whole = __builtin_convertvector((vec)sizes * scale + 0.5f, ivec);
    return whole * whole;
}

INLINE int32_t add_lanes(ivec value) {
#if AVX512
    return _mm512_reduce_add_epi32((__m512i)value);
#else
    int32_t total = 0;
    for (int lane = 0; lane < LANES; lane++) total += value[lane];
    return total;
#endif
}

INLINE int32_t largest_lane(ivec value) {
#if AVX512
    return _mm512_reduce_max_epi32((__m512i)value);
#else
    int32_t most = 0;
    for (int lane = 0; lane < LANES; lane++) most = value[lane] > most ? value[lane] : most;
    return most;
#endif
}

INLINE uint32_t block_exponent(float most) {
    uint32_t pattern;
    memcpy(&pattern, &most, 4);
    pattern >>= 23;
    return pattern < 47 ? 47 : pattern > 254 ? 254 : pattern;
}

/* `block` has a vector of room. */
INLINE struct measured measure_block(const float *block, int64_t size) {
    ivec lanes;
    for (int lane = 0; lane < LANES; lane++) lanes[lane] = lane;
    int64_t whole = size - size % LANES;
    ivec rest = (ivec)(lanes < (int32_t)(size - whole));
    ivec top = sizes_of(block + whole) & rest;
    for (int64_t at = 0; at < whole; at += LANES) top = larger(sizes_of(block + at), top);
    struct measured made = {from_bits((uint32_t)largest_lane(top)), 0};
    vec scale = spread(from_bits((268 - block_exponent(made.most)) << 23));
    for (int64_t start = 0; start < size; start += PIECE) {
        int64_t stop = start + PIECE < whole ? start + PIECE : whole;
        ivec high = {0}, low = {0};
        for (int64_t at = start; at < stop; at += LANES) {
            ivec square = square_of(sizes_of(block + at), scale);
            high += square >> 16;
            low += square & 0xFFFF;
        }
        if (stop == whole && start + PIECE >= size) {
            ivec square = square_of(sizes_of(block + whole) & rest, scale);
            high += square >> 16;
            low += square & 0xFFFF;
        }
        int32_t under = add_lanes(low);
        made.square += (float)(add_lanes(high) + (under >> 16)) * 0x1p16f + (float)(under & 0xFFFF);
    }
    return made;
}

/* scales[n] = s / norm and units[n] = norm / s of each block. */
static void measure_blocks(const struct quantizer *q, const float *update, float *scales, float *units) {
    int64_t size = q->dim / q->blocks, longer = q->dim % q->blocks;
    float levels = (float)q->levels, share = (float)(1.0 / q->levels);
    float mosts[MANY], squares[MANY]; /* roots and quotients of many blocks at once are vector instructions */
    for (int64_t first = 0; first < q->blocks; first += MANY) {
        int64_t many = first + MANY < q->blocks ? MANY : q->blocks - first;
        for (int64_t n = 0; n < many; n++) {
            int64_t count = size + (first + n < longer);
            struct measured made = measure_block(update, count);
            mosts[n] = made.most;
            squares[n] = made.square;
            update += count;
        }
        for (int64_t n = 0; n < many; n++) {
            float most = mosts[n], unit = from_bits((block_exponent(most) - 14) << 23);
            float root = sqrtf(squares[n]) * unit;
            float norm = root > most * (1 + 0x1p-14f) ? root : most;
            norm = most < TINY ? 0 : norm > MAX_NORM ? MAX_NORM : norm;
            scales[first + n] = levels / (norm == 0 ? 1.0f : norm);
            units[first + n] = norm * share;
        }
    }
}

/* Coordinates of one vector, rounded: magnitudes of their symbols, and their signs. */
struct rounded {
    vec size;
    ivec sign; /* the sign bit alone */
};

INLINE struct rounded round_vector(const float *update, uvec index, const uint32_t key[2], vec levels, vec scale) {
    uvec word = mix_vector(mix_vector(index ^ key[0]) + key[1]);
    vec draw = (__builtin_convertvector((ivec)(word >> 9), vec) + 0.5f) * 0x1p-23f;
    ivec value = (ivec)load(update), sign = value & INT32_MIN;
    vec scaled = (vec)(value ^ sign) * scale;
    vec level = __builtin_convertvector(__builtin_convertvector(scaled, ivec), vec);
    ivec up = (ivec)(draw < scaled - level) & (ivec)(level < levels);
    return (struct rounded){level + keep(up, spread(1)), sign};
}

/* What the server decodes. */
INLINE vec decoded(struct rounded r, vec unit) { return (vec)((ivec)(r.size * unit) ^ r.sign); }

/* total += what the server decodes from the vector of coordinates `index`. */
INLINE void add_vector(const float *update, uvec index, const uint32_t key[2], vec levels, vec scale, vec unit,
                       float *total) {
    struct rounded r = round_vector(update, index, key, levels, scale);
    store(total, load(total) + decoded(r, unit));
}

/* Spreads the blocks' numbers over the coordinates of a tile, in whole vectors: what spills over is overwritten by
 * the next block, or is past the end. So the arithmetic needs no loop over blocks, which are often short. */
struct spreading {
    int64_t block, end; /* the block that the next coordinate is in, and where it ends */
};

static void spread_blocks(const struct quantizer *q, struct spreading *at, int64_t start, int64_t stop,
                          const float *scales, const float *units, float *tile_scales,
                          float *tile_units) {
    int64_t size = q->dim / q->blocks, longer = q->dim % q->blocks;
    for (int64_t from = start; from < stop;) {
        int64_t to = at->end < stop ? at->end : stop;
        vec wide_scale = spread(scales[at->block]), wide_unit = spread(units[at->block]);
        for (int64_t i = from; i < to; i += LANES) {
            store(tile_scales + (i - start), wide_scale);
            store(tile_units + (i - start), wide_unit);
        }
        if (to == at->end && ++at->block < q->blocks) at->end += size + (at->block < longer);
        from = to;
    }
}

/* total += what the server decodes from `update`. `scales` and `units` are scratch of one number per block; `update`
 * and `total` have a vector of room at their end. */
static void add_quantized(const struct quantizer *q, const float *update, const uint32_t key[2], float *scales,
                          float *units, float *total) {
    float tile_scales[TILE + LANES], tile_units[TILE + LANES];
    struct spreading at = {0, q->dim / q->blocks + (q->dim % q->blocks > 0)};
    vec levels = spread((float)q->levels);
    uvec index;
    for (uint32_t lane = 0; lane < LANES; lane++) index[lane] = lane;
    measure_blocks(q, update, scales, units);
    for (int64_t start = 0; start < q->dim; start += TILE) {
        int64_t stop = start + TILE < q->dim ? start + TILE : q->dim;
        spread_blocks(q, &at, start, stop, scales, units, tile_scales, tile_units);
        for (int64_t i = start; i < stop; i += LANES, index += LANES)
            add_vector(update + i, index, key, levels, load(tile_scales + (i - start)),
                       load(tile_units + (i - start)),
                       total + i);
    }
}

#endif
