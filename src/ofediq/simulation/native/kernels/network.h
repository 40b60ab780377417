/* What the window loop needs to know of a model.
 *
 * A model keeps its parameters in an inner order of its own, padded to whole vectors, in which updates are added up
 * elementwise; `import_flat` and `export_flat` go from and to the flat order that the rest of the library uses.
 * `pack` derives from the inner order whatever else the forward pass wants to read.
 */
#ifndef OFEDIQ_NETWORK_H
#define OFEDIQ_NETWORK_H

#include "vectors.h"

struct network {
    const void *shape;
    size_t dim, inner, packed, cache; /* floats: flat parameters, inner parameters, packed ones, cache of a sample */
    int outputs;
    void (*import_flat)(const void *shape, const float *flat, float *inner);
    void (*export_flat)(const void *shape, const float *inner, float *flat);
    void (*pack)(const void *shape, const float *inner, float *packed);
    /* `learns`: whether a backward pass will follow on the same cache. */
    void (*forward)(const void *shape, const float *inner, const float *packed, const float *sample, float *cache,
                    int learns, float *outputs);
    /* gradient += that of the loss whose derivative by the outputs is `deltas`, in the inner order. */
    void (*backward)(const void *shape, const float *inner, const float *sample, float *cache, const float *deltas,
                     float *gradient);
};

#endif
