/* A network: layers one after another.
 *
 * Its parameters have an inner order, padded to whole vectors, in which updates are added up elementwise; layers say
 * how it comes from the flat order that the rest of the library uses, and what else they want to read forward.
 */
#ifndef OFEDIQ_NETWORK_H
#define OFEDIQ_NETWORK_H

#include "convolution.h"
#include "dense.h"
#include "pooling.h"
#include "winograd.h"

#define MAX_LAYERS 32
#define NARROW 32 /* a dense layer behind images has its weights the other way round up to so many outputs */
#define FEW_OUTPUTS 2 /* and one behind other numbers */

/* What the caller says of a layer; sizes without padding. */
struct stage {
    int32_t kind, activation, bias;
    int32_t height, width, inputs; /* of what comes in; dense layers have 1 x 1 x inputs unless images come in */
    int32_t outputs, size, across, margin, beyond, stride, pooled;
    float slope, corner; /* of a leaky activation, below zero and at zero */
    float epsilon;       /* what a norm adds to the variance */
};

/* One sample on its way through a network. */
struct item {
    const float *sample;
    float *cache, *outputs;
    float *deltas; /* derivatives of the loss by the outputs */
    int learns;    /* whether a backward pass will follow on the same cache */
};

struct network {
    struct layer layers[MAX_LAYERS];
    int count;
    int outputs;
    int batch;                        /* how many samples a pass likes to have at once */
    size_t dim, inner, packed, cache; /* floats: flat parameters, inner parameters, packed ones, cache of a sample */
    size_t turns[2];                  /* two places for derivatives, in a cache, that layers use in turn */
    const int32_t *places;            /* where each flat parameter lies in the inner order; NULL: layer by layer */
};

static void import_flat(const struct network *n, const float *flat, float *inner) {
    if (n->places) {
        memset(inner, 0, n->inner * sizeof(float));
        for (size_t at = 0; at < n->dim; at++) inner[n->places[at]] = flat[at];
        return;
    }
    for (const struct layer *l = n->layers; l < n->layers + n->count; l++) {
        if (l->kind == CONV) conv_import(l, flat + l->flat, inner + l->inner);
        if (l->kind == DENSE) dense_import(l, flat + l->flat, inner + l->inner);
        if (l->kind == NORM) norm_import(l, flat + l->flat, inner + l->inner);
    }
}

static void export_layer(const struct layer *l, const float *inner, float *flat) {
    if (l->kind == CONV) conv_export(l, inner + l->inner, flat + l->flat);
    if (l->kind == DENSE) dense_export(l, inner + l->inner, flat + l->flat);
    if (l->kind == NORM) norm_export(l, inner + l->inner, flat + l->flat);
}

static void export_flat(const struct network *n, const float *inner, float *flat) {
    if (n->places) {
        for (size_t at = 0; at < n->dim; at++) flat[at] = inner[n->places[at]];
        return;
    }
    for (const struct layer *l = n->layers; l < n->layers + n->count; l++) export_layer(l, inner, flat);
}

static void pack(const struct network *n, const float *inner, float *packed) {
    for (const struct layer *l = n->layers; l < n->layers + n->count; l++)
        if (l->kind == CONV) (l->winograd ? transform_filters : pack_panels)(l, inner + l->inner, packed + l->packed);
}

INLINE int zeros_around(const struct layer *l) { return l->margin + l->beyond; }

/* The image that a convolution works on: with zeros around it, or with room at its end. */
INLINE void copy_image(const struct layer *l, const float *from, float *to) {
    size_t row = (size_t)l->width * l->inputs, margin = (size_t)l->margin * l->inputs;
    size_t inside = row - margin - (size_t)l->beyond * l->inputs;
    if (zeros_around(l)) memset(to, 0, l->height * row * sizeof(float));
    to += l->margin * row + margin;
    for (int y = zeros_around(l); y < l->height; y++, to += row, from += inside) memcpy(to, from, inside * sizeof(float));
}

INLINE void conv_forward(const struct layer *l, const float *inner, const float *packed, const float *image,
                         float *result, float *cache, int learns) {
    const float *bias = inner + filter_floats(l);
    int32_t *corners = learns && l->pooled ? (int32_t *)(cache + l->corners) : NULL;
    float *work = cache + l->work;
    if (l->copies) {
        copy_image(l, image, cache + l->image);
        image = cache + l->image;
    }
    if (l->winograd)
        convolve_fast(l, image, packed, bias, work, work + image_frequencies(l), result, corners);
    else
        convolve(l, image, packed, bias, work, result, corners);
    if (l->activation >= TANH) activate(l, result, learns ? cache + l->slopes : NULL, layer_results(l)); /* ReLU is done */
}

