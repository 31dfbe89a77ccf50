// Products of matrices: c[m, n] = sum_k a[m, k] b[k, n], added to c or put in its place.  The right operand is packed into panels of EQ_NR
// columns, [n / NR][k][NR]; a micro-kernel keeps EQ_MR rows of a panel's result in registers (Goto and van de Geijn 2008).  Few rows do
// not repay packing: they read rows of the right operand where these are; and few rows or columns of inner products are just that.  What
// they read is asked for before, that of the next step of the loop around among it, which is 'next' elements away.
#if defined(__AVX512F__)
#include <immintrin.h>
#define EQ_LANES 16
#define EQ_MR 12
#define EQ_VFMA(a, b, c) ((eq_vector)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#elif defined(__AVX__) && defined(__FMA__)
#include <immintrin.h>
#define EQ_LANES 8
#define EQ_MR 6
#define EQ_VFMA(a, b, c) ((eq_vector)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#define EQ_LANES 4
#define EQ_MR 8
#define EQ_VFMA(a, b, c) ((eq_vector)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#else
#define EQ_LANES 4
#define EQ_MR 4
#define EQ_VFMA(a, b, c) ((a) * (b) + (c))
#endif
#define EQ_NR (2 * EQ_LANES)
#define EQ_FEW (2 * EQ_MR)  // rows, or columns of inner products, that do not repay packing
#define EQ_LINE 64  // bytes of a line of a cache
#define EQ_AHEAD 8192  // bytes of rows that are asked for before they are read
#define EQ_NEAR 16384  // bytes, half of the nearest cache
#define EQ_DEEP 512  // products that a float adds up before they are added to c; of rows, whose sums have lanes, eight times as many
typedef float eq_vector __attribute__((vector_size(4 * EQ_LANES), aligned(4), may_alias));
// one broadcast lives at a time: without it gcc loads all of them first, and spills the sums (36 in place of 60 GFLOP/s on Zen 3)
#define EQ_IN_ORDER __asm__ volatile("" ::: "memory")
#define EQ_EACH_ROW EQ_UNROLL for (int i = 0; i < rows; i++)  // unrolled, or the sums would be an array in memory
// Asks memory for an element that is used later: few rows leave no time to wait for it, and processors follow neither short pieces nor rows
// that end.  Nothing has to be there.
#define EQ_ASK(p, far) __builtin_prefetch((const void *)((uintptr_t)(p) + sizeof *(p) * (uintptr_t)(far)))

EQ_INLINE void eq_micro(
    const int rows, int64_t K, const float *a, int64_t am, int64_t ak, const float *b, int64_t bk, int64_t far, float *c,
    int64_t ldc, int add) {
  eq_vector sum[EQ_MR][2];
  EQ_EACH_ROW sum[i][0] = sum[i][1] = (eq_vector){0};  // c is added at the end: it is as large as all of them
  for (int64_t k = 0; k < K; k++) {
    eq_vector b0 = *(const eq_vector *)(b + k * bk), b1 = *(const eq_vector *)(b + k * bk + EQ_LANES);
    for (int j = 0; j < EQ_NR; j += EQ_LINE / 4) EQ_ASK(b + k * bk + j, far);
    EQ_EACH_ROW {
      eq_vector x = a[i * am + k * ak] - (eq_vector){0};
      sum[i][0] = EQ_VFMA(x, b0, sum[i][0]);
      sum[i][1] = EQ_VFMA(x, b1, sum[i][1]);
      EQ_IN_ORDER;
    }
  }
  EQ_EACH_ROW {
    eq_vector *to = (eq_vector *)(c + i * ldc), *right = (eq_vector *)(c + i * ldc + EQ_LANES);
    if (add) sum[i][0] += *to, sum[i][1] += *right;
    *to = sum[i][0];
    *right = sum[i][1];
  }
}
#define EQ_ROWS(rows) \
  __attribute__((noinline, unused)) static void eq_micro_##rows( \
      int64_t K, const float *a, int64_t am, int64_t ak, const float *b, int64_t bk, int64_t far, float *c, int64_t ldc, int add) { \
    for (int64_t k = 0; k < eq_most(K, 1); k += EQ_DEEP, a += EQ_DEEP * ak, b += EQ_DEEP * bk) { \
      const int64_t deep = eq_least(EQ_DEEP, K - k); \
      if (ak == 1) eq_micro(rows, deep, a, am, 1, b, bk, far, c, ldc, add || k > 0); \
      else eq_micro(rows, deep, a, am, ak, b, bk, far, c, ldc, add || k > 0); \
    } \
  }
