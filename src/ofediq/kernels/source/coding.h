/* Reading the entropy code: asymmetric numeral systems with words of 32 bits, a state of 64 and frequencies that add up
 * to 2^24, as constriction has them (codec/stack.py). Symbols come in groups: digits of one symbol of a product alphabet.
 */
#ifndef OFEDIQ_CODING_H
#define OFEDIQ_CODING_H

#include "vectors.h"

enum { PRECISION = 24, CELL_BITS = 12, CELLS = 1 << (PRECISION - CELL_BITS), MOST_JOINT = 1024, MOST_GROUP = 16 };

struct stack {
    const void *words; /* of 32 bits, aligned or not */
    int64_t count;
    uint64_t state;
};

struct alphabet {
    const uint32_t *starts; /* [size + 1], sums of the frequencies before each symbol, 2^24 in the end */
    int32_t size;           /* base^group */
    int32_t base, group;
    int32_t lowest;         /* the symbol that digit 0 stands for */
};

/* An alphabet as tables: from a quantile to the first symbol of its cell, and from there to its own. */
struct reading {
    uint16_t cells[CELLS + 1];
    struct {
        uint32_t start, frequency;
    } slices[MOST_JOINT + 1];
    uint8_t digits[MOST_JOINT][MOST_GROUP]; /* of groups, whose bases are small */
};

static int make_reading(const struct alphabet *a, struct reading *r) {
    if (a->size < 2 || a->size > MOST_JOINT || a->group < 1 || a->group > MOST_GROUP || a->base < 2) return 0;
    if (a->starts[0] != 0 || a->starts[a->size] != 1u << PRECISION) return 0;
    uint32_t cell = 0;
    for (int symbol = 0; symbol < a->size; symbol++) {
        uint32_t stop = a->starts[symbol + 1];
        if (stop <= a->starts[symbol]) return 0;
        for (; cell < CELLS && cell << CELL_BITS < stop; cell++) r->cells[cell] = (uint16_t)symbol;
        r->slices[symbol].start = a->starts[symbol];
        r->slices[symbol].frequency = stop - a->starts[symbol];
        if (a->group == 1) continue;
        for (int digit = a->group - 1, rest = symbol; digit >= 0; digit--, rest /= a->base)
            r->digits[symbol][digit] = (uint8_t)(rest % a->base);
    }
    r->cells[CELLS] = (uint16_t)(a->size - 1);
    r->slices[a->size].start = 1u << PRECISION;
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
    int low = r->cells[quantile >> CELL_BITS], high = r->cells[(quantile >> CELL_BITS) + 1];
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (r->slices[middle].start <= quantile) low = middle;
        else high = middle - 1;
    }
    return low;
}

INLINE int next_symbol(struct stack *s, const struct reading *r) {
    uint32_t quantile = (uint32_t)s->state & ((1u << PRECISION) - 1);
    int symbol = r->cells[quantile >> CELL_BITS];
    if (r->slices[symbol + 1].start <= quantile) symbol = search(r, quantile); /* rare symbols share a cell */
    s->state = (s->state >> PRECISION) * r->slices[symbol].frequency + (quantile - r->slices[symbol].start);
    refill(s);
    return symbol;
}

/* symbols[group][steps]; `group` is a number that the compiler knows. */
INLINE void take_groups(struct stack *from, const struct reading *r, int64_t steps, int group, int32_t lowest,
                        int32_t *symbols) {
    struct stack s = *from;
    for (int64_t step = 0; step < steps; step++) {
        int symbol = next_symbol(&s, r);
        if (group == 1) symbols[step] = symbol + lowest;
        else
            UNROLL for (int digit = 0; digit < group; digit++)
                symbols[digit * steps + step] = r->digits[symbol][digit] + lowest;
    }
    *from = s;
}

static void take_symbols(struct stack *s, const struct reading *r, const struct alphabet *a, int64_t steps, int32_t *symbols) {
    switch (a->group) {
    case 1: take_groups(s, r, steps, 1, a->lowest, symbols); break;
    case 2: take_groups(s, r, steps, 2, a->lowest, symbols); break;
    case 3: take_groups(s, r, steps, 3, a->lowest, symbols); break;
    case 4: take_groups(s, r, steps, 4, a->lowest, symbols); break;
    case 6: take_groups(s, r, steps, 6, a->lowest, symbols); break;
    default: take_groups(s, r, steps, a->group, a->lowest, symbols);
    }
}

API int32_t ans_decode(struct stack *s, const struct alphabet *a, int64_t steps, int32_t *symbols) {
    struct reading reading;
    if (!make_reading(a, &reading)) return 1;
    take_symbols(s, &reading, a, steps, symbols);
    return 0;
}

/* One of 256 bytes that are equally likely. */
INLINE uint8_t take_byte(struct stack *s) {
    uint8_t found = (uint8_t)(s->state >> (PRECISION - 8));
    s->state = s->state >> PRECISION << (PRECISION - 8) | (s->state & ((1u << (PRECISION - 8)) - 1));
    refill(s);
    return found;
}

#endif
