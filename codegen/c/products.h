// Products of matrices: c[m, n] = sum_k a[m, k] b[k, n], added to c or put in its place.  The right operand is packed into panels of EQ_NR
// columns, [n / NR][k][NR]; a micro-kernel keeps EQ_MR rows of a panel's result in registers (Goto and van de Geijn 2008).  Few rows do
// not repay packing: they read rows of the right operand where these are; and few rows or columns of inner products are just that.
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
#define EQ_FEW 4
#define EQ_NEAR 16384  // bytes, half of the nearest cache
typedef float eq_vector __attribute__((vector_size(4 * EQ_LANES), aligned(4), may_alias));
// one broadcast lives at a time: without it gcc loads all of them first, and spills the sums (36 in place of 60 GFLOP/s on Zen 3)
#define EQ_IN_ORDER __asm__ volatile("" ::: "memory")
#define EQ_EACH_ROW _Pragma("GCC unroll 12") for (int i = 0; i < rows; i++)  // unrolled, or the sums would be an array in memory

EQ_INLINE void eq_micro(const int rows, int64_t K, const float *a, int64_t am, int64_t ak, const float *b, int64_t bk, float *c, int64_t ldc, int add) {
  eq_vector sum[EQ_MR][2];
  EQ_EACH_ROW {
    sum[i][0] = add ? *(eq_vector *)(c + i * ldc) : (eq_vector){0};
    sum[i][1] = add ? *(eq_vector *)(c + i * ldc + EQ_LANES) : (eq_vector){0};
  }
  for (int64_t k = 0; k < K; k++) {
    eq_vector b0 = *(const eq_vector *)(b + k * bk), b1 = *(const eq_vector *)(b + k * bk + EQ_LANES);
    EQ_EACH_ROW {
      eq_vector x = a[i * am + k * ak] - (eq_vector){0};
      sum[i][0] = EQ_VFMA(x, b0, sum[i][0]);
      sum[i][1] = EQ_VFMA(x, b1, sum[i][1]);
      EQ_IN_ORDER;
    }
  }
  EQ_EACH_ROW {
    *(eq_vector *)(c + i * ldc) = sum[i][0];
    *(eq_vector *)(c + i * ldc + EQ_LANES) = sum[i][1];
  }
}
#define EQ_ROWS(rows) \
  __attribute__((noinline, unused)) static void eq_micro_##rows( \
      int64_t K, const float *a, int64_t am, int64_t ak, const float *b, int64_t bk, float *c, int64_t ldc, int add) { \
    if (ak == 1) eq_micro(rows, K, a, am, 1, b, bk, c, ldc, add); \
    else eq_micro(rows, K, a, am, ak, b, bk, c, ldc, add); \
  }
