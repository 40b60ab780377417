/* The uniform code of digits (codec/packed.py). Writing it, group by group; reading it, many messages of one shape at a
 * time, and the numbers that symbols and norms stand for (codec/values.py), with the same bits as NumPy has them.
 */
#ifndef OFEDIQ_PACKED_H
#define OFEDIQ_PACKED_H

#include "vectors.h"

enum { TOGETHER = 64, MOST_LIMBS = 512 };

struct gathering { /* a round of gathering digits into groups */
    uint64_t base, most; /* of the digits; the largest value of a group */
    int64_t groups, loose;
    int32_t group, low_bytes;
};

struct packed_rows {
    const uint8_t *data;  /* [rows][stride], of which `bytes` are read */
    const uint8_t *tails; /* [rows] */
    const struct gathering *rounds;
    int64_t rows, stride, bytes, last_bytes, count;
    int32_t round_count;
    int32_t levels;       /* of symbols with norms; 0: digits alone */
    const float *norms;   /* [rows][blocks] */
    int64_t blocks;
    float most_norm;
    uint32_t *digits;     /* [rows][count]; with norms float32 values are written there */
    uint8_t *good;        /* [rows] */
};

INLINE void write_number(uint8_t *at, uint64_t number, int count) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    (void)count;
    memcpy(at, &number, 8);
#else
    for (int i = 0; i < count; i++) at[i] = (uint8_t)(number >> 8 * i);
#endif
}

/* One round of gathering: the low bytes of each group's number, with eight bytes of room behind them, and its rest. */
static uint8_t *gather(const uint32_t *digits, uint32_t lowest, const struct gathering *g, uint8_t *low, uint32_t *rest) {
    for (int64_t first = 0; first < g->groups; first += TOGETHER) {
        int many = g->groups - first < TOGETHER ? (int)(g->groups - first) : TOGETHER;
        uint64_t numbers[TOGETHER] = {0};
        for (int k = 0; k < g->group; k++) {
            const uint32_t *row = digits + k * g->groups + first;
            for (int j = 0; j < many; j++) numbers[j] = numbers[j] * g->base + (uint32_t)(row[j] - lowest);
        }
        for (int j = 0; j < many; j++, low += g->low_bytes) {
            write_number(low, numbers[j], g->low_bytes);
            rest[first + j] = (uint32_t)(numbers[j] >> 8 * g->low_bytes);
        }
    }
    return low;
}

/* All rounds: their low bytes one after another, and their rests, which are the digits of the next round. */
API void write_packed(const uint32_t *digits, uint32_t lowest, const struct gathering *rounds, int32_t round_count,
                      uint8_t *low, uint32_t *rests) {
    for (const struct gathering *g = rounds; g < rounds + round_count; g++) {
        low = gather(digits, lowest, g, low, rests);
        digits = rests;
        rests += g->groups;
        lowest = 0;
    }
}

/* Takes the last `loose` digits off the number in limbs, two at a time where 64 bits hold them. */
static void take_loose(uint64_t *limbs, int64_t *size, const struct gathering *g, uint32_t *digits) {
    int64_t left = g->loose;
    while (left) {
        int two = left > 1 && g->base <= UINT32_MAX;
        uint64_t by = two ? g->base * g->base : g->base, rest = 0;
        for (int64_t i = *size; i--;) {
            unsigned __int128 now = (unsigned __int128)rest << 64 | limbs[i];
            limbs[i] = (uint64_t)(now / by);
            rest = (uint64_t)(now % by);
        }
        while (*size && limbs[*size - 1] == 0) --*size;
        digits[--left] = (uint32_t)(rest % g->base);
        if (two) digits[--left] = (uint32_t)(rest / g->base);
    }
}

/* Digits of some numbers, each below `base`^`group`; digit k of number j goes to digits[k * groups + j].
 *
 * As many digits at a time as 31 bits hold. Quotients are made of products with reciprocals: (n + .5) / base is at
 * least .5 / base away from a whole number, which is more than what rounding changes; the quotients of 64 bits may be
 * off by one, and are put right.
 */
