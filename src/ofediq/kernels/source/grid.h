/* Steered sending: norm-proportional participation, and rounding to the server's grid (methods/budgets/steering.py). */
#ifndef OFEDIQ_GRID_H
#define OFEDIQ_GRID_H

#include "quantizer.h"

struct steering {
    int32_t on;                  /* whether it decides who sends; if not, it only says what the grid is */
    float step, loudest;         /* what the broadcast says, see methods/budgets/loudness.py */
    float spread, floor;         /* of NormProportional */
    const float *draws;          /* [clients], a client sends if its draw lies below its probability */
    uint8_t *sent;               /* [clients], out: who sent */
};

#define HALF (LANES / 2)
typedef double double_vec __attribute__((vector_size(8 * HALF)));
typedef float half_vec __attribute__((vector_size(4 * HALF)));
typedef int32_t half_ivec __attribute__((vector_size(4 * HALF)));
typedef int32_t loose_half __attribute__((vector_size(4 * HALF), aligned(4), may_alias));

INLINE double_vec squares(const float *from, half_ivec mask) {
    half_vec value = (half_vec)(mask & (half_ivec)*(const loose_half *)from);
    double_vec wide = __builtin_convertvector(value, double_vec);
    return wide * wide;
}

/* For norms that decide who sends, in double precision: one rounding in the end. `block` has a vector of room. */
INLINE double sum_of_squares(const float *block, int64_t size) {
    half_ivec lanes, all = {0};
    for (int lane = 0; lane < HALF; lane++) lanes[lane] = lane;
    double_vec even = {0}, odd = {0};
    int64_t at = 0;
    for (; at + LANES <= size; at += LANES) {
        even += squares(block + at, ~all);
        odd += squares(block + at + HALF, ~all);
    }
    even += squares(block + at, (half_ivec)(lanes < (int32_t)(size - at)));
    odd += squares(block + at + HALF, (half_ivec)(lanes < (int32_t)(size - at - HALF)));
    even += odd;
    double total = 0;
    for (int lane = 0; lane < HALF; lane++) total += even[lane];
    return total;
}

/* NormProportional.probabilities. */
INLINE float probability(const struct steering *g, float norm) {
    if (!(norm > 0) || !(norm <= MAX_NORM)) return 0;
    float one = g->spread * g->step;
    float wanted = norm >= one * g->loudest ? g->loudest : norm / one;
    return wanted < g->floor ? g->floor : wanted > 1 ? 1 : wanted;
}

/* loudness.own_step: of a message with this norm. */
INLINE float own_step(const struct steering *g, float norm) {
    float longest = g->spread * (g->loudest > 1 ? g->loudest : 1);
    if (!(norm > longest * 1.002f * g->step)) return g->step;
    union {
        float number;
        uint32_t word;
    } up = {norm / (longest * 1.001f)};
    up.word = (up.word + 0x7FFFFF) & 0x7F800000; /* the next power of two */
    return up.number;
}

INLINE float largest(const float *update, int64_t dim) {
    vec top = {0};
    for (int64_t i = 0; i < dim; i += LANES) {
        vec size = (vec)((ivec)load(update + i) & 0x7FFFFFFF);
        ivec more = (ivec)(size > top);
        top = (vec)(((ivec)size & more) | ((ivec)top & ~more));
    }
    float most = 0;
    for (int lane = 0; lane < LANES; lane++) most = top[lane] > most ? top[lane] : most;
    return most;
}

/* total += what the server decodes from `update`, which is zero past its end, on the grid; returns the bits. An update
 * beyond the largest symbol gets a coarser grid of its own, as in codec/schemes/grid.py. */
static float add_on_grid(const struct coding *coding, float common, float step, const float *update, int64_t dim,
                         const uint32_t key[2], float *total) {
    float norm = (float)GRID_LEVELS * step, most = largest(update, dim);
    if (norm > MAX_NORM) norm = MAX_NORM;
    if (most > norm) norm = most > MAX_NORM ? MAX_NORM : most;
    if (norm < TINY) return 0; /* codec/schemes/grid.py: zeros */
    struct tile tile = {.levels = spread((float)GRID_LEVELS), .key = {key[0], key[1]}};
    for (int64_t i = 0; i < TILE && i < dim; i += LANES) {
        store(tile.scales + i, spread((float)GRID_LEVELS / norm));
        store(tile.units + i, spread(norm * (float)(1.0 / GRID_LEVELS)));
    }
    struct tallies tallies = {{{0}}, {{0}}};
    for (; tile.start < dim; tile.start += TILE) {
        tile.stop = tile.start + TILE < dim ? tile.start + TILE : dim;
        add_tile(&tile, update, total, &tallies);
    }
    int32_t counts[CLASSES];
    add_tallies(&tallies, dim, counts, CLASSES);
    if (counts[0] == dim) return 0;
    int own = norm > (float)GRID_LEVELS * common;
    return whole_bytes(symbol_bits(coding, counts) + 40 * own, own ? coding->own : coding->fixed);
}

#endif
