/* What the window loop needs to know of a model.
 *
 * A model keeps its parameters in an inner order of its own, padded to whole vectors, in which updates are added up
 * elementwise; `import_flat` and `export_flat` go from and to the flat order that the rest of the library uses.
 * `pack` derives from the inner order whatever else the forward pass wants to read.
 */
#ifndef OFEDIQ_NETWORK_H
#define OFEDIQ_NETWORK_H

#include "vectors.h"

#define MAX_BATCH 8

/* One sample on its way through a model. */
struct item {
    const float *sample;
    float *cache, *outputs;
    float *deltas; /* derivatives of the loss by the outputs */
    int learns;    /* whether a backward pass will follow on the same cache */
};

struct network {
    const void *shape;
    size_t dim, inner, packed, cache; /* floats: flat parameters, inner parameters, packed ones, cache of a sample */
    int outputs;
    int batch; /* how many samples a pass likes to have at once */
    void (*import_flat)(const void *shape, const float *flat, float *inner);
    void (*export_flat)(const void *shape, const float *inner, float *flat);
    void (*pack)(const void *shape, const float *inner, float *packed);
    void (*forward)(const void *shape, const float *inner, const float *packed, const struct item *items, int count);
    /* gradient += those of all items, in the inner order. */
    void (*backward)(const void *shape, const float *inner, const struct item *items, int count, float *gradient);
};

#endif
