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
    int32_t dense; /* no use in looking for zeros */
};

INLINE uint32_t mix(uint32_t word) {
    word ^= word >> 16;
    word *= 0x7FEB352Du;
    word ^= word >> 15;
    word *= 0x846CA68Bu;
    return word ^ (word >> 16);
}

/* The same for some vectors: a hash is one long chain of steps, so several go abreast. */
INLINE void mix_vectors(const int many, uvec *words) {
    UNROLL for (int n = 0; n < many; n++) words[n] ^= words[n] >> 16;
    UNROLL for (int n = 0; n < many; n++) words[n] *= 0x7FEB352Du;
    UNROLL for (int n = 0; n < many; n++) words[n] ^= words[n] >> 15;
    UNROLL for (int n = 0; n < many; n++) words[n] *= 0x846CA68Bu;
    UNROLL for (int n = 0; n < many; n++) words[n] ^= words[n] >> 16;
}

/* randomness.py: purposes of draws; and the number under which the server draws. */
enum { PARTICIPATE = 1, ROUND = 2, ROTATE = 4 };
#define SERVER 0xFFFFFFFFu

/* randomness.stream_key. */
static void stream_key(uint32_t seed, uint32_t step, uint32_t client, uint32_t purpose, uint32_t key[2]) {
    const uint32_t tag = purpose * 0x85EBCA6Bu;
    uint32_t left = mix(mix(mix(seed ^ 0x9E3779B9u) + step) ^ tag);
    uint32_t right = mix(mix(mix(seed ^ 0xD1B54A33u) ^ step) + tag);
    key[0] = mix(left + client);
    key[1] = mix(mix(client ^ 0xC2B2AE35u) + right);
}

enum { HASHED = 4 }; /* vectors that are hashed abreast */

/* randomness.words and randomness.uniform of the numbers in `words`, in their place. */
INLINE void words_of(const int many, uvec *words, const uint32_t key[2]) {
    UNROLL for (int n = 0; n < many; n++) words[n] ^= key[0];
    mix_vectors(many, words);
    UNROLL for (int n = 0; n < many; n++) words[n] += key[1];
    mix_vectors(many, words);
}

INLINE void draws_of(const int many, uvec *words, const uint32_t key[2], vec *draws) {
    words_of(many, words, key);
    UNROLL for (int n = 0; n < many; n++)
        draws[n] = (__builtin_convertvector((ivec)(words[n] >> 9), vec) + 0.5f) * 0x1p-23f;
}

