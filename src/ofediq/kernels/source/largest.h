/* Where the largest sizes of many vectors are, in ascending order; of equal sizes the first ones (codec/schemes/sparse.py).
 *
 * Sizes are compared as bit patterns, whose order is theirs: eight bits at a time say which of them can still be the
 * smallest that is kept. Before, most are left out in vectors: at least k sizes are no smaller than the k-th largest of
 * the maxima of groups.
 */
#ifndef OFEDIQ_LARGEST_H
#define OFEDIQ_LARGEST_H

#include <stdlib.h>

#include "quantizer.h"
#include "threads.h"

enum { DIGIT = 8, DIGITS = 1 << DIGIT };

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

/* Sizes below this are none of the `keep` largest. */
static int32_t lower_bound(const float *vector, int64_t dim, int64_t keep, uint32_t *maxima) {
    int deep = 16 * keep <= dim ? 8 : 2; /* twice as many groups as are kept, or it leaves hardly anything out */
    int64_t groups = dim / (deep * LANES) * LANES;
    if (2 * keep > groups) return 0;
    for (int64_t at = 0; at < groups; at += LANES) {
        ivec most = sizes_of(vector + at * deep);
        for (int n = 1; n < deep; n++) most = larger(sizes_of(vector + at * deep + n * LANES), most);
        store_codes((int32_t *)maxima + at, most);
    }
    return (int32_t)smallest_kept(maxima, groups, &keep);
}

/* Where sizes of at least `bound` are, and how many. */
static int64_t candidates(const float *vector, int64_t dim, int32_t bound, int32_t *where) {
    int64_t count = 0, at = 0;
    for (; at + LANES <= dim; at += LANES) {
        ivec sizes = sizes_of(vector + at);
        if (!any_above(sizes, bound - 1)) continue;
        for (int lane = 0; lane < LANES; lane++) {
            where[count] = (int32_t)at + lane;
            count += sizes[lane] >= bound;
        }
    }
    for (; at < dim; at++) {
        where[count] = (int32_t)at;
        count += (int32_t)size_pattern(vector[at]) >= bound;
    }
    return count;
}

/* Where the `keep` largest of a vector are; room for dim + 1 and dim numbers. */
static void find_largest(const float *vector, int64_t dim, int64_t keep, int32_t *likely, uint32_t *patterns,
                         int32_t *where) {
    int64_t equals = keep, kept = 0;
    int64_t count = candidates(vector, dim, lower_bound(vector, dim, keep, patterns), likely);
    for (int64_t i = 0; i < count; i++) patterns[i] = size_pattern(vector[likely[i]]);
    uint32_t least = smallest_kept(patterns, count, &equals);
    for (int64_t i = 0; i < count && kept < keep; i++) {
        uint32_t pattern = size_pattern(vector[likely[i]]);
        int same = pattern == least && equals > 0;
        where[kept] = likely[i];
        kept += pattern > least || same;
        equals -= same;
    }
}

static void largest_of_row(void *job, int worker, int row) {
    (void)worker;
    struct largest *l = job;
    int32_t *likely = malloc((2 * l->dim + 1) * sizeof *likely);
    if (!likely) {
        l->failed = 1;
        return;
    }
    find_largest(l->vectors + row * l->dim, l->dim, l->keep, likely, (uint32_t *)likely + l->dim + 1,
                 l->where + row * l->keep);
    free(likely);
}

#endif
