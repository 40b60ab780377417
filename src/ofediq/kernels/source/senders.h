/* What a client does with a sample: the head of the model, local steps, and the update that it sends. */
#ifndef OFEDIQ_SENDERS_H
#define OFEDIQ_SENDERS_H

#include <math.h>

#include "largest.h"
#include "layout.h"
#include "rotated.h"

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
struct observation {
    int32_t client, step, row;
    int first, last; /* whether it is the client's first or last one in this window */
};

/* Senders that take steps of their own. */
INLINE int moves(const struct window *w) {
    return w->moves && (w->steps > 1 || w->memory.kind == CONTROLS);
}

/* Gradients go straight into the sum: all are taken at the common model and sent as they are. */
INLINE int direct(const struct window *w) { return !moves(w) && w->sending.form == PLAIN; }

/* One more step of a sender that moves: sum += gradient at its own model, which then takes a step. */
static void move(const struct shared *s, struct worker *t, struct item *item, const struct observation *one) {
    const struct window *w = s->window;
    const struct network *n = &s->network;
    const float *at = t->moved ? t->own : s->inner;
    double loss, error;
    if (t->moved) {
        pack(n, t->own, t->packed);
        forward(n, t->own, t->packed, item, 1);
        head(&w->model, n->outputs, item, w->targets, one->row, 1, &loss, &error);
    }
    memset(t->gradient, 0, n->inner * sizeof(float));
    backward(n, at, item, 1, t->gradient);
    if (w->model.penalty != 0) add_scaled(t->gradient, w->model.penalty, at, n->inner);
    if (w->memory.kind == CONTROLS) add_scaled(t->gradient, 1, t->beside, n->inner);
    for (size_t i = 0; i < n->inner; i += LANES) {
        vec gradient = load(t->gradient + i);
        store(t->sum + i, load(t->sum + i) + gradient);
        if (!one->last) store(t->own + i, load(at + i) - w->step_size * gradient);
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

INLINE float *remembered(const struct window *w, const struct network *n, int client) {
    return w->memory.rows + (size_t)client * n->dim;
}

/* c - c_k, which goes beside every gradient of the window. */
static void open_control(const struct shared *s, struct worker *t, int client) {
    const float *row = remembered(s->window, &s->network, client), *common = s->window->memory.common;
    for (size_t i = 0; i < s->network.dim; i++) t->update[i] = common[i] - row[i];
    import_flat(&s->network, t->update, t->beside);
}

/* c_k <- c_k - c + u / period. */
static void settle_control(const struct shared *s, struct worker *t, int client) {
    const struct memory *memory = &s->window->memory;
    float *row = remembered(s->window, &s->network, client);
    export_flat(&s->network, t->sum, t->update);
    for (size_t i = 0; i < s->network.dim; i++) row[i] += t->update[i] / memory->period - memory->common[i];
}

/* total += the largest coordinates of `row`, which loses them. Returns the bits of the message. */
static float add_largest(const struct sending *sending, struct worker *t, float *row, int64_t dim, float *total) {
    int32_t *where = (int32_t *)t->beside, live = 0;
    find_largest(row, dim, sending->keep, (int32_t *)t->scales, (uint32_t *)t->units, where);
    for (int64_t i = 0; i < sending->keep; i++) {
        float value = row[where[i]];
        live |= value != 0;
        total[where[i]] += value;
        row[where[i]] = value - value; /* no number stays none */
    }
    return live ? 8 * (float)sending->coding.fixed : 0;
}

/* total += what the server receives of `t->update`, of this norm where that matters. Returns the bits of the message,
 * where they are counted. */
static float add_message(const struct shared *s, struct worker *t, int client, float norm, float *total) {
    const struct window *w = s->window;
    const struct sending *sending = &w->sending;
    const struct coding *coding = &sending->coding;
    int32_t dense = w->model.penalty != 0;
    struct quantizer quantizer = {(int64_t)s->network.dim, sending->blocks, sending->levels, dense};
    uint32_t key[2], turn[2];
    stream_key(w->seed, w->step, w->first + (uint32_t)client, ROUND, key);
    if (sending->form == ON_GRID)
        return add_on_grid(coding, w->steering.step, own_step(&w->steering, norm), t->update, quantizer.dim, key, total);
    if (sending->form == ROTATED) {
        struct counted found = {.dead = 0};
        struct dithered scratch = {t->gradient, t->sum, (uint32_t *)t->scales, t->units};
        stream_key(w->seed, w->step, w->first + (uint32_t)client, ROTATE, turn);
        add_rotated(&quantizer, t->update, key, turn, scratch, total, coding->classes ? &found : NULL);
        return coding->classes ? payload_bits(coding, &found, quantizer.dim, quantizer.blocks) : 0;
    }
    if (coding->classes) return add_coded(coding, &quantizer, t->update, key, t->scales, t->units, total);
    add_quantized(&quantizer, t->update, key, t->scales, t->units, total);
    return 0;
}

/* e + u is said by those who send; what the server did not get of it stays in e. */
static float send_with_errors(const struct shared *s, struct worker *t, int client, float *total) {
    const struct window *w = s->window;
    size_t dim = s->network.dim;
    float *row = remembered(w, &s->network, client), bits;
    for (size_t i = 0; i < dim; i++) row[i] += t->update[i];
    if (!w->memory.counts[client]) return 0;
    if (w->sending.form == LARGEST) return add_largest(&w->sending, t, row, (int64_t)dim, total);
    memcpy(t->update, row, dim * sizeof(float));
    memset(t->beside, 0, room(dim) * sizeof(float));
    bits = add_message(s, t, client, 0, t->beside);
    for (size_t i = 0; i < dim; i++) row[i] -= t->beside[i];
    add_scaled(total, 1, t->beside, dim);
    return bits;
}

/* total += what the server receives of the update in `t->sum` or `t->update`, which clients that do not move have divided by their
 * rate before, where it cost nothing. */
static void send_update(const struct shared *s, struct worker *t, int client, float *total) {
    const struct window *w = s->window;
    const struct network *n = &s->network;
    const struct sending *sending = &w->sending;
    if (sending->form == PLAIN) {
        add_scaled(total, 1 / w->rates[client], t->sum, n->inner);
        if (w->memory.kind == CONTROLS) settle_control(s, t, client);
        return;
    }
    float norm = 0, bits;
    if (!t->flat) export_flat(n, t->sum, t->update);
    memset(t->update + n->dim, 0, LANES * sizeof(float));
    if (w->steering.on && !is_sent(s, t, client, &norm)) return;
    if (!w->steering.on && moves(w)) scale(t->update, 1 / w->rates[client], n->dim);
    if (!w->steering.on && sending->form == ON_GRID)
        norm = (float)sqrt(sum_of_squares(t->update, (int64_t)n->dim));
    if (w->memory.kind == ERRORS)
        bits = send_with_errors(s, t, client, total);
    else
        bits = add_message(s, t, client, norm, total);
    if (sending->coding.classes) sending->coding.bits[client] = bits;
}

/* What a sender learns from one sample, into its own sum; with the last one it sends. */
static void learn(const struct shared *s, struct worker *t, struct item *item, const struct observation *one,
                  float *total) {
    const struct window *w = s->window;
    const struct network *n = &s->network;
    t->flat = one->first && one->last && !moves(w);
    if (t->flat) { /* the only one: nothing to add up */
        flat_gradient(n, s->inner, item, t->sum, t->update);
        if (w->model.penalty != 0) add_scaled(t->update, w->model.penalty / w->rates[one->client], s->flat, n->dim);
        send_update(s, t, one->client, total);
        return;
    }
    if (one->first) {
        memset(t->sum, 0, n->inner * sizeof(float));
        t->moved = 0;
        if (w->memory.kind == CONTROLS) open_control(s, t, one->client);
    }
    if (moves(w)) {
        move(s, t, item, one);
    } else {
        backward(n, s->inner, item, 1, t->sum);
        if (w->model.penalty != 0)
            add_scaled(t->sum, w->model.penalty / w->rates[one->client], s->inner, n->inner);
    }
    if (one->last) send_update(s, t, one->client, total);
}

#endif
