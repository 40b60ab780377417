/* See ofediq.h. Everything rounds as ofediq's Python does, operation by operation: docs/wire-format.md has the
 * formats, src/ofediq/codec the same arithmetic in NumPy. Compile with -ffp-contract=off (or -std=c99), never with
 * -ffast-math: a product and a sum that are rounded once instead of twice give other bits. */
#include "ofediq.h"

#include <float.h>
#include <math.h>
#include <string.h>

#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "float must be rounded to 32 bits after each operation: on x86 compile with -mfpmath=sse"
#endif
#ifdef __FAST_MATH__
#error "-ffast-math changes bits"
#endif

#if OFEDIQ_PROTOCOL != 5
#error "ofediq_config.h is of another version of the protocol: take ofediq.h and ofediq.c of the same release"
#endif

enum { MODEL_HEAD = 24, SHORT_HEAD = 9, FRAME_HEAD = 7 };
enum { PURPOSE_PARTICIPATE = 1, PURPOSE_ROUND = 2, PURPOSE_NORM = 3 };

#define MAX_NORM 0x1.ffffep127f
#define TINY 0x1p-80f
#define TOP 0x1000000u /* frequencies add up to 2^24 */

typedef struct { /* of a quantiser: what both sides know */
  uint32_t levels, blocks, norm_bits;
  int entropy;
} shape;

typedef struct {
  uint32_t first, second;
} key;

static const uint16_t widths[] = OFEDIQ_WIDTHS; /* units of each layer, the sample first */

/* Bits and bytes ------------------------------------------------------------------------------------------------- */

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static int finite(float value) { return (bits_of(value) & 0x7F800000u) != 0x7F800000u; }

static uint64_t read_bytes(const uint8_t *data, unsigned count) {
  uint64_t value = 0;
  while (count--) value = value << 8 | data[count];
  return value;
}

static void write_bytes(uint8_t *data, uint64_t value, unsigned count) {
  while (count--) {
    *data++ = (uint8_t)value;
    value >>= 8;
  }
}

static float read_float(const uint8_t *data) { return float_of((uint32_t)read_bytes(data, 4)); }

#if OFEDIQ_SCHEME != OFEDIQ_RAW || OFEDIQ_DELTA
static unsigned bit_length(uint64_t value) {
  unsigned bits = 0;
  for (unsigned half = 32; half; half /= 2)
    if (value >> half) {
      value >>= half;
      bits += half;
    }
  return bits + (value != 0);
}
#endif

static uint32_t crc(uint32_t sum, const uint8_t *data, size_t bytes) {
  static const uint32_t nibble[16] = {0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
                                      0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                      0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
  sum = ~sum;
  while (bytes--) {
    sum ^= *data++;
    sum = nibble[sum & 15] ^ sum >> 4;
    sum = nibble[sum & 15] ^ sum >> 4;
  }
  return ~sum;
}

static uint32_t frame_checksum(uint64_t step, uint8_t flags, const uint8_t *body, size_t bytes) {
  uint8_t head[9];
  write_bytes(head, step, 8);
  head[8] = flags;
  return crc(crc(0, head, 9), body, bytes);
}

/* Draws: ofediq.randomness --------------------------------------------------------------------------------------- */

static uint32_t mix(uint32_t word) {
  word ^= word >> 16;
  word *= 0x7FEB352Du;
  word ^= word >> 15;
  word *= 0x846CA68Bu;
  return word ^ word >> 16;
}

static key stream(uint64_t step, uint32_t client, uint32_t purpose) {
  const uint32_t seed = OFEDIQ_SEED, now = (uint32_t)step, tag = purpose * 0x85EBCA6Bu;
  uint32_t left = mix(mix(mix(seed ^ 0x9E3779B9u) + now) ^ tag);
  uint32_t right = mix(mix(mix(seed ^ 0xD1B54A33u) ^ now) + tag);
  key made = {mix(left + client), mix(mix(client ^ 0xC2B2AE35u) + right)};
  return made;
}

static uint32_t word_at(key at, uint32_t index) { return mix(mix(index ^ at.first) + at.second); }

static float draw_at(key at, uint32_t index) { return ((float)(word_at(at, index) >> 9) + 0.5f) * 0x1p-23f; }

/* Sums and norms ------------------------------------------------------------------------------------------------- */

#if OFEDIQ_SCHEME != OFEDIQ_RAW || OFEDIQ_PARTICIPATION == OFEDIQ_BY_NORM
static float largest_size(const float *values, size_t count) {
  float most = 0;
  for (size_t i = 0; i < count; i++) {
    float size = fabsf(values[i]);
    if (size > most) most = size;
  }
  return most;
}
#endif

static int all_finite(const float *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!finite(values[i])) return 0;
  return 1;
}

#if OFEDIQ_PARTICIPATION == OFEDIQ_BY_NORM || OFEDIQ_SCHEME == OFEDIQ_GRID
/* methods.budgets.loudness */

static float term(const float *values, float unit, size_t index) {
  float share = values[index] / unit;
  return share * share;
}

/* Sum of (value / unit)^2 in NumPy's order: pairs of halves, eight sums at a time below 129. */
static float sum_squares(const float *values, float unit, size_t count) {
  if (count < 8) {
    float sum = -0.0f;
    for (size_t i = 0; i < count; i++) sum += term(values, unit, i);
    return sum;
  }
  if (count <= 128) {
    float r[8];
    size_t i = 8;
    for (size_t k = 0; k < 8; k++) r[k] = term(values, unit, k);
    for (; i < count - count % 8; i += 8)
      for (size_t k = 0; k < 8; k++) r[k] += term(values, unit, i + k);
    float sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < count; i++) sum += term(values, unit, i);
    return sum;
  }
  size_t half = count / 2;
  half -= half % 8;
  float first = sum_squares(values, unit, half);
  return first + sum_squares(values + half, unit, count - half);
}

static float length(const float *values) {
  float top = largest_size(values, OFEDIQ_DIM);
  if (!(top > 0) || !all_finite(values, OFEDIQ_DIM)) return 0;
  return top * sqrtf(0.0f + sum_squares(values, top, OFEDIQ_DIM));
}

static float common_step(float signal) { return float_of(bits_of(signal) & 0xFFFF0000u); }

static float loudest(float signal) { return float_of(bits_of(signal) << 16); }
#endif

#if OFEDIQ_SCHEME == OFEDIQ_GRID
static float own_step(float norm, float signal) {
  float step = common_step(signal), most = loudest(signal);
  float longest = (float)OFEDIQ_GRID_SPREAD * (most > 1 ? most : 1);
  if (!(norm > longest * 1.002f * step)) return step;
  float short_enough = norm / (longest * 1.001f);
  return float_of((bits_of(short_enough) + 0x7FFFFFu) & 0x7F800000u);
}
#endif

#if OFEDIQ_SCHEME == OFEDIQ_QUANTIZED
/* codec.arithmetic.block_norms */
static float block_norm(const float *values, size_t count) {
  float most = largest_size(values, count);
  uint32_t exponent = bits_of(most) >> 23;
  if (exponent < 47) exponent = 47;
  if (exponent > 254) exponent = 254;
  float scale = float_of((268 - exponent) << 23), unit = float_of((exponent - 14) << 23), square = 0;
  for (size_t start = 0; start < count; start += 8192) {
    size_t stop = count - start < 8192 ? count : start + 8192;
    int32_t low = 0, high = 0;
    for (size_t i = start; i < stop; i++) {
      int32_t whole = (int32_t)(fabsf(values[i]) * scale + 0.5f), squared = whole * whole;
      low += squared & 0xFFFF;
      high += squared >> 16;
    }
    high += low >> 16;
    square += (float)high * 65536.0f + (float)(low & 0xFFFF);
  }
  float root = sqrtf(square) * unit, norm = root > most * (1 + 0x1p-14f) ? root : most;
  if (most < TINY) return 0;
  return norm < MAX_NORM ? norm : MAX_NORM;
}

static float short_norm(float norm, float draw) {
  uint32_t bits = bits_of(norm), low = bits & 0x7FFF;
  uint32_t kept = (bits >> 15) + (draw * 32768.0f < (float)low);
  return float_of((kept < 0xFEFF ? kept : 0xFEFF) << 15);
}
#endif

#if OFEDIQ_SCHEME != OFEDIQ_RAW
/* codec.arithmetic.signed_symbols, in place; coordinate i of the update has the draw i. */
static void to_symbols(ofediq_client *client, size_t start, size_t count, float norm, uint32_t levels, key draws) {
  float factor = (float)levels / (norm == 0 ? 1 : norm);
  for (size_t i = start; i < start + count; i++) {
    float value = client->update.real[i], scaled = fabsf(value) * factor;
    int32_t base = (int32_t)scaled;
    int32_t level = base + (draw_at(draws, (uint32_t)i) < scaled - (float)base && base < (int32_t)levels);
    client->update.symbol[i] = bits_of(value) >> 31 ? -level : level;
  }
}

static float symbol_value(int32_t symbol, float norm, uint32_t levels) {
  return (float)symbol * (norm * (float)(1.0 / (double)levels));
}
#endif

#if OFEDIQ_SCHEME == OFEDIQ_QUANTIZED || OFEDIQ_DELTA
/* Blocks: the first `dim mod blocks` are longer by one. */
static size_t block_start(uint32_t block, uint32_t blocks) {
  size_t size = OFEDIQ_DIM / blocks, longer = OFEDIQ_DIM % blocks;
  return size * block + (block < longer ? block : longer);
}
#endif

#if OFEDIQ_SCHEME != OFEDIQ_RAW || OFEDIQ_DELTA
/* The uniform code: codec.packed ----------------------------------------------------------------------------------- */

typedef struct {
  uint64_t base, most; /* of the digits; the largest value of a group */
  uint32_t group, groups, loose, low_bytes;
} gathering;

static gathering gather(uint32_t count, uint64_t base) {
  gathering made = {base, base - 1, 1, 0, count, 0};
  /* base^(group + 1) <= 2^64, in terms of most = base^group - 1 */
  while (made.most <= (UINT64_MAX - (base - 1)) / base) {
    made.most = made.most * base + (base - 1);
    made.group++;
  }
  unsigned bits = bit_length(made.most);
  if (made.most == UINT64_MAX || (made.most & (made.most + 1)) == 0) bits++; /* of most + 1 */
  made.low_bytes = (bits - 25) / 8;
  if (count > 64) {
    made.groups = count / made.group;
    made.loose = count % made.group;
  }
  return made;
}

