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

/* -DLANES=n makes plain vectors of another width: slow, but any width can be tested on any machine. */
#if defined(LANES)
#elif defined(__AVX512F__)
#include <immintrin.h>
#define AVX512 1
#define LANES 16
#elif defined(__AVX__)
#include <immintrin.h>
#define AVX 1
#define LANES 8
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#define NEON 1
#define LANES 4
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

/* Compilers like to load again what is used again, which is more than a core can load. */
INLINE vec in_register(vec value) {
#if AVX512 || AVX
    __asm__("" : "+x"(value));
#elif NEON
    __asm__("" : "+w"(value));
#endif
    return value;
}

INLINE vec multiply_add(vec a, vec b, vec c) {
#if AVX512
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif AVX && defined(__FMA__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif NEON
    return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

/* The larger one; `b` where the two cannot be compared, so that maximum(0, x) hands a NaN on. */
INLINE vec maximum(vec a, vec b) {
#if AVX512
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif AVX
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    ivec mask = (ivec)(a > b);
    return (vec)((mask & (ivec)a) | (~mask & (ivec)b));
#endif
}

INLINE ivec larger(ivec a, ivec b) {
#if AVX512
    return (ivec)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif AVX && defined(__AVX2__)
    return (ivec)_mm256_max_epi32((__m256i)a, (__m256i)b);
#elif NEON
    return (ivec)vmaxq_s32((int32x4_t)a, (int32x4_t)b);
#else
    ivec more = a > b;
    return (a & more) | (b & ~more);
#endif
}

INLINE float sum_lanes(vec value) {
#if AVX512
    return _mm512_reduce_add_ps((__m512)value);
#elif AVX
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128((__m256)value), _mm256_extractf128_ps((__m256)value, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
#else
    float total = 0;
    for (int lane = 0; lane < LANES; lane++) total += value[lane];
    return total;
#endif
}

INLINE int32_t add_lanes(ivec value) {
#if AVX512
    return _mm512_reduce_add_epi32((__m512i)value);
#elif AVX && defined(__AVX2__)
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128((__m256i)value), _mm256_extracti128_si256((__m256i)value, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
#elif NEON
    return vaddvq_s32((int32x4_t)value);
#else
    int32_t total = 0;
    for (int lane = 0; lane < LANES; lane++) total += value[lane];
    return total;
#endif
}

/* Of lanes that are not negative. */
INLINE int32_t largest_lane(ivec value) {
#if AVX512
    return _mm512_reduce_max_epi32((__m512i)value);
#elif AVX && defined(__AVX2__)
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128((__m256i)value), _mm256_extracti128_si256((__m256i)value, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(most, _mm_shuffle_epi32(most, 0xB1)));
#elif NEON
    return vmaxvq_s32((int32x4_t)value);
#else
    int32_t most = 0;
    for (int lane = 0; lane < LANES; lane++) most = value[lane] > most ? value[lane] : most;
    return most;
#endif
}

INLINE int any_above(ivec value, int32_t bound) {
#if AVX512
    return _mm512_cmpgt_epi32_mask((__m512i)value, _mm512_set1_epi32(bound)) != 0;
#elif AVX && defined(__AVX2__)
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32((__m256i)value, _mm256_set1_epi32(bound))) != 0;
#else
    return largest_lane(value) > bound;
#endif
}

/* Whether all are 0, of whatever sign. */
INLINE int all_zero(vec value) {
#if AVX512
    return _mm512_test_epi32_mask((__m512i)value, _mm512_set1_epi32(0x7FFFFFFF)) == 0;
#elif AVX
    return _mm256_testz_si256((__m256i)value, _mm256_set1_epi32(0x7FFFFFFF));
#else
    return largest_lane((ivec)value & 0x7FFFFFFF) == 0;
#endif
}

/* to[n] = sum of the lanes of values[n], for four at once. */
INLINE void store_sums(float *to, const vec values[4]) {
#if AVX || AVX512
    __m256 halves[4];
    for (int n = 0; n < 4; n++) {
#if AVX512
        __m512 value = (__m512)values[n];
        __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(value), 1));
        halves[n] = _mm256_add_ps(_mm512_castps512_ps256(value), upper);
#else
        halves[n] = (__m256)values[n];
#endif
    }
    __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(halves[0], halves[1]), _mm256_hadd_ps(halves[2], halves[3]));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
#else
    for (int n = 0; n < 4; n++) to[n] = sum_lanes(values[n]);
#endif
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

#ifdef __has_builtin
#define SHUFFLES __has_builtin(__builtin_shufflevector)
#else
#define SHUFFLES 0
#endif

typedef float four __attribute__((vector_size(16)));
typedef float loose_four __attribute__((vector_size(16), aligned(4), may_alias));

/* to[column * to_stride + row] = from[row * from_stride + column], 4x4. */
INLINE void transpose_four(float *to, size_t to_stride, const float *from, size_t from_stride) {
#if SHUFFLES
    four rows[4];
    for (int n = 0; n < 4; n++) rows[n] = *(const loose_four *)(from + n * from_stride);
    four a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
    four b = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
    four c = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
    four d = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
    *(loose_four *)to = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    *(loose_four *)(to + to_stride) = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    *(loose_four *)(to + 2 * to_stride) = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    *(loose_four *)(to + 3 * to_stride) = __builtin_shufflevector(c, d, 2, 3, 6, 7);
#else
    for (int column = 0; column < 4; column++)
        for (int row = 0; row < 4; row++) to[column * to_stride + row] = from[row * from_stride + column];
#endif
}

/* The same for any number of rows and columns, in strips of columns. */
static void transpose(float *to, size_t to_stride, const float *from, size_t from_stride, size_t rows,
                      size_t columns) {
    size_t column = 0, whole = rows - rows % 4;
    for (; column + 4 <= columns; column += 4)
        for (size_t row = 0; row < whole; row += 4)
            transpose_four(to + column * to_stride + row, to_stride, from + row * from_stride + column, from_stride);
    for (size_t row = 0; row < rows; row++) /* what is left over */
        for (size_t at = row < whole ? column : 0; at < columns; at++)
            to[at * to_stride + row] = from[row * from_stride + at];
}

#endif