INLINE void conv_backward(const struct layer *l, const float *inner, const float *image, const float *result,
                          float *cache, float *deltas, float *back, float *gradient) {
    size_t results = layer_results(l), lists = (l->pooled ? 4 : 1) * results;
    const int32_t *corners = (const int32_t *)(cache + l->corners);
    int32_t *offsets = (int32_t *)(cache + l->work), *winners = offsets + lists, *counts = winners + results;
    float *factors = (float *)(counts + rounded_up((l->pooled ? 4 : 1) * layer_cells(l), CHANNELS));
    float *whole = factors + lists;
    if (l->copies) image = cache + l->image;
    activate_back(l, deltas, result, cache + l->slopes, results);
    if (is_single(l) && l->pooled) {
        single_filter_gradient(l, image, deltas, corners, gradient);
    } else {
        find_winners(l, corners, winners);
        filter_gradient(l, image, deltas, winners, offsets, factors, gradient);
    }
    if (!l->further) return;
    size_t row = (size_t)l->width * l->inputs, margin = (size_t)l->margin * l->inputs;
    size_t inside = row - margin - (size_t)l->beyond * l->inputs;
    float *to = zeros_around(l) ? whole : back;
    memset(to, 0, l->height * row * sizeof(float));
    list_by_position(l, deltas, corners, offsets, factors, counts);
    image_gradient(l, inner, offsets, factors, counts, to);
    if (!zeros_around(l)) return;
    to += l->margin * row + margin;
    for (int y = zeros_around(l); y < l->height; y++, to += row, back += inside) memcpy(back, to, inside * sizeof(float));
}

/* What scratch the two passes of a convolution want. */
static size_t conv_work(const struct layer *l) {
    size_t places = l->pooled ? 4 : 1, results = layer_results(l), image = (size_t)l->height * l->width * l->inputs;
    size_t forward = l->winograd ? image_frequencies(l) + panel_products(l)
                                 : (l->pooled ? 4 : 1) * (size_t)l->columns * l->panel;
    size_t backward = 2 * places * results + results + rounded_up(places * layer_cells(l), CHANNELS);
    if (zeros_around(l) && l->further) backward += image;
    return forward > backward ? forward : backward;
}

/* One sample through a layer that takes them one by one. */
INLINE void one_forward(const struct layer *l, const float *inner, const float *packed, const float *image,
                        float *result, float *cache, int learns) {
    if (l->kind == CONV) {
        conv_forward(l, inner, packed, image, result, cache, learns);
        return;
    }
    if (l->kind == POOL) pool_forward(l, image, result, (int32_t *)(cache + l->corners));
    if (l->kind == MEAN) mean_forward(l, image, result);
    if (l->kind == NORM) norm_forward(l, inner, image, result, cache + l->image);
    activate(l, result, learns ? cache + l->slopes : NULL, layer_results(l));
}

INLINE void one_backward(const struct layer *l, const float *inner, const float *image, const float *result,
                         float *cache, float *deltas, float *back, float *gradient) {
    if (l->kind == CONV) {
        conv_backward(l, inner, image, result, cache, deltas, back, gradient);
        return;
    }
    activate_back(l, deltas, result, cache + l->slopes, layer_results(l));
    if (l->kind == POOL) pool_backward(l, deltas, (const int32_t *)(cache + l->corners), back);
    if (l->kind == MEAN) mean_backward(l, deltas, back);
    if (l->kind == NORM) norm_backward(l, inner, cache + l->image, deltas, back, gradient);
}

static void forward(const struct network *n, const float *inner, const float *packed, const struct item *items,
                    int count) {
    struct pass pass = {.count = count};
    for (int i = 0; i < count; i++) {
        pass.inputs[i] = items[i].sample;
        pass.caches[i] = items[i].cache;
        pass.learns[i] = items[i].learns;
    }
    for (const struct layer *l = n->layers; l < n->layers + n->count; l++) {
        for (int i = 0; i < count; i++) pass.results[i] = pass.caches[i] + l->result;
        if (l->kind == DENSE) {
            dense_forward(l, inner + l->inner, &pass);
        } else {
            for (int i = 0; i < count; i++)
                one_forward(l, inner + l->inner, packed + l->packed, pass.inputs[i], pass.results[i], pass.caches[i],
                            items[i].learns);
        }
        for (int i = 0; i < count; i++) pass.inputs[i] = pass.results[i];
    }
    for (int i = 0; i < count; i++) memcpy(items[i].outputs, pass.inputs[i], n->outputs * sizeof(float));
}