static uint64_t next_base(const gathering *one) { return (one->most >> 8 * one->low_bytes) + 1; }

typedef struct {
  uint32_t *limb;
  uint32_t size;
} big;

static void multiply_add(big *number, uint64_t factor, uint32_t more) {
  uint64_t carry = more;
  for (uint32_t i = 0; i < number->size; i++) {
    uint64_t now = number->limb[i] * factor + carry;
    number->limb[i] = (uint32_t)now;
    carry = now >> 32;
  }
  if (carry) number->limb[number->size++] = (uint32_t)carry;
}

/* Bytes and last bits of the last integer, below `span`. */
static uint32_t whole_bytes(big *span) {
  uint32_t i = 0;
  while (span->limb[i] == 0) span->limb[i++] = UINT32_MAX; /* span - 1 */
  span->limb[i]--;
  while (span->size > 1 && span->limb[span->size - 1] == 0) span->size--;
  uint32_t bits = 32 * (span->size - 1) + bit_length(span->limb[span->size - 1]);
  return bits ? (bits - 1) / 8 : 0;
}

#if OFEDIQ_SCHEME != OFEDIQ_RAW
static uint8_t big_byte(const big *number, uint32_t index) {
  return index / 4 < number->size ? (uint8_t)(number->limb[index / 4] >> 8 * (index % 4)) : 0;
}
#endif

static void spans(big *span, uint32_t count, uint64_t base) {
  span->limb[0] = 1;
  span->size = 1;
  while (count) {
    gathering one = gather(count, base);
    for (uint32_t i = 0; i < one.loose; i++) multiply_add(span, base, 0);
    base = next_base(&one);
    count = one.groups;
  }
}

/* Bytes of `count` packed symbols. */
static uint32_t packed_bytes(ofediq_client *client, uint32_t count, uint32_t levels) {
  big span = {client->scratch.packed.span, 1};
  uint32_t bytes = 0;
  uint64_t base = 2 * (uint64_t)levels + 1;
  spans(&span, count, base);
  while (count) {
    gathering one = gather(count, base);
    bytes += one.groups * one.low_bytes;
    base = next_base(&one);
    count = one.groups;
  }
  return bytes + whole_bytes(&span);
}
#endif

#if OFEDIQ_SCHEME != OFEDIQ_RAW
/* Symbols of client->update, in place; returns the bytes. Digit j of a round belongs to group j, so what is left of
 * the group can stay there. */
static uint32_t pack(ofediq_client *client, uint32_t count, uint32_t levels, uint8_t *out, uint8_t *tail) {
  uint32_t *digits = client->update.digit, written = 0;
  uint64_t base = 2 * (uint64_t)levels + 1;
  big last = {client->scratch.packed.last, 0}, span = {client->scratch.packed.span, 1};
  spans(&span, count, base);
  for (uint32_t i = 0; i < count; i++) digits[i] = (uint32_t)(client->update.symbol[i] + (int32_t)levels);
  while (count) {
    gathering one = gather(count, base);
    for (uint32_t i = one.group * one.groups; i < count; i++) multiply_add(&last, base, digits[i]);
    for (uint32_t j = 0; j < one.groups; j++) {
      uint64_t value = 0;
      for (uint32_t k = 0; k < one.group; k++) value = value * base + digits[j + k * one.groups];
      write_bytes(out + written, value, one.low_bytes);
      written += one.low_bytes;
      digits[j] = (uint32_t)(value >> 8 * one.low_bytes);
    }
    base = next_base(&one);
    count = one.groups;
  }
  uint32_t whole = whole_bytes(&span);
  for (uint32_t i = 0; i < whole; i++) out[written++] = big_byte(&last, i);
  *tail = big_byte(&last, whole);
  return written;
}
#endif

#if OFEDIQ_DELTA
/* The inverse: symbols into client->update; 0 if a number lies outside of its range. */
static int unpack(ofediq_client *client, const uint8_t *data, uint32_t bytes, uint8_t tail, uint32_t levels) {
  uint32_t *digits = client->update.digit, count = OFEDIQ_DIM, rounds = 0, body = 0;
  uint64_t base = 2 * (uint64_t)levels + 1;
  gathering made[40];
  big last = {client->scratch.packed.last, 0}, span = {client->scratch.packed.span, 1};
  spans(&span, count, base);
  while (count) {
    made[rounds] = gather(count, base);
    body += made[rounds].groups * made[rounds].low_bytes;
    base = next_base(&made[rounds]);
    count = made[rounds++].groups;
  }
  uint32_t whole = whole_bytes(&span);
  if (body + whole != bytes) return 0;
  last.size = whole / 4 + 1;
  memset(last.limb, 0, 4 * last.size);
  for (uint32_t i = 0; i <= whole; i++)
    last.limb[i / 4] |= (uint32_t)(i < whole ? data[body + i] : tail) << 8 * (i % 4);
  while (rounds--) {
    const gathering *one = &made[rounds];
    body -= one->groups * one->low_bytes;
    for (uint32_t j = 0; j < one->groups; j++) {
      uint64_t value = (uint64_t)digits[j] << 8 * one->low_bytes;
      value |= read_bytes(data + body + j * one->low_bytes, one->low_bytes);
      if (value > one->most) return 0;
      for (uint32_t k = one->group; k--; value /= one->base)
        digits[j + k * one->groups] = (uint32_t)(value % one->base);
    }
    for (uint32_t i = one->group * one->groups + one->loose; i-- > one->group * one->groups;) {
      uint64_t rest = 0;
      for (uint32_t k = last.size; k--;) { /* a base of 2^32 is a shift of a limb: nothing overflows */
        uint64_t now = rest << 32 | last.limb[k];
        last.limb[k] = (uint32_t)(now / one->base);
        rest = now % one->base;
      }
      digits[i] = (uint32_t)rest;
    }
  }
  for (uint32_t k = 0; k < last.size; k++)
    if (last.limb[k]) return 0;
  for (uint32_t i = 0; i < OFEDIQ_DIM; i++) client->update.symbol[i] = (int32_t)digits[i] - (int32_t)levels;
  return 1;
}
#endif

/* The entropy code: codec.tables, codec.stack, codec.exact ------------------------------------------------------- */

#if OFEDIQ_ENTROPY_BOTH

/* A model: runs of neighbouring symbols that are equally frequent, and one symbol that gets what rounding left. */
typedef struct {
  ofediq_run *runs;
  uint32_t count, alphabet, favourite, extra;
} model;

/* Words on a stack, little-endian, in `bytes` of room for `room`; `failed` if that was too little. */
typedef struct {
  uint8_t *bytes;
  uint32_t used, room;
  uint64_t state;
  int failed;
} stack;

static uint32_t class_of(uint32_t magnitude) {
  if (magnitude < 32) return magnitude;
  uint32_t octave = bit_length(magnitude) - 1;
  return 24 + 8 * (octave - 5) + (magnitude >> (octave - 3));
}

static uint32_t class_first(uint32_t one) {
  return one < 32 ? one : (8 + (one - 32) % 8) << ((one - 32) / 8 + 2);
}

static uint32_t class_last(uint32_t one, uint32_t levels) {
  uint32_t last = class_first(one + 1) - 1;
  return last < levels ? last : levels;
}

static uint64_t density(uint32_t code) { return code ? (uint64_t)(8 + code % 8) << code / 8 : 0; }

/* The class's code in table `entry` of the book; 0 behind its end. */
static uint32_t book_code(uint32_t entry, uint32_t one, uint32_t levels) {
  static const uint8_t octaves[8] = {0, 1, 2, 3, 4, 6, 8, 11};
  if (one == 0) return 255;
  int32_t first = 255 - 8 * octaves[entry % 8], least = first - 192 > 1 ? first - 192 : 1;
  int32_t code = first - (int32_t)(16 * (class_first(one) + class_last(one, levels)) >> entry / 8);
  return code < least ? 0 : (uint32_t)code;
}

#if OFEDIQ_ENTROPY
/* 2^16 log2: straight between 65 knots of each octave, as codec.tables.whole_log2. */
static uint32_t whole_log2(uint64_t number) {
  static const uint16_t knots[64] = {
      0,     1466,  2909,  4331,  5732,  7112,  8473,  9814,  11136, 12440, 13727, 14996, 16248, 17484, 18704, 19909,
      21098, 22272, 23433, 24579, 25711, 26830, 27936, 29029, 30109, 31178, 32234, 33279, 34312, 35334, 36346, 37346,
      38336, 39316, 40286, 41246, 42196, 43137, 44068, 44990, 45904, 46809, 47705, 48593, 49472, 50344, 51207, 52063,
      52911, 53751, 54584, 55410, 56229, 57040, 57845, 58643, 59434, 60219, 60997, 61769, 62534, 63294, 64047, 64794};
  uint32_t octave = bit_length(number) - 1;
  uint32_t part = (uint32_t)(octave > 16 ? number >> (octave - 16) : number << (16 - octave)) - 65536;
  uint32_t piece = part / 1024, rest = part % 1024, next = piece < 63 ? knots[piece + 1] : 65536;
  return (octave << 16) + knots[piece] + ((next - knots[piece]) * rest >> 10);
}

static uint32_t log2_density(uint32_t code) { return (code / 8 << 16) + whole_log2(8 + code % 8); }

static uint32_t symbols_in(uint32_t one, uint32_t levels) {
  return one ? 2 * (class_last(one, levels) - class_first(one) + 1) : 1;
}

static void sum_book(ofediq_client *client, uint32_t levels) {
  for (uint32_t entry = 0; entry < 120; entry++) {
    uint64_t total = 0;
    for (uint32_t one = 0; one <= class_of(levels); one++) {
      uint32_t code = book_code(entry, one, levels);
      if (!code) break;
      total += density(code) * symbols_in(one, levels);
    }
    client->book[entry] = whole_log2(total);
  }
}
#endif

/* The model of runs whose symbols have the weights density(codes[r]); sizes of the runs are in runs[r].each. */
static model frequencies(ofediq_run *runs, uint32_t count, const uint8_t *codes) {
  model made = {runs, count, 0, 0, 0};
  uint64_t total = 0, most = 0;
  for (uint32_t r = 0; r < count; r++) {
    uint64_t weight = density(codes[r]);
    runs[r].first = made.alphabet;
    if (weight > most) {
      most = weight;
      made.favourite = made.alphabet;
    }
    total += weight * runs[r].each;
    made.alphabet += runs[r].each;
  }
  uint64_t spare = TOP - made.alphabet;
  uint32_t start = 0;
  for (uint32_t r = 0; r < count; r++) {
    uint32_t size = runs[r].each;
    runs[r].start = start;
    runs[r].each = 1 + (uint32_t)(density(codes[r]) * spare / total);
    start += size * runs[r].each;
  }
  made.extra = TOP - start;
  runs[count].first = made.alphabet;
  return made;
}