#define EQ_TAKE(rows) \
  for (; M - m >= rows; m += rows) eq_micro_##rows(K, a + m * am, am, ak, b, bk, far, c + m * ldc + n, ldc, add);
EQ_ROWS(1) EQ_ROWS(2) EQ_ROWS(3) EQ_ROWS(4)
#if EQ_MR >= 6
EQ_ROWS(6)
#endif
#if EQ_MR >= 8
EQ_ROWS(8)
#endif
#if EQ_MR >= 12
EQ_ROWS(12)
#endif
// whole panels, of which b has the rows at a distance of bk and the next panel at one of bn
__attribute__((noinline, unused)) static void eq_panels(
    int64_t M, int64_t N, int64_t K, const float *a, int64_t am, int64_t ak, const float *b, int64_t bk, int64_t bn, int64_t far, float *c,
    int64_t ldc, int add) {
  for (int64_t n = 0; n < N; n += EQ_NR, b += bn) {
    int64_t m = 0;
#if EQ_MR >= 12
    EQ_TAKE(12)
#endif
#if EQ_MR >= 8
    EQ_TAKE(8)
#endif
#if EQ_MR >= 6
    EQ_TAKE(6)
#endif
    EQ_TAKE(4) EQ_TAKE(3) EQ_TAKE(2) EQ_TAKE(1)
  }
}

// Lanes of two vectors, at a distance of s, a power of two: lane l is that of a, or l - s of b where l has s; the upper ones are s lanes
// further.  gcc takes lanes as a vector, others as constants.
#if defined(__GNUC__) && !defined(__clang__)
typedef int32_t eq_lanes __attribute__((vector_size(4 * EQ_LANES)));
EQ_INLINE eq_vector eq_halves_of(eq_vector a, eq_vector b, const int s, const int upper) {
  eq_lanes lane;
  for (int l = 0; l < EQ_LANES; l++) lane[l] = l;
  return __builtin_shuffle(a, b, lane + (((lane & s) != 0) & (EQ_LANES - s)) + upper * s);
}
#else
#define EQ_FROM(l, s, upper) ((((l) & (s) ? (l) + EQ_LANES - (s) : (l)) + (upper) * (s)) % (2 * EQ_LANES))
#define EQ_FOUR(l, ...) EQ_FROM(l, __VA_ARGS__), EQ_FROM(l + 1, __VA_ARGS__), EQ_FROM(l + 2, __VA_ARGS__), EQ_FROM(l + 3, __VA_ARGS__)
#if EQ_LANES == 16
#define EQ_LANES_AT(...) EQ_FOUR(0, __VA_ARGS__), EQ_FOUR(4, __VA_ARGS__), EQ_FOUR(8, __VA_ARGS__), EQ_FOUR(12, __VA_ARGS__)
#elif EQ_LANES == 8
#define EQ_LANES_AT(...) EQ_FOUR(0, __VA_ARGS__), EQ_FOUR(4, __VA_ARGS__)
#else
#define EQ_LANES_AT(...) EQ_FOUR(0, __VA_ARGS__)
#endif
#define EQ_AT(s) (upper ? __builtin_shufflevector(a, b, EQ_LANES_AT(s, 1)) : __builtin_shufflevector(a, b, EQ_LANES_AT(s, 0)))
EQ_INLINE eq_vector eq_halves_of(eq_vector a, eq_vector b, const int s, const int upper) {
  return s == 8 ? EQ_AT(8) : s == 4 ? EQ_AT(4) : s == 2 ? EQ_AT(2) : EQ_AT(1);
}
#endif
// A square of EQ_LANES vectors, turned over: pairs of them exchange their halves at distances of EQ_LANES / 2 ... 1 (Eklundh 1972).
EQ_INLINE void eq_turn(eq_vector *v) {
  EQ_UNROLL for (int s = EQ_LANES / 2; s > 0; s /= 2) {
    EQ_UNROLL for (int i = 0; i < EQ_LANES; i++) {
      if (!(i & s)) {
        const eq_vector a = v[i], b = v[i + s];
        v[i] = eq_halves_of(a, b, s, 0);
        v[i + s] = eq_halves_of(a, b, s, 1);
      }
    }
  }
}

// A vector whose lane i is the sum of all lanes of v[i]: at a distance of s, pairs of vectors add their halves.  If n are fewer than the
// lanes, lanes repeat.
EQ_INLINE eq_vector eq_sums(const int n, eq_vector *v) {
  EQ_UNROLL for (int s = EQ_LANES / 2; s > 0; s /= 2) {
    EQ_UNROLL for (int i = 0; i < (s < n ? s : n); i++) {
      const eq_vector a = v[i], b = v[i + s < n ? i + s : i];
      v[i] = eq_halves_of(a, b, s, 0) + eq_halves_of(a, b, s, 1);
    }
  }
  return v[0];
}