/* gradient += those of all items, in the inner order. Where `flat` is given, that of the only item goes there instead,
 * over whatever was there, and `gradient` is scratch. */
static void go_back(const struct network *n, const float *inner, const struct item *items, int count, float *gradient,
                    float *flat) {
    struct pass pass = {.count = count};
    const struct layer *last = n->layers + n->count - 1;
    for (int i = 0; i < count; i++) {
        pass.caches[i] = items[i].cache;
        pass.deltas[i] = items[i].cache + n->turns[0];
        memset(pass.deltas[i] + n->outputs, 0, (last->outputs - n->outputs) * sizeof(float));
        memcpy(pass.deltas[i], items[i].deltas, n->outputs * sizeof(float));
    }
    for (const struct layer *l = last; l >= n->layers; l--) {
        int straight = flat && l->kind == DENSE && !l->narrow;
        if (is_pooling(l) && !l->further) break;
        for (int i = 0; i < count; i++) {
            pass.results[i] = pass.caches[i] + l->result;
            pass.inputs[i] = l > n->layers ? pass.caches[i] + l[-1].result : items[i].sample;
            pass.back[i] = pass.caches[i] + n->turns[(last - l + 1) % 2];
        }
        if (flat && !straight) memset(gradient + l->inner, 0, l->floats * sizeof(float));
        if (l->kind == DENSE)
            dense_backward(l, inner + l->inner, &pass, gradient + l->inner, straight ? flat + l->flat : NULL);
        for (int i = 0; i < count && l->kind != DENSE; i++)
            one_backward(l, inner + l->inner, pass.inputs[i], pass.results[i], pass.caches[i], pass.deltas[i],
                         pass.back[i], gradient + l->inner);
        if (flat && !straight) export_layer(l, gradient, flat);
        if (!l->further) break;
        memcpy(pass.deltas, pass.back, sizeof pass.deltas);
    }
}

static void backward(const struct network *n, const float *inner, const struct item *items, int count,
                     float *gradient) {
    go_back(n, inner, items, count, gradient, NULL);
}

/* The gradient of one item in the flat order; `scratch` is a gradient in the inner one. */
static void flat_gradient(const struct network *n, const float *inner, const struct item *item, float *scratch,
                          float *flat) {
    if (!n->places) {
        go_back(n, inner, item, 1, scratch, flat);
        return;
    }
    memset(scratch, 0, n->inner * sizeof(float));
    backward(n, inner, item, 1, scratch);
    export_flat(n, scratch, flat);
}

