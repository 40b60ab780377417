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

INLINE double as_double(uint64_t bits) {
    double number;
    memcpy(&number, &bits, 8);
    return number;
}

/* A whole number as the nearest double: the bits of its halves stand behind those of 2^84 and of 2^52. */
INLINE double rounded(uint64_t number) {
    double high = as_double(number >> 32 | UINT64_C(0x4530000000000000));
    return high - (0x1p84 + 0x1p52) + as_double((number & UINT32_MAX) | UINT64_C(0x4330000000000000));
}

/* The whole number next to one below 2^51, of its bits behind those of 2^52. */
INLINE uint64_t nearest(double number) {
    uint64_t bits;
    number += 0x1p52;
    memcpy(&bits, &number, 8);
    return bits - UINT64_C(0x4330000000000000);
}

/* Digits of numbers below `base`^`count` and 2^31; digit k of number j goes to digits[k * stride + j].
 *
 * They are halved again and again. Quotients are made of products with reciprocals: (n + .5) / by is at least .5 / by
 * away from a whole number, which is more than what rounding changes; in float32 for n below 2^21.
 */
static void split_few(uint32_t *numbers, int many, uint32_t base, int count, uint32_t *digits, int64_t stride) {
    if (count == 1) {
        memcpy(digits, numbers, 4 * (size_t)many);
        return;
    }
    uint32_t low[TOGETHER], by = 1;
    uint64_t most = 1;
    for (int k = 0; k < count; k++) {
        by *= k < count / 2 ? base : 1;
        most *= base;
    }
    if (most <= 1 << 21) {
        const float part = 1.0f / (float)by;
        for (int j = 0; j < many; j++) {
            uint32_t high = (uint32_t)(int32_t)(((float)(int32_t)numbers[j] + 0.5f) * part);
            low[j] = numbers[j] - high * by;
            numbers[j] = high;
        }
    } else {
        const double part = 1.0 / (double)by;
        for (int j = 0; j < many; j++) {
            uint32_t high = (uint32_t)(int32_t)(((double)(int32_t)numbers[j] + 0.5) * part);
            low[j] = numbers[j] - high * by;
            numbers[j] = high;
        }
    }
    split_few(numbers, many, base, count - count / 2, digits, stride);
    split_few(low, many, base, count / 2, digits + (count - count / 2) * stride, stride);
}

/* Digits of some numbers, each below `base`^`group`; digit k of number j goes to digits[k * groups + j].
 *
 * As many digits at a time as 31 bits hold; the quotients of 64 bits are at most one too large, and are put right.
 */
static void split_tile(uint64_t *numbers, int many, const struct gathering *g, uint32_t *digits) {
    int at_once = 1, stop = g->group;
    uint32_t some[TOGETHER];
    for (uint64_t power = g->base; power <= INT32_MAX / g->base; power *= g->base) at_once++;
    for (; stop > at_once; stop -= at_once) {
        uint64_t by = 1;
        for (int k = 0; k < at_once; k++) by *= g->base;
        const double part = 1.0 / (double)by;
        for (int j = 0; j < many; j++) {
            uint64_t high = nearest(rounded(numbers[j]) * part);
            int64_t rest = (int64_t)(numbers[j] - high * by);
            uint64_t over = rest < 0;
            some[j] = (uint32_t)rest + (uint32_t)(over * by);
            numbers[j] = high - over;
        }
        split_few(some, many, (uint32_t)g->base, at_once, digits + (stop - at_once) * g->groups, g->groups);
    }
    for (int j = 0; j < many; j++) some[j] = (uint32_t)numbers[j];
    split_few(some, many, (uint32_t)g->base, stop, digits, g->groups);
}

/* Numbers of `width` bytes each, the lowest first; all before `end` may be looked at. */
static void read_numbers(const uint8_t *at, int width, const uint8_t *end, int many, uint64_t *numbers) {
    int j = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const uint64_t mask = (UINT64_C(1) << 8 * width) - 1;
    for (; j < many && end - at >= 8; j++, at += width) {
        memcpy(numbers + j, at, 8);
        numbers[j] &= mask;
    }
#endif
    for (; j < many; j++, at += width) {
        numbers[j] = 0;
        for (int i = 0; i < width; i++) numbers[j] |= (uint64_t)at[i] << 8 * i;
    }
}

/* The digits of one message; 0 if a number lies outside of its range. */
static int unpack_row(const struct packed_rows *p, const uint8_t *data, uint8_t tail, uint32_t *digits) {
    uint64_t limbs[MOST_LIMBS] = {0}, numbers[TOGETHER];
    int64_t body = p->bytes - p->last_bytes, size = p->last_bytes / 8 + 1;
    for (int64_t i = 0; i <= p->last_bytes; i++)
        limbs[i / 8] |= (uint64_t)(i < p->last_bytes ? data[body + i] : tail) << 8 * (i % 8);
    uint64_t good = 1;
    for (const struct gathering *g = p->rounds + p->round_count; g-- > p->rounds;) {
        body -= g->groups * g->low_bytes;
        const uint8_t *low = data + body;
        for (int64_t first = 0; first < g->groups; first += TOGETHER) { /* digit j of the round before is of group j */
            int many = g->groups - first < TOGETHER ? (int)(g->groups - first) : TOGETHER;
            read_numbers(low + first * g->low_bytes, g->low_bytes, data + p->bytes, many, numbers);
            for (int j = 0; j < many; j++) {
                uint64_t number = numbers[j] | (uint64_t)digits[first + j] << 8 * g->low_bytes;
                uint64_t fits = number <= g->most;
                good &= fits;
                numbers[j] = number & -fits;
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
