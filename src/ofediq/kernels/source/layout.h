/* A window as its caller describes it, and the memory that it is worked out in. */
#ifndef OFEDIQ_LAYOUT_H
#define OFEDIQ_LAYOUT_H

#include "grid.h"
#include "network.h"

#define API __attribute__((visibility("default")))
#define MAX_SLOTS 64
#define MIN_SLOTS 8
#define SLOT_WORK (1 << 19) /* parameters times clients: less in a slot would not be worth another sum */
#define MAX_THREADS 64
#define CLIENTS_PER_SLOT 4
#define WORTH_A_THREAD 1e6 /* parameters times samples: 100 us or so, a few times what it takes to start one */

struct model {
    const struct stage *stages;
    const int32_t *places;  /* where each flat parameter lies in the inner order; NULL: layer by layer */
    int32_t count;          /* of stages */
    int32_t regression;
    float penalty;          /* l2: gradients get this times the parameters */
};

enum { PLAIN, QUANTIZED, ROTATED, ON_GRID, LARGEST };

struct sending {
    int32_t form;         /* one of these */
    int32_t levels;
    int64_t blocks;
    struct coding coding; /* then bits are counted */
    int64_t keep;         /* of the largest coordinates */
};

enum { NOTHING, ERRORS, CONTROLS };

/* What clients remember, one row each.
 *
 *     ERRORS    e: they say e + u, and e becomes what did not arrive. All who may send learn, `counts` says who sends.
 *     CONTROLS  c_k: they step along g - c_k + c, and c_k becomes c_k - c + u / period. They send updates as they are.
 */
struct memory {
    int32_t kind;          /* one of these */
    float period;
    float *rows;           /* [clients][dim] */
    const float *common;   /* [dim] c */
    const uint8_t *counts; /* [windows][clients] */
};

enum { SILENCE, DIFFERENCE, WHOLE_MODEL };

/* What goes down after a window, where clients have a copy of the model that is not the model: methods/broadcast.py. */
struct broadcast {
    int32_t on;
    int32_t levels;
    int64_t blocks;
    struct coding coding; /* its bits are [windows] */
    float *copy;          /* [dim], of the first window; afterwards that behind the last */
    const uint8_t *kinds; /* [windows], one of these */
};

struct window {
    struct model model;
    int32_t steps, clients, threads;
    int32_t moves;          /* senders take local steps */
    float step_size;        /* of those */
    int32_t windows;        /* that follow each other */
    float descent;          /* after each of them params -= descent * total, if anyone sent; 0: they stay */
    uint32_t seed;
    uint32_t step;          /* of the window at hand */
    uint32_t first;         /* number of the first client: others may be elsewhere */
    int64_t features;       /* numbers in a sample */
    float *params;
    const float *samples;
    const void *targets;    /* int32 classes or float32 numbers */
    const uint32_t *ends;   /* [windows], the last step of each */
    const int32_t *order;   /* [windows][steps][clients], negative: absent */
    const uint8_t *sends;   /* [windows][clients] */
    const float *rates;     /* [clients] */
    float *scratch;         /* `scratch_floats` of them */
    double *losses, *errors; /* [windows][slots][steps] */
    double *squares;        /* [windows], of the norm of the model */
    float *total;           /* [dim], of the last window */
    struct sending sending;
    struct steering steering; /* then `sends` are all who may send, and `rates` are 1 */
    struct memory memory;     /* then `rates` are 1 */
    struct broadcast broadcast;
};

static int make(const struct model *model, struct network *network) {
    return make_network(model->stages, model->count, model->places, network);
}

/* Everything starts at a cache line, and has a vector of room at its end. */
INLINE size_t room(size_t floats) { return rounded_up(floats + LANES, CHANNELS); }

struct shared {
    const struct window *window;
    struct network network;
    int slots;
    size_t slot_room;
    float *flat, *inner, *packed; /* the model that clients have, in three orders */
    float *sums, *threads;        /* [slots] sums; scratch of each thread */
    size_t thread_room;
    uint8_t used[MAX_SLOTS];
};

struct worker { /* scratch of one thread */
    float *own, *packed, *gradient, *sum, *update, *scales, *units, *beside;
    struct item items[MAX_BATCH];
    int moved; /* whether the sender at hand has taken a step of its own */
    int flat;  /* whether its gradient lies in `update`, not in `sum` */
};

/* Depends on the work alone: the order of adding must not depend on the machine. */
static int slot_count(const struct network *n, int64_t clients) {
    int64_t slots = (clients + CLIENTS_PER_SLOT - 1) / CLIENTS_PER_SLOT, most = clients * (int64_t)n->dim / SLOT_WORK;
    most = most < MIN_SLOTS ? MIN_SLOTS : most > MAX_SLOTS ? MAX_SLOTS : most;
    return (int)(slots < most ? slots : most);
}

static size_t slot_floats(const struct network *n) { return room(n->inner > n->dim ? n->inner : n->dim); }

static size_t take(float **at, float *base, size_t used, size_t floats) {
    if (base) *at = base + used;
    return used + room(floats);
}

/* Lays out the scratch of one thread from `base` on; returns its size. */
static size_t lay_out(const struct network *n, float *base, struct worker *w) {
    size_t used = 0;
    used = take(&w->own, base, used, n->inner);
    used = take(&w->packed, base, used, n->packed);
    used = take(&w->gradient, base, used, n->inner);
    used = take(&w->sum, base, used, n->inner);
    used = take(&w->update, base, used, n->dim);
    used = take(&w->scales, base, used, n->dim);
    used = take(&w->units, base, used, n->dim);
    used = take(&w->beside, base, used, n->inner > n->dim ? n->inner : n->dim);
    for (int i = 0; i < n->batch; i++) {
        used = take(&w->items[i].cache, base, used, n->cache);
        used = take(&w->items[i].outputs, base, used, n->outputs);
        used = take(&w->items[i].deltas, base, used, n->outputs);
    }
    return used;
}

/* As many threads as the work is worth, in parameters times samples or the like. */
static int worth(int threads, double effort, int tasks) {
    int most = threads < tasks ? threads : tasks;
    return effort < WORTH_A_THREAD * most ? 1 + (int)(effort / WORTH_A_THREAD) : most;
}

#endif