/* Symbols -top to top, from a code for each class of magnitudes. */
static model signed_model(ofediq_client *client, const uint8_t *codes, uint32_t classes, uint32_t levels) {
  ofediq_run *runs = client->scratch.entropy.runs;
  uint8_t *each = client->scratch.entropy.codes;
  for (uint32_t one = 0; one < classes; one++) {
    uint32_t size = class_last(one, levels) - class_first(one) + 1;
    runs[classes - 1 - one].each = runs[classes - 1 + one].each = size;
    each[classes - 1 - one] = each[classes - 1 + one] = codes[one];
  }
  return frequencies(runs, 2 * classes - 1, each);
}

static void interval(const model *one, uint32_t symbol, uint32_t *start, uint32_t *own) {
  uint32_t low = 0, high = one->count;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (one->runs[middle].first <= symbol) low = middle;
    else high = middle;
  }
  *own = one->runs[low].each;
  *start = one->runs[low].start + (symbol - one->runs[low].first) * *own;
  if (symbol > one->favourite) *start += one->extra;
  if (symbol == one->favourite) *own += one->extra;
}

/* Groups of symbols as one symbol each: joint[i] is where its interval starts, if `group` is above 1. */
typedef struct {
  const model *each;
  uint32_t *joint;
  uint32_t group, steps, count, alphabet;
} product;

static product grouped(ofediq_client *client, const model *each, uint32_t count) {
  product made = {each, client->scratch.entropy.joint, 1, count, count, each->alphabet};
  uint32_t most = count / 16 < 1024 ? count / 16 : 1024;
  while ((uint64_t)made.alphabet * each->alphabet <= most) {
    made.alphabet *= each->alphabet;
    made.group++;
  }
  made.steps = (count + made.group - 1) / made.group;
  if (made.group == 1) return made;
  uint32_t *joint = made.joint, size = each->alphabet, start;
  for (uint32_t i = 0; i < size; i++) interval(each, i, &start, &joint[i]);
  for (uint32_t g = 1; g < made.group; g++) { /* from the last one on: what is read is not yet overwritten */
    for (uint32_t i = size; i--;) {
      uint32_t before = joint[i];
      for (uint32_t j = each->alphabet; j--;) {
        uint32_t own;
        interval(each, j, &start, &own);
        joint[i * each->alphabet + j] = (uint32_t)((uint64_t)before * own >> 24);
      }
    }
    size *= each->alphabet;
  }
  uint64_t total = 0, spare = TOP - size;
  uint32_t favourite = 0, rest = (uint32_t)spare;
  for (uint32_t i = 0; i < size; i++) {
    total += joint[i];
    if (joint[i] > joint[favourite]) favourite = i;
  }
  for (uint32_t i = 0; i < size; i++) {
    joint[i] = (uint32_t)(joint[i] * spare / total);
    rest -= joint[i];
  }
  joint[favourite] += rest;
  start = 0;
  for (uint32_t i = 0; i < size; i++) {
    uint32_t own = joint[i] + 1;
    joint[i] = start;
    start += own;
  }
  joint[size] = start;
  return made;
}

static void joint_interval(const product *by, uint32_t symbol, uint32_t *start, uint32_t *own) {
  if (by->group == 1) {
    interval(by->each, symbol, start, own);
    return;
  }
  *start = by->joint[symbol];
  *own = by->joint[symbol + 1] - *start;
}

#if OFEDIQ_ENTROPY
static void push_word(stack *to) {
  if (to->room - to->used < 4) {
    to->failed = 1;
    return;
  }
  write_bytes(to->bytes + to->used, (uint32_t)to->state, 4);
  to->used += 4;
}

static void push(stack *to, uint32_t start, uint32_t own) {
  if (to->state >> 40 >= own) {
    push_word(to);
    to->state >>= 32;
  }
  to->state = (to->state / own) << 24 | (start + to->state % own);
}
#endif

static void refill(stack *from) {
  while (from->state >> 32 == 0 && from->used) {
    uint32_t count = from->used % 4 ? from->used % 4 : 4; /* the last word may lack bytes, which are 0 */
    from->used -= count;
    from->state = from->state << 32 | read_bytes(from->bytes + from->used, count);
  }
}

static uint32_t strip(const uint8_t *bytes, uint32_t used) {
  while (used && bytes[used - 1] == 0) used--;
  return used;
}

/* Numbers in limbs of 24 bits, the lowest first: codec.exact. Returns the bytes of the fraction. */
static uint32_t write_exact(ofediq_client *client, const product *by, const uint32_t *symbols, uint32_t count,
                            uint8_t *out) {
  uint32_t *low = client->scratch.entropy.low, *width = client->scratch.entropy.width, size = 1;
  low[0] = 0;
  width[0] = 1;
  for (uint32_t n = 0; n < count; n++) {
    uint32_t start, own, carry = 0, more = 0;
    joint_interval(by, symbols[n], &start, &own);
    low[size] = 0;
    memmove(low + 1, low, 4 * size);
    low[0] = 0;
    width[size] = 0;
    size++;
    for (uint32_t i = 0; i < size; i++) {
      uint64_t sum = (uint64_t)width[i] * start + low[i] + more, made = (uint64_t)width[i] * own + carry;
      low[i] = (uint32_t)sum & 0xFFFFFF;
      more = (uint32_t)(sum >> 24);
      width[i] = (uint32_t)made & 0xFFFFFF;
      carry = (uint32_t)(made >> 24);
    }
  }
  /* `count` limbs hold low; low + width may need one bit more. */
  uint32_t top = count, *end = client->scratch.entropy.product, carry = 0;
  while (top && width[top] == 0) top--;
  uint32_t bits = 24 * top + bit_length(width[top]);
  for (uint32_t i = 0; i <= count; i++) {
    uint32_t sum = (i < size ? low[i] + width[i] : 0) + carry;
    end[i] = sum & 0xFFFFFF;
    carry = sum >> 24;
  }
  for (uint32_t bytes = 24 * count > bits ? (24 * count - bits) / 8 : 0;; bytes++) {
    /* the first `bytes` of low, rounded up; byte k from the top is byte 3 count - 1 - k from below */
    uint32_t lower = 3 * count > bytes ? 3 * count - bytes : 0, over = 0;
    for (uint32_t k = 0; k < lower && !over; k++) over = (low[k / 3] >> 8 * (k % 3) & 255) != 0;
    for (uint32_t k = bytes; k--;) {
      uint32_t place = 3 * count - 1 - k;
      uint32_t now = (k < 3 * count ? low[place / 3] >> 8 * (place % 3) & 255 : 0) + over;
      out[k] = (uint8_t)now;
      over = now >> 8;
    }
    if (over) continue; /* it reached 1 */
    int below = (int)end[count]; /* is the fraction below the end? */
    for (uint32_t k = 0; k < 3 * count && !below; k++) {
      uint32_t place = 3 * count - 1 - k, limit = end[place / 3] >> 8 * (place % 3) & 255;
      uint32_t here = k < bytes ? out[k] : 0;
      if (here != limit) {
        below = here < limit ? 1 : -1;
      }
    }
    if (below > 0) return strip(out, bytes);
  }
}

#if OFEDIQ_ENTROPY
/* Push symbols, `symbol_at(i) - lowest`, in groups; `bottom` for the first ones on an empty stack. */
typedef uint32_t (*symbol_at)(const ofediq_client *client, uint32_t index, uint32_t offset);

static uint32_t joint_symbol(const ofediq_client *client, const product *by, uint32_t step, symbol_at at,
                             uint32_t offset) {
  uint32_t joint = 0;
  for (uint32_t k = 0; k < by->group; k++) {
    uint32_t index = step + k * by->steps;
    joint = joint * by->each->alphabet + (index < by->count ? at(client, index, offset) : by->each->favourite);
  }
  return joint;
}

static void push_all(ofediq_client *client, stack *to, const model *each, uint32_t count, symbol_at at,
                     uint32_t offset, int bottom) {
  if (count == 0 || each->alphabet == 1) return;
  product by = grouped(client, each, count);
  uint32_t steps = by.steps;
  if (bottom && count <= 2048) {
    uint32_t few = steps < 64 ? steps : 64, *last = client->scratch.entropy.bottom;
    for (uint32_t i = 0; i < few; i++) last[i] = joint_symbol(client, &by, steps - few + i, at, offset);
    uint32_t bytes = write_exact(client, &by, last, few, client->scratch.entropy.bytes);
    if (bytes > to->room) {
      to->failed = 1;
      return;
    }
    memcpy(to->bytes, client->scratch.entropy.bytes, bytes);
    to->used = bytes;
    refill(to);
    steps -= few;
  }
  while (steps-- && !to->failed) {
    uint32_t start, own;
    joint_interval(&by, joint_symbol(client, &by, steps, at, offset), &start, &own);
    push(to, start, own);
  }
}

/* The whole code; 0 if it does not fit. */
static int finish(stack *to) {
  while (to->state && !to->failed) {
    push_word(to);
    to->state >>= 32;
  }
  to->used = strip(to->bytes, to->used);
  return !to->failed;
}

/* A table that fits classes with these counts, `size_of` symbols each; returns its bytes. */
static uint32_t write_table(const uint32_t *counts, uint32_t classes, uint32_t levels, uint8_t *out) {
  double most = 0;
  for (uint32_t one = 0; one < classes; one++) {
    double dense = (double)counts[one] / (double)(levels ? symbols_in(one, levels) : 1);
    if (dense > most) most = dense;
  }
  double scale = (double)density(255) / (most > 1e-9 ? most : 1e-9);
  *out++ = (uint8_t)(classes - 1);
  for (uint32_t one = 0; one < classes; one++) {
    double scaled = (double)counts[one] / (double)(levels ? symbols_in(one, levels) : 1) * scale;
    uint32_t low = 0, high = 255; /* how many middles between neighbours lie below */
    while (low < high) {
      uint32_t middle = (low + high) / 2;
      if ((double)(density(middle) + density(middle + 1)) / 2 < scaled) low = middle + 1;
      else high = middle;
    }
    out[one] = (uint8_t)(low == 0 && counts[one] ? 1 : low);
  }
  return classes + 1;
}

