// What is measured: each probe does its work so many times over, in the loops that kernels have, and gives back something that depends on it.
// It comes after functions.h and products.h, so the micro-kernel, its packing and exp are those of kernels.

float eq_probe_read(const float *restrict x, float *restrict y, int64_t n, int64_t times) {
  eq_vector sum[8] = {{0}};  // chains of additions, or their latency would be all that is measured
  for (int64_t t = 0; t < times; t++)
    for (int64_t i = 0; i < n; i += 8 * EQ_LANES) {
      _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) sum[j] += *(const eq_vector *)(x + i + j * EQ_LANES);
    }
  for (int j = 1; j < 8; j++) sum[0] += sum[j];
  return sum[0][0] + sum[0][EQ_LANES - 1];
}
float eq_probe_copy(const float *restrict x, float *restrict y, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; t++) {
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = x[i] + 1.0f;  // or it would be a call of memcpy, which kernels have none of
    EQ_IN_ORDER;
  }
  return y[0];
}
// every core a part of its own
float eq_probe_copy_all(const float *restrict x, float *restrict y, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; t++) {
    _Pragma("omp parallel for schedule(dynamic)") for (int64_t part = 0; part < n / 65536; part++) {
      const float *from = x + part * 65536;
      float *to = y + part * 65536;
      _Pragma("omp simd") for (int64_t i = 0; i < 65536; i++) to[i] = from[i] + 1.0f;
    }
  }
  return y[0];
}
// pieces of 64 floats, each a page after the one before
float eq_probe_pieces(const float *restrict x, float *restrict unused, int64_t n, int64_t times) {
  float sum = 0.0f;
  for (int64_t t = 0; t < times; t++)
    for (int64_t i = 0; i < n / 1024; i++) {
      _Pragma("omp simd reduction(+:sum)") for (int64_t j = 0; j < 64; j++) sum += x[i * 1024 + (t & 15) * 64 + j];
    }
  return sum;
}
// the micro-kernel, over K rows of one panel
#define EQ_PROBE_ROWS(rows) \
  float eq_probe_rows_##rows(const float *restrict x, float *restrict y, int64_t n, int64_t times) { \
    for (int64_t t = 0; t < times; t++) eq_micro_##rows(n, x, n, 1, x + EQ_MR * n, EQ_NR, 0, y, EQ_NR, 1); \
    return y[0]; \
  }
EQ_PROBE_ROWS(1) EQ_PROBE_ROWS(4)
#if EQ_MR == 12
EQ_PROBE_ROWS(12)
#elif EQ_MR == 8
EQ_PROBE_ROWS(8)
#elif EQ_MR == 6
EQ_PROBE_ROWS(6)
#endif
float eq_probe_inner(const float *restrict x, float *restrict y, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; t++) eq_inner_f32(4, 8, n, x, n, x + 4 * n, n, 0, y, 8, 1);
  return y[0];
}
// n elements, EQ_NR in a row, to panels; and columns of EQ_NR
float eq_probe_pack(const float *restrict x, float *restrict y, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; t++) eq_pack_f32(64, n / 64, x, 64, 1, y);
  return y[0];
}
float eq_probe_turn(const float *restrict x, float *restrict y, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; t++) eq_pack_f32(64, n / 64, x, 1, n / 64, y);
  return y[0];
}
#define EQ_PROBE_MAP(name, expression) \
  float eq_probe_##name(const float *restrict x, float *restrict y, int64_t n, int64_t times) { \
    for (int64_t t = 0; t < times; t++) { \
      _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = expression; \
      EQ_IN_ORDER; \
    } \
    return y[0]; \
  }
EQ_PROBE_MAP(exp, eq_exp(x[i]))
EQ_PROBE_MAP(log, eq_log(x[i]))
EQ_PROBE_MAP(tanh, eq_tanh(x[i]))
EQ_PROBE_MAP(erf, eq_erf(x[i]))
EQ_PROBE_MAP(div, 1.0f / (x[i] + 2.0f))
// sixteen instructions on every element, none of which can be left out: the half of them multiply
#define EQ_FOUR(a, b, c) { float m = a < b ? b : a; a = m * c; b = b + a * 0.5f; }
EQ_INLINE float eq_sixteen(float a, float b) { EQ_FOUR(a, b, 0.25f) EQ_FOUR(b, a, 0.75f) EQ_FOUR(a, b, 0.5f) EQ_FOUR(b, a, 0.125f) return a + b; }
EQ_PROBE_MAP(vector, eq_sixteen(x[i], y[i]))
// the largest of n elements
float eq_probe_most(const float *restrict x, float *restrict y, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; t++) {
    const float *row = x + (t & 15) * n;
    float most = -INFINITY;
    int32_t nan = 0;
    _Pragma("omp simd reduction(max:most) reduction(|:nan)") for (int64_t i = 0; i < n; i++) {
      most = row[i] > most ? row[i] : most;
      nan |= row[i] != row[i];
    }
    y[t & 15] = nan ? NAN : most;
  }
  return y[0];
}
float eq_probe_launch(const float *restrict x, float *restrict y, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; t++) {
    _Pragma("omp parallel for schedule(dynamic) if(n > 1)") for (int64_t i = 0; i < n; i++) y[i * 64] = x[i];
    EQ_IN_ORDER;
  }
  return y[0];
}
int64_t eq_probe_shape(int64_t what) { return what == 0 ? EQ_LANES : what == 1 ? EQ_MR : EQ_NR; }
