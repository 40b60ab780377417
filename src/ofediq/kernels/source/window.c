/* One window of a federated method: what clients predict, and what the senders' updates add up to.
 *
 * Clients are outside and time is inside: a client's parameters, gradient and update stay in the cache of the core
 * that works on it, and no array of all updates exists. Clients are cut into slots by their number alone; each slot
 * is summed in order, and the slots are added in order, so that the result does not depend on the threads.
 */
#include <math.h>

#include "grid.h"
#include "network.h"
#include "rotated.h"
#include "threads.h"

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

enum { PLAIN, QUANTIZED, ROTATED, ON_GRID };

struct sending {
    int32_t form;         /* one of these */
    int32_t levels;
    int64_t blocks;
    struct coding coding; /* then bits are counted */
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
    float *inner, *packed, *sums, *threads; /* common model twice; [slots] sums; scratch of each thread */
    size_t thread_room;
    uint8_t used[MAX_SLOTS];
};

struct worker { /* scratch of one thread */
    float *own, *packed, *gradient, *sum, *update, *scales, *units;
    struct item items[MAX_BATCH];
    int moved; /* whether the sender at hand has taken a step of its own */
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
    for (int i = 0; i < n->batch; i++) {
        used = take(&w->items[i].cache, base, used, n->cache);
        used = take(&w->items[i].outputs, base, used, n->outputs);
        used = take(&w->items[i].deltas, base, used, n->outputs);
    }
    return used;
}

API int64_t scratch_floats(const struct model *model, int32_t clients, int32_t threads) {
    struct network network;
    struct worker worker;
    if (!make(model, &network)) return -1;
    return (int64_t)(room(network.inner) + room(network.packed) + slot_count(&network, clients) * slot_floats(&network) +
                     threads * lay_out(&network, NULL, &worker));
}

/* Numbers in the inner order, and where they come from: for a caller whose flat order is another one. */
API int64_t inner_floats(const struct model *model) {
    struct network network;
    return make(model, &network) ? (int64_t)network.inner : -1;
}

API void to_inner(const struct model *model, const float *flat, float *inner) {
    struct network network;
    if (make(model, &network)) import_flat(&network, flat, inner);
}

/* For the caller to compare with its own idea of the structure. */
API int64_t window_bytes(void) { return sizeof(struct window); }

/* And of the numbers that both sides have. */
API void shared_numbers(double *to) {
    const double numbers[] = {GRID_LEVELS, CLASSES, MAX_NORM, TINY, MAX_LAYERS, MAX_THREADS, BOOK};
    memcpy(to, numbers, sizeof numbers);
}

API int32_t slots_of(const struct model *model, int32_t clients) {
    struct network network;
    return make(model, &network) ? slot_count(&network, clients) : -1;
}

/* Loss and error of one sample, and the derivatives by the outputs times `factor`. */
static void head(const struct model *model, int outputs, const struct item *item, const void *targets, int64_t row,
                 float factor, double *loss, double *error) {
    const float *out = item->outputs;
    float *deltas = item->deltas;
    if (model->regression) {
        float residual = out[0] - ((const float *)targets)[row];
        *loss = *error = residual * residual;
        deltas[0] = 2 * residual * factor;
        return;
    }
    int32_t target = ((const int32_t *)targets)[row];
    int best = 0;
    for (int c = 1; c < outputs; c++)
        if (out[c] > out[best]) best = c;
    float total = 0;
    for (int c = 0; c < outputs; c++) total += deltas[c] = expf(out[c] - out[best]);
    int known = target >= 0 && target < outputs;
    *loss = logf(total) - (known ? out[target] - out[best] : 0);
    *error = best != target;
    for (int c = 0; c < outputs; c++) deltas[c] = (deltas[c] / total - (c == target)) * factor;
}

/* One sample that one client sees. */
struct sight {
    int32_t client, step, row;
    int first, last; /* whether it is the client's first or last one in this window */
};

/* Senders that take steps of their own. */
INLINE int moves(const struct window *w) { return w->moves && w->steps > 1; }

