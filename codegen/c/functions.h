// Functions of kernels: scalars.  No branches and no calls in those that loops are vectorised over; a sum with a product is contracted
// where it says EQ_FMA and nowhere else (-ffp-contract=off).  Errors are the largest found against float64 over all floats of the range.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define EQ_INLINE static inline __attribute__((always_inline, unused))
#if defined(FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)  // clang does not say the first
#define EQ_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define EQ_FMA_OF_DOUBLES(a, b, c) __builtin_fma(a, b, c)
#else
#define EQ_FMA(a, b, c) ((a) * (b) + (c))
#define EQ_FMA_OF_DOUBLES(a, b, c) ((a) * (b) + (c))
#endif

EQ_INLINE int32_t eq_bits(float x) { int32_t i; memcpy(&i, &x, 4); return i; }
EQ_INLINE float eq_float(int32_t i) { float x; memcpy(&x, &i, 4); return x; }
EQ_INLINE uint64_t eq_double_bits(double x) { uint64_t i; memcpy(&i, &x, 8); return i; }
EQ_INLINE double eq_double(uint64_t i) { double x; memcpy(&x, &i, 8); return x; }
EQ_INLINE int64_t eq_least(int64_t a, int64_t b) { return a < b ? a : b; }
EQ_INLINE int64_t eq_most(int64_t a, int64_t b) { return a > b ? a : b; }
EQ_INLINE float eq_finite(float x) { return fabsf(x) < INFINITY ? x : 0.0f; }
// the whole part, as torch has it: NaN, and what 64 bits do not hold, is the least number
EQ_INLINE int64_t eq_whole(float x) { return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : INT64_MIN; }

// 16-bit floats in memory; to nearest, ties to even
typedef uint16_t eq_bf16;
EQ_INLINE float eq_from_bf16(eq_bf16 x) { return eq_float((int32_t)((uint32_t)x << 16)); }
EQ_INLINE eq_bf16 eq_to_bf16(float x) {
  uint32_t i = (uint32_t)eq_bits(x);
  uint32_t near = (i + 0x7fffu + (i >> 16 & 1)) >> 16;
  return (eq_bf16)(x != x ? 0x7fc0u : near);
}
// float16 by scaling with powers of two, which rounds as the type does: vectors of it, where compilers convert one at a time
typedef uint16_t eq_f16;
EQ_INLINE float eq_from_f16(eq_f16 x) {
  float finite = eq_float((int32_t)((uint32_t)(x & 0x7fff) << 13)) * 0x1p112f;
  float found = (x & 0x7c00) == 0x7c00 ? ((x & 0x3ff) ? NAN : INFINITY) : finite;
  return x & 0x8000 ? -found : found;
}
EQ_INLINE eq_f16 eq_to_f16(float x) {
  uint32_t sign = (uint32_t)eq_bits(x) >> 16 & 0x8000u, i = (uint32_t)eq_bits(x) & 0x7fffffffu;
  float a = eq_float((int32_t)i);
  uint32_t normal = (i - 0x38000000u + 0xfffu + (i >> 13 & 1)) >> 13;
  uint32_t small = (uint32_t)eq_bits(a + 0.5f) & 0x3ffu;  // a spacing of 2**-24, that of the smallest numbers
  if (a < 0x1p-14f && a + 0.5f >= 0.5f + 0x1p-14f) small = 0x400u;
  uint32_t found = a != a ? 0x7e00u : a >= 65520.0f ? 0x7c00u : a < 0x1p-14f ? small : normal;
  return (eq_f16)(sign | found);
}

// a loop of at most 16 turns as if they were written one after the other, so that the loop around can be one of vectors
#ifdef __clang__
#define EQ_UNROLL _Pragma("clang loop unroll(full)")
#else
#define EQ_UNROLL _Pragma("GCC unroll 16")
#endif
// numbers that a loop of vectors adds up in float, 32 for each lane
#if defined(__AVX512F__)
#define EQ_BLOCK 512
#elif defined(__AVX__)
#define EQ_BLOCK 256
#else
#define EQ_BLOCK 128
#endif

