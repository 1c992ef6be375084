/* Reductions over all of NCCL's types. */
#include <math.h>
#include <string.h>

#include "stand_in.h"

/* Exponent and mantissa of the floats that C does not have: half, bfloat16, e4m3, e5m2. */
static const int EXPONENT[TYPES] = {[6] = 5, [9] = 8, [10] = 4, [11] = 5};
static const int MANTISSA[TYPES] = {[6] = 10, [9] = 7, [10] = 3, [11] = 2};

size_t size_of_type(uint32_t type) {
  static const size_t sizes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[type];
}

static double decode(uint32_t bits, int exponent_bits, int mantissa_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  uint32_t exponent = (bits >> mantissa_bits) & ((1u << exponent_bits) - 1);
  double size = exponent
                    ? ldexp((1u << mantissa_bits) + mantissa, (int)exponent - bias - mantissa_bits)
                    : ldexp(mantissa, 1 - bias - mantissa_bits);
  return bits >> (exponent_bits + mantissa_bits) ? -size : size;
}

/* Round to the nearest, ties to even. What is too large is not needed, nor are NaNs. */
static uint32_t encode(double value, int exponent_bits, int mantissa_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1, exponent = 0;
  uint32_t sign = (uint32_t)(signbit(value) != 0) << (exponent_bits + mantissa_bits);
  frexp(value, &exponent);
  exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
  uint32_t scaled = (uint32_t)nearbyint(ldexp(fabs(value), mantissa_bits - exponent));
  if (value == 0 || scaled < (1u << mantissa_bits)) return sign | scaled;
  /* A carry out of the mantissa counts the exponent up on its own. */
  return sign + ((uint32_t)(exponent + bias - 1) << mantissa_bits) + scaled;
}

static double load(const void *from, uint64_t index, uint32_t type) {
  uint32_t bits = size_of_type(type) == 2 ? ((const uint16_t *)from)[index]
                                          : ((const uint8_t *)from)[index];
  return decode(bits, EXPONENT[type], MANTISSA[type]);
}

static void store(void *to, uint64_t index, uint32_t type, double value) {
  uint32_t bits = encode(value, EXPONENT[type], MANTISSA[type]);
  if (size_of_type(type) == 2)
    ((uint16_t *)to)[index] = (uint16_t)bits;
  else
    ((uint8_t *)to)[index] = (uint8_t)bits;
}

#define COMBINE(a, b, op)                                                                         \
  ((op) == PROD ? (a) * (b) : (op) == MAX ? ((a) > (b) ? (a) : (b))                               \
                          : (op) == MIN   ? ((a) < (b) ? (a) : (b))                               \
                                          : (a) + (b))
#define FOR_TYPE(T)                                                                               \
  for (uint64_t i = 0; i < count; i++)                                                            \
  ((T *)total)[i] = (T)(by ? ((T *)total)[i] / by                                                 \
                           : COMBINE(((T *)total)[i], ((const T *)more)[i], op))

static void apply(void *total, const void *more, uint64_t count, uint32_t type, uint32_t op,
                  int by) {
  switch (type) {
    case 0: FOR_TYPE(int8_t); break;
    case 1: FOR_TYPE(uint8_t); break;
    case 2: FOR_TYPE(int32_t); break;
    case 3: FOR_TYPE(uint32_t); break;
    case 4: FOR_TYPE(int64_t); break;
    case 5: FOR_TYPE(uint64_t); break;
    case 7: FOR_TYPE(float); break;
    case 8: FOR_TYPE(double); break;
    default:
      for (uint64_t i = 0; i < count; i++) {
        double mine = load(total, i, type);
        store(total, i, type, by ? mine / by : COMBINE(mine, load(more, i, type), op));
      }
  }
}

void reduce_into(void *total, const void *more, uint64_t count, uint32_t type, uint32_t op) {
  apply(total, more, count, type, op, 0);
}

void divide(void *total, uint64_t count, uint32_t type, int by) {
  apply(total, total, count, type, SUM, by);
}