INLINE uvec numbers_from(int64_t start) {
    uvec lanes;
    for (uint32_t lane = 0; lane < LANES; lane++) lanes[lane] = lane;
    return lanes + (uint32_t)start;
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

INLINE uvec square_of(ivec sizes, vec scale) {
    uvec whole = (uvec)__builtin_convertvector((vec)sizes * scale + 0.5f, ivec);
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
        int64_t stop = start + PIECE < whole ? start + PIECE : whole, at = start;
        uvec high = {0}, low = {0}, two;
        for (; at + LANES < stop; at += 2 * LANES) { /* two squares fit a lane */
            two = square_of(sizes_of(block + at), scale) + square_of(sizes_of(block + at + LANES), scale);
            high += two >> 16;
            low += two & 0xFFFF;
        }
        two = at < stop ? square_of(sizes_of(block + at), scale) : (uvec){0};
        if (stop == whole && start + PIECE >= size) two += square_of(sizes_of(block + whole) & rest, scale);
        high += two >> 16;
        low += two & 0xFFFF;
        int32_t under = add_lanes((ivec)low);
        made.square += (float)(add_lanes((ivec)high) + (under >> 16)) * 0x1p16f + (float)(under & 0xFFFF);
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

/* update[start + at[n] ..], with scales[at[n] ..]. */
INLINE void round_vectors(const int many, const float *update, int64_t start, const int32_t *at, const uint32_t key[2],
                          vec levels, const float *scales, struct rounded *made) {
    uvec words[HASHED];
    vec draws[HASHED];
    UNROLL for (int n = 0; n < many; n++) words[n] = numbers_from(start + at[n]);
    draws_of(many, words, key, draws);
    UNROLL for (int n = 0; n < many; n++) {
        ivec value = (ivec)load(update + start + at[n]);
        made[n].sign = value & INT32_MIN;
        vec scaled = (vec)(value ^ made[n].sign) * load(scales + at[n]);
        vec level = __builtin_convertvector(__builtin_convertvector(scaled, ivec), vec);
        ivec up = (ivec)(draws[n] < scaled - level) & (ivec)(level < levels);
        made[n].size = level + keep(up, spread(1));
    }
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

/* A stretch of an update, with what each of its coordinates is multiplied by before and after rounding. */
struct tile {
    int64_t start, stop;
    vec levels;
    uint32_t key[2];
    int32_t dense;
    float scales[TILE + LANES], units[TILE + LANES];
};

/* Which vectors of a tile are not zero: many are, behind ReLU or from black pixels. With a list of them there is no branch
 * that a processor could guess wrong. */
INLINE int find_live(const struct tile *tile, const float *update, int32_t *live) {
    int count = 0;
    for (int64_t i = tile->start; i < tile->stop; i += LANES) {
        live[count] = (int32_t)(i - tile->start);
        count += tile->dense || !all_zero(load(update + i));
    }
    return count;
}

INLINE void add_vectors(const int many, const struct tile *tile, const float *update, const int32_t *at, float *total,
                        struct tallies *tallies) {
    struct rounded made[HASHED];
    round_vectors(many, update, tile->start, at, tile->key, tile->levels, tile->scales, made);
    UNROLL for (int n = 0; n < many; n++) {
        float *to = total + tile->start + at[n];
        store(to, load(to) + decoded(made[n], load(tile->units + at[n])));
        if (tallies) tally(tallies, __builtin_convertvector(made[n].size, ivec));
    }
}

/* total += what the server decodes from a tile of `update`; both have a vector of room. Counts symbols if someone asks. */
INLINE void add_tile(const struct tile *tile, const float *update, float *total, struct tallies *tallies) {
    int32_t live[TILE / LANES + 1];
    int count = find_live(tile, update, live), n = 0;
    for (; n + HASHED <= count; n += HASHED) add_vectors(HASHED, tile, update, live + n, total, tallies);
    for (; n < count; n++) add_vectors(1, tile, update, live + n, total, tallies);
}

/* total += what the server decodes from `update`, which is zero past its end; counts symbols and norms if someone asks
 * for that. `scales` and `units` are scratch of one number per block; all have a vector of room at their end. */
INLINE void add_blocks(const struct quantizer *q, const float *update, const uint32_t key[2], float *scales,
                       float *units, float *total, struct counted *found) {
    struct tile tile = {.levels = spread((float)q->levels), .key = {key[0], key[1]}, .dense = q->dense};
    struct spreading at = {0, q->dim / q->blocks + (q->dim % q->blocks > 0)};
    measure_blocks(q, update, scales, units, 0, found);
    for (; tile.start < q->dim; tile.start += TILE) {
        tile.stop = tile.start + TILE < q->dim ? tile.start + TILE : q->dim;
        spread_blocks(q, &at, tile.start, tile.stop, scales, units, tile.scales, tile.units);
        add_tile(&tile, update, total, found ? &found->tallies : NULL);
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

INLINE void write_vectors(const int many, const struct tile *tile, const float *update, int32_t from, int32_t *symbols) {
    struct rounded made[HASHED];
    int32_t at[HASHED];
    UNROLL for (int n = 0; n < many; n++) at[n] = from + n * LANES;
    round_vectors(many, update, tile->start, at, tile->key, tile->levels, tile->scales, made);
    UNROLL for (int n = 0; n < many; n++) {
        ivec size = __builtin_convertvector(made[n].size, ivec), sign = made[n].sign >> 31;
        store_codes(symbols + tile->start + at[n], (size ^ sign) - sign);
    }
}

/* The symbols and norms themselves: codec/quantizer.py, block_symbols. `update` and `symbols` have a vector of room. */
static void write_symbols(const struct quantizer *q, const float *update, const uint32_t key[2], float *scales,
                          float *norms, int32_t *symbols) {
    struct tile tile = {.levels = spread((float)q->levels), .key = {key[0], key[1]}};
    struct spreading at = {0, q->dim / q->blocks + (q->dim % q->blocks > 0)};
    measure_blocks(q, update, scales, norms, 1, NULL);
    for (; tile.start < q->dim; tile.start += TILE) {
        tile.stop = tile.start + TILE < q->dim ? tile.start + TILE : q->dim;
        spread_blocks(q, &at, tile.start, tile.stop, scales, norms, tile.scales, tile.units);
        int32_t size = (int32_t)(tile.stop - tile.start), from = 0;
        for (; from + HASHED * LANES <= size; from += HASHED * LANES) write_vectors(HASHED, &tile, update, from, symbols);
        for (; from < size; from += LANES) write_vectors(1, &tile, update, from, symbols);
    }
}

#endif