// a line of 64 bytes past the caches, where the compiler has a name for that; other cores see it after eq_order_lines
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
#if __has_builtin(__builtin_nontemporal_store)
#define EQ_STORE_PAST(to, x) __builtin_nontemporal_store(x, to)
#elif defined(__AVX512F__)
#define EQ_STORE_PAST(to, x) __builtin_ia32_movntps512((float *)(to), x)
#elif defined(__AVX__)
#define EQ_STORE_PAST(to, x) __builtin_ia32_movntps256((float *)(to), x)
#elif defined(__SSE__)
#define EQ_STORE_PAST(to, x) __builtin_ia32_movntps((float *)(to), x)
#else
#define EQ_STORE_PAST(to, x) (void)(*(to) = (x))
#endif
#if defined(__AVX512F__)
typedef float eq_piece __attribute__((vector_size(64), may_alias));
#elif defined(__AVX__)
typedef float eq_piece __attribute__((vector_size(32), may_alias));
#else
typedef float eq_piece __attribute__((vector_size(16), may_alias));
#endif
EQ_INLINE int64_t eq_before_line(const void *p) { return (int64_t)(-(uintptr_t)p & 63); }
EQ_INLINE void eq_store_line(void *to, const void *line) {
  for (size_t k = 0; k < 64 / sizeof(eq_piece); k++) {
    eq_piece x;
    memcpy(&x, (const char *)line + k * sizeof x, sizeof x);
    EQ_STORE_PAST((eq_piece *)to + k, x);
  }
}
EQ_INLINE void eq_order_lines(void) {
#ifdef __SSE__
  __builtin_ia32_sfence();
#endif
}

// extrema: NaN if either is NaN, as in torch
#define eq_max(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define eq_min(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))

