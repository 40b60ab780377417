/* What a client does with a sample: the head of the model, local steps, and the update that it sends. */
#ifndef OFEDIQ_SENDERS_H
#define OFEDIQ_SENDERS_H

#include <math.h>

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
INLINE int moves(const struct window *w) { return w->moves && w->steps > 1; }

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

/* total += what the server receives of the update in `t->sum`, which clients that do not move have divided by their
 * rate before, where it cost nothing. */
static void send_update(const struct shared *s, struct worker *t, int client, float *total) {
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
    if (!w->steering.on && sending->form == ON_GRID)
        norm = (float)sqrt(sum_of_squares(t->update, (int64_t)n->dim));
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
static void learn(const struct shared *s, struct worker *t, struct item *item, const struct observation *one,
                  float *total) {
    const struct window *w = s->window;
    const struct network *n = &s->network;
    if (one->first) {
        memset(t->sum, 0, n->inner * sizeof(float));
        t->moved = 0;
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