/* Sizes of a layer that follows `before` (NULL for none); returns whether the kernels can run it. */
static int make_layer(const struct stage *s, const struct layer *before, int images, struct layer *l) {
    if (s->height < 1 || s->width < 1 || s->inputs < 1 || s->outputs < 1) return 0;
    if (s->activation < 0 || s->activation >= ACTIVATIONS) return 0;
    int behind = before && (!is_pooling(before) || before->further);
    *l = (struct layer){.kind = s->kind, .activation = s->activation, .bias = s->bias, .given = s->inputs,
                        .asked = s->outputs, .further = behind, .rows = 1, .columns = 1, .stride = 1,
                        .slope = s->slope, .corner = s->corner, .epsilon = s->epsilon};
    l->inputs = behind && !before->units ? (int)rounded_up(s->inputs, CHANNELS) : s->inputs;
    l->units = s->kind == DENSE || (s->kind == NORM && behind && before->units);
    if (s->kind == DENSE) {
        l->cells = s->height * s->width;
        l->narrow = before && s->outputs <= (images ? NARROW : FEW_OUTPUTS);
        l->outputs = (int)rounded_up(s->outputs, LANES);
        l->length = rounded_up(dense_rows(l), LANES);
        l->floats = dense_weights(l) + l->outputs;
        l->numbers = ((size_t)l->cells * l->given + l->bias) * l->asked;
        return 1;
    }
    l->height = s->height, l->width = s->width, l->size = s->size, l->across = s->across;
    if (s->kind == NORM) {
        if (!behind || s->inputs != s->outputs) return 0;
        l->inputs = l->outputs = before->outputs;
        l->rows = s->height, l->columns = s->width;
        l->floats = 2 * l->outputs;
        l->numbers = (size_t)(1 + l->bias) * l->asked;
        return 1;
    }
    if (l->size < 1) return 0;
    if (is_pooling(l)) {
        l->outputs = l->inputs;
        if (l->across < 1) return 0;
        l->rows = l->height / l->size, l->columns = l->width / l->across;
        return l->rows > 0 && l->columns > 0;
    }
    if (s->kind != CONV || s->margin < 0 || s->beyond < 0 || s->stride < 1) return 0;
    l->height += s->margin + s->beyond, l->width += s->margin + s->beyond;
    l->margin = s->margin, l->beyond = s->beyond, l->stride = s->stride, l->pooled = s->pooled;
    if (l->height < l->size || l->width < l->size) return 0;
    l->rows = ((l->height - l->size) / l->stride + 1) / (1 + l->pooled);
    l->columns = ((l->width - l->size) / l->stride + 1) / (1 + l->pooled);
    if (l->rows < 1 || l->columns < 1) return 0;
    l->outputs = (int)rounded_up(s->outputs, CHANNELS);
    l->panel = CHANNELS; /* fills the registers of machines with 8 lanes or 4; those with 16 have room for more */
    while (LANES == 16 && l->panel < 4 * LANES && l->outputs % (2 * l->panel) == 0) l->panel *= 2;
    l->length = rounded_up((size_t)l->size * l->inputs, CHANNELS);
    l->winograd = l->size == SIDE && l->stride == 1 && l->pooled && l->inputs % CHANNELS == 0;
    l->copies = zeros_around(l) > 0 || (l->length != (size_t)l->size * l->inputs && !(is_single(l) && l->pooled));
    l->floats = filter_floats(l) + l->outputs;
    l->numbers = ((size_t)l->size * l->size * l->given + l->bias) * l->asked;
    l->packs = l->winograd ? filter_frequencies(l) : (size_t)l->size * l->size * l->inputs * l->outputs;
    return 1;
}

/* Returns whether the kernels can run these stages. */
static int make_network(const struct stage *stages, int count, const int32_t *places, struct network *n) {
    if (count < 1 || count > MAX_LAYERS || stages[count - 1].kind != DENSE) return 0;
    size_t widest = 0, work = 0, cache = 0;
    int images = 0;
    memset(n, 0, sizeof *n);
    for (int at = 0; at < count; at++) images |= stages[at].kind == CONV;
    for (int at = 0; at < count; at++) {
        struct layer *l = n->layers + at;
        if (!make_layer(stages + at, at ? l - 1 : NULL, images, l)) return 0;
        l->inner = n->inner, n->inner += l->floats;
        l->flat = n->dim, n->dim += l->numbers;
        l->packed = n->packed, n->packed += l->packs;
        size_t results = rounded_up(layer_results(l), CHANNELS), image = (size_t)l->height * l->width * l->inputs;
        l->result = cache, cache += results;
        l->corners = cache, cache += l->kind == POOL || l->pooled ? results : 0;
        if (l->kind == NORM) image = layer_results(l) + layer_cells(l);
        l->image = cache, cache += l->copies || l->kind == NORM ? rounded_up(image, CHANNELS) + CHANNELS : 0;
        l->slopes = cache, cache += slope_is_kept(l) ? results : 0;
        size_t wanted = l->kind == CONV ? rounded_up(conv_work(l), CHANNELS) : 0;
        if (wanted > work) work = wanted;
        if (results > widest) widest = results;
        if (l->narrow && l->length > widest) widest = l->length;
    }
    for (int at = 0; at < count; at++) n->layers[at].work = cache; /* nobody keeps anything there */
    cache += work;
    n->count = count;
    n->outputs = stages[count - 1].outputs;
    n->batch = images ? 1 : MAX_BATCH;
    n->turns[0] = cache, n->turns[1] = cache + rounded_up(widest, CHANNELS);
    n->cache = cache + 2 * rounded_up(widest, CHANNELS);
    n->places = places;
    return 1;
}

#endif
