/* The (s, b)-stochastic quantiser with the draws of ofediq/randomness.py, bit for bit the codec's symbols. */
#ifndef OFEDIQ_QUANTIZER_H
#define OFEDIQ_QUANTIZER_H

#include <math.h>

#include "sizes.h"

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

/* randomness.py: purposes of draws. */
enum { PARTICIPATE = 1, ROUND = 2, ROTATE = 4 };

/* randomness.stream_key. */
static void stream_key(uint32_t seed, uint32_t step, uint32_t client, uint32_t purpose, uint32_t key[2]) {
    const uint32_t tag = purpose * 0x85EBCA6Bu;
    uint32_t left = mix(mix(mix(seed ^ 0x9E3779B9u) + step) ^ tag);
    uint32_t right = mix(mix(mix(seed ^ 0xD1B54A33u) ^ step) + tag);
    key[0] = mix(left + client);
    key[1] = mix(mix(client ^ 0xC2B2AE35u) + right);
}

INLINE uvec words_of(uvec index, const uint32_t key[2]) { return mix_vector(mix_vector(index ^ key[0]) + key[1]); }

INLINE vec draws_of(uvec index, const uint32_t key[2]) {
    return (__builtin_convertvector((ivec)(words_of(index, key) >> 9), vec) + 0.5f) * 0x1p-23f;
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

INLINE float norm_of(struct measured made) {
    float root = sqrtf(made.square) * from_bits((block_exponent(made.most) - 14) << 23);
    float norm = root > made.most * (1 + 0x1p-14f) ? root : made.most;
    return made.most < TINY ? 0 : norm > MAX_NORM ? MAX_NORM : norm;
}

INLINE void count_norm(struct counted *found, float norm, int64_t size) {
    uint32_t pattern;
    memcpy(&pattern, &norm, 4);
    found->tops[pattern >> 24]++;
    if (norm == 0) found->dead += size;
}

/* scales[n] = s / norm and units[n] = norm / s of each block, or the norms themselves where `whole`; they are counted if
 * someone asks for that. */
static void measure_blocks(const struct quantizer *q, const float *update, float *scales, float *units, int whole,
                           struct counted *found) {
    int64_t size = q->dim / q->blocks, longer = q->dim % q->blocks;
    float levels = (float)q->levels, share = (float)(1.0 / q->levels);
    struct measured made[MANY]; /* roots and quotients of many blocks at once are vector instructions */
    float norms[MANY];
    for (int64_t first = 0; first < q->blocks; first += MANY) {
        int64_t many = first + MANY < q->blocks ? MANY : q->blocks - first;
        for (int64_t n = 0; n < many; n++) {
            int64_t count = size + (first + n < longer);
            made[n] = measure_block(update, count);
            update += count;
        }
        for (int64_t n = 0; n < many; n++) {
            norms[n] = norm_of(made[n]);
            scales[first + n] = levels / (norms[n] == 0 ? 1.0f : norms[n]);
            units[first + n] = whole ? norms[n] : norms[n] * share;
        }
        for (int64_t n = 0; n < many && found; n++) count_norm(found, norms[n], size + (first + n < longer));
    }
}

/* Coordinates of one vector, rounded: magnitudes of their symbols, and their signs. */
struct rounded {
    vec size;
    ivec sign; /* the sign bit alone */
};

INLINE struct rounded round_vector(const float *update, uvec index, const uint32_t key[2], vec levels, vec scale) {
    vec draw = draws_of(index, key);
    ivec value = (ivec)load(update), sign = value & INT32_MIN;
    vec scaled = (vec)(value ^ sign) * scale;
    vec level = __builtin_convertvector(__builtin_convertvector(scaled, ivec), vec);
    ivec up = (ivec)(draw < scaled - level) & (ivec)(level < levels);
    return (struct rounded){level + keep(up, spread(1)), sign};
}

/* What the server decodes. */
INLINE vec decoded(struct rounded r, vec unit) { return (vec)((ivec)(r.size * unit) ^ r.sign); }

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

/* total += what the server decodes from `update`, which is zero past its end; counts symbols and norms if someone asks
 * for that. `scales` and `units` are scratch of one number per block; all have a vector of room at their end. */
INLINE void add_blocks(const struct quantizer *q, const float *update, const uint32_t key[2], float *scales,
                       float *units, float *total, struct counted *found) {
    float tile_scales[TILE + LANES], tile_units[TILE + LANES];
    struct spreading at = {0, q->dim / q->blocks + (q->dim % q->blocks > 0)};
    vec levels = spread((float)q->levels);
    uvec index;
    for (uint32_t lane = 0; lane < LANES; lane++) index[lane] = lane;
    measure_blocks(q, update, scales, units, 0, found);
    for (int64_t start = 0; start < q->dim; start += TILE) {
        int64_t stop = start + TILE < q->dim ? start + TILE : q->dim;
        spread_blocks(q, &at, start, stop, scales, units, tile_scales, tile_units);
        for (int64_t i = start; i < stop; i += LANES, index += LANES) {
            if (all_zero(load(update + i))) continue; /* many are, behind ReLU or from black pixels */
            struct rounded r = round_vector(update + i, index, key, levels, load(tile_scales + (i - start)));
            store(total + i, load(total + i) + decoded(r, load(tile_units + (i - start))));
            if (found) tally(&found->tallies, __builtin_convertvector(r.size, ivec));
        }
    }
}

static void add_quantized(const struct quantizer *q, const float *update, const uint32_t key[2], float *scales,
                          float *units, float *total) {
    add_blocks(q, update, key, scales, units, total, NULL);
}

/* The same, and the bits of the entropy-coded payload. */
static float add_coded(const struct coding *coding, const struct quantizer *q, const float *update,
                       const uint32_t key[2], float *scales, float *units, float *total) {
    struct counted found = {.dead = 0};
    add_blocks(q, update, key, scales, units, total, &found);
    return payload_bits(coding, &found, q->dim, q->blocks);
}

/* The symbols and norms themselves: codec/quantizer.py, block_symbols. `update` and `symbols` have a vector of room. */
static void write_symbols(const struct quantizer *q, const float *update, const uint32_t key[2], float *scales,
                          float *norms, int32_t *symbols) {
    float tile_scales[TILE + LANES], tile_norms[TILE + LANES];
    struct spreading at = {0, q->dim / q->blocks + (q->dim % q->blocks > 0)};
    vec levels = spread((float)q->levels);
    uvec index;
    for (uint32_t lane = 0; lane < LANES; lane++) index[lane] = lane;
    measure_blocks(q, update, scales, norms, 1, NULL);
    for (int64_t start = 0; start < q->dim; start += TILE) {
        int64_t stop = start + TILE < q->dim ? start + TILE : q->dim;
        spread_blocks(q, &at, start, stop, scales, norms, tile_scales, tile_norms);
        for (int64_t i = start; i < stop; i += LANES, index += LANES) {
            struct rounded r = round_vector(update + i, index, key, levels, load(tile_scales + (i - start)));
            ivec size = __builtin_convertvector(r.size, ivec), sign = r.sign >> 31;
            store_codes(symbols + i, (size ^ sign) - sign);
        }
    }
}

#endif