/* The model that fits scratch.entropy.counts best; returns its bytes, and the codes and number of its classes. */
static uint32_t write_model(ofediq_client *client, uint32_t levels, uint8_t *out, uint8_t *codes, uint32_t *classes) {
  const uint32_t *counts = client->scratch.entropy.counts;
  uint32_t used = 1, all = 0, total, best = 120;
  for (uint32_t one = 0; one <= class_of(levels); one++) {
    all += counts[one];
    if (counts[one]) used = one + 1;
  }
  total = whole_log2(all);
  uint64_t ideal = 0, least = 0;
  for (uint32_t one = 0; one < used; one++)
    if (counts[one])
      ideal += (uint64_t)counts[one] * (total + whole_log2(symbols_in(one, levels)) - whole_log2(counts[one]));
  for (uint32_t entry = 0; entry < 120; entry++) {
    if (!book_code(entry, used - 1, levels)) continue;
    uint64_t bits = 0;
    for (uint32_t one = 0; one < used; one++)
      if (counts[one])
        bits += (uint64_t)counts[one] * (client->book[entry] - log2_density(book_code(entry, one, levels)));
    if (best == 120 || bits < least) {
      best = entry;
      least = bits;
    }
  }
  if (best < 120 && least <= ideal + ((uint64_t)(8 * used) << 16)) {
    *out = (uint8_t)(128 + best);
    for (*classes = 0; *classes <= class_of(levels); ++*classes)
      if (!(codes[*classes] = (uint8_t)book_code(best, *classes, levels))) break;
    return 1;
  }
  uint32_t bytes = write_table(counts, used, levels, out);
  memcpy(codes, out + 1, used);
  *classes = used;
  return bytes;
}

static uint32_t live_symbol(const ofediq_client *client, uint32_t index, uint32_t offset) {
  return (uint32_t)(client->update.symbol[index] + (int32_t)offset);
}

/* Model and stack of the first `count` symbols of client->update; returns the bytes of the model. */
static uint32_t push_symbols(ofediq_client *client, stack *to, uint32_t count, uint32_t levels) {
  uint8_t codes[OFEDIQ_CLASSES_OF_SYMBOLS];
  uint32_t classes, *counts = client->scratch.entropy.counts;
  memset(counts, 0, 4 * (class_of(levels) + 1));
  for (uint32_t i = 0; i < count; i++) {
    int32_t symbol = client->update.symbol[i];
    counts[class_of((uint32_t)(symbol < 0 ? -symbol : symbol))]++;
  }
  if (to->room < 1 + OFEDIQ_CLASSES_OF_SYMBOLS) { /* a table may not fit, and then nothing would */
    to->failed = 1;
    return 0;
  }
  uint32_t bytes = write_model(client, levels, to->bytes, codes, &classes);
  model fitted = signed_model(client, codes, classes, levels);
  to->bytes += bytes;
  to->room -= bytes;
  push_all(client, to, &fitted, count, live_symbol, fitted.alphabet / 2, 1);
  return bytes;
}
#endif
#endif

/* Schemes: codec.schemes ----------------------------------------------------------------------------------------- */

#if OFEDIQ_SCHEME == OFEDIQ_RAW || OFEDIQ_SCHEME == OFEDIQ_QUANTIZED || OFEDIQ_SCHEME == OFEDIQ_GRID
static uint32_t write_floats(const float *values, uint8_t *out) {
  for (uint32_t i = 0; i < OFEDIQ_DIM; i++) write_bytes(out + 4 * i, bits_of(values[i]), 4);
  return 4 * OFEDIQ_DIM;
}
#endif

#if OFEDIQ_SCHEME == OFEDIQ_RAW
static uint32_t encode(ofediq_client *client, uint8_t *out, uint8_t *tail) {
  *tail = 0;
  return write_floats(client->update.real, out);
}
#endif

#if OFEDIQ_SCHEME == OFEDIQ_QUANTIZED
#if OFEDIQ_ENTROPY
#if OFEDIQ_BLOCKS >= 8
static uint32_t norm_class(const ofediq_client *client, uint32_t index, uint32_t offset) {
  uint32_t bits = bits_of(client->norms[index]);
  return bits ? (bits >> (OFEDIQ_NORM_BITS == 32 ? 24 : 23)) - offset : 0;
}
#endif

static uint32_t norm_pattern(float norm) { return OFEDIQ_NORM_BITS == 32 ? bits_of(norm) : bits_of(norm) >> 15; }

/* The payload, or a length of `room` and more if it is no use. Symbols are moved together: `restore` undoes it. */
static uint32_t encode_entropy(ofediq_client *client, uint8_t *out, uint32_t room) {
  const uint32_t width = OFEDIQ_NORM_BITS / 8;
  uint32_t count = 0, lowest = 255, highest = 0, head = 0, live = 0;
  for (uint32_t block = 0; block < OFEDIQ_BLOCKS; block++) {
    if (client->norms[block] == 0) continue;
    uint32_t top = norm_pattern(client->norms[block]) >> 8 * (width - 1);
    if (top < lowest) lowest = top;
    if (top > highest) highest = top;
    live++;
    for (size_t i = block_start(block, OFEDIQ_BLOCKS); i < block_start(block + 1, OFEDIQ_BLOCKS); i++)
      client->update.symbol[count++] = client->update.symbol[i];
  }
  if (!live) return 0;
#if OFEDIQ_BLOCKS >= 8
  uint8_t table[258];
  uint32_t counts[257] = {0};
  for (uint32_t block = 0; block < OFEDIQ_BLOCKS; block++) counts[norm_class(client, block, lowest - 1)]++;
  table[0] = (uint8_t)lowest;
  head = 1 + write_table(counts, highest - lowest + 2, 0, table + 1);
  if (head > room) return room;
  memcpy(out, table, head);
#endif
  stack to = {out + head, 0, room - head, 0, 0};
  head += push_symbols(client, &to, count, OFEDIQ_LEVELS);
#if OFEDIQ_BLOCKS < 8
  for (uint32_t block = OFEDIQ_BLOCKS; block--;)
    for (uint32_t i = width; i-- && !to.failed;)
      push(&to, (norm_pattern(client->norms[block]) >> 8 * i & 255) << 16, 1u << 16);
#else
  for (uint32_t block = OFEDIQ_BLOCKS; block--;)
    for (uint32_t i = width - 1; i-- && client->norms[block] != 0 && !to.failed;)
      push(&to, (norm_pattern(client->norms[block]) >> 8 * i & 255) << 16, 1u << 16);
  ofediq_run *runs = client->scratch.entropy.runs;
  for (uint32_t r = 0; r < highest - lowest + 2; r++) runs[r].each = 1;
  model classes = frequencies(runs, highest - lowest + 2, table + 2);
  push_all(client, &to, &classes, OFEDIQ_BLOCKS, norm_class, lowest - 1, 0);
#endif
  return finish(&to) ? head + to.used : room;
}

/* Symbols back into their blocks. */
static void restore(ofediq_client *client) {
  uint32_t count = 0;
  for (uint32_t block = 0; block < OFEDIQ_BLOCKS; block++)
    if (client->norms[block] != 0)
      count += (uint32_t)(block_start(block + 1, OFEDIQ_BLOCKS) - block_start(block, OFEDIQ_BLOCKS));
  for (uint32_t block = OFEDIQ_BLOCKS; block--;)
    for (size_t i = block_start(block + 1, OFEDIQ_BLOCKS); i-- > block_start(block, OFEDIQ_BLOCKS);)
      client->update.symbol[i] = client->norms[block] != 0 ? client->update.symbol[--count] : 0;
}
#endif

static uint32_t encode(ofediq_client *client, uint8_t *out, uint8_t *tail) {
  key draws = stream(client->step, client->number, PURPOSE_ROUND);
  key norm_draws = stream(client->step, client->number, PURPOSE_NORM);
  for (uint32_t block = 0; block < OFEDIQ_BLOCKS; block++) {
    size_t start = block_start(block, OFEDIQ_BLOCKS), size = block_start(block + 1, OFEDIQ_BLOCKS) - start;
    float norm = block_norm(client->update.real + start, size);
    to_symbols(client, start, size, norm, OFEDIQ_LEVELS, draws);
    client->norms[block] = OFEDIQ_NORM_BITS == 16 ? short_norm(norm, draw_at(norm_draws, block)) : norm;
  }
  uint32_t packed = OFEDIQ_BLOCKS * OFEDIQ_NORM_BITS / 8 + packed_bytes(client, OFEDIQ_DIM, OFEDIQ_LEVELS);
  uint32_t fixed = packed < 4 * OFEDIQ_DIM ? packed : 4 * OFEDIQ_DIM;
  *tail = 0;
#if OFEDIQ_ENTROPY
  uint32_t bytes = encode_entropy(client, out, fixed + OFEDIQ_SLACK);
  if (bytes < fixed) return bytes;
  restore(client);
#endif
  if (fixed == packed) {
    for (uint32_t block = 0; block < OFEDIQ_BLOCKS; block++, out += OFEDIQ_NORM_BITS / 8)
      write_bytes(out, bits_of(client->norms[block]) >> (32 - OFEDIQ_NORM_BITS - (OFEDIQ_NORM_BITS == 16)),
                  OFEDIQ_NORM_BITS / 8);
    pack(client, OFEDIQ_DIM, OFEDIQ_LEVELS, out, tail);
    return fixed;
  }
  for (uint32_t block = 0; block < OFEDIQ_BLOCKS; block++)
    for (size_t i = block_start(block, OFEDIQ_BLOCKS); i < block_start(block + 1, OFEDIQ_BLOCKS); i++)
      client->update.real[i] = symbol_value(client->update.symbol[i], client->norms[block], OFEDIQ_LEVELS);
  return write_floats(client->update.real, out);
}
#endif

#if OFEDIQ_SCHEME == OFEDIQ_GRID
static float grid_norm(float step) {
  float norm = 32768.0f * step;
  return norm < MAX_NORM ? norm : MAX_NORM;
}

