/* Reading a whole entropy-coded message (codec/entropy.py), models and all: in Python they take longer than the code.
 *
 * Only what is in order is read here. Everything else, and what is too short or too large for this reader, is left to
 * Python, which says what is wrong with it.
 */
#ifndef OFEDIQ_MESSAGE_H
#define OFEDIQ_MESSAGE_H

#include "coding.h"
#include "sizes.h"

enum { BOOK_FIRST = 128, LEAST_USE = 16, SHORT_NORM_SHIFT = 15 }; /* codec: tables, stack, arithmetic */

struct message {
    const uint8_t *payload;
    const int64_t *widths;  /* [classes] magnitudes in each */
    const int64_t *book;    /* [BOOK][classes] densities of the known tables, 0 behind their end */
    int64_t bytes, dim, blocks;
    int32_t classes, norm_bytes; /* 0: no norms are said, and no block is left out */
    int32_t *symbols;       /* [dim + MOST_GROUP], out */
    uint32_t *norms;        /* [blocks], out, as bit patterns */
};

struct weighed {
    int64_t weights[MOST_JOINT];
    int size;
};

/* tables.frequencies, in place; 0 if there is nothing to share. */
static int share(int64_t *weights, int size) {
    int64_t total = 0, given = 0, spare = (1 << PRECISION) - size;
    int most = 0;
    for (int n = 0; n < size; n++) {
        total += weights[n];
        if (weights[n] > weights[most]) most = n;
    }
    if (total <= 0) return 0;
    for (int n = 0; n < size; n++) given += weights[n] = weights[n] * spare / total;
    weights[most] += spare - given;
    for (int n = 0; n < size; n++) weights[n]++;
    return 1;
}

/* stack._joint: sums of the frequencies of groups of symbols, [size^group + 1]. */
static int join(const struct weighed *w, int group, uint32_t *starts, int32_t *size) {
    int64_t single[MOST_JOINT], joint[MOST_JOINT], before[MOST_JOINT];
    int many = w->size;
    memcpy(single, w->weights, w->size * sizeof(int64_t));
    if (!share(single, w->size)) return 0;
    memcpy(joint, single, w->size * sizeof(int64_t));
    for (int n = 1; n < group; n++) {
        memcpy(before, joint, many * sizeof(int64_t));
        for (int a = 0; a < many; a++)
            for (int b = 0; b < w->size; b++) joint[a * w->size + b] = before[a] * single[b] >> PRECISION;
        many *= w->size;
    }
    if (group > 1 && !share(joint, many)) return 0;
    starts[0] = 0;
    for (int n = 0; n < many; n++) starts[n + 1] = starts[n] + (uint32_t)joint[n];
    *size = many;
    return 1;
}

/* Stack.pop: symbols[0 .. count], with room for one group more. */
static int pop(struct stack *s, const struct weighed *w, int64_t count, int32_t lowest, int32_t *symbols) {
    int group = 1, padding = 0;
    int64_t most = count / LEAST_USE < MOST_JOINT ? count / LEAST_USE : MOST_JOINT;
    if (w->size == 1) {
        for (int64_t n = 0; n < count; n++) symbols[n] = lowest;
        return 1;
    }
    for (int64_t size = (int64_t)w->size * w->size; size <= most; size *= w->size) group++;
    uint32_t starts[MOST_JOINT + 1];
    struct reading reading;
    struct alphabet alphabet = {starts, 0, w->size, group, lowest};
    if (!join(w, group, starts, &alphabet.size) || !make_reading(&alphabet, &reading)) return 0;
    int64_t steps = (count + group - 1) / group;
    take_symbols(s, &reading, &alphabet, steps, symbols);
    for (int n = 1; n < w->size; n++)
        if (w->weights[n] > w->weights[padding]) padding = n;
    for (int64_t n = count; n < steps * group; n++)
        if (symbols[n] != padding + lowest) return 0;
    return 1;
}

static int64_t density(uint8_t code) { return code ? (int64_t)(8 + code % 8) << code / 8 : 0; }

/* tables.read_table: where it ends, or 0. */
static int64_t read_table(const struct message *m, int64_t start, int most, int64_t *densities, int *count) {
    int64_t any = 0;
    if (start >= m->bytes || (*count = m->payload[start] + 1) > most || start + 1 + *count > m->bytes) return 0;
    for (int n = 0; n < *count; n++) any |= densities[n] = density(m->payload[start + 1 + n]);
    return any ? start + 1 + *count : 0;
}