/* Gradients go straight into the sum: all are taken at the common model and sent as they are. */
INLINE int direct(const struct window *w) { return !moves(w) && w->sending.form == PLAIN; }

/* One more step of a sender that moves: sum += gradient at its own model, which then takes a step. */
static void move(const struct shared *s, struct worker *t, struct item *item, const struct sight *sight) {
    const struct window *w = s->window;
    const struct network *n = &s->network;
    const float *at = t->moved ? t->own : s->inner;
    double loss, error;
    if (t->moved) {
        pack(n, t->own, t->packed);
        forward(n, t->own, t->packed, item, 1);
        head(&w->model, n->outputs, item, w->targets, sight->row, 1, &loss, &error);
    }
    memset(t->gradient, 0, n->inner * sizeof(float));
    backward(n, at, item, 1, t->gradient);
    if (w->model.penalty != 0) add_scaled(t->gradient, w->model.penalty, at, n->inner);
    for (size_t i = 0; i < n->inner; i += LANES) {
        vec gradient = load(t->gradient + i);
        store(t->sum + i, load(t->sum + i) + gradient);
        if (!sight->last) store(t->own + i, load(at + i) - w->step_size * gradient);
    }
    t->moved = 1;
}

/* For a steered method: whether the update is sent, as likely as its norm says. It is divided by that. */
static int is_sent(const struct shared *s, struct worker *t, int client, float *norm) {
    const struct steering *g = &s->window->steering;
    *norm = (float)sqrt(sum_of_squares(t->update, (int64_t)s->network.dim));
    float rate = probability(g, *norm);
    g->sent[client] = g->draws[client] < rate;
    if (!g->sent[client]) return 0;
    scale(t->update, 1 / rate, s->network.dim);
    *norm /= rate;
    return 1;
}

/* total += what the server receives of the update in `t->sum`, which clients that do not move have divided by their
 * rate before, where it cost nothing. */
static void deliver(const struct shared *s, struct worker *t, int client, float *total) {
    const struct window *w = s->window;
    const struct network *n = &s->network;
    const struct sending *sending = &w->sending;
    if (sending->form == PLAIN) {
        add_scaled(total, 1 / w->rates[client], t->sum, n->inner);
        return;
    }
    float norm = 0, bits = 0;
    export_flat(n, t->sum, t->update);
    memset(t->update + n->dim, 0, LANES * sizeof(float));
    if (w->steering.on && !is_sent(s, t, client, &norm)) return;
    if (!w->steering.on && moves(w)) scale(t->update, 1 / w->rates[client], n->dim);
    struct quantizer quantizer = {(int64_t)n->dim, sending->blocks, sending->levels};
    const struct coding *coding = &sending->coding;
    uint32_t key[2], turn[2];
    stream_key(w->seed, w->step, w->first + (uint32_t)client, ROUND, key);
    if (sending->form == ON_GRID) {
        bits = add_on_grid(coding, w->steering.step, own_step(&w->steering, norm), t->update, (int64_t)n->dim, key,
                           total);
    } else if (sending->form == ROTATED) {
        struct counted found = {.dead = 0};
        struct dithered scratch = {t->gradient, t->sum, (uint32_t *)t->scales, t->units};
        stream_key(w->seed, w->step, w->first + (uint32_t)client, ROTATE, turn);
        add_rotated(&quantizer, t->update, key, turn, scratch, total, coding->classes ? &found : NULL);
        if (coding->classes) bits = payload_bits(coding, &found, quantizer.dim, quantizer.blocks);
    } else if (coding->classes) {
        bits = add_coded(coding, &quantizer, t->update, key, t->scales, t->units, total);
    } else {
        add_quantized(&quantizer, t->update, key, t->scales, t->units, total);
    }
    if (coding->classes) coding->bits[client] = bits;
}