#define EQ_TAKE(rows) \
  for (; M - m >= rows; m += rows) eq_micro_##rows(K, a + m * am, am, ak, b, bk, c + m * ldc + n, ldc, add);
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
    int64_t M, int64_t N, int64_t K, const float *a, int64_t am, int64_t ak, const float *b, int64_t bk, int64_t bn, float *c, int64_t ldc, int add) {
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

// A square of EQ_LANES vectors, turned over: at a distance of s, s = EQ_LANES / 2 ... 1, pairs of vectors exchange their halves (Eklundh
// 1972).  Only gcc takes the lanes as a vector.
#if defined(__GNUC__) && !defined(__clang__)
typedef int32_t eq_lanes __attribute__((vector_size(4 * EQ_LANES)));
EQ_INLINE void eq_turn(eq_vector *v) {
  eq_lanes lane;
  for (int l = 0; l < EQ_LANES; l++) lane[l] = l;
  _Pragma("GCC unroll 4") for (int s = EQ_LANES / 2; s > 0; s /= 2) {
    const eq_lanes upper = (lane & s) != 0, low = lane + (upper & (EQ_LANES - s)), high = low + s;
    _Pragma("GCC unroll 16") for (int i = 0; i < EQ_LANES; i++) {
      if (!(i & s)) {
        const eq_vector a = v[i], b = v[i + s];
        v[i] = __builtin_shuffle(a, b, low);
        v[i + s] = __builtin_shuffle(a, b, high);
      }
    }
  }
}
#define EQ_TURNS 1
#else
#define eq_turn(v) ((void)(v))
#define EQ_TURNS 0
#endif

#define EQ_AS_IT_IS(x) (x)
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
          if (EQ_TURNS && deep == k0 + EQ_LANES) { \
            for (int half = 0; half < EQ_NR; half += EQ_LANES) { \
              eq_vector v[EQ_LANES]; \
              _Pragma("GCC unroll 16") for (int j = 0; j < EQ_LANES; j++) { \
                float row[EQ_LANES]; \
                _Pragma("omp simd") for (int l = 0; l < EQ_LANES; l++) row[l] = READ(b[k0 + l + (n + half + j) * bn]); \
                v[j] = *(eq_vector *)row; \
              } \
              eq_turn(v); \
              _Pragma("GCC unroll 16") for (int l = 0; l < EQ_LANES; l++) *(eq_vector *)(to + (k0 + l) * EQ_NR + half) = v[l]; \
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
  EQ_INLINE void eq_inner_##name( \
      int64_t M, int64_t N, int64_t K, const float *a, int64_t am, const T *b, int64_t bn, float *c, int64_t ldc, int add) { \
    int64_t n = 0; \
    for (; n + 4 <= N; n += 4) { \
      const T *y = b + n * bn; \
      for (int64_t m = 0; m < M; m++) { \
        const float *x = a + m * am; \
        float *at = c + m * ldc + n; \
        float s0 = 0, s1 = 0, s2 = 0, s3 = 0; \
        _Pragma("omp simd reduction(+:s0, s1, s2, s3)") for (int64_t k = 0; k < K; k++) { \
          s0 = EQ_FMA(x[k], READ(y[k]), s0); \
          s1 = EQ_FMA(x[k], READ(y[k + bn]), s1); \
          s2 = EQ_FMA(x[k], READ(y[k + 2 * bn]), s2); \
          s3 = EQ_FMA(x[k], READ(y[k + 3 * bn]), s3); \
        } \
        at[0] = add ? at[0] + s0 : s0; \
        at[1] = add ? at[1] + s1 : s1; \
        at[2] = add ? at[2] + s2 : s2; \
        at[3] = add ? at[3] + s3 : s3; \
      } \
    } \
    for (; n < N; n++) { \
      for (int64_t m = 0; m < M; m++) { \
        const float *x = a + m * am; \
        float sum = 0; \
        _Pragma("omp simd reduction(+:sum)") for (int64_t k = 0; k < K; k++) sum = EQ_FMA(x[k], READ(b[k + n * bn]), sum); \
        c[m * ldc + n] = add ? c[m * ldc + n] + sum : sum; \
      } \
    } \
  } \
  __attribute__((noinline, unused)) static void eq_product_##name( \
      int64_t M, int64_t N, int64_t K, const float *a, int64_t am, int64_t ak, const T *b, int64_t bk, int64_t bn, float *c, int64_t ldc, \
      int add, float *panel) { \
    if ((M <= EQ_FEW || N <= EQ_FEW) && ak == 1 && bk == 1) { \
      eq_inner_##name(M, N, K, a, am, b, bn, c, ldc, add); \
      return; \
    } \
    const int64_t there = WHERE_IT_IS && bn == 1 && M <= 2 * EQ_MR ? N / EQ_NR * EQ_NR : 0; \
    const int64_t near = 4 * there <= EQ_NEAR / 16 ? eq_most(16, EQ_NEAR / eq_most(4 * there, 1)) : K; /* rows of b in the nearest cache */ \
    for (int64_t k = 0; there && k < eq_most(K, 1); k += near) \
      eq_panels(M, there, eq_least(near, K - k), a + k * ak, am, ak, (const float *)b + k * bk, bk, EQ_NR, c, ldc, add || k > 0); \
    eq_pack_##name(N - there, K, b + there * bn, bk, bn, panel); \
    eq_panels(M, N - there, K, a, am, ak, panel, EQ_NR, K * EQ_NR, c + there, ldc, add); \
  }
EQ_PRODUCT(f32, float, EQ_AS_IT_IS, 1)
EQ_PRODUCT(f16, eq_f16, eq_from_f16, 0)
EQ_PRODUCT(bf16, eq_bf16, eq_from_bf16, 0)