static void split_tile(uint64_t *numbers, int many, const struct gathering *g, uint32_t *digits) {
    int at_once = 1, stop = g->group;
    uint64_t power = g->base;
    while (power <= INT32_MAX / g->base) {
        power *= g->base;
        at_once++;
    }
    while (stop) {
        int start = stop > at_once ? stop - at_once : 0;
        uint64_t by = 1;
        for (int k = start; k < stop; k++) by *= g->base;
        uint32_t some[TOGETHER];
        double part = 1.0 / (double)by, each = 1.0 / (double)g->base;
        for (int j = 0; j < many; j++) {
            uint64_t high = start ? (uint64_t)((double)numbers[j] * part) : 0;
            int64_t rest = (int64_t)(numbers[j] - high * by);
            int64_t over = (rest >= (int64_t)by) - (rest < 0);
            over = start ? over : 0;
            some[j] = (uint32_t)(rest - over * (int64_t)by);
            numbers[j] = high + (uint64_t)over;
        }
        for (int k = stop - 1; k > start; k--) {
            uint32_t *row = digits + k * g->groups;
            for (int j = 0; j < many; j++) {
                int32_t now = (int32_t)some[j], less = (int32_t)(((double)now + 0.5) * each);
                row[j] = (uint32_t)(now - less * (int32_t)g->base);
                some[j] = (uint32_t)less;
            }
        }
        memcpy(digits + start * g->groups, some, 4 * (size_t)many);
        stop = start;
    }
}

/* `count` bytes, the lowest first; all eight from there on may be looked at, if they lie before `end`. */
INLINE uint64_t read_number(const uint8_t *at, int count, const uint8_t *end) {
    uint64_t number = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (end - at >= 8) {
        memcpy(&number, at, 8);
        return number & ((UINT64_C(1) << 8 * count) - 1);
    }
#endif
    for (int i = 0; i < count; i++) number |= (uint64_t)at[i] << 8 * i;
    return number;
}

/* The digits of one message; 0 if a number lies outside of its range. */
static int unpack_row(const struct packed_rows *p, const uint8_t *data, uint8_t tail, uint32_t *digits) {
    uint64_t limbs[MOST_LIMBS] = {0}, numbers[TOGETHER];
    int64_t body = p->bytes - p->last_bytes, size = p->last_bytes / 8 + 1;
    for (int64_t i = 0; i <= p->last_bytes; i++)
        limbs[i / 8] |= (uint64_t)(i < p->last_bytes ? data[body + i] : tail) << 8 * (i % 8);
    int good = 1;
    for (const struct gathering *g = p->rounds + p->round_count; g-- > p->rounds;) {
        body -= g->groups * g->low_bytes;
        const uint8_t *low = data + body;
        for (int64_t first = 0; first < g->groups; first += TOGETHER) { /* digit j of the round before is of group j */
            int many = g->groups - first < TOGETHER ? (int)(g->groups - first) : TOGETHER;
            for (int j = 0; j < many; j++, low += g->low_bytes) {
                uint64_t number = read_number(low, g->low_bytes, data + p->bytes);
                number |= (uint64_t)digits[first + j] << 8 * g->low_bytes;
                good &= number <= g->most;
                numbers[j] = number <= g->most ? number : 0;
            }
            split_tile(numbers, many, g, digits + first);
        }
        take_loose(limbs, &size, g, digits + g->group * g->groups);
    }
    return good && size == 0;
}

/* Digits to numbers in their place; 0 if a norm is none, or stands above symbols that must be zero. */
static int give_values(const struct packed_rows *p, const float *norms, uint32_t *digits) {
    const int64_t size = p->count / p->blocks, longer = p->count % p->blocks;
    const float part = (float)(1.0 / (double)p->levels);
    int good = 1;
    for (int64_t block = 0; block < p->blocks; block++) {
        int64_t length = size + (block < longer);
        float norm = norms[block], unit = norm * part;
        uint32_t bits, most;
        memcpy(&bits, &norm, 4);
        memcpy(&most, &p->most_norm, 4);
        good &= bits <= most; /* also not negative, and a number */
        if (norm == 0)
            for (int64_t i = 0; i < length; i++) good &= digits[i] == (uint32_t)p->levels;
        for (int64_t i = 0; i < length; i++) {
            float value = (float)((int32_t)digits[i] - p->levels) * unit;
            memcpy(digits + i, &value, 4);
        }
        digits += length;
    }
    return good;
}

/* The order of the rounds: what is read first was written last. Returns 1 if the shape is beyond this reader. */
API int32_t read_packed(const struct packed_rows *p) {
    if (p->last_bytes / 8 + 1 > MOST_LIMBS || p->round_count < 1) return 1;
    for (int64_t row = 0; row < p->rows; row++) {
        uint32_t *digits = p->digits + row * p->count;
        int good = unpack_row(p, p->data + row * p->stride, p->tails[row], digits);
        if (p->levels) good &= give_values(p, p->norms + row * p->blocks, digits);
        p->good[row] = (uint8_t)good;
    }
    return 0;
}

#endif