/* What a sender learns from one sample, into its own sum; with the last one it sends. */
static void learn(const struct shared *s, struct worker *t, struct item *item, const struct sight *sight,
                  float *total) {
    const struct window *w = s->window;
    const struct network *n = &s->network;
    if (sight->first) {
        memset(t->sum, 0, n->inner * sizeof(float));
        t->moved = 0;
    }
    if (moves(w)) {
        move(s, t, item, sight);
    } else {
        backward(n, s->inner, item, 1, t->sum);
        if (w->model.penalty != 0)
            add_scaled(t->sum, w->model.penalty / w->rates[sight->client], s->inner, n->inner);
    }
    if (sight->last) deliver(s, t, sight->client, total);
}

/* Some samples under the common model, then what their clients do with them. Returns the weight of the gradients that
 * went straight into the sum: the penalty's share of them is added later, at once. */
static float watch(const struct shared *s, struct worker *t, const struct sight *sights, int count, double *losses,
                   double *errors, float *total) {
    const struct window *w = s->window;
    const struct network *n = &s->network;
    struct item senders[MAX_BATCH];
    int sending = 0;
    float weight = 0;
    for (int i = 0; i < count; i++) {
        t->items[i].sample = w->samples + (size_t)sights[i].row * w->features;
        t->items[i].learns = w->sends[sights[i].client];
    }
    forward(n, s->inner, s->packed, t->items, count);
    for (int i = 0; i < count; i++) {
        double loss, error;
        float factor = t->items[i].learns && !moves(w) ? 1 / w->rates[sights[i].client] : 1;
        head(&w->model, n->outputs, t->items + i, w->targets, sights[i].row, factor, &loss, &error);
        losses[sights[i].step] += loss;
        errors[sights[i].step] += error;
        if (!t->items[i].learns) continue;
        if (direct(w)) {
            senders[sending++] = t->items[i];
            weight += factor;
        } else {
            learn(s, t, t->items + i, sights + i, total);
        }
    }
    if (sending) backward(n, s->inner, senders, sending, total);
    return weight;
}

static void run_slot(void *job, int worker, int slot) {
    struct shared *s = job;
    const struct window *w = s->window;
    struct worker scratch, *t = &scratch;
    lay_out(&s->network, s->threads + worker * s->thread_room, t);
    int begin = (int)((int64_t)slot * w->clients / s->slots), end = (int)((int64_t)(slot + 1) * w->clients / s->slots);
    double *losses = w->losses + (size_t)slot * w->steps, *errors = w->errors + (size_t)slot * w->steps;
    float *total = s->sums + slot * s->slot_room, weight = 0;
    struct sight sights[MAX_BATCH];
    int count = 0;
    memset(losses, 0, w->steps * sizeof(double));
    memset(errors, 0, w->steps * sizeof(double));
    s->used[slot] = 0;
    for (int client = begin; client < end; client++) s->used[slot] |= w->sends[client] != 0;
    if (s->used[slot]) memset(total, 0, s->slot_room * sizeof(float));
    for (int client = begin; client < end; client++) {
        const int32_t *rows = w->order + client;
        int first = 1, last = w->steps - 1;
        while (last >= 0 && rows[(size_t)last * w->clients] < 0) last--;
        for (int step = 0; step <= last; step++) {
            int32_t row = rows[(size_t)step * w->clients];
            if (row < 0) continue;
            sights[count++] = (struct sight){client, step, row, first, step == last};
            first = 0;
            if (count < s->network.batch) continue;
            weight += watch(s, t, sights, count, losses, errors, total);
            count = 0;
        }
    }
    if (count) weight += watch(s, t, sights, count, losses, errors, total);
    if (w->model.penalty != 0 && weight != 0)
        add_scaled(total, w->model.penalty * weight, s->inner, s->network.inner);
}

/* Sums of all slots, in their order, for some of the coordinates; the result is in the first slot. */
enum { SPAN = 2048 };

static void add_slots(void *job, int worker, int part) {
    (void)worker;
    struct shared *s = job;
    size_t begin = (size_t)part * SPAN, end = begin + SPAN < s->slot_room ? begin + SPAN : s->slot_room;
    float *first = s->sums;
    if (!s->used[0]) memset(first + begin, 0, (end - begin) * sizeof(float));
    for (int slot = 1; slot < s->slots; slot++) {
        if (!s->used[slot]) continue;
        const float *other = s->sums + slot * s->slot_room;
        for (size_t i = begin; i < end; i += LANES) store(first + i, load(first + i) + load(other + i));
    }
}

