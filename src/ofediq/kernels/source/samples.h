/* Many samples under one model, or under one each: losses, errors and gradients, for a caller that does the rest. */
#ifndef OFEDIQ_SAMPLES_H
#define OFEDIQ_SAMPLES_H

#include <stdlib.h>

struct samples {
    struct model model;
    int64_t count, features;
    int32_t threads;
    int32_t each;            /* gradients are [count][dim], else one sum with these weights */
    int32_t own;             /* params are [count][dim] */
    const float *params, *xs, *weights;
    const void *targets;
    float *losses, *errors;  /* [count] */
    float *gradients;        /* NULL: none are asked for */
};

struct batch { /* a job */
    const struct samples *samples;
    struct network network;
    int slots;
    size_t slot_room, thread_room;
    float *inner, *packed, *sums, *threads;
};

/* Memory of earlier calls waits here for the next one: fresh pages would cost more than sums. */
struct spare {
    struct spare *next;
    size_t bytes;
};
static struct spare *spares;

static void *borrow(size_t bytes) {
    bytes = rounded_up(bytes, 64) + 64;
    pthread_mutex_lock(&crew.lock);
    struct spare *found = spares;
    if (found) spares = found->next;
    pthread_mutex_unlock(&crew.lock);
    if (found && found->bytes >= bytes) return (char *)found + 64;
    free(found);
    found = aligned_alloc(64, bytes);
    if (!found) return NULL;
    found->bytes = bytes;
    return (char *)found + 64;
}

static void give_back(void *memory) {
    struct spare *spare = (struct spare *)((char *)memory - 64);
    pthread_mutex_lock(&crew.lock);
    spare->next = spares;
    spares = spare;
    pthread_mutex_unlock(&crew.lock);
}

/* `many` samples from `first` on, of which all go into the `sum`, or each into its own row. */
static void some_samples(const struct batch *b, struct worker *t, int64_t first, int many, float *sum) {
    const struct samples *s = b->samples;
    const struct network *n = &b->network;
    const float *inner = b->inner, *packed = b->packed;
    if (s->own) {
        import_flat(n, s->params + first * n->dim, t->own);
        pack(n, t->own, t->packed);
        inner = t->own, packed = t->packed;
    }
    for (int i = 0; i < many; i++) {
        t->items[i].sample = s->xs + (first + i) * s->features;
        t->items[i].learns = s->gradients != NULL;
    }
    forward(n, inner, packed, t->items, many);
    for (int i = 0; i < many; i++) {
        double loss, error;
        float factor = s->each ? 1 : s->weights[first + i];
        head(&s->model, n->outputs, t->items + i, s->targets, first + i, factor, &loss, &error);
        s->losses[first + i] = (float)loss;
        s->errors[first + i] = (float)error;
        if (!s->gradients || !s->each) continue;
        memset(t->gradient, 0, n->inner * sizeof(float));
        backward(n, inner, t->items + i, 1, t->gradient);
        if (s->model.penalty != 0) add_scaled(t->gradient, s->model.penalty, inner, n->inner);
        export_flat(n, t->gradient, s->gradients + (first + i) * n->dim);
    }
    if (s->gradients && !s->each) backward(n, inner, t->items, many, sum);
}

static void sample_slot(void *job, int worker, int slot) {
    struct batch *b = job;
    const struct samples *s = b->samples;
    struct worker scratch;
    lay_out(&b->network, b->threads + worker * b->thread_room, &scratch);
    int64_t begin = slot * s->count / b->slots, end = (slot + 1) * s->count / b->slots;
    float *sum = b->sums + slot * b->slot_room;
    int most = s->own ? 1 : b->network.batch;
    if (s->gradients && !s->each) memset(sum, 0, b->slot_room * sizeof(float));
    for (int64_t at = begin; at < end; at += most)
        some_samples(b, &scratch, at, (int)(end - at < most ? end - at : most), sum);
}

static void add_weighted_penalty(const struct batch *b) {
    const struct samples *s = b->samples;
    float weight = 0;
    for (int64_t i = 0; i < s->count; i++) weight += s->weights[i];
    add_scaled(b->sums, s->model.penalty * weight, b->inner, b->network.inner);
}

/* Returns 0, or 1 if the arguments cannot be run, or there is no memory. */
static int run_samples(const struct samples *s) {
    struct batch b = {.samples = s};
    struct worker worker;
    if (!make(&s->model, &b.network) || s->threads < 1 || s->threads > MAX_THREADS) return 1;
    const struct network *n = &b.network;
    int adds = s->gradients && !s->each;
    if (s->own && adds) return 1;
    int64_t batches = (s->count + MAX_BATCH - 1) / MAX_BATCH;
    b.slots = adds ? slot_count(n, s->count) : batches < MAX_SLOTS ? (int)batches : MAX_SLOTS;
    b.slot_room = slot_floats(n);
    b.thread_room = lay_out(n, NULL, &worker);
    int threads = worth(s->threads, (double)s->count * n->inner, b.slots);
    size_t fixed = room(n->inner) + room(n->packed), sums = adds ? b.slots * b.slot_room : 0;
    b.inner = borrow((fixed + sums + threads * b.thread_room) * sizeof(float));
    if (!b.inner) return 1;
    b.packed = b.inner + room(n->inner);
    b.sums = b.inner + fixed;
    b.threads = b.sums + sums;
    if (!s->own) {
        import_flat(n, s->params, b.inner);
        pack(n, b.inner, b.packed);
    }
    run_tasks(sample_slot, &b, b.slots, threads);
    if (adds) {
        for (int slot = 1; slot < b.slots; slot++)
            add_scaled(b.sums, 1, b.sums + slot * b.slot_room, n->inner);
        if (s->model.penalty != 0) add_weighted_penalty(&b);
        export_flat(n, b.sums, s->gradients);
    }
    give_back(b.inner);
    return 0;
}

#endif
