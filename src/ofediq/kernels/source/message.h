/* Reading and writing a whole entropy-coded message (codec/entropy.py): in Python its models take longer than the code.
 *
 * Only what is in order is read here. Everything else, and what is too short or too large for this code, is left to
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
    int32_t *symbols;       /* [dim], and room for MOST_GROUP where they are read */
    uint32_t *norms;        /* [blocks], as bit patterns */
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

/* Stack: how many of `count` symbols are coded together, and with which frequencies. */
static int join_alphabet(const struct weighed *w, int64_t count, uint32_t *starts, struct alphabet *a) {
    int64_t most = count / LEAST_USE < MOST_JOINT ? count / LEAST_USE : MOST_JOINT;
    for (int64_t size = (int64_t)w->size * w->size; size <= most; size *= w->size) a->group++;
    return join(w, a->group, starts, &a->size);
}

/* The digit that fills the last group. */
static int padding_of(const struct weighed *w) {
    int padding = 0;
    for (int n = 1; n < w->size; n++)
        if (w->weights[n] > w->weights[padding]) padding = n;
    return padding;
}

/* Stack.pop: symbols[0 .. count], with room for one group more. */
static int pop(struct stack *s, const struct weighed *w, int64_t count, int32_t lowest, int32_t *symbols) {
    if (w->size == 1) {
        for (int64_t n = 0; n < count; n++) symbols[n] = lowest;
        return 1;
    }
    uint32_t starts[MOST_JOINT + 1];
    struct reading reading;
    struct alphabet alphabet = {starts, 0, w->size, 1, lowest};
    if (!join_alphabet(w, count, starts, &alphabet) || !make_reading(&alphabet, &reading)) return 0;
    int64_t steps = (count + alphabet.group - 1) / alphabet.group;
    take_symbols(s, &reading, steps, symbols);
    for (int64_t n = count; n < steps * alphabet.group; n++)
        if (symbols[n] != padding_of(w) + lowest) return 0;
    return 1;
}

/* Stack.push. */
static int push(struct pile *p, const struct weighed *w, int64_t count, int32_t lowest, const int32_t *symbols) {
    if (w->size == 1) return 1;
    uint32_t starts[MOST_JOINT + 1];
    struct writing writing;
    struct alphabet alphabet = {starts, 0, w->size, 1, lowest};
    if (!join_alphabet(w, count, starts, &alphabet) || !make_writing(&alphabet, &writing)) return 0;
    return put_symbols(p, &writing, symbols, count, (uint32_t)padding_of(w));
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

/* The models of norms and symbols: where the stack begins, or 0. */
static int64_t read_models(const struct message *m, struct weighed *norms, struct weighed *symbols) {
    int64_t start = 0;
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    return 0;
#endif
    if (m->blocks < 1 || m->classes < 1 || m->classes > CLASSES) return 0;
    norms->size = 1;
    if (m->blocks >= PLAIN_NORMS) {
        start = read_table(m, 1, NORM_CLASSES, norms->weights, &norms->size);
        if (!start || m->payload[0] + norms->size - 2 > 255) return 0;
    }
    return read_model(m, start, symbols);
}

/* Returns 0 if it was read, 1 if Python should. */
API int32_t read_message(const struct message *m) {
    struct weighed norms, symbols;
    int64_t coded = 0, start = m->bytes < 2 || m->blocks > m->dim ? 0 : read_models(m, &norms, &symbols);
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

/* The stack of a message whose payload is its models alone so far, and whose symbols are those of the `dim` coordinates in
 * nonzero blocks. Norms have their classes if they are not plain. Returns 0 if it was written, its length in `bytes`. */
API int32_t write_message(struct message *m, const int32_t *classes, uint32_t *words) {
    struct weighed norms, symbols;
    int plain = m->blocks < PLAIN_NORMS, low = plain ? m->norm_bytes : m->norm_bytes - 1;
    struct pile pile = {words, 0, 0};
    if (m->dim <= SHORT_STACK || !read_models(m, &norms, &symbols)) return 1;
    if (!push(&pile, &symbols, m->dim, -(symbols.size / 2), m->symbols)) return 1;
    for (int64_t block = m->blocks; block--;) {
        uint32_t pattern = m->norm_bytes == 2 ? m->norms[block] >> SHORT_NORM_SHIFT : m->norms[block];
        for (int n = plain || pattern ? low : 0; n--;) put_byte(&pile, (uint8_t)(pattern >> 8 * n));
    }
    if (!plain && !push(&pile, &norms, m->blocks, 0, classes)) return 1;
    for (; pile.state; pile.state >>= 32) words[pile.count++] = (uint32_t)pile.state;
    const uint8_t *bytes = (const uint8_t *)words;
    for (m->bytes = 4 * pile.count; m->bytes && !bytes[m->bytes - 1];) m->bytes--;
    return 0;
}

/* How often each class of magnitudes occurs. */
API void count_symbols(const int32_t *symbols, int64_t dim, int32_t classes, int32_t *counts) {
    struct counting job = {symbols, dim, classes, counts};
    count_row(&job, 0, 0);
}

#endif