static uint32_t encode(ofediq_client *client, uint8_t *out, uint8_t *tail) {
  float common = grid_norm(common_step(client->signal));
  float wanted = grid_norm(own_step(length(client->update.real), client->signal));
  float most = largest_size(client->update.real, OFEDIQ_DIM);
  if (most > wanted) wanted = most;
  int own = wanted > common, any = 0;
  float norm = own ? (wanted < MAX_NORM ? wanted : MAX_NORM) : common;
  if (norm < TINY) norm = 0;
  own = own && norm > 0;
  key draws = stream(client->step, client->number, PURPOSE_ROUND);
  to_symbols(client, 0, OFEDIQ_DIM, norm == 0 ? MAX_NORM : norm, 32768, draws);
  for (uint32_t i = 0; i < OFEDIQ_DIM && !any; i++) any = client->update.symbol[i] != 0;
  *tail = 0;
  if (!any) return 0;
  uint32_t packed = packed_bytes(client, OFEDIQ_DIM, 32768), fixed = packed;
  if (own) fixed = packed + 4 < 4 * OFEDIQ_DIM ? packed + 4 : 4 * OFEDIQ_DIM;
  uint32_t head = own ? 5 : 0;
  stack to = {out + head, 0, fixed + OFEDIQ_SLACK - head, 0, 0};
  out[0] = 0x7F;
  write_bytes(out + 1, bits_of(norm), 4);
  head += push_symbols(client, &to, OFEDIQ_DIM, 32768);
  if (finish(&to) && head + to.used < fixed && head + to.used != packed) return head + to.used;
  if (own && 4 * OFEDIQ_DIM < packed + 4) {
    for (uint32_t i = 0; i < OFEDIQ_DIM; i++)
      client->update.real[i] = symbol_value(client->update.symbol[i], norm, 32768);
    return write_floats(client->update.real, out);
  }
  if (own) write_bytes(out, bits_of(norm), 4);
  return (own ? 4 : 0) + pack(client, OFEDIQ_DIM, 32768, out + (own ? 4 : 0), tail);
}
#endif

/* Differences of the model: methods.broadcast.Delta ---------------------------------------------------------------- */

#if OFEDIQ_DELTA
#if OFEDIQ_DELTA_ENTROPY
static uint32_t pop(stack *from, const product *by) {
  refill(from);
  uint32_t place = (uint32_t)from->state & (TOP - 1), low = 0, high = by->alphabet, start, own;
  while (high - low > 1) { /* the last symbol that starts at or before `place` */
    uint32_t middle = low + (high - low) / 2;
    joint_interval(by, middle, &start, &own);
    if (start <= place) low = middle;
    else high = middle;
  }
  joint_interval(by, low, &start, &own);
  from->state = own * (from->state >> 24) + place - start;
  return low;
}

static uint32_t pop_byte(stack *from) {
  refill(from);
  uint32_t byte = (uint32_t)(from->state >> 16) & 255;
  from->state = (from->state >> 24) << 16 | (from->state & 0xFFFF);
  return byte;
}

/* What is left on the stack, as bytes without zeros at the end. */
static uint32_t left_over(stack *from, uint8_t *out, uint32_t room) {
  refill(from);
  uint32_t used = from->used, more = from->state >> 32 ? 8 : from->state ? 4 : 0;
  if (used > room) return room + 1;
  memcpy(out, from->bytes, used);
  for (uint32_t i = 0; i < more; i++) {
    uint8_t byte = (uint8_t)(from->state >> 8 * i);
    if (used + i < room) out[used + i] = byte;
    else if (byte) return room + 1;
  }
  return strip(out, used + more < room ? used + more : room);
}

/* The inverse of write_exact into scratch.entropy.bottom; 0 if no sender writes this. */
static int read_exact(ofediq_client *client, const product *by, uint32_t count, uint32_t bytes) {
  uint8_t *data = client->scratch.entropy.bytes, again[208];
  uint32_t *rest = client->scratch.entropy.low, *width = client->scratch.entropy.width;
  uint32_t *trial = client->scratch.entropy.product, *symbols = client->scratch.entropy.bottom;
  if (bytes > 3 * count + 1) return 0;
  memset(rest, 0, 4 * (count + 1)); /* data / 256^bytes, in units of 2^-(24 count + 24) */
  for (uint32_t k = 0; k < bytes; k++) {
    uint32_t place = 3 * count + 2 - k;
    rest[place / 3] |= (uint32_t)data[k] << 8 * (place % 3);
  }
  memset(width, 0, 4 * (count + 1));
  width[0] = 1;
  for (uint32_t n = 0; n < count; n++) {
    uint32_t base = count - n, low = 0, high = by->alphabet, start, own; /* limbs below stay out of it */
    while (high - low > 1) {
      uint32_t middle = low + (high - low) / 2;
      uint64_t carry = 0;
      joint_interval(by, middle, &start, &own);
      for (uint32_t i = 0; i <= n; i++) {
        carry += (uint64_t)width[i] * start;
        trial[i] = (uint32_t)carry & 0xFFFFFF;
        carry >>= 24;
      }
      int above = carry != 0;
      for (uint32_t i = n + 1; i-- && !above;)
        if (trial[i] != rest[base + i]) above = trial[i] > rest[base + i] ? 1 : -1;
      if (above > 0) high = middle;
      else low = middle;
    }
    joint_interval(by, low, &start, &own);
    symbols[n] = low;
    int64_t borrow = 0;
    uint64_t carry = 0, more = 0;
    for (uint32_t i = 0; i <= n; i++) {
      carry += (uint64_t)width[i] * start;
      borrow += (int64_t)rest[base + i] - (int64_t)(carry & 0xFFFFFF);
      rest[base + i] = (uint32_t)(borrow & 0xFFFFFF);
      borrow >>= 24;
      carry >>= 24;
      more += (uint64_t)width[i] * own;
      trial[i] = (uint32_t)more & 0xFFFFFF;
      more >>= 24;
    }
    memcpy(width, trial, 4 * (n + 1));
    width[n + 1] = (uint32_t)more;
  }
  memcpy(again, data, bytes);
  return write_exact(client, by, symbols, count, data) == bytes && memcmp(again, data, bytes) == 0;
}

/* One symbol at `index` of the decoded ones; padding must be the favourite. */
static int put(ofediq_client *client, const product *by, uint32_t step, uint32_t joint, int32_t lowest, int norms) {
  for (uint32_t k = by->group; k--;) {
    uint32_t index = step + k * by->steps, symbol = joint % by->each->alphabet;
    joint /= by->each->alphabet;
    if (index >= by->count) {
      if (symbol != by->each->favourite) return 0;
    } else if (norms) {
      client->norms[index] = float_of(symbol);
    } else {
      client->update.symbol[index] = (int32_t)symbol + lowest;
    }
  }
  return 1;
}

static int pop_all(ofediq_client *client, stack *from, const model *each, uint32_t count, int norms) {
  int32_t lowest = norms ? 0 : -(int32_t)(each->alphabet / 2);
  product by = {each, 0, 1, count, count, each->alphabet};
  if (count && each->alphabet > 1) {
    by = grouped(client, each, count);
    uint32_t few = !norms && count <= 2048 ? (by.steps < 64 ? by.steps : 64) : 0;
    for (uint32_t step = 0; step < by.steps - few; step++)
      if (!put(client, &by, step, pop(from, &by), lowest, norms)) return 0;
    if (few) {
      uint32_t bytes = left_over(from, client->scratch.entropy.bytes, 3 * few + 1);
      if (!read_exact(client, &by, few, bytes)) return 0;
      for (uint32_t i = 0; i < few; i++)
        if (!put(client, &by, by.steps - few + i, client->scratch.entropy.bottom[i], lowest, norms)) return 0;
      return 1;
    }
  } else {
    for (uint32_t i = 0; i < count; i++)
      if (!put(client, &by, i, 0, lowest, norms)) return 0;
  }
  return norms || (from->state == 0 && from->used == 0);
}

/* The codes of a table or of the book at `data`; returns bytes read, 0 if it is none. */
static uint32_t read_model(const uint8_t *data, uint32_t bytes, uint32_t levels, uint8_t *codes, uint32_t *classes) {
  int any = 0;
  if (!bytes) return 0;
  if (data[0] >= 128 && levels) {
    if (data[0] >= 248) return 0;
    for (*classes = 0; *classes <= class_of(levels); ++*classes)
      if (!(codes[*classes] = (uint8_t)book_code(data[0] - 128u, *classes, levels))) break;
    return 1;
  }
  *classes = data[0] + 1u;
  if (*classes > (levels ? class_of(levels) + 1 : 256) || *classes + 1 > bytes) return 0;
  for (uint32_t one = 0; one < *classes; one++) any |= codes[one] = data[one + 1];
  return any ? *classes + 1 : 0;
}

static int decode_entropy(ofediq_client *client, const uint8_t *data, uint32_t bytes) {
  const uint32_t width = OFEDIQ_DELTA_NORM_BITS / 8, shift = OFEDIQ_DELTA_NORM_BITS == 32 ? 0 : 15;
  uint8_t codes[OFEDIQ_CLASSES_OF_SYMBOLS];
  uint32_t classes, head = 0, count = 0;
#if OFEDIQ_DELTA_BLOCKS >= 8
  uint8_t norm_codes[256];
  uint32_t norm_classes;
  if (bytes < 1) return 0;
  uint32_t table = read_model(data + 1, bytes - 1, 0, norm_codes, &norm_classes);
  if (!table || data[0] + norm_classes - 2 > 255) return 0;
  head = 1 + table;
#endif
  uint32_t read = read_model(data + head, bytes - head, OFEDIQ_DELTA_LEVELS, codes, &classes);
  if (!read || data[bytes - 1] == 0) {
    if (!read || head + read != bytes) return 0; /* an empty stack has no last byte */
  }
  head += read;
  stack from = {(uint8_t *)data + head, bytes - head, 0, 0, 0}; /* only read */
#if OFEDIQ_DELTA_BLOCKS < 8
  for (uint32_t block = 0; block < OFEDIQ_DELTA_BLOCKS; block++) {
    uint32_t pattern = 0;
    for (uint32_t i = 0; i < width; i++) pattern |= pop_byte(&from) << 8 * i;
    client->norms[block] = float_of(pattern << shift);
  }
#else
  ofediq_run *runs = client->scratch.entropy.runs;
  for (uint32_t r = 0; r < norm_classes; r++) runs[r].each = 1;
  model known = frequencies(runs, norm_classes, norm_codes);
  if (!pop_all(client, &from, &known, OFEDIQ_DELTA_BLOCKS, 1)) return 0;
  for (uint32_t block = 0; block < OFEDIQ_DELTA_BLOCKS; block++) {
    uint32_t one = bits_of(client->norms[block]), pattern = 0;
    if (!one) continue;
    for (uint32_t i = 0; i + 1 < width; i++) pattern |= pop_byte(&from) << 8 * i;
    pattern |= (data[0] + one - 1) << 8 * (width - 1);
    client->norms[block] = float_of(pattern << shift);
    if (!pattern) return 0;
  }
#endif
  for (uint32_t block = 0; block < OFEDIQ_DELTA_BLOCKS; block++)
    if (client->norms[block] != 0)
      count += (uint32_t)(block_start(block + 1, OFEDIQ_DELTA_BLOCKS) - block_start(block, OFEDIQ_DELTA_BLOCKS));
  if (!count) return 0;
  model fitted = signed_model(client, codes, classes, OFEDIQ_DELTA_LEVELS);
  if (!pop_all(client, &from, &fitted, count, 0)) return 0;
  for (uint32_t block = OFEDIQ_DELTA_BLOCKS; block--;)
    for (size_t i = block_start(block + 1, OFEDIQ_DELTA_BLOCKS); i-- > block_start(block, OFEDIQ_DELTA_BLOCKS);)
      client->update.symbol[i] = client->norms[block] != 0 ? client->update.symbol[--count] : 0;
  return 1;
}
#endif