/* tables.read_model: the same for the weights of symbols from -top to top. */
static int64_t read_model(const struct message *m, int64_t start, struct weighed *w) {
    int64_t densities[CLASSES], stop = start + 1, top = -1;
    int count = m->classes;
    if (start < m->bytes && m->payload[start] >= BOOK_FIRST) {
        int entry = m->payload[start] - BOOK_FIRST;
        if (entry >= BOOK) return 0;
        memcpy(densities, m->book + (size_t)entry * m->classes, m->classes * sizeof(int64_t));
        while (count > 1 && !densities[count - 1]) count--;
    } else {
        stop = read_table(m, start, m->classes, densities, &count);
        if (!stop) return 0;
    }
    for (int class = 0; class < count; class++) top += m->widths[class];
    if (2 * top + 1 > MOST_JOINT) return 0;
    w->size = (int)(2 * top + 1);
    int64_t at = top;
    for (int class = 0; class < count; class++)
        for (int64_t n = 0; n < m->widths[class]; n++, at++) w->weights[at] = w->weights[2 * top - at] = densities[class];
    return stop;
}

/* The norms: plain, or by their classes, which are read into `classes` first. Returns 0 if one is not in order. */
static int pop_norms(const struct message *m, struct stack *s, const struct weighed *w, int32_t *classes) {
    int plain = m->blocks < PLAIN_NORMS, low = plain ? m->norm_bytes : m->norm_bytes - 1;
    if (!plain && !pop(s, w, m->blocks, 0, classes)) return 0;
    for (int64_t block = 0; block < m->blocks; block++) {
        uint32_t pattern = 0;
        int live = plain || classes[block];
        for (int n = 0; n < low && live; n++) pattern |= (uint32_t)take_byte(s) << 8 * n;
        if (!plain && live) pattern |= (uint32_t)(m->payload[0] + classes[block] - 1) << 8 * low;
        if (!plain && live && !pattern) return 0;
        m->norms[block] = m->norm_bytes == 2 ? pattern << SHORT_NORM_SHIFT : pattern;
    }
    return 1;
}

INLINE int64_t block_size(const struct message *m, int64_t block) { return m->dim / m->blocks + (block < m->dim % m->blocks); }

/* Symbols of nonzero blocks, one behind the other, to their places. */
static void spread_symbols(const struct message *m, int64_t coded) {
    int64_t to = m->dim;
    for (int64_t block = m->blocks; block--;) {
        int64_t size = block_size(m, block);
        to -= size;
        if (m->norms[block]) {
            coded -= size;
            memmove(m->symbols + to, m->symbols + coded, size * sizeof(int32_t));
        } else {
            memset(m->symbols + to, 0, size * sizeof(int32_t));
        }
    }
}

/* Returns 0 if it was read, 1 if Python should. */
API int32_t read_message(const struct message *m) {
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    return 1;
#endif
    struct weighed norms = {.size = 1}, symbols;
    int64_t start = 0, coded = 0;
    if (m->blocks < 1 || m->blocks > m->dim || m->classes < 1 || m->classes > CLASSES || m->bytes < 2) return 1;
    if (m->blocks >= PLAIN_NORMS) {
        start = read_table(m, 1, NORM_CLASSES, norms.weights, &norms.size);
        if (!start || m->payload[0] + norms.size - 2 > 255) return 1;
    }
    start = read_model(m, start, &symbols);
    if (!start || m->payload[m->bytes - 1] == 0) return 1;
    int64_t length = m->bytes - start, words = (length + 3) / 4, below = words > 2 ? words - 2 : 0;
    struct stack stack = {m->payload + start, below, 0};
    if (length > 0) memcpy(&stack.state, m->payload + start + 4 * below, length - 4 * below);
    if (!pop_norms(m, &stack, &norms, m->symbols)) return 1;
    for (int64_t block = 0; block < m->blocks; block++)
        coded += m->norms[block] || !m->norm_bytes ? block_size(m, block) : 0;
    if (coded <= SHORT_STACK || !pop(&stack, &symbols, coded, -(symbols.size / 2), m->symbols)) return 1;
    if (stack.count || stack.state) return 1;
    if (coded < m->dim) spread_symbols(m, coded);
    return 0;
}

#endif
