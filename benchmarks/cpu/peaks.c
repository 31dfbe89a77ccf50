// What this machine can do, by loops written by hand: multiply-adds in registers, and copies of so many bytes over and over.  Comes after
// products.h, which has the vectors of this processor.  Nothing is left to the compiler but registers.
#define CHAINS (EQ_MR * 2)  // as many sums as a product keeps in registers: enough for the latency of the unit

int64_t peak_operations(void) { return 2 * CHAINS * EQ_LANES; }  // of a turn
float peak_fma(int64_t times) {
  eq_vector sum[CHAINS], x = (eq_vector){0} + 0.5f, y = (eq_vector){0} + 0.25f;
  __asm__ volatile("" : "+m"(x), "+m"(y));  // not known when it is compiled
  _Pragma("GCC unroll 32") for (int j = 0; j < CHAINS; j++) sum[j] = x * (float)j;  // or one would do for all
  for (int64_t t = 0; t < times; t++) {
    _Pragma("GCC unroll 32") for (int j = 0; j < CHAINS; j++) sum[j] = EQ_VFMA(sum[j], x, y);
  }
  for (int j = 1; j < CHAINS; j++) sum[0] += sum[j];
  return sum[0][0] + sum[0][EQ_LANES - 1];
}

// n is divisible by 8 vectors
void peak_copy(const float *restrict x, float *restrict y, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; t++) {
    for (int64_t i = 0; i < n; i += 8 * EQ_LANES) {
      _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) *(eq_vector *)(y + i + j * EQ_LANES) = *(const eq_vector *)(x + i + j * EQ_LANES);
    }
    __asm__ volatile("" ::: "memory");
  }
}
