/* One layer of a network, with all of its sizes, and what goes through it.
 *
 * Images are [rows][columns][channels]. In front of the first parameters channels are as they come; behind them they
 * are padded to CHANNELS with zeros, whose weights, results and derivatives stay zero.
 */
#ifndef OFEDIQ_LAYER_H
#define OFEDIQ_LAYER_H

#include <math.h>
#include <string.h>

#include "vectors.h"

#define MAX_BATCH 8

enum { CONV = 0, DENSE = 1, POOL = 2, MEAN = 3, NORM = 4 };
enum { IDENTITY = 0, RELU, TANH, LEAKY, SIGMOID, SILU, GELU, GELU_TANH, ELU, SOFTPLUS, ACTIVATIONS };

struct layer {
    int kind, activation, bias;
    int units;           /* numbers in a row come out, not an image */
    int further;         /* parameters lie in front of it: derivatives by its inputs are asked for */
    int inputs, outputs; /* channels or units, as they are kept */
    int given, asked;    /* the same without padding */
    int height, width;   /* of the image, with its margin */
    int size, across;    /* side of the filters; rows and columns that a pool or a mean takes together */
    int margin, beyond;  /* zeros before and behind the image */
    int stride;          /* from one position of the filters to the next */
    float slope, corner; /* LEAKY: slopes below zero and at zero */
    float epsilon;       /* NORM: what is added to the variance */
    int rows, columns;   /* of the result */
    int pooled;          /* 2x2 max-pooling follows */
    int panel;           /* channels of the result that one tile computes */
    int winograd;        /* which of the two ways forward */
    int copies;          /* works on a copy of the image: with a margin, or with room at its end */
    int cells;           /* DENSE: groups of inputs, of which each is padded */
    int narrow;          /* DENSE: few outputs of many inputs, weights are [outputs][length] */
    size_t length;       /* CONV: floats of one row of one filter; DENSE: inputs, padded; both as kept */
    size_t inner, flat, packed;          /* where its parameters start, in each order */
    size_t floats, numbers, packs;       /* and how many there are */
    size_t result, corners, image, slopes, work; /* in a cache */
};

/* Some samples on their way through a layer. */
struct pass {
    const float *inputs[MAX_BATCH];
    float *results[MAX_BATCH], *caches[MAX_BATCH];
    float *deltas[MAX_BATCH]; /* derivatives by the results */
    float *back[MAX_BATCH];   /* derivatives by the inputs */
    int learns[MAX_BATCH];    /* whether a backward pass will follow on the same cache */
    int count;
};

/* Vectors in a panel. Only where registers are wide it is not known beforehand: the less code, the less to compile. */
INLINE int panel_vectors(const struct layer *l) { return LANES == 16 ? l->panel / LANES : CHANNELS / LANES; }

INLINE size_t layer_cells(const struct layer *l) { return (size_t)l->rows * l->columns; }
INLINE size_t layer_results(const struct layer *l) { return layer_cells(l) * l->outputs; }

#include "activations.h"

/* The least value that passes ReLU, or everything: for who has the values in registers. */
INLINE vec least(const struct layer *l) { return spread(l->activation == RELU ? 0 : -INFINITY); }

/* Whether slopes are kept, because a result does not tell its slope. */
INLINE int slope_is_kept(const struct layer *l) { return l->activation > TANH; }

/* Where the slopes of one sample are kept for its way back, if it has one. */
INLINE float *slopes_of(const struct layer *l, const struct pass *pass, int n) {
    return pass->learns[n] ? pass->caches[n] + l->slopes : NULL;
}

/* Padding stays zero, also where the activation of 0 is not. */
static void clear_padding(const struct layer *l, float *values, size_t count) {
    if (l->activation != SIGMOID && l->activation != SOFTPLUS) return;
    for (size_t at = l->asked; at < count; at += l->outputs)
        memset(values + at, 0, (l->outputs - l->asked) * sizeof(float));
}

/* `count` is padded to LANES. Slopes are kept where the way back needs them; NULL where nobody goes back. */
static void activate(const struct layer *l, float *values, float *slopes, size_t count) {
    if (l->activation == RELU)
        for (size_t at = 0; at < count; at += LANES) store(values + at, maximum((vec){0}, load(values + at)));
    if (l->activation == TANH)
        for (size_t at = 0; at < count; at += LANES) store(values + at, tanh_of(load(values + at)));
    if (l->activation <= TANH) return;
    for (size_t at = 0; at < count; at += LANES) {
        vec slope, value = bent(l, load(values + at), &slope);
        store(values + at, value);
        if (slopes) store(slopes + at, slope);
    }
    clear_padding(l, values, count);
}

/* Derivatives by the values in front of the activation; ReLU passes nothing where the result is not above zero. */
static void activate_back(const struct layer *l, float *deltas, const float *results, const float *slopes,
                          size_t count) {
    if (l->activation == RELU)
        for (size_t at = 0; at < count; at += LANES)
            store(deltas + at, keep((ivec)(load(results + at) > 0), load(deltas + at)));
    if (l->activation == TANH)
        for (size_t at = 0; at < count; at += LANES) {
            vec result = load(results + at);
            store(deltas + at, load(deltas + at) * (1 - result * result));
        }
    if (l->activation <= TANH) return;
    for (size_t at = 0; at < count; at += LANES) store(deltas + at, load(deltas + at) * load(slopes + at));
}

#endif