/* As many threads as the work is worth, in parameters times samples or the like. */
static int worth(const struct window *w, double effort, int tasks) {
    int threads = w->threads < tasks ? w->threads : tasks;
    return effort < WORTH_A_THREAD * threads ? 1 + (int)(effort / WORTH_A_THREAD) : threads;
}

static int is_possible(const struct sending *sending, int64_t dim) {
    if (sending->coding.classes < 0 || sending->coding.classes > CLASSES) return 0;
    int alone = sending->form == PLAIN || sending->form == ON_GRID;
    return alone || (sending->levels > 0 && sending->blocks > 0 && sending->blocks <= dim);
}

static void run_one(struct shared *s) {
    const struct window *w = s->window;
    const struct network *n = &s->network;
    int parts = (int)((s->slot_room + SPAN - 1) / SPAN);
    import_flat(n, w->params, s->inner);
    pack(n, s->inner, s->packed);
    *w->squares = sum_of_squares(s->inner, (int64_t)n->inner);
    run_tasks(run_slot, s, s->slots, worth(w, (double)w->steps * w->clients * n->inner, s->slots));
    run_tasks(add_slots, s, parts, worth(w, (double)s->slots * s->slot_room / 2, parts));
    if (w->sending.form != PLAIN)
        memcpy(w->total, s->sums, n->dim * sizeof(float));
    else
        export_flat(n, s->sums, w->total);
    if (w->descent == 0 || !memchr(w->sends, 1, w->clients)) return;
    for (size_t at = 0; at < n->dim; at++) w->params[at] -= w->descent * w->total[at];
}

/* Returns 0, or 1 if the arguments cannot be run. */
API int32_t run_windows(const struct window *all) {
    struct window w = *all;
    struct shared s = {.window = &w};
    struct worker worker;
    if (!make(&w.model, &s.network)) return 1;
    if (w.threads < 1 || w.threads > MAX_THREADS || w.steps < 1 || w.clients < 1) return 1;
    if (!is_possible(&w.sending, (int64_t)s.network.dim) || (w.steering.on && w.windows > 1)) return 1;
    const struct network *n = &s.network;
    s.slots = slot_count(n, w.clients);
    s.slot_room = slot_floats(n);
    s.inner = w.scratch;
    s.packed = s.inner + room(n->inner);
    s.sums = s.packed + room(n->packed);
    s.threads = s.sums + s.slots * s.slot_room;
    s.thread_room = lay_out(n, NULL, &worker);
    for (int window = 0; window < w.windows; window++) {
        w.step = w.ends[window];
        run_one(&s);
        w.order += (size_t)w.steps * w.clients;
        w.sends += w.clients;
        w.losses += s.slots * w.steps;
        w.errors += s.slots * w.steps;
        w.squares++;
        if (w.sending.coding.classes) w.sending.coding.bits += w.clients;
    }
    return 0;
}

/* The quantisers alone: total += what is decoded from `update` of `client`. Arrays have 16 floats of room. */
API void quantize_add(int32_t form, const float *update, int64_t dim, int32_t levels, int64_t blocks, uint32_t seed,
                      uint32_t step, uint32_t client, float *const scratch[4], float *total) {
    struct quantizer quantizer = {dim, blocks, levels};
    struct dithered dithered = {scratch[0], scratch[1], (uint32_t *)scratch[2], scratch[3]};
    uint32_t key[2], turn[2];
    stream_key(seed, step, client, ROUND, key);
    stream_key(seed, step, client, ROTATE, turn);
    if (form == ROTATED)
        add_rotated(&quantizer, update, key, turn, dithered, total, NULL);
    else
        add_quantized(&quantizer, update, key, scratch[0], scratch[1], total);
}

#include "coding.h"
#include "packed.h"
#include "rows.h"
#include "samples.h"
#include "xla.h"
