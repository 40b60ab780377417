/* Reading the entropy code: asymmetric numeral systems with words of 32 bits, a state of 64 and frequencies that add up
 * to 2^24, as constriction has them (codec/stack.py). Symbols come in groups: digits of one symbol of a product alphabet.
 */
#ifndef OFEDIQ_CODING_H
#define OFEDIQ_CODING_H

#include "vectors.h"

enum { PRECISION = 24, CELL_BITS = 12, CELLS = 1 << (PRECISION - CELL_BITS), MOST_JOINT = 1024 };

struct stack {
    const uint32_t *words;
    int64_t count;
    uint64_t state;
};

struct alphabet {
    const uint32_t *starts; /* [size + 1], sums of the frequencies before each symbol, 2^24 in the end */
    int32_t size;           /* base^group */
    int32_t base, group;
    int32_t lowest;         /* the symbol that digit 0 stands for */
};

/* The symbol of each cell's first quantile; the last entry ends the last cell. */
static void list_cells(const struct alphabet *a, uint16_t *cells) {
    int symbol = 0;
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        while (a->starts[symbol + 1] <= cell << CELL_BITS) symbol++;
        cells[cell] = (uint16_t)symbol;
    }
    cells[CELLS] = (uint16_t)(a->size - 1);
}

/* symbols[group][steps] */
API int32_t ans_decode(struct stack *s, const struct alphabet *a, int64_t steps, int32_t *symbols) {
    uint16_t cells[CELLS + 1];
    int32_t digits[MOST_JOINT][16];
    if (a->size < 2 || a->size > MOST_JOINT || a->group < 1 || a->group > 16 || a->starts[a->size] != 1u << PRECISION)
        return 1;
    list_cells(a, cells);
    for (int symbol = 0; symbol < a->size; symbol++)
        for (int digit = a->group - 1, rest = symbol; digit >= 0; digit--, rest /= a->base)
            digits[symbol][digit] = rest % a->base + a->lowest;
    uint64_t state = s->state;
    for (int64_t step = 0; step < steps; step++) {
        uint32_t quantile = (uint32_t)state & ((1u << PRECISION) - 1);
        int low = cells[quantile >> CELL_BITS], high = cells[(quantile >> CELL_BITS) + 1];
        while (low < high) { /* rare symbols share a cell */
            int middle = (low + high + 1) / 2;
            if (a->starts[middle] <= quantile) low = middle;
            else high = middle - 1;
        }
        uint32_t start = a->starts[low];
        state = (state >> PRECISION) * (a->starts[low + 1] - start) + (quantile - start);
        if (state >> 32 == 0 && s->count) state = state << 32 | s->words[--s->count];
        for (int digit = 0; digit < a->group; digit++) symbols[digit * steps + step] = digits[low][digit];
    }
    s->state = state;
    return 0;
}

#endif
