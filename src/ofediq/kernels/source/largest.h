/* Where the largest sizes of many vectors are, in ascending order; of equal sizes the first ones (codec/schemes/sparse.py).
 *
 * Sizes are compared as bit patterns, whose order is theirs: eleven bits at a time say which of them can still be the
 * smallest that is kept.
 */
#ifndef OFEDIQ_LARGEST_H
#define OFEDIQ_LARGEST_H

#include <stdlib.h>

#include "threads.h"
#include "vectors.h"

enum { DIGIT = 11, DIGITS = 1 << DIGIT };

struct largest {
    const float *vectors; /* [rows][dim] */
    int64_t dim, keep;
    int32_t *where;       /* [rows][keep] */
    int failed;
};

INLINE uint32_t size_pattern(float number) {
    uint32_t pattern;
    memcpy(&pattern, &number, 4);
    return pattern & 0x7FFFFFFF;
}

/* The `*keep`-th largest of `count` patterns, which are overwritten; `*keep` becomes how many of its equals belong. */
static uint32_t smallest_kept(uint32_t *patterns, int64_t count, int64_t *keep) {
    for (int shift = 31 - DIGIT;; shift = shift > DIGIT ? shift - DIGIT : 0) {
        int64_t counts[DIGITS] = {0};
        for (int64_t i = 0; i < count; i++) counts[patterns[i] >> shift & (DIGITS - 1)]++;
        uint32_t digit = DIGITS - 1;
        for (; counts[digit] < *keep; digit--) *keep -= counts[digit];
        int64_t left = 0;
        uint32_t found = 0;
        for (int64_t i = 0; i < count; i++) {
            uint32_t pattern = patterns[i];
            int same = (pattern >> shift & (DIGITS - 1)) == digit;
            patterns[left] = pattern;
            left += same;
            found = same ? pattern : found;
        }
        count = left;
        if (!shift || count == 1) return found;
    }
}

static void largest_of_row(void *job, int worker, int row) {
    (void)worker;
    struct largest *l = job;
    const float *vector = l->vectors + row * l->dim;
    int32_t *where = l->where + row * l->keep;
    uint32_t *patterns = malloc(l->dim * sizeof *patterns);
    if (!patterns) {
        l->failed = 1;
        return;
    }
    int64_t equals = l->keep, kept = 0;
    for (int64_t i = 0; i < l->dim; i++) patterns[i] = size_pattern(vector[i]);
    uint32_t least = smallest_kept(patterns, l->dim, &equals);
    for (int64_t i = 0; i < l->dim && kept < l->keep; i++) {
        uint32_t pattern = size_pattern(vector[i]);
        int same = pattern == least && equals > 0;
        where[kept] = (int32_t)i;
        kept += pattern > least || same;
        equals -= same;
    }
    free(patterns);
}

#endif
