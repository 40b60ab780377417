/* The entropy code: asymmetric numeral systems with words of 32 bits, a state of 64 and frequencies that add up to 2^24,
 * as constriction has them (codec/stack.py). Symbols come in groups: digits of one symbol of a product alphabet.
 *
 * Each step waits for the one before, so a step of reading is one table look-up and one product, and one of writing two
 * products: the quotient is made of one with a reciprocal.
 */
#ifndef OFEDIQ_CODING_H
#define OFEDIQ_CODING_H

#include "vectors.h"

enum { PRECISION = 24, CELL_BITS = 13, CELLS = 1 << (PRECISION - CELL_BITS), MOST_JOINT = 1024, MOST_GROUP = 16 };
enum { AT_ONCE = 512 }; /* groups that are put together, or taken apart, as vectors */

struct stack { /* that is read */
    const void *words; /* of 32 bits, aligned or not */
    int64_t count;
    uint64_t state;
};

struct pile { /* that is written */
    uint32_t *words;
    int64_t count;
    uint64_t state;
};

struct alphabet {
    const uint32_t *starts; /* [size + 1], sums of the frequencies before each symbol, 2^24 in the end */
    int32_t size;           /* base^group */
    int32_t base, group;
    int32_t lowest;         /* the symbol that digit 0 stands for */
};

struct slice {
    uint32_t start, frequency;
};

static int in_order(const struct alphabet *a) {
    if (a->size < 2 || a->size > MOST_JOINT || a->group < 1 || a->group > MOST_GROUP || a->base < 2) return 0;
    for (int symbol = 0; symbol < a->size; symbol++)
        if (a->starts[symbol + 1] <= a->starts[symbol]) return 0;
    return a->starts[0] == 0 && a->starts[a->size] == 1u << PRECISION;
}

INLINE struct slice slice_of(const struct alphabet *a, int symbol) {
    return (struct slice){a->starts[symbol], a->starts[symbol + 1] - a->starts[symbol]};
}

/* An alphabet as tables: what a quantile finds by its cell is right unless the cell is shared. */
struct reading {
    const struct alphabet *alphabet;
    struct slice slices[CELLS];  /* of the first symbol in each cell */
    uint16_t symbols[CELLS + 1]; /* the first one in each cell, and the last one of all */
};

static int make_reading(const struct alphabet *a, struct reading *r) {
    if (!in_order(a)) return 0;
    uint32_t cell = 0;
    r->alphabet = a;
    for (int symbol = 0; symbol < a->size; symbol++)
        for (; cell < CELLS && cell << CELL_BITS < a->starts[symbol + 1]; cell++) {
            r->slices[cell] = slice_of(a, symbol);
            r->symbols[cell] = (uint16_t)symbol;
        }
    r->symbols[CELLS] = (uint16_t)(a->size - 1);
    return 1;
}

INLINE void refill(struct stack *s) {
    uint32_t word;
    if (s->state >> 32 || !s->count) return;
    memcpy(&word, (const char *)s->words + 4 * --s->count, 4);
    s->state = s->state << 32 | word;
}

/* The symbol of a quantile, among those that share its cell. */
static int search(const struct reading *r, uint32_t quantile) {
    int low = r->symbols[quantile >> CELL_BITS], high = r->symbols[(quantile >> CELL_BITS) + 1];
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (r->alphabet->starts[middle] <= quantile) low = middle;
        else high = middle - 1;
    }
    return low;
}

INLINE int next_symbol(struct stack *s, const struct reading *r) {
    uint32_t quantile = (uint32_t)s->state & ((1u << PRECISION) - 1), cell = quantile >> CELL_BITS;
    struct slice slice = r->slices[cell];
    int symbol = r->symbols[cell];
    if (__builtin_expect(quantile - slice.start >= slice.frequency, 0)) { /* rare symbols share a cell */
        symbol = search(r, quantile);
        slice = slice_of(r->alphabet, symbol);
    }
    s->state = (s->state >> PRECISION) * slice.frequency + (quantile - slice.start);
    refill(s);
    return symbol;
}

/* Digits of the groups in `joint` to symbols[digit][steps]. The groups are below 2^10, and a base of which two digits fit
 * is below 2^6: quotients by products with a reciprocal are exact. */
static void split_groups(uint32_t *joint, int many, const struct alphabet *a, int64_t steps, int32_t *symbols) {
    const uint32_t base = (uint32_t)a->base, part = (1u << 16) / base + 1;
    for (int digit = a->group - 1; digit > 0; digit--)
        for (int n = 0; n < many; n++) {
            uint32_t rest = joint[n] * part >> 16;
            symbols[digit * steps + n] = (int32_t)(joint[n] - rest * base) + a->lowest;
            joint[n] = rest;
        }
    for (int n = 0; n < many; n++) symbols[n] = (int32_t)joint[n] + a->lowest;
}