/* Reads a difference into client->update and client->norms; 1 for symbols, 2 for numbers, 3 for zeros, 0 for none. */
static int read_difference(ofediq_client *client, const uint8_t *data, uint32_t bytes, int tailed) {
  const uint32_t width = OFEDIQ_DELTA_NORM_BITS / 8;
  uint8_t tail = 0;
  if (tailed) {
    if (!bytes || !data[0]) return 0;
    tail = *data++;
    bytes--;
  }
  uint32_t packed = OFEDIQ_DELTA_BLOCKS * width + packed_bytes(client, OFEDIQ_DIM, OFEDIQ_DELTA_LEVELS);
  uint32_t fixed = packed < 4 * OFEDIQ_DIM ? packed : 4 * OFEDIQ_DIM;
  if (bytes == fixed && fixed < packed) {
    for (uint32_t i = 0; i < OFEDIQ_DIM; i++) client->update.real[i] = read_float(data + 4 * i);
    return !tail && all_finite(client->update.real, OFEDIQ_DIM) ? 2 : 0;
  }
  if (bytes == fixed) {
    for (uint32_t block = 0; block < OFEDIQ_DELTA_BLOCKS; block++, data += width)
      client->norms[block] = float_of((uint32_t)read_bytes(data, width) << (width == 2 ? 15 : 0));
    if (!unpack(client, data, bytes - OFEDIQ_DELTA_BLOCKS * width, tail, OFEDIQ_DELTA_LEVELS)) return 0;
  } else {
#if OFEDIQ_DELTA_ENTROPY
    if (bytes > fixed || tail) return 0;
    if (!bytes) return 3;
    if (!decode_entropy(client, data, bytes)) return 0;
#else
    return 0;
#endif
  }
  for (uint32_t block = 0; block < OFEDIQ_DELTA_BLOCKS; block++) {
    float norm = client->norms[block];
    if (bits_of(norm) >> 31 || !(norm <= MAX_NORM)) return 0;
    for (size_t i = block_start(block, OFEDIQ_DELTA_BLOCKS); i < block_start(block + 1, OFEDIQ_DELTA_BLOCKS); i++)
      if (norm == 0 && client->update.symbol[i]) return 0;
  }
  return 1;
}

static void add_difference(ofediq_client *client, int kind) {
  const float unit = (float)(1.0 / OFEDIQ_DELTA_LEVELS);
  for (uint32_t block = 0; block < OFEDIQ_DELTA_BLOCKS && kind != 3; block++) {
    float norm = client->norms[block] * unit;
    for (size_t i = block_start(block, OFEDIQ_DELTA_BLOCKS); i < block_start(block + 1, OFEDIQ_DELTA_BLOCKS); i++)
      client->model[i] += kind == 2 ? client->update.real[i] : (float)client->update.symbol[i] * norm;
  }
}
#endif

/* Who sends: methods.participation --------------------------------------------------------------------------------- */

/* Whether it sends, and the rate that its update is divided by. */
static int sends(const ofediq_client *client, float *rate) {
  key at = stream(client->step, client->number, PURPOSE_PARTICIPATE);
#if OFEDIQ_PARTICIPATION == OFEDIQ_BERNOULLI
  *rate = (float)OFEDIQ_RATE;
  return draw_at(at, 0) < *rate;
#elif OFEDIQ_PARTICIPATION == OFEDIQ_FIXED_SIZE
  double wanted = client->clients * OFEDIQ_RATE, share;
  uint32_t count = (uint32_t)(wanted + 1e-9), rank = 0, mine = word_at(at, 0);
  if (count < 1) count = 1;
  share = (double)count / client->clients;
  *rate = (float)(share < OFEDIQ_RATE ? share : OFEDIQ_RATE);
  for (uint32_t other = 0; other < client->clients && rank < count; other++) {
    uint32_t theirs = word_at(stream(client->step, other, PURPOSE_PARTICIPATE), 0);
    rank += theirs < mine || (theirs == mine && other < client->number);
  }
  return rank < count && (wanted >= 1 || draw_at(at, 1) < (float)wanted);
#else
  float norm = length(client->update.real), most = loudest(client->signal);
  float one = (float)OFEDIQ_SPREAD * common_step(client->signal), loud;
  loud = norm >= one * most ? most : norm / one;
  if (!(norm > 0)) loud = 0;
  *rate = 0;
  if (loud > 0) *rate = loud < (float)OFEDIQ_FLOOR ? (float)OFEDIQ_FLOOR : loud > 1 ? 1 : loud;
  return draw_at(at, 0) < *rate;
#endif
}

/* The model: layers of dense units, ofediq.device.arithmetic ------------------------------------------------------- */

enum { LAYERS = sizeof widths / sizeof *widths - 1 };

#if OFEDIQ_CLASSES
static float negative_exp(float x) { /* e^x for x <= 0 */
  if (!(x >= -87)) return 0;
  int32_t power = (int32_t)(x * 1.44269504f - 0.5f);
  float whole = (float)power, r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return ((p * (r * r) + r) + 1) * float_of((uint32_t)(power + 127) << 23);
}
#endif

#if OFEDIQ_PIPELINE
#include "ofediq_features.h"
#endif
#if OFEDIQ_EXPERTS
#include "ofediq_mixture.h"
#endif

/* Results of all layers into client->units; returns those of the last one, as class scores where labels are known to
 * have a naive forecast. */
static const float *forward(ofediq_client *client, const float *params, const float *x) {
  float *out = client->units;
#if OFEDIQ_PIPELINE && OFEDIQ_CLASSES
  const float *anchors = x + OFEDIQ_FEATURES;
#endif
  for (int layer = 0; layer < LAYERS; layer++) {
    uint32_t inputs = widths[layer], outputs = widths[layer + 1];
    for (uint32_t j = 0; j < outputs; j++) out[j] = x[0] * params[j];
    for (uint32_t i = 1; i < inputs; i++)
      for (uint32_t j = 0; j < outputs; j++) out[j] = out[j] + x[i] * params[i * outputs + j];
    params += inputs * outputs;
    for (uint32_t j = 0; j < outputs; j++) {
      out[j] = out[j] + params[j];
      if (layer < LAYERS - 1 && !(out[j] > 0)) out[j] = 0;
    }
    params += outputs;
    x = out;
    out += outputs;
  }
#if OFEDIQ_PIPELINE && OFEDIQ_CLASSES
  for (uint32_t j = 0; j < OFEDIQ_OUTPUTS; j++) out[(int32_t)j - OFEDIQ_OUTPUTS] += anchors[j];
#endif
  return x;
}

#if OFEDIQ_CLASSES
static uint32_t best_class(const float *outputs) {
  uint32_t best = 0;
  for (uint32_t j = 1; j < OFEDIQ_OUTPUTS; j++)
    if (outputs[j] > outputs[best]) best = j;
  return best;
}
#endif

/* The error of outputs for the label y of a row, d loss / d outputs, and the loss. */
static float judge(const float *outputs, const float *row, float y, float *delta, float *loss) {
#if OFEDIQ_CLASSES
  uint32_t best = best_class(outputs), label = (uint32_t)y;
  float most = outputs[best], total = 0;
  (void)row;
  for (uint32_t j = 0; j < OFEDIQ_OUTPUTS; j++) {
    delta[j] = negative_exp(outputs[j] - most);
    total = total + delta[j];
  }
#if OFEDIQ_EXPERTS
  *loss = logf(total) - (outputs[label] - most);
#else
  (void)loss; /* nobody asks for it */
#endif
  for (uint32_t j = 0; j < OFEDIQ_OUTPUTS; j++) delta[j] = delta[j] / total - (j == label ? 1.0f : 0.0f);
  return best != label;
#elif OFEDIQ_PIPELINE
  const float forecast = row[OFEDIQ_FEATURES], unit = row[OFEDIQ_FEATURES + 1], most = (float)OFEDIQ_ANCHOR_LIMIT;
  float wanted = (y - forecast) / (unit > 0 ? unit : 1), miss = forecast + unit * outputs[0] - y;
  wanted = wanted < -most ? -most : wanted > most ? most : wanted;
  float residual = unit > 0 ? outputs[0] - wanted : 0;
  delta[0] = 2 * residual;
  *loss = residual * residual;
  return miss * miss;
#else
  float residual = outputs[0] - y;
  (void)row;
  delta[0] = 2 * residual;
  *loss = residual * residual;
  return *loss;
#endif
}

#if OFEDIQ_EXPERTS
/* What the experts say together of a row, into mixture.outputs. */
static const float *say_together(ofediq_client *client, const float *row) {
  ofediq_mixture *mixed = &client->mixture;
  float weights[OFEDIQ_EXPERTS];
  expert_weights(mixed, weights);
  for (uint32_t j = 0; j < OFEDIQ_OUTPUTS; j++) mixed->outputs[j] = OFEDIQ_CLASSES ? weights[1] * row[OFEDIQ_FEATURES + j] : 0;
  for (int i = 0; i <= OWN; i++) {
    const float *said = forward(client, i ? mixed->own[i - 1] : client->model, row);
    for (uint32_t j = 0; j < OFEDIQ_OUTPUTS; j++) mixed->outputs[j] += weights[i ? i + 1 : 0] * said[j];
  }
  return mixed->outputs;
}

