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

static void hadamard_row(void *job, int worker, int row) {
    (void)worker;
    const struct hadamard *h = job;
    float *at = h->to + row * h->size;
    memcpy(at, h->from + row * h->size, h->size * sizeof(float));
    for (int64_t half = h->size / 2; half >= 1; half /= 2) {
        if (half >= LANES) {
            for (int64_t start = 0; start < h->size; start += 2 * half)
                for (int64_t i = start; i < start + half; i += LANES) {
                    vec low = load(at + i), high = load(at + i + half);
                    store(at + i, low + high);
                    store(at + i + half, low - high);
                }
            continue;
        }
        for (int64_t start = 0; start < h->size; start += 2 * half)
            for (int64_t i = start; i < start + half; i++) {
                float low = at[i], high = at[i + half];
                at[i] = low + high;
                at[i + half] = low - high;
            }
    }
    for (int64_t i = 0; i < h->size; i++) at[i] *= h->factor;
}

#endif