/* symbols[group][steps]. */
static void take_symbols(struct stack *from, const struct reading *r, int64_t steps, int32_t *symbols) {
    struct stack s = *from;
    uint32_t joint[AT_ONCE];
    for (int64_t step = 0; step < steps; step += AT_ONCE) {
        int many = steps - step < AT_ONCE ? (int)(steps - step) : AT_ONCE;
        for (int n = 0; n < many; n++) joint[n] = (uint32_t)next_symbol(&s, r);
        split_groups(joint, many, r->alphabet, steps, symbols + step);
    }
    *from = s;
}

API int32_t ans_decode(struct stack *s, const struct alphabet *a, int64_t steps, int32_t *symbols) {
    struct reading reading;
    if (!make_reading(a, &reading)) return 1;
    take_symbols(s, &reading, steps, symbols);
    return 0;
}

/* An alphabet for writing, with 2^64 / frequency of each symbol. */
struct writing {
    const struct alphabet *alphabet;
    struct slice slices[MOST_JOINT];
    uint64_t parts[MOST_JOINT];
};

static int make_writing(const struct alphabet *a, struct writing *w) {
    if (!in_order(a)) return 0;
    w->alphabet = a;
    for (int symbol = 0; symbol < a->size; symbol++) {
        w->slices[symbol] = slice_of(a, symbol);
        w->parts[symbol] = UINT64_MAX / w->slices[symbol].frequency;
    }
    return 1;
}

INLINE void make_room(struct pile *p, uint32_t frequency) {
    if (p->state >> (64 - PRECISION) < frequency) return;
    p->words[p->count++] = (uint32_t)p->state;
    p->state >>= 32;
}

/* state = 2^24 (state div f) + state mod f + start; the quotient is at most one too small, and seldom so. */
INLINE void put_symbol(struct pile *p, const struct writing *w, uint32_t symbol) {
    const struct slice slice = w->slices[symbol];
    const uint64_t gap = (1u << PRECISION) - slice.frequency;
    make_room(p, slice.frequency);
    uint64_t quotient = (uint64_t)((unsigned __int128)p->state * w->parts[symbol] >> 64);
    uint64_t rest = p->state - quotient * slice.frequency;
    p->state += slice.start + quotient * gap;
    if (rest >= slice.frequency) p->state += gap;
}

/* The groups of `many` steps of symbols[group][steps], of which `count` are there and `padding` stands for the rest.
 * Returns 0 if one is not in the alphabet. */
static int join_groups(const struct alphabet *a, const int32_t *symbols, int64_t count, int64_t steps, int many, uint32_t padding,
                       uint32_t *joint) {
    uint32_t wrong = 0;
    memset(joint, 0, many * sizeof(uint32_t));
    for (int digit = 0; digit < a->group; digit++, symbols += steps, count -= steps) {
        int here = count >= many ? many : count > 0 ? (int)count : 0;
        for (int n = 0; n < here; n++) {
            uint32_t value = (uint32_t)(symbols[n] - a->lowest);
            wrong |= value >= (uint32_t)a->base;
            joint[n] = joint[n] * (uint32_t)a->base + value;
        }
        for (int n = here; n < many; n++) joint[n] = joint[n] * (uint32_t)a->base + padding;
    }
    return !wrong;
}

/* The last symbol first. */
static int put_symbols(struct pile *to, const struct writing *w, const int32_t *symbols, int64_t count, uint32_t padding) {
    struct pile p = *to;
    uint32_t joint[AT_ONCE];
    int64_t steps = (count + w->alphabet->group - 1) / w->alphabet->group;
    for (int64_t stop = steps; stop > 0; stop -= AT_ONCE) {
        int64_t start = stop > AT_ONCE ? stop - AT_ONCE : 0;
        int many = (int)(stop - start);
        if (!join_groups(w->alphabet, symbols + start, count - start, steps, many, padding, joint)) return 0;
        for (int n = many; n--;) put_symbol(&p, w, joint[n]);
    }
    *to = p;
    return 1;
}

INLINE void put_byte(struct pile *p, uint8_t byte) {
    const uint32_t frequency = 1u << (PRECISION - 8);
    make_room(p, frequency);
    p->state = p->state >> (PRECISION - 8) << PRECISION | (uint32_t)byte << (PRECISION - 8) | (p->state & (frequency - 1));
}

/* One of 256 bytes that are equally likely. */
INLINE uint8_t take_byte(struct stack *s) {
    uint8_t found = (uint8_t)(s->state >> (PRECISION - 8));
    s->state = s->state >> PRECISION << (PRECISION - 8) | (s->state & ((1u << (PRECISION - 8)) - 1));
    refill(s);
    return found;
}

#endif