// Inner products of rows with four columns at a time: their sums are vectors in registers until they are folded all together.
#define EQ_INNER (EQ_LANES == 8 ? 2 : 4)  // rows at a time; AVX2 has 16 registers, the others 32
#define EQ_TAKE_INNER(name, rows) \
  for (; rows <= EQ_INNER && M - m >= rows; m += rows) \
    eq_inner_rows_##name(rows, w, K, a + m * am, am, y, far, c + m * ldc + n, ldc, add);
#define EQ_AS_IT_IS(x) (x)
// Vectors of what memory has; compilers convert 16 bits one by one, if they are not told.
typedef uint32_t eq_words __attribute__((vector_size(4 * EQ_LANES)));
typedef uint16_t eq_halves __attribute__((vector_size(2 * EQ_LANES), aligned(2), may_alias));
EQ_INLINE eq_vector eq_vector_f32(const float *x) { return *(const eq_vector *)x; }
EQ_INLINE eq_vector eq_vector_bf16(const eq_bf16 *x) { return (eq_vector)(__builtin_convertvector(*(const eq_halves *)x, eq_words) << 16); }
EQ_INLINE eq_vector eq_vector_f16(const eq_f16 *x) {  // eq_from_f16
  const eq_words i = __builtin_convertvector(*(const eq_halves *)x, eq_words);
  const eq_words finite = (eq_words)((eq_vector)((i & 0x7fff) << 13) * 0x1p112f), beyond = (eq_words)((i & 0x7c00) == 0x7c00) & 0x7f800000u;
  return (eq_vector)(finite | beyond | (i & 0x8000) << 16);
}
#define EQ_PRODUCT(name, T, READ, WHERE_IT_IS) \
  EQ_INLINE void eq_pack_##name(int64_t N, int64_t K, const T *b, int64_t bk, int64_t bn, float *to) { \
    for (int64_t n = 0; n < N; n += EQ_NR, to += K * EQ_NR) { \
      const int64_t w = eq_least(EQ_NR, N - n); \
      if (w == EQ_NR && bn == 1) { \
        for (int64_t k = 0; k < K; k++) { \
          _Pragma("omp simd") for (int j = 0; j < EQ_NR; j++) to[k * EQ_NR + j] = READ(b[k * bk + n + j]); \
        } \
      } else if (w == EQ_NR && bk == 1) { \
        for (int64_t k0 = 0; k0 < K; k0 += EQ_LANES) { \
          const int64_t deep = eq_least(K, k0 + EQ_LANES); \
          if (deep == k0 + EQ_LANES) { \
            for (int half = 0; half < EQ_NR; half += EQ_LANES) { \
              eq_vector v[EQ_LANES]; \
              EQ_UNROLL for (int j = 0; j < EQ_LANES; j++) { \
                v[j] = eq_vector_##name(b + k0 + (n + half + j) * bn); \
              } \
              eq_turn(v); \
              EQ_UNROLL for (int l = 0; l < EQ_LANES; l++) *(eq_vector *)(to + (k0 + l) * EQ_NR + half) = v[l]; \
            } \
            continue; \
          } \
          for (int j = 0; j < EQ_NR; j++) \
            for (int64_t k = k0; k < deep; k++) to[k * EQ_NR + j] = READ(b[k + (n + j) * bn]); \
        } \
      } else { \
        for (int64_t k = 0; k < K; k++) \
          for (int64_t j = 0; j < EQ_NR; j++) to[k * EQ_NR + j] = j < w ? READ(b[k * bk + (n + j) * bn]) : 0.0f; \
      } \
    } \
  } \
  EQ_INLINE void eq_inner_step_##name(const int rows, const float *a, int64_t am, const T *const *b, int64_t k, eq_vector *sum) { \
    eq_vector y[4]; \
    EQ_UNROLL for (int j = 0; j < 4; j++) y[j] = eq_vector_##name(b[j] + k); \
    EQ_EACH_ROW { \
      const eq_vector x = eq_vector_f32(a + i * am + k); \
      EQ_UNROLL for (int j = 0; j < 4; j++) sum[4 * i + j] = EQ_VFMA(x, y[j], sum[4 * i + j]); \
      EQ_IN_ORDER; \
    } \
  } \
  EQ_INLINE void eq_inner_rows_##name( \
      const int rows, int N, int64_t K, const float *a, int64_t am, const T *const *b, int64_t far, float *c, int64_t ldc, int add) { \
    eq_vector sum[16]; \
    EQ_UNROLL for (int i = 0; i < 4 * rows; i++) sum[i] = (eq_vector){0}; \
    int64_t k = 0; \
    for (; k + EQ_LANES <= K; k += EQ_LANES) { \
      if (k * sizeof(T) % EQ_LINE < EQ_LANES * sizeof(T)) { \
        EQ_UNROLL for (int j = 0; j < 4; j++) EQ_ASK(b[j] + k, far); \
      } \
      eq_inner_step_##name(rows, a, am, b, k, sum); \
    } \
    if (k < K) { /* what does not fill a vector is filled with zeros */ \
      float x[4][EQ_LANES] = {{0}}; \
      T y[4][EQ_LANES] = {{0}}; \
      const T *at[4] = {y[0], y[1], y[2], y[3]}; \
      for (int l = 0; l < K - k; l++) { \
        for (int i = 0; i < 4; i++) y[i][l] = b[i][k + l]; \
        for (int i = 0; i < rows; i++) x[i][l] = a[i * am + k + l]; \
      } \
      eq_inner_step_##name(rows, x[0], EQ_LANES, at, 0, sum); \
    } \
    EQ_UNROLL for (int i = 0; i < 4 * rows; i += EQ_LANES) { \
      eq_vector v[EQ_LANES]; \
      float found[EQ_LANES]; \
      EQ_UNROLL for (int l = 0; l < EQ_LANES; l++) v[l] = sum[i + l < 4 * rows ? i + l : i]; \
      *(eq_vector *)found = eq_sums(4 * rows - i < EQ_LANES ? 4 * rows - i : EQ_LANES, v); \
      for (int l = 0; l < EQ_LANES && i + l < 4 * rows; l++) { \
        float *at = c + (i + l) / 4 * ldc + l % 4; \
        if (l % 4 < N) *at = (add ? *at : 0.0f) + found[l]; \
      } \
    } \
  } \
  EQ_INLINE void eq_inner_##name( \
      int64_t M, int64_t N, int64_t K, const float *a, int64_t am, const T *b, int64_t bn, int64_t next, float *c, int64_t ldc, int add) { \
    const int64_t ahead = eq_least(N, eq_most(4, EQ_AHEAD / eq_most(K * (int64_t)sizeof(T), 1))); \
    for (int64_t n = 0; n < N; n += 4) { \
      const int64_t far = n + ahead < N ? ahead * bn : next - (N - ahead) * bn; \
      const int w = (int)eq_least(4, N - n); \
      const T *y[4]; \
      for (int j = 0; j < 4; j++) y[j] = b + (n + eq_least(j, w - 1)) * bn; \
      int64_t m = 0; \
      EQ_TAKE_INNER(name, 4) EQ_TAKE_INNER(name, 3) EQ_TAKE_INNER(name, 2) EQ_TAKE_INNER(name, 1) \
    } \
  } \
  __attribute__((noinline, unused)) static void eq_product_##name( \
      int64_t M, int64_t N, int64_t K, const float *a, int64_t am, int64_t ak, const T *b, int64_t bk, int64_t bn, \
      int64_t next, float *c, int64_t ldc, int add, float *panel) { \
    if ((M <= EQ_FEW || N <= 4) && ak == 1 && bk == 1) { \
      for (int64_t k = 0; k < eq_most(K, 1); k += 8 * EQ_DEEP) \
        eq_inner_##name(M, N, eq_least(8 * EQ_DEEP, K - k), a + k, am, b + k, bn, next, c, ldc, add || k > 0); \
      return; \
    } \
    const int64_t there = WHERE_IT_IS && bn == 1 && M <= EQ_FEW ? N / EQ_NR * EQ_NR : 0; \
    const int64_t near = 4 * there <= EQ_NEAR / 16 ? eq_most(16, EQ_NEAR / eq_most(4 * there, 1)) : K; /* rows of b in the nearest cache */ \
    for (int64_t k = 0; there && k < eq_most(K, 1); k += near) { \
      const int64_t far = k + near < K ? near * bk : near < K ? next - k * bk : EQ_NR; /* more of these, or the next panel */ \
      eq_panels(M, there, eq_least(near, K - k), a + k * ak, am, ak, (const float *)b + k * bk, bk, EQ_NR, far, c, ldc, add || k > 0); \
    } \
    eq_pack_##name(N - there, K, b + there * bn, bk, bn, panel); \
    eq_panels(M, N - there, K, a, am, ak, panel, EQ_NR, K * EQ_NR, 0, c + there, ldc, add); \
  }
EQ_PRODUCT(f32, float, EQ_AS_IT_IS, 1)
EQ_PRODUCT(f16, eq_f16, eq_from_f16, 0)
EQ_PRODUCT(bf16, eq_bf16, eq_from_bf16, 0)
