/* Vectors as wide as the machine's registers, by the extensions that GCC and Clang share.
 *
 * Multiply-adds are asked for by name: the library is compiled without contraction, because the quantiser must
 * round like the codec's NumPy code, product by product.
 */
#ifndef OFEDIQ_VECTORS_H
#define OFEDIQ_VECTORS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

/* Channels come in multiples of this, so that rows are whole vectors on every machine. */
#define CHANNELS 16

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t loose_ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 24")

INLINE vec load(const float *from) { return *(const loose_vec *)from; }
INLINE void store(float *to, vec value) { *(loose_vec *)to = value; }
INLINE ivec load_codes(const int32_t *from) { return *(const loose_ivec *)from; }
INLINE void store_codes(int32_t *to, ivec value) { *(loose_ivec *)to = value; }
INLINE vec spread(float value) { return value - (vec){0}; }
INLINE vec keep(ivec mask, vec value) { return (vec)(mask & (ivec)value); }

INLINE vec multiply_add(vec a, vec b, vec c) {
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX__) && defined(__FMA__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

/* The larger one; `b` where the two cannot be compared, so that maximum(0, x) hands a NaN on. */
INLINE vec maximum(vec a, vec b) {
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    ivec mask = (ivec)(a > b);
    return (vec)((mask & (ivec)a) | (~mask & (ivec)b));
#endif
}

INLINE float sum_lanes(vec value) {
    float total = 0;
    for (int lane = 0; lane < LANES; lane++) total += value[lane];
    return total;
}

/* to += factor * from, `count` a multiple of LANES. */
INLINE void add_scaled(float *to, float factor, const float *from, size_t count) {
    vec wide = spread(factor);
    for (size_t at = 0; at < count; at += LANES) store(to + at, multiply_add(wide, load(from + at), load(to + at)));
}

/* values *= factor; there is a vector of room at the end. */
INLINE void scale(float *values, float factor, size_t count) {
    for (size_t at = 0; at < count; at += LANES) store(values + at, load(values + at) * factor);
}

INLINE size_t rounded_up(size_t count, size_t unit) { return (count + unit - 1) / unit * unit; }

/* to[column * to_stride + row] = from[row * from_stride + column], in tiles that stay in the first-level cache. */
static void transpose(float *to, size_t to_stride, const float *from, size_t from_stride, size_t rows,
                      size_t columns) {
    enum { SQUARE = 16 };
    for (size_t row0 = 0; row0 < rows; row0 += SQUARE) {
        size_t row1 = row0 + SQUARE < rows ? row0 + SQUARE : rows;
        for (size_t column0 = 0; column0 < columns; column0 += SQUARE) {
            size_t column1 = column0 + SQUARE < columns ? column0 + SQUARE : columns;
            for (size_t column = column0; column < column1; column++)
                for (size_t row = row0; row < row1; row++)
                    to[column * to_stride + row] = from[row * from_stride + column];
        }
    }
}

#endif