/* A loss with the penalty of the model that made it; what is no number counts as the largest one. */
static float counted(float loss, const float *params) {
#if OFEDIQ_RIDGE
  (void)params; /* linear models without a penalty */
#else
  float squares = 0;
  for (uint32_t i = 0; i < OFEDIQ_DIM; i++) squares += params[i] * params[i];
  loss += (float)OFEDIQ_L2 / 2 * squares;
#endif
  return loss < 1e18f ? loss : 1e18f;
}
#endif

/* What the client predicts with. */
static const float *answers(ofediq_client *client, const float *row) {
#if OFEDIQ_EXPERTS
  return say_together(client, row);
#else
  return forward(client, client->model, row);
#endif
}

/* Where a gradient goes: it is added to client->update, and the client's own model moves, if there is one. */
static void take_gradient(ofediq_client *client, float *params, uint32_t at, float gradient) {
  client->update.real[at] = client->update.real[at] + gradient;
#if OFEDIQ_MOVES
  params[at] = params[at] - (float)OFEDIQ_STEP_SIZE * gradient;
#else
  (void)params;
#endif
}

typedef void (*taking)(ofediq_client *client, float *params, uint32_t at, float gradient);

/* Takes one gradient of `params`. */
static void step(ofediq_client *client, float *params, const float *x, float y, taking take) {
  float *delta = client->deltas[0], *before = client->deltas[1], loss;
  judge(forward(client, params, x), x, y, delta, &loss);
  uint32_t end = OFEDIQ_DIM;
  const float *units = client->units + OFEDIQ_UNITS - OFEDIQ_OUTPUTS;
  for (int layer = LAYERS; layer--;) {
    uint32_t inputs = widths[layer], outputs = widths[layer + 1], start = end - outputs * (inputs + 1);
    const float *below = layer ? units - inputs : x;
    for (uint32_t i = 0; layer && i < inputs; i++) {
      const float *row = params + start + i * outputs;
      float sum = delta[0] * row[0];
      for (uint32_t j = 1; j < outputs; j++) sum = sum + delta[j] * row[j];
      before[i] = below[i] > 0 ? sum : 0;
    }
    for (uint32_t i = 0; i <= inputs; i++)
      for (uint32_t j = 0; j < outputs; j++) {
        uint32_t at = start + i * outputs + j;
        float gradient = i < inputs ? below[i] * delta[j] : delta[j];
        if (OFEDIQ_L2 != 0) gradient = gradient + (float)OFEDIQ_L2 * params[at];
        take(client, params, at, gradient);
      }
    float *swap = delta;
    delta = before;
    before = swap;
    units = below;
    end = start;
  }
}

#if OFEDIQ_EXPERTS
#if !OFEDIQ_RIDGE
static void take_own(ofediq_client *client, float *params, uint32_t at, float gradient) {
  (void)params;
  learn_own(&client->mixture, at, gradient);
}
#endif

/* All models learn, and the weights follow their losses. */
static void learn_mixture(ofediq_client *client, const float *row, float y) {
  ofediq_mixture *mixed = &client->mixture;
  float losses[OFEDIQ_EXPERTS], loss, *delta = client->deltas[0];
  judge(forward(client, client->model, row), row, y, delta, &loss);
  losses[0] = counted(loss, client->model);
  for (uint32_t j = 0; j < OFEDIQ_OUTPUTS; j++) mixed->outputs[j] = OFEDIQ_CLASSES ? row[OFEDIQ_FEATURES + j] : 0;
  judge(mixed->outputs, row, y, delta, &loss);
  losses[1] = loss < 1e18f ? loss : 1e18f;
  for (int one = 0; one < OWN; one++) {
    judge(forward(client, mixed->own[one], row), row, y, delta, &loss);
    losses[one + 2] = counted(loss, mixed->own[one]);
#if OFEDIQ_RIDGE
    learn_own(mixed, one, row, delta);
#else
    step(client, mixed->own[one], row, y, take_own);
#endif
  }
  follow_losses(mixed, losses);
}
#endif

/* Messages: federation.protocol ------------------------------------------------------------------------------------- */

void ofediq_start(ofediq_client *client) {
  memset(client, 0, sizeof *client);
#if OFEDIQ_PIPELINE
  forget(&client->features);
#endif
#if OFEDIQ_ENTROPY && OFEDIQ_SCHEME != OFEDIQ_RAW
  sum_book(client, OFEDIQ_LEVELS);
#endif
}

int ofediq_task(ofediq_client *client, const uint8_t *data, size_t bytes) {
  int known = crc(0, data, bytes) == OFEDIQ_TASK;
  if (!known || !client->known) client->opened = 0;
  client->known = (uint8_t)known;
  return known ? OFEDIQ_NOTHING : OFEDIQ_OTHER_TASK;
}

/* What follows "name": in a flat JSON object, as the server writes it; NULL if it is not there. */
static const uint8_t *find(const uint8_t *data, size_t bytes, const char *name) {
  size_t length_of = strlen(name);
  for (size_t i = 0; i + length_of < bytes; i++)
    if (memcmp(data + i, name, length_of) == 0) return data + i + length_of;
  return NULL;
}

static int number_at(const uint8_t *at, const uint8_t *end, uint64_t *number) {
  int digits = 0;
  for (*number = 0; at && at < end && *at >= '0' && *at <= '9' && digits < 10; at++, digits++)
    *number = *number * 10 + (uint64_t)(*at - '0');
  return digits > 0 && at < end && (*at == ',' || *at == '}');
}

int ofediq_welcome(ofediq_client *client, const uint8_t *data, size_t bytes) {
  uint64_t protocol, number;
  const uint8_t *end = data + bytes;
  if (!number_at(find(data, bytes, "\"protocol\":"), end, &protocol) || protocol != OFEDIQ_PROTOCOL ||
      !number_at(find(data, bytes, "\"number\":"), end, &number) || number >= UINT32_MAX)
    return OFEDIQ_NOT_UNDERSTOOD;
  if (client->welcome && client->number != number) client->opened = 0; /* its draws have another address now */
  client->number = (uint32_t)number;
  client->welcome = 1;
  return find(data, bytes, "\"online\":false") ? OFEDIQ_GREET : OFEDIQ_NOTHING;
}

static int again(const ofediq_client *client) {
  return client->said_bytes && client->taken >= OFEDIQ_PERIOD ? OFEDIQ_SAY : OFEDIQ_NOTHING;
}

/* A round opens with the model as it is now. */
static int open_round(ofediq_client *client, uint64_t epoch, uint64_t step, uint32_t clients, float signal, int final) {
  client->epoch = epoch;
  client->step = step;
  client->clients = clients;
  client->signal = signal;
  client->final = (uint8_t)final;
  client->opened = 1;
  client->taken = client->learnt = client->said_bytes = 0;
  for (uint32_t i = 0; i < OFEDIQ_DIM; i++) client->update.real[i] = 0;
#if OFEDIQ_MOVES
  memcpy(client->own, client->model, sizeof client->own);
#endif
#if OFEDIQ_EXPERTS
  if (!client->mixture.begun) {
    begin_own(&client->mixture, client->model);
    client->mixture.spent = 1;
    client->mixture.begun = 1;
  }
#endif
  return OFEDIQ_NOTHING;
}

/* The number that steers, which stands beside a model; 0 if one there is not a number. */
static int read_signal(const uint8_t *data, float *signal) {
  *signal = 0;
#if OFEDIQ_SCALARS
  *signal = read_float(data + 4 * OFEDIQ_SIGNAL);
  for (uint32_t i = 0; i < OFEDIQ_SCALARS; i++) {
    float number = read_float(data + 4 * i);
    if (number != number) return 0;
  }
#else
  (void)data;
#endif
  return 1;
}

#if OFEDIQ_DELTA
/* The number nearest to `near` with these 16 low bits. */
static uint64_t nearest(uint64_t low, uint64_t near) { return near + (uint64_t)(int64_t)(int16_t)(uint16_t)(low - near); }

static int ask_again(ofediq_client *client) {
  client->taken = OFEDIQ_PERIOD; /* that round is over */
  return OFEDIQ_GREET;
}

/* A difference leaves out what is known; its checksum covers that as well. */
static int on_difference(ofediq_client *client, const uint8_t *data, size_t bytes) {
  uint8_t known[21];
  uint32_t fixed = SHORT_HEAD + 4 * OFEDIQ_SCALARS;
  int kind;
  float signal;
  if (!client->opened) return OFEDIQ_GREET;
  if (bytes < fixed || data[0] & 0x7E) return OFEDIQ_NOT_UNDERSTOOD;
  uint64_t now = nearest(read_bytes(data + 1, 2), client->step), clients = nearest(read_bytes(data + 3, 2), client->clients);
  if ((int64_t)now < 0 || (int64_t)clients < 1) return OFEDIQ_NOT_UNDERSTOOD;
  if (now < client->step) return OFEDIQ_NOTHING;
  if (now == client->step) return again(client);
  write_bytes(known, client->epoch, 8);
  write_bytes(known + 8, now, 8);
  write_bytes(known + 16, (uint32_t)clients, 4);
  known[20] = data[0];
  if (client->final || client->step + OFEDIQ_PERIOD != now) return ask_again(client);
  if (read_bytes(data + 5, 4) != crc(crc(0, known, 21), data + SHORT_HEAD, bytes - SHORT_HEAD)) return ask_again(client);
  if (!read_signal(data + SHORT_HEAD, &signal)) return OFEDIQ_NOT_UNDERSTOOD;
  /* it is read into the place of the update, so an open window ends here in any case */
  client->taken = OFEDIQ_PERIOD;
  if (!(kind = read_difference(client, data + fixed, (uint32_t)bytes - fixed, data[0] & 1))) return OFEDIQ_NOT_UNDERSTOOD;
  add_difference(client, kind);
  return open_round(client, client->epoch, now, (uint32_t)clients, signal, 0);
}
#endif

