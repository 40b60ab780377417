/* One window of a federated method: what clients predict, and what the senders' updates add up to.
 *
 * Clients are outside and time is inside: a client's parameters, gradient and update stay in the cache of the core
 * that works on it, and no array of all updates exists. Clients are cut into slots by their number alone; each slot
 * is summed in order, and the slots are added in order, so that the result does not depend on the threads.
 */
#include "senders.h"
#include "threads.h"

#define ASKED_FOR 4096 /* bytes of a sample that are asked for ahead: processors find the rest themselves */

API int64_t scratch_floats(const struct model *model, int32_t clients, int32_t threads) {
    struct network network;
    struct worker worker;
    if (!make(model, &network)) return -1;
    return (int64_t)(room(network.dim) + room(network.inner) + room(network.packed) + slot_count(&network, clients) * slot_floats(&network) +
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
    const double numbers[] = {GRID_LEVELS, CLASSES, MAX_NORM, TINY, MAX_LAYERS, MAX_THREADS, BOOK,
                              ACTIVATIONS, sizeof(struct stage) / sizeof(int32_t)};
    memcpy(to, numbers, sizeof numbers);
}

API int32_t slots_of(const struct model *model, int32_t clients) {
    struct network network;
    return make(model, &network) ? slot_count(&network, clients) : -1;
}

/* Some samples under the common model, then what their clients do with them. Returns the weight of the gradients that
 * went straight into the sum: the penalty's share of them is added later, at once. */
static float observe(const struct shared *s, struct worker *t, const struct observation *observed, int count, double *losses,
                   double *errors, float *total) {
    const struct window *w = s->window;
    const struct network *n = &s->network;
    struct item senders[MAX_BATCH];
    int sending = 0;
    float weight = 0;
    for (int i = 0; i < count; i++) {
        t->items[i].sample = w->samples + (size_t)observed[i].row * w->features;
        t->items[i].learns = w->sends[observed[i].client];
    }
    forward(n, s->inner, s->packed, t->items, count);
    for (int i = 0; i < count; i++) {
        double loss, error;
        float factor = t->items[i].learns && !moves(w) ? 1 / w->rates[observed[i].client] : 1;
        head(&w->model, n->outputs, t->items + i, w->targets, observed[i].row, factor, &loss, &error);
        losses[observed[i].step] += loss;
        errors[observed[i].step] += error;
        if (!t->items[i].learns) continue;
        if (direct(w)) {
            senders[sending++] = t->items[i];
            weight += factor;
        } else {
            learn(s, t, t->items + i, observed + i, total);
        }
    }
    if (sending) backward(n, s->inner, senders, sending, total);
    return weight;
}

/* Asks for a sample that is wanted soon: they lie anywhere. */
INLINE void ask_for(const struct window *w, int32_t row) {
    const char *from = (const char *)(w->samples + (size_t)(row < 0 ? 0 : row) * w->features);
    size_t bytes = w->features * sizeof(float);
    for (size_t at = 0; at < bytes && at < ASKED_FOR; at += 64) __builtin_prefetch(from + at);
}

static void run_slot(void *job, int worker, int slot) {
    struct shared *s = job;
    const struct window *w = s->window;
    struct worker scratch, *t = &scratch;
    lay_out(&s->network, s->threads + worker * s->thread_room, t);
    int begin = (int)((int64_t)slot * w->clients / s->slots), end = (int)((int64_t)(slot + 1) * w->clients / s->slots);
    double *losses = w->losses + (size_t)slot * w->steps, *errors = w->errors + (size_t)slot * w->steps;
    float *total = s->sums + slot * s->slot_room, weight = 0;
    struct observation observed[MAX_BATCH];
    int count = 0;
    memset(losses, 0, w->steps * sizeof(double));
    memset(errors, 0, w->steps * sizeof(double));
    s->used[slot] = 0;
    for (int client = begin; client < end; client++) s->used[slot] |= w->sends[client] != 0;
    if (s->used[slot]) memset(total, 0, s->slot_room * sizeof(float));
    for (int client = begin; client < end; client++) {
        const int32_t *rows = w->order + client;
        if (client + s->network.batch < end) ask_for(w, rows[s->network.batch]);
        int first = 1, last = w->steps - 1;
        while (last >= 0 && rows[(size_t)last * w->clients] < 0) last--;
        for (int step = 0; step <= last; step++) {
            int32_t row = rows[(size_t)step * w->clients];
            if (row < 0) continue;
            observed[count++] = (struct observation){client, step, row, first, step == last};
            first = 0;
            if (count < s->network.batch) continue;
            weight += observe(s, t, observed, count, losses, errors, total);
            count = 0;
        }
    }
    if (count) weight += observe(s, t, observed, count, losses, errors, total);
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

static int is_possible(const struct sending *sending, int64_t dim) {
    if (sending->coding.classes < 0 || sending->coding.classes > CLASSES) return 0;
    if (sending->form == LARGEST) return sending->keep > 0 && sending->keep <= dim;
    int alone = sending->form == PLAIN || sending->form == ON_GRID;
    return alone || (sending->levels > 0 && sending->blocks > 0 && sending->blocks <= dim);
}

/* What is remembered goes with what is sent. */
static int is_remembered(const struct window *w) {
    if (w->memory.kind == ERRORS) return w->sending.form != PLAIN && w->sending.form != ON_GRID && !w->moves;
    if (w->memory.kind == CONTROLS) return w->sending.form == PLAIN && w->moves;
    return w->memory.kind == NOTHING && w->sending.form != LARGEST;
}

static void run_one(struct shared *s) {
    const struct window *w = s->window;
    const struct network *n = &s->network;
    int parts = (int)((s->slot_room + SPAN - 1) / SPAN);
    import_flat(n, s->flat, s->inner);
    pack(n, s->inner, s->packed);
    *w->squares = sum_of_squares(s->inner, (int64_t)n->inner);
    run_tasks(run_slot, s, s->slots, worth(w->threads, (double)w->steps * w->clients * n->inner, s->slots));
    run_tasks(add_slots, s, parts, worth(w->threads, (double)s->slots * s->slot_room / 2, parts));
    if (w->sending.form != PLAIN)
        memcpy(w->total, s->sums, n->dim * sizeof(float));
    else
        export_flat(n, s->sums, w->total);
    if (w->descent == 0 || !memchr(w->sends, 1, w->clients)) return;
    for (size_t at = 0; at < n->dim; at++) w->params[at] -= w->descent * w->total[at];
}

/* The clients' next copy of the model: the model itself, or moved by a quantised difference. */
static void tell_clients(const struct shared *s) {
    const struct window *w = s->window;
    const struct broadcast *b = &w->broadcast;
    size_t dim = s->network.dim;
    if (!b->on || *b->kinds == WHOLE_MODEL) memcpy(s->flat, w->params, dim * sizeof(float));
    if (!b->on || *b->kinds != DIFFERENCE) return;
    struct quantizer quantizer = {(int64_t)dim, b->blocks, b->levels, 0};
    struct worker t;
    uint32_t key[2];
    lay_out(&s->network, s->threads, &t);
    stream_key(w->seed, w->step, SERVER, ROUND, key);
    for (size_t i = 0; i < dim; i++) t.update[i] = w->params[i] - s->flat[i];
    memset(t.update + dim, 0, LANES * sizeof(float));
    if (b->coding.classes)
        *b->coding.bits = add_coded(&b->coding, &quantizer, t.update, key, t.scales, t.units, s->flat);
    else
        add_quantized(&quantizer, t.update, key, t.scales, t.units, s->flat);
}

static int can_be_told(const struct broadcast *b, int64_t dim) {
    int sized = b->levels > 0 && b->blocks > 0 && b->blocks <= dim;
    return !b->on || (sized && b->coding.classes >= 0 && b->coding.classes <= CLASSES);
}

/* Returns 0, or 1 if the arguments cannot be run. */
API int32_t run_windows(const struct window *all) {
    struct window w = *all;
    struct shared s = {.window = &w};
    struct worker worker;
    if (!make(&w.model, &s.network)) return 1;
    if (w.threads < 1 || w.threads > MAX_THREADS || w.steps < 1 || w.clients < 1) return 1;
    if (!is_possible(&w.sending, (int64_t)s.network.dim) || (w.steering.on && w.windows > 1)) return 1;
    if (!is_remembered(&w) || !can_be_told(&w.broadcast, (int64_t)s.network.dim)) return 1;
    const struct network *n = &s.network;
    s.slots = slot_count(n, w.clients);
    s.slot_room = slot_floats(n);
    s.flat = w.scratch;
    s.inner = s.flat + room(n->dim);
    s.packed = s.inner + room(n->inner);
    s.sums = s.packed + room(n->packed);
    s.threads = s.sums + s.slots * s.slot_room;
    s.thread_room = lay_out(n, NULL, &worker);
    memset(s.flat, 0, room(n->dim) * sizeof(float));
    memcpy(s.flat, w.broadcast.on ? w.broadcast.copy : w.params, n->dim * sizeof(float));
    for (int window = 0; window < w.windows; window++) {
        w.step = w.ends[window];
        run_one(&s);
        tell_clients(&s);
        w.broadcast.kinds += w.broadcast.on;
        if (w.broadcast.coding.classes) w.broadcast.coding.bits++;
        w.order += (size_t)w.steps * w.clients;
        w.sends += w.clients;
        if (w.memory.counts) w.memory.counts += w.clients;
        w.losses += s.slots * w.steps;
        w.errors += s.slots * w.steps;
        w.squares++;
        if (w.sending.coding.classes) w.sending.coding.bits += w.clients;
    }
    if (w.broadcast.on) memcpy(w.broadcast.copy, s.flat, n->dim * sizeof(float));
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

/* The quantiser of `rows` updates of one shape, each with room at its end, as symbols and norms; scratch is a number for
 * each block. */
API void quantize_rows(const float *updates, int64_t rows, int64_t stride, int64_t dim, int32_t levels, int64_t blocks,
                       const uint32_t *keys, float *scratch, int32_t *symbols, float *norms) {
    struct quantizer quantizer = {dim, blocks, levels};
    for (int64_t row = 0; row < rows; row++)
        write_symbols(&quantizer, updates + row * stride, keys + 2 * row, scratch, norms + row * blocks,
                      symbols + row * stride);
}

#include "message.h"
#include "packed.h"
#include "rows.h"
#include "samples.h"
#include "xla.h"