// exp: 1.2e-7 of the value; results below 2^-126 are 0.  x = k ln 2 + r (Cody and Waite), exp(r) by a minimax polynomial on [0, ln 2] (by
// Lawson's iteration), times 2^k.  The sum t ends in the bits of k + 127, which are shifted into the place of an exponent: infinite for
// k = 128, 0 for k = -127, so that limits and NaN need no choices
EQ_INLINE float eq_exp(float x) {
  float y = x < -87.5f ? -87.5f : x;
  y = y > 89.0f ? 89.0f : y;
  float t = EQ_FMA(y, 1.44269504f, -0.49999997f) + 12583039.0f;  // 1.5 2^23 + 127: its unit is 1
  float k = t - 12583039.0f;
  float r = EQ_FMA(k, -0.693145752f, y);
  r = EQ_FMA(k, -1.42860677e-6f, r);
  float p = EQ_FMA(1.91266171e-3f, r, 7.86813349e-3f);
  p = EQ_FMA(p, r, 4.18551564e-2f);
  p = EQ_FMA(p, r, 1.66631877e-1f);
  p = EQ_FMA(p, r, 5.00002265e-1f);
  p = EQ_FMA(p, r, 1.0f);
  p = EQ_FMA(p, r, 1.0f);
  return p * eq_float((int32_t)((uint32_t)eq_bits(t) << 23));
}
// exp2: as exp: 1.2e-7 of the value; results up to 2^-126 are 0
EQ_INLINE float eq_exp2(float x) {
  float y = x < -127.0f ? -127.0f : x;
  y = y > 128.5f ? 128.5f : y;
  float t = y - 0.5f + 12583039.0f;
  float r = y - (t - 12583039.0f);
  float p = EQ_FMA(2.16129920e-4f, r, 1.24678260e-3f);
  p = EQ_FMA(p, r, 9.67545342e-3f);
  p = EQ_FMA(p, r, 5.54852784e-2f);
  p = EQ_FMA(p, r, 2.40229309e-1f);
  p = EQ_FMA(p, r, 6.93147063e-1f);
  p = EQ_FMA(p, r, 1.0f);
  return p * eq_float((int32_t)((uint32_t)eq_bits(t) << 23));
}
// log: x = m 2^i with m in [2/3, 4/3], and a polynomial for log(1 + (m - 1)) (coefficients: N. Juffa): 1.0e-7 of the value
EQ_INLINE float eq_log(float x) {
  float a = x < 1.17549435e-38f ? x * 8388608.0f : x;
  float i = x < 1.17549435e-38f ? -23.0f : 0.0f;
  int32_t e = (int32_t)((uint32_t)(eq_bits(a) - eq_bits(0.666666667f)) & 0xff800000u);
  float m = eq_float(eq_bits(a) - e) - 1.0f;
  i = EQ_FMA((float)e, 1.19209290e-7f, i);
  float s = m * m;
  float r = EQ_FMA(-0.130310059f, s, -0.121483386f), t = EQ_FMA(0.140869141f, s, 0.139814854f);
  r = EQ_FMA(r, s, -0.166846126f);
  t = EQ_FMA(t, s, 0.200120345f);
  r = EQ_FMA(r, s, -0.249996200f);
  r = EQ_FMA(t, m, r);
  r = EQ_FMA(r, m, 0.333331972f);
  r = EQ_FMA(r, m, -0.5f);
  r = EQ_FMA(r, s, m);
  r = EQ_FMA(i, 0.693147182f, r);
  r = x == 0.0f ? -INFINITY : r;
  r = x < 0.0f ? NAN : r;
  return x < INFINITY ? r : x;  // of inf and NaN themselves
}
// pow: |x|^y = 2^(y log2 |x|) in double, rounded once; then signs and limits, as C has them: 6.0e-8 of the value.  |x| = m 2^e with m between
// sqrt(1/2) and sqrt(2), and log2 m is odd in (m - 1) / (m + 1): minimax polynomials for it and for 2^r (by Lawson's iteration)
EQ_INLINE float eq_pow(float x, float y) {
  float a = fabsf(x), n = a < 0x1p-126f ? a * 0x1p23f : a;
  int32_t e = (int32_t)((uint32_t)(eq_bits(n) - 0x3f3504f3) & 0xff800000u);
  double m = eq_float(eq_bits(n) - e), s = (m - 1.0) / (m + 1.0), z = s * s;
  double l = EQ_FMA_OF_DOUBLES(0.34072803132716234, z, 0.4116728256433207);
  l = EQ_FMA_OF_DOUBLES(l, z, 0.577083583289925);
  l = EQ_FMA_OF_DOUBLES(l, z, 0.9617966733499671);
  l = EQ_FMA_OF_DOUBLES(l, z, 2.885390081790082);
  l = EQ_FMA_OF_DOUBLES(l, s, (double)((e >> 23) - (a < 0x1p-126f ? 23 : 0)));
  double t = l * (y > 0x1p32f ? 0x1p32f : y < -0x1p32f ? -0x1p32f : y);  // enough for 0 and infinity, and 1 to an infinite power is 1
  t = t < -151.0 ? -151.0 : t;
  t = t > 129.0 ? 129.0 : t;
  double k = t + (0x1.8p52 + 1023.0), r = t - (k - (0x1.8p52 + 1023.0));  // the lowest bits of k are those of an exponent
  double p = EQ_FMA_OF_DOUBLES(1.5353361890714338e-4, r, 1.3398874422400654e-3);
  p = EQ_FMA_OF_DOUBLES(p, r, 9.61843735781586e-3);
  p = EQ_FMA_OF_DOUBLES(p, r, 5.5503324710997434e-2);
  p = EQ_FMA_OF_DOUBLES(p, r, 2.402264791362658e-1);
  p = EQ_FMA_OF_DOUBLES(p, r, 6.931472028550825e-1);
  p = EQ_FMA_OF_DOUBLES(p, r, 1.0);
  float found = (float)(p * eq_double(eq_double_bits(k) << 52));
  float limit = (a == 0.0f) == (y < 0.0f) ? INFINITY : 0.0f;
  found = a == 0.0f || a == INFINITY ? limit : found;
  float h = 0.5f * y, sign = eq_bits(x) < 0 && floorf(y) == y && floorf(h) != h ? -1.0f : 1.0f;
  found = x < 0.0f && floorf(y) != y && a != INFINITY ? NAN : found * sign;
  found = x != x || y != y ? NAN : found;
  return x == 1.0f || y == 0.0f ? 1.0f : found;
}
// log1p: log u + (1 + x - u) / u, of u = 1 + x as it is rounded: 1.5e-7 of the value
EQ_INLINE float eq_log1p(float x) {
  float u = 1.0f + x, l = eq_log(u);
  float lost = x < 1.0f ? x - (u - 1.0f) : 1.0f - (u - x);
  float r = u > 0.0f && u < INFINITY ? l + lost / u : l;
  return u == 1.0f ? x : r;
}
// expm1 without cancellation near zero: 4e-7 of the value
EQ_INLINE float eq_expm1(float x) {
  float y = EQ_FMA(x, 2.4801588e-05f, 0.0001984127f);
  y = EQ_FMA(x, y, 0.0013888889f);
  y = EQ_FMA(x, y, 0.008333334f);
  y = EQ_FMA(x, y, 0.041666668f);
  y = EQ_FMA(x, y, 0.16666667f);
  float near = EQ_FMA(x * x, EQ_FMA(x, y, 0.5f), x);
  return fabsf(x) < 0.5f ? near : eq_exp(x) - 1.0f;
}
// tanh: an odd polynomial for |x| < 0.3, exponentials of a negative argument beyond: 4e-7 of the value
EQ_INLINE float eq_tanh(float x) {
  float a = fabsf(x), e = eq_exp(-2.0f * a), y = x * x;
  float p = EQ_FMA(y, -0.008863236f, 0.021869488f);
  p = EQ_FMA(y, p, -0.053968254f);
  p = EQ_FMA(y, p, 0.13333333f);
  p = EQ_FMA(y, p, -0.33333333f);
  float near = EQ_FMA(x * y, p, x), far = (1.0f - e) / (1.0f + e);
  return a < 0.3f ? near : x < 0.0f ? -far : far;
}
EQ_INLINE float eq_sigmoid(float x) { return 1.0f / (1.0f + eq_exp(-x)); }
// erf: a polynomial for |x| < 0.93, one minus the exponential of one beyond (coefficients: N. Juffa): 2e-7 of the value
EQ_INLINE float eq_erf(float x) {
  float t = fabsf(x), s = x * x;
  float r = EQ_FMA(-1.72853470e-5f, t, 3.83197126e-4f), u = EQ_FMA(-3.88396438e-3f, t, 2.42546219e-2f);
  r = EQ_FMA(r, s, u);
  r = EQ_FMA(r, t, -1.06777877e-1f);
  r = EQ_FMA(r, t, -6.34846687e-1f);
  r = EQ_FMA(r, t, -1.28717512e-1f);
  r = EQ_FMA(r, t, -t);
  float far = 1.0f - eq_exp(r);
  far = t > 4.0f ? 1.0f : far;  // the polynomial ends
  far = x < 0.0f ? -far : far;
  float p = EQ_FMA(-5.96761703e-4f, s, 4.99119423e-3f);
  p = EQ_FMA(p, s, -2.67681349e-2f);
  p = EQ_FMA(p, s, 1.12819925e-1f);
  p = EQ_FMA(p, s, -3.76125336e-1f);
  p = EQ_FMA(p, s, 1.28379166e-1f);
  float near = EQ_FMA(p, x, x);
  return t > 0.927734375f ? far : x != x ? x : near;
}