int ofediq_model(ofediq_client *client, const uint8_t *data, size_t bytes) {
  if (!bytes) return OFEDIQ_NOTHING; /* the broker has none yet */
  if (!client->known) return OFEDIQ_OTHER_TASK;
#if OFEDIQ_DELTA
  if (data[0] & 0x80) return on_difference(client, data, bytes);
#endif
  if (bytes < MODEL_HEAD || data[0] != 'O' || data[1] != 'M' || data[2] != OFEDIQ_PROTOCOL) return OFEDIQ_NOT_UNDERSTOOD;
  int final = data[3] & 1;
  uint64_t epoch = read_bytes(data + 4, 8), now = read_bytes(data + 12, 8);
  uint32_t clients = (uint32_t)read_bytes(data + 20, 4);
  const uint8_t *values = data + MODEL_HEAD + 4 * OFEDIQ_SCALARS;
  float signal;
  if (bytes != MODEL_HEAD + 4 * (OFEDIQ_SCALARS + OFEDIQ_DIM) || clients < 1) return OFEDIQ_NOT_UNDERSTOOD;
  if (!read_signal(data + MODEL_HEAD, &signal)) return OFEDIQ_NOT_UNDERSTOOD;
  for (uint32_t i = 0; i < OFEDIQ_DIM; i++)
    if (!finite(read_float(values + 4 * i))) return OFEDIQ_NOT_UNDERSTOOD;
  if (client->opened) {
    if (epoch < client->epoch || (epoch == client->epoch && now < client->step)) return OFEDIQ_NOTHING;
    if (now == client->step && !final) { /* asked again, maybe after a restart of the server */
      client->epoch = epoch;
      return again(client);
    }
  }
  for (uint32_t i = 0; i < OFEDIQ_DIM; i++) client->model[i] = read_float(values + 4 * i);
  return open_round(client, epoch, now, clients, signal, final);
}

int ofediq_hungry(const ofediq_client *client) {
  return client->opened && client->welcome && !client->final && client->taken < OFEDIQ_PERIOD;
}

/* Whether readings can be used: a missing one is NaN, where features are made. */
static int readable(const float *x) {
  for (uint32_t i = 0; i < OFEDIQ_READINGS; i++)
    if (!finite(x[i]) && (!OFEDIQ_PIPELINE || x[i] == x[i])) return 0;
  return 1;
}

#if OFEDIQ_PIPELINE && OFEDIQ_CALENDAR
void ofediq_time(ofediq_client *client, double seconds) { client->features.time = seconds; }
#endif

int ofediq_predict(ofediq_client *client, const float *x, float *prediction) {
  if (!client->opened) return OFEDIQ_NO_MODEL;
  if (!readable(x)) return OFEDIQ_NOT_UNDERSTOOD;
#if OFEDIQ_PIPELINE
  observe(&client->features, x);
  x = client->features.row;
#endif
  const float *outputs = answers(client, x);
#if OFEDIQ_CLASSES
  *prediction = (float)best_class(outputs);
#elif OFEDIQ_PIPELINE
  *prediction = x[OFEDIQ_FEATURES] + x[OFEDIQ_FEATURES + 1] * outputs[0];
#else
  *prediction = outputs[0];
#endif
  return OFEDIQ_NOTHING;
}

/* Reports: federation.protocol.reports. Sums are rounded down to what four bytes hold, the rest waits for the next. */

static const double sixteenths[16] = {
    1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721,
    1.241857812073484, 1.2968395546510096, 1.3542555469368927, 1.4142135623730951, 1.4768261459394993,
    1.5422108254079407, 1.6104903319492543, 1.681792830507429, 1.7562521603732995, 1.8340080864093424,
    1.9152065613971474};

static const double thirtieths[30] = {
    1.0, 1.023373891996775, 1.0472941228206267, 1.0717734625362931, 1.096824979694626,
    1.122462048309373, 1.148698354997035, 1.1755479062836087, 1.2030250360821166, 1.2311444133449163,
    1.2599210498948732, 1.2893703084395791, 1.3195079107728942, 1.35034994616819, 1.381912879967776,
    1.4142135623730951, 1.4472692374403782, 1.4810975522865641, 1.515716566510398, 1.5511447618337346,
    1.5874010519681994, 1.624504792712471, 1.6624757922855755, 1.7013343219017114, 1.7411011265922482,
    1.7817974362806785, 1.8234449771164336, 1.8660659830736148, 1.9096832078208332, 1.9543199368684918};

static uint32_t count_of(uint32_t code) {
  if (code < 128) return code;
  return (uint32_t)((double)(128u << (code - 128) / 16) * sixteenths[(code - 128) % 16]);
}

static uint32_t count_code(uint32_t count) {
  uint32_t code = count < 128 ? count : 128;
  while (count >= 128 && code < 255 && count_of(code + 1) <= count) code++;
  return code;
}

static double sum_of(uint32_t code) {
  if (code < 256) return (double)code;
  uint64_t bits = (uint64_t)(1023 - 64 + (code - 256) / 30) << 52;
  double power;
  memcpy(&power, &bits, 8);
  return power * thirtieths[(code - 256) % 30];
}

static uint32_t sum_code(double value) {
  if (value < 256 && value == (double)(uint32_t)value) return (uint32_t)value;
  uint32_t low = 255, high = 4096; /* the highest code that is not above; codes rise from 2^-64 on */
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (sum_of(middle) <= value) low = middle;
    else high = middle;
  }
  return low == 255 ? 0 : low;
}

static uint32_t told(double *sum, double share, double most) {
  double part = *sum * share;
  if (!(part > 0)) part = 0;
  double kept = sum_of(sum_code(part < most ? part : most));
  *sum -= kept;
  return sum_code(kept); /* a whole number has a code of its own */
}

/* The step's low bits, with a report if it is time for one. */
static void begin_message(ofediq_client *client, int last) {
  uint32_t number = 0;
  client->said_bytes = 2;
  if (OFEDIQ_REPORT_EVERY && (last || client->unreported + 1 > OFEDIQ_REPORT_EVERY)) {
    number = count_code(client->reported);
    client->unreported = 0;
  }
  if (number) {
    double share = (double)count_of(number) / (double)client->reported;
    double most = OFEDIQ_CLASSES ? (double)count_of(number) : DBL_MAX;
    uint32_t error = told(&client->error, share, most), naive = told(&client->naive, share, most);
    client->reported -= count_of(number);
    write_bytes(client->said + 2, number << 24 | error << 12 | naive, 4);
    client->said_bytes = 6;
  }
  write_bytes(client->said, (client->step & 0x7FFF) | (number ? 0x8000 : 0), 2);
}

static void note(ofediq_client *client, float error, float y) {
  double made = error < 1e18f ? (double)error : 1e18, naive = made;
  if (client->labelled) {
    double change = (double)client->label - (double)y;
    naive = OFEDIQ_CLASSES ? client->label != y : change * change;
    if (!(naive < 1e18)) naive = 1e18;
  }
  /* A first guess of a number that starts from the past says nothing: its error would be the target's size. */
  if (client->labelled || !OFEDIQ_PIPELINE || OFEDIQ_CLASSES > 0) {
    client->error += made;
    client->naive += naive;
    client->reported++;
  }
  client->label = y;
  client->labelled = 1;
  client->samples++;
}

/* The end of a window: a message, or not. */
static int close_window(ofediq_client *client) {
  float rate;
  client->unreported++;
  int due = client->number < client->clients && sends(client, &rate), wanted = due && client->learnt > 0;
  if (wanted) {
    for (uint32_t i = 0; i < OFEDIQ_DIM; i++) client->update.real[i] = client->update.real[i] / rate;
    wanted = all_finite(client->update.real, OFEDIQ_DIM);
#if OFEDIQ_SCALARS
    wanted = wanted && finite(client->signal) && client->signal >= 0;
#endif
  }
  /* Whoever is due and has nothing to send, or nothing finite, says so: nobody waits for it. */
  if (!due && !OFEDIQ_PASSES) return OFEDIQ_NOTHING;
  begin_message(client, 0);
  if (!wanted) return OFEDIQ_SAY;
  /* A tail stands before the payload: leave room for it, close the gap where there is none. */
  uint8_t *frame = client->said + client->said_bytes, tail;
  uint32_t bytes = encode(client, frame + FRAME_HEAD + 1, &tail);
  if (tail) frame[FRAME_HEAD] = tail;
  else memmove(frame + FRAME_HEAD, frame + FRAME_HEAD + 1, bytes);
  frame[0] = tail ? 0x21 : 0x20;
  bytes += tail != 0;
  write_bytes(frame + 1, client->step & 0xFFFF, 2);
  write_bytes(frame + 3, frame_checksum(client->step, frame[0], frame + FRAME_HEAD, bytes), 4);
  client->said_bytes += FRAME_HEAD + bytes;
  client->sent++;
  return OFEDIQ_SAY;
}

int ofediq_skip(ofediq_client *client) {
  if (!ofediq_hungry(client)) return client->opened ? OFEDIQ_NOTHING : OFEDIQ_NO_MODEL;
  return ++client->taken < OFEDIQ_PERIOD ? OFEDIQ_NOTHING : close_window(client);
}

int ofediq_learn(ofediq_client *client, const float *x, float y) {
  if (!client->opened || !client->welcome) return OFEDIQ_NO_MODEL;
  if (!readable(x) || !finite(y)) return OFEDIQ_NOT_UNDERSTOOD;
#if OFEDIQ_CLASSES
  if (!(y >= 0 && y < OFEDIQ_CLASSES) || (float)(uint32_t)y != y) return OFEDIQ_NOT_UNDERSTOOD;
#endif
#if OFEDIQ_PIPELINE
  if (!client->features.waits || memcmp(client->features.asked, x, sizeof client->features.asked) != 0)
    observe(&client->features, x);
  client->features.waits = 0;
  x = client->features.row;
#endif
  float loss;
  note(client, judge(answers(client, x), x, y, client->deltas[0], &loss), y);
#if OFEDIQ_PIPELINE
  learn_past(&client->features, y);
#endif
  if (!ofediq_hungry(client)) return OFEDIQ_NOTHING;
#if OFEDIQ_MOVES
  step(client, client->own, x, y, take_gradient);
#else
  step(client, client->model, x, y, take_gradient);
#endif
#if OFEDIQ_EXPERTS
  learn_mixture(client, x, y);
#endif
  client->learnt++;
  return ++client->taken < OFEDIQ_PERIOD ? OFEDIQ_NOTHING : close_window(client);
}

int ofediq_farewell(ofediq_client *client) {
  if (!client->welcome || !client->reported || !OFEDIQ_REPORT_EVERY) return OFEDIQ_NOTHING;
  begin_message(client, 1);
  return OFEDIQ_SAY;
}
