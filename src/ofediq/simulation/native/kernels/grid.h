/* Steered sending: norm-proportional participation, and rounding to the server's grid (methods/steering.py). */
#ifndef OFEDIQ_GRID_H
#define OFEDIQ_GRID_H

#include "quantizer.h"

enum { GRID_LEVELS = 1 << 15, CLASSES = 113, TALLIES = 4 }; /* codec: MAX_LEVELS, and classes of magnitudes up to it */

struct steering {
    int32_t on;
    float step, loudest;         /* what the broadcast says, see methods/loudness.py */
    float spread, floor;         /* of NormProportional */
    const float *draws;          /* [clients], a client sends if its draw lies below its probability */
    uint8_t *sent;               /* [clients], out: 0, 1, or 2 for a message on a grid of its own */
    int32_t *counts;             /* [clients][CLASSES], out: how often each class of magnitudes occurs */
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

/* codec/sizes.py: the magnitude itself below 32, then eight classes to an octave. A diverged run can hand us anything,
 * so what no symbol may be is counted with the largest. */
INLINE int class_of(int32_t symbol) {
    uint32_t magnitude = symbol < 0 ? 0u - (uint32_t)symbol : (uint32_t)symbol;
    if (magnitude < 32) return (int)magnitude;
    if (magnitude > GRID_LEVELS) magnitude = GRID_LEVELS;
    int octave = 31 - __builtin_clz(magnitude);
    return 24 + 8 * (octave - 5) + (int)(magnitude >> (octave - 3));
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

/* How often each class of magnitudes occurs; neighbours are counted in turn, so that none waits for the one before. */
struct tallies {
    int32_t classes[TALLIES][CLASSES];
    int64_t zeros;
};

INLINE void tally(struct tallies *t, ivec sizes, int lanes) {
    sizes &= ~(sizes >> 31); /* a diverged run can hand us anything */
    int32_t most = largest_lane(sizes), each[LANES];
    if (!most) { /* most are, on a coarse grid */
        t->zeros += lanes;
        return;
    }
    store_codes(each, sizes);
    if (most >= 32)
        for (int lane = 0; lane < LANES; lane++) each[lane] = class_of(each[lane]);
    if (lanes == LANES)
        UNROLL for (int lane = 0; lane < LANES; lane++) t->classes[lane % TALLIES][each[lane]]++;
    else
        for (int lane = 0; lane < lanes; lane++) t->classes[0][each[lane]]++;
}

INLINE void add_tallies(const struct tallies *t, int32_t *counts, int classes) {
    counts[0] += (int32_t)t->zeros;
    for (int n = 0; n < TALLIES; n++)
        for (int class = 0; class < CLASSES; class++)
            counts[class < classes ? class : classes - 1] += t->classes[n][class];
}

struct counting { /* a job: codec/sizes.py, class_counts */
    const int32_t *symbols; /* [rows][dim] */
    int64_t dim;
    int classes;
    int32_t *counts;        /* [rows][classes] */
};

static void count_row(void *job, int worker, int row) {
    (void)worker;
    const struct counting *c = job;
    const int32_t *symbols = c->symbols + row * c->dim;
    struct tallies tallies = {{{0}}, 0};
    int64_t at = 0;
    for (; at + LANES <= c->dim; at += LANES) {
        ivec value = load_codes(symbols + at), sign = value >> 31;
        tally(&tallies, (value ^ sign) - sign, LANES);
    }
    for (; at < c->dim; at++) tallies.classes[0][class_of(symbols[at])]++;
    memset(c->counts + (size_t)row * c->classes, 0, c->classes * sizeof(int32_t));
    add_tallies(&tallies, c->counts + (size_t)row * c->classes, c->classes);
}

/* total += what the server decodes from `update`, which is zero past its end, on the grid; counts its symbols. Whether
 * it has a grid of its own is returned: an update beyond the largest symbol gets a coarser one, as in
 * codec/schemes/grid.py. */
static int add_on_grid(float common, float step, const float *update, int64_t dim, const uint32_t key[2],
                       float *total, int32_t *counts) {
    float norm = (float)GRID_LEVELS * step, most = largest(update, dim);
    if (norm > MAX_NORM) norm = MAX_NORM;
    if (most > norm) norm = most > MAX_NORM ? MAX_NORM : most;
    if (norm < TINY) return 0; /* codec/schemes/grid.py: zeros */
    vec scale = spread((float)GRID_LEVELS / norm);
    vec unit = spread(norm * (float)(1.0 / GRID_LEVELS)), levels = spread((float)GRID_LEVELS);
    uvec index;
    for (uint32_t lane = 0; lane < LANES; lane++) index[lane] = lane;
    struct tallies tallies = {{{0}}, 0};
    for (int64_t i = 0; i < dim; i += LANES, index += LANES) {
        struct rounded r = round_vector(update + i, index, key, levels, scale);
        store(total + i, load(total + i) + decoded(r, unit));
        tally(&tallies, __builtin_convertvector(r.size, ivec), dim - i < LANES ? (int)(dim - i) : LANES);
    }
    add_tallies(&tallies, counts, CLASSES);
    return norm > (float)GRID_LEVELS * common;
}

#endif
