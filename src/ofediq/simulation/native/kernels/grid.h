/* Steered sending: norm-proportional participation, and rounding to the server's grid (methods/steering.py). */
#ifndef OFEDIQ_GRID_H
#define OFEDIQ_GRID_H

#include "quantizer.h"

enum { GRID_LEVELS = 1 << 15, CLASSES = 113 }; /* codec: MAX_LEVELS, and classes of magnitudes up to it */

struct steering {
    int32_t on;
    float signal, spread, floor; /* z, and what NormProportional has */
    const float *draws;          /* [clients], a client sends if its draw lies below its probability */
    uint8_t *sent;               /* [clients], out */
    int32_t *counts;             /* [clients][CLASSES], out: how often each class of magnitudes occurs */
};

/* NormProportional.probabilities. */
INLINE float probability(const struct steering *g, float norm) {
    if (!(norm > 0)) return 0;
    float wanted = norm / (g->spread * g->signal);
    return wanted < g->floor ? g->floor : wanted > 1 ? 1 : wanted;
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

/* total += what the server decodes from `update`, which is zero past its end, on the grid; counts its symbols. An
 * update beyond the largest symbol gets a coarser grid of its own, as in methods.Grid. */
static void add_on_grid(const struct steering *g, const float *update, int64_t dim, const uint32_t key[2], float *total,
                        int32_t *counts) {
    float norm = (float)GRID_LEVELS * g->signal, most = largest(update, dim);
    if (most > norm) norm = most;
    vec scale = spread((float)GRID_LEVELS / (norm == 0 ? 1.0f : norm));
    vec unit = spread(norm * (float)(1.0 / GRID_LEVELS)), levels = spread((float)GRID_LEVELS);
    uvec index;
    for (uint32_t lane = 0; lane < LANES; lane++) index[lane] = lane;
    for (int64_t i = 0; i < dim; i += LANES, index += LANES) {
        struct rounded r = round_vector(update + i, index, key, levels, scale);
        store(total + i, load(total + i) + decoded(r, unit));
        ivec size = __builtin_convertvector(r.size, ivec);
        int lanes = dim - i < LANES ? (int)(dim - i) : LANES;
        for (int lane = 0; lane < lanes; lane++) counts[class_of(size[lane])]++;
    }
}

#endif
