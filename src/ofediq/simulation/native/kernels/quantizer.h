/* The (s, b)-stochastic quantiser with the draws of ofediq/randomness.py, bit for bit the codec's symbols. */
#ifndef OFEDIQ_QUANTIZER_H
#define OFEDIQ_QUANTIZER_H

#include <math.h>

#include "vectors.h"

#define MAX_NORM 0x1.ffffep127 /* codec/arithmetic.py: 2^128 (1 - 2^-20) */

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

static float block_norm(const float *block, int64_t size) {
    double sums[8] = {0};
    int64_t at = 0;
    for (; at + 8 <= size; at += 8)
        for (int lane = 0; lane < 8; lane++) sums[lane] += (double)block[at + lane] * block[at + lane];
    for (; at < size; at++) sums[0] += (double)block[at] * block[at];
    double total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    double norm = sqrt(total);
    return norm > MAX_NORM ? (float)MAX_NORM : (float)norm;
}

/* scales[i] = s / norm and units[i] = norm / s of the block that coordinate i is in. Blocks are filled in whole
 * vectors: what spills over is overwritten by the next block, or is padding. */
static void fill_scales(const struct quantizer *q, const float *update, float *scales, float *units) {
    int64_t size = q->dim / q->blocks, longer = q->dim % q->blocks, start = 0;
    float levels = (float)q->levels, share = (float)(1.0 / q->levels);
    for (int64_t block = 0; block < q->blocks; block++) {
        int64_t count = size + (block < longer);
        float norm = block_norm(update + start, count);
        vec scale = spread(levels / (norm + (norm == 0))), unit = spread(norm * share);
        for (int64_t at = start; at < start + count; at += LANES) {
            store(scales + at, scale);
            store(units + at, unit);
        }
        start += count;
    }
}

/* total += what the server decodes from `update`. All arrays have room for one vector past `dim`, rounded up. */
static void add_quantized(const struct quantizer *q, const float *update, const uint32_t key[2], float *scales,
                          float *units, float *total) {
    fill_scales(q, update, scales, units);
    uvec index;
    for (int lane = 0; lane < LANES; lane++) index[lane] = lane;
    for (int64_t at = 0; at < q->dim; at += LANES, index += LANES) {
        uvec word = mix_vector(mix_vector(index ^ key[0]) + key[1]);
        vec draw = (__builtin_convertvector((ivec)(word >> 9), vec) + 0.5f) * 0x1p-23f;
        vec value = load(update + at);
        vec scaled = (vec)((ivec)value & 0x7FFFFFFF) * load(scales + at);
        ivec level = __builtin_convertvector(scaled, ivec);
        ivec up = (ivec)(draw < scaled - __builtin_convertvector(level, vec)) & (ivec)(level < q->levels);
        ivec sign = (ivec)value >> 31;
        ivec symbol = ((level - up) ^ sign) - sign; /* a true comparison is -1 */
        store(total + at, load(total + at) + __builtin_convertvector(symbol, vec) * load(units + at));
    }
}

#endif
