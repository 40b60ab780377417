/* How many bits an entropy-coded payload takes, from how often its symbols occur (codec/sizes.py). */
#ifndef OFEDIQ_SIZES_H
#define OFEDIQ_SIZES_H

#include <math.h>

#include "vectors.h"

enum { GRID_LEVELS = 1 << 15, CLASSES = 113, TALLIES = 4, FEW = 4 }; /* codec: MAX_LEVELS, and its classes */
enum { BOOK = 120, SHORT_STACK = 2048, START_BITS = 20, PLAIN_NORMS = 8, NORM_CLASSES = 256, NORM_BITS = 32 };

struct coding {
    int32_t classes;       /* of magnitudes; 0: messages are not coded */
    int64_t fixed, own;    /* bytes of a payload that is not modelled: usually, and on a grid of its own */
    const float *widths;   /* [classes] symbols in each */
    const float *book;     /* [classes][BOOK] bits of a symbol by each known table */
    float *bits;           /* [clients], out, for those who send */
};

/* codec/sizes.py: the magnitude itself below 32, then eight classes to an octave. A diverged run can hand us anything,
 * so what no symbol may be is counted with the largest. */
INLINE int class_of(int32_t symbol) {
    uint32_t magnitude = symbol < 0 ? 0u - (uint32_t)symbol : (uint32_t)symbol;
    if (magnitude < 32) return (int)magnitude;
    if (magnitude > GRID_LEVELS) magnitude = GRID_LEVELS;
    int octave = 31 - __builtin_clz(magnitude);
    return 24 + 8 * (octave - 5) + (int)(magnitude >> (octave - 3));
}

/* How often each class of magnitudes occurs. Most are small: lanes with 1 to FEW are counted as vectors. A vector with
 * a larger one is counted lane by lane, in turn, so that none waits for the one before. Zeros are what is left. */
struct tallies {
    ivec few[FEW];
    int32_t classes[TALLIES][CLASSES];
};

INLINE void tally(struct tallies *t, ivec sizes) {
    sizes &= ~(sizes >> 31); /* a diverged run can hand us anything */
    if (!any_above(sizes, FEW)) {
        UNROLL for (int n = 0; n < FEW; n++) t->few[n] -= (ivec)(sizes == n + 1);
        return;
    }
    int32_t each[LANES];
    store_codes(each, sizes);
    if (any_above(sizes, 31))
        for (int lane = 0; lane < LANES; lane++) each[lane] = class_of(each[lane]);
    UNROLL for (int lane = 0; lane < LANES; lane++) t->classes[lane % TALLIES][each[lane]]++;
}

/* counts[0 .. classes] of `coded` symbols; what no class has room for is counted with the last. */
INLINE void add_tallies(const struct tallies *t, int64_t coded, int32_t *counts, int classes) {
    int64_t zeros = coded;
    memset(counts, 0, classes * sizeof(int32_t));
    for (int class = 1; class < CLASSES; class++) {
        int32_t found = class <= FEW ? add_lanes(t->few[class - 1]) : 0;
        for (int n = 0; n < TALLIES; n++) found += t->classes[n][class];
        counts[class < classes ? class : classes - 1] += found;
        zeros -= found;
    }
    counts[0] += (int32_t)zeros;
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
    struct tallies tallies = {{{0}}, {{0}}};
    int64_t at = 0;
    for (; at + LANES <= c->dim; at += LANES) {
        ivec value = load_codes(symbols + at), sign = value >> 31;
        tally(&tallies, (value ^ sign) - sign);
    }
    for (; at < c->dim; at++) tallies.classes[0][class_of(symbols[at])]++;
    add_tallies(&tallies, c->dim, c->counts + (size_t)row * c->classes, c->classes);
}

/* What is counted of one message. */
struct counted {
    struct tallies tallies;
    int32_t tops[NORM_CLASSES]; /* norms by their top byte */
    int64_t dead;               /* coordinates in blocks of norm 0, which are not coded */
};

/* symbol_bits. */
static double symbol_bits(const struct coding *c, const int32_t *counts) {
    double total = 0, ideal = 0;
    float known[BOOK] = {0}, best;
    int last = 0;
    for (int class = 0; class < c->classes; class++) total += counts[class];
    for (int class = 0; class < c->classes; class++) {
        if (counts[class] <= 0) continue;
        const float *book = c->book + (size_t)class * BOOK;
        for (int n = 0; n < BOOK; n++) known[n] += (float)counts[class] * book[n];
        ideal += counts[class] * log2(total * c->widths[class] / counts[class]);
        last = class;
    }
    best = known[0];
    for (int n = 1; n < BOOK; n++) best = known[n] < best ? known[n] : best;
    double table = ideal + 8 * (2 + last);
    return (table < best + 8 ? table : best + 8) + (total > SHORT_STACK ? START_BITS : 0);
}

/* Norms of a message: how often each top byte occurs. */
static double norm_bits(const int32_t *tops, int64_t blocks) {
    if (blocks < PLAIN_NORMS) return (double)NORM_BITS * blocks;
    double bits = 0;
    int first = 0, last = -1;
    for (int class = 0; class < NORM_CLASSES; class++) {
        if (!tops[class]) continue;
        bits += tops[class] * log2((double)blocks / tops[class]);
        if (!class) continue;
        first = last < 0 ? class : first;
        last = class;
    }
    return bits + (NORM_BITS - 8.0) * (blocks - tops[0]) + 8 * (3 + (last < 0 ? 0 : last - first + 1));
}

/* whole_bytes, of a message that is not zero. */
INLINE float whole_bytes(double bits, int64_t fixed) {
    double bytes = ceil((float)bits / 8);
    return 8 * (float)(bytes < fixed ? bytes : fixed);
}

/* payload_bits. */
static float payload_bits(const struct coding *c, const struct counted *found, int64_t dim, int64_t blocks) {
    int32_t counts[CLASSES];
    if (found->dead == dim) return 0;
    add_tallies(&found->tallies, dim - found->dead, counts, c->classes);
    return whole_bytes(symbol_bits(c, counts) + norm_bits(found->tops, blocks), c->fixed);
}

#endif
