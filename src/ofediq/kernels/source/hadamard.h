/* The Walsh-Hadamard transform of many rows (codec/rotation.py): the same sums in the same order as there. */
#ifndef OFEDIQ_HADAMARD_H
#define OFEDIQ_HADAMARD_H

#include "threads.h"
#include "vectors.h"

struct hadamard {
    const float *from; /* [rows][size], a power of two */
    float *to;
    int64_t size;
    float factor;
};

/* Stages inside vectors: lane i meets lane i ^ half. */
#if SHUFFLES && LANES == 16
#define MEET(v, i) __builtin_shufflevector(v, v, i 0, i 1, i 2, i 3, i 4, i 5, i 6, i 7, i 8, i 9, i 10, i 11, i 12, i 13, i 14, i 15)
#elif SHUFFLES && LANES == 8
#define MEET(v, i) __builtin_shufflevector(v, v, i 0, i 1, i 2, i 3, i 4, i 5, i 6, i 7)
#elif SHUFFLES && LANES == 4
#define MEET(v, i) __builtin_shufflevector(v, v, i 0, i 1, i 2, i 3)
#endif

INLINE vec stage_inside(vec value, const int half) {
    vec other, sign;
    for (int lane = 0; lane < LANES; lane++) sign[lane] = lane & half ? -1 : 1;
#ifdef MEET
    if (half == 8) other = MEET(value, 8 % LANES ^);
    else if (half == 4) other = MEET(value, 4 % LANES ^);
    else if (half == 2) other = MEET(value, 2 ^);
    else other = MEET(value, 1 ^);
#else
    for (int lane = 0; lane < LANES; lane++) other[lane] = value[lane ^ half];
#endif
    return multiply_add(value, sign, other); /* the product is exact */
}

#if AVX512 || NEON
enum { LONGEST = 16 }; /* vectors that stay in registers */
#else
enum { LONGEST = 8 };
#endif

/* `depth` stages of 2^depth vectors, `stride` apart; the last ones go on inside the vectors. */
INLINE void stages(float *at, int64_t stride, const int depth, const int last, float factor) {
    const int count = 1 << depth;
    vec v[16];
    UNROLL for (int n = 0; n < count; n++) v[n] = load(at + n * stride);
    UNROLL for (int half = count / 2; half >= 1; half /= 2)
        UNROLL for (int n = 0; n < count; n++) {
            if (n & half) continue;
            vec low = v[n], high = v[n + half];
            v[n] = low + high;
            v[n + half] = low - high;
        }
    UNROLL for (int n = 0; n < count; n++) {
        if (last) {
            UNROLL for (int half = LANES / 2; half >= 1; half /= 2) v[n] = stage_inside(v[n], half);
            v[n] *= factor;
        }
        store(at + n * stride, v[n]);
    }
}

/* In place; `size` is a power of two. As many stages at a time as there are registers for: a pass over the row costs more
 * than they do. */
static void transform(float *at, int64_t size, float factor) {
    int64_t half = size / 2;
    if (size <= LANES) {
        for (; half >= 1; half /= 2)
            for (int64_t i = 0; i < size; i++) {
                if (i & half) continue;
                float low = at[i], high = at[i + half];
                at[i] = low + high;
                at[i + half] = low - high;
            }
        for (int64_t i = 0; i < size; i++) at[i] *= factor;
        return;
    }
    while (half >= LANES) {
        int64_t stride = half >= (LONGEST / 2) * LANES ? 2 * half / LONGEST : LANES;
        for (int64_t start = 0; start < size; start += 2 * half)
            for (float *from = at + start; from < at + start + stride; from += LANES) {
                if (half == 8 * LANES && LONGEST == 16) stages(from, stride, 4, 1, factor);
                else if (stride > LANES) stages(from, stride, LONGEST == 16 ? 4 : 3, 0, factor);
                else if (half == 4 * LANES) stages(from, stride, 3, 1, factor);
                else if (half == 2 * LANES) stages(from, stride, 2, 1, factor);
                else stages(from, stride, 1, 1, factor);
            }
        half = stride / 2;
    }
}

static void hadamard_row(void *job, int worker, int row) {
    (void)worker;
    const struct hadamard *h = job;
    float *at = h->to + row * h->size;
    memcpy(at, h->from + row * h->size, h->size * sizeof(float));
    transform(at, h->size, h->factor);
}

#endif