// whole quotients and remainders: Python's, and 0 where an integer is divided by 0
EQ_INLINE float eq_remainder_f(float x, float y) { float r = fmodf(x, y); return r != 0 && (r < 0) != (y < 0) ? r + y : r; }
EQ_INLINE int64_t eq_remainder_i(int64_t x, int64_t y) {
  int64_t r = y == 0 || y == -1 ? 0 : x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
EQ_INLINE float eq_fmod_f(float x, float y) { return fmodf(x, y); }
EQ_INLINE int64_t eq_fmod_i(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
EQ_INLINE float eq_floordiv_f(float x, float y) {
  float r = fmodf(x, y), q = (x - r) / y - (r != 0 && (r < 0) != (y < 0) ? 1.0f : 0.0f), n = floorf(q);
  return y == 0 ? x / y : q - n > 0.5f ? n + 1.0f : n;
}
EQ_INLINE int64_t eq_floordiv_i(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return (int64_t)(0 - (uint64_t)x);
  int64_t q = x / y, r = x - q * y;
  return r != 0 && (r < 0) != (y < 0) ? q - 1 : q;
}
#define EQ_BY_KIND(f, a, b) _Generic((a) + (b), float: f##_f, double: f##_f, default: f##_i)(a, b)
#define eq_remainder(a, b) EQ_BY_KIND(eq_remainder, a, b)
#define eq_fmod(a, b) EQ_BY_KIND(eq_fmod, a, b)
#define eq_floordiv(a, b) EQ_BY_KIND(eq_floordiv, a, b)
#define eq_abs(a) ((a) < 0 ? -(a) : _Generic((a), float: fabsf((float)(a)), default: (a)))
// shifts by what is no position of a bit of the operands
#define EQ_BITS(a, b) ((int64_t)sizeof((a) + (b)) * 8)
#define eq_lshift(a, n) ((n) >= 0 && (n) < EQ_BITS(a, n) ? (a) + 0 * (n) << ((n) & (EQ_BITS(a, n) - 1)) : 0)
#define eq_rshift(a, n) ((a) + 0 * (n) >> ((n) >= 0 && (n) < EQ_BITS(a, n) ? (n) : EQ_BITS(a, n) - 1))

// memory of a thread for the tiles of a kernel; it grows, and stays for the next call
static __thread char *eq_held;
static __thread size_t eq_held_bytes;
__attribute__((unused)) static char *eq_memory(size_t n) {
  if (eq_held_bytes < n) {
    free(eq_held);
    eq_held = aligned_alloc(64, (n + 4095) / 4096 * 4096);
    if (!eq_held) abort();
    eq_held_bytes = n;
  }
  return eq_held;
}
