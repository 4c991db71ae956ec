// What every kernel uses: the language without a CUDA installation, the
// canonical arithmetic, and the samples as the members see them.
#pragma once
#include "abi.h"

#define DEVICE inline __attribute__((device, always_inline))
#define KERNEL(name, threads) extern "C" __attribute__((global, launch_bounds(threads))) void name(const Args a)
#define SHARED __attribute__((shared))
#define ALIGN(bytes) __attribute__((aligned(bytes)))
#define UNROLL _Pragma("unroll")

#define THREAD ((u32)__nvvm_read_ptx_sreg_tid_x())
#define THREADS ((u32)__nvvm_read_ptx_sreg_ntid_x())
#define BLOCK_X ((u32)__nvvm_read_ptx_sreg_ctaid_x())
#define BLOCK_Y ((u32)__nvvm_read_ptx_sreg_ctaid_y())
#define BLOCK_Z ((u32)__nvvm_read_ptx_sreg_ctaid_z())
#define GRID_X ((u32)__nvvm_read_ptx_sreg_nctaid_x())
#define BARRIER() __nvvm_bar_sync(0)

#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
// Of numbers that are no NaN. Which zero comes out is not said where both are.
#define LARGER(a, b) __builtin_fmaxf(a, b)
#define SMALLER(a, b) __builtin_fminf(a, b)
#define LIMIT(z, most) SMALLER(LARGER(z, -(most)), most)  // of a most above 0
#define FLOAT_OF(bits) __builtin_bit_cast(float, (u32)(bits))
#define BITS_OF(f) __builtin_bit_cast(u32, (float)(f))

// exchange is the value of the lane whose number differs in that one bit. All
// lanes of a warp come here together.
DEVICE u32 exchange(u32 v, int bit) {
  u32 other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=r"(other) : "r"(v), "r"(bit));
  return other;
}
DEVICE float exchange(float v, int bit) { return FLOAT_OF(exchange(BITS_OF(v), bit)); }

struct ALIGN(8) float2 { float v[2]; };
struct ALIGN(16) float4 { float v[4]; };

// load copies N floats at an address aligned to their size (at most 16 bytes).
template <int N> DEVICE void load(float *to, const float *from) {
  if (N == 1) to[0] = from[0];
  if (N == 2) {
    const float2 x = *(const float2 *)from;
    to[0] = x.v[0], to[1] = x.v[1];
  }
  if (N == 4) {
    const float4 x = *(const float4 *)from;
    to[0] = x.v[0], to[1] = x.v[1], to[2] = x.v[2], to[3] = x.v[3];
  }
}
template <int N> DEVICE void store(float *to, const float *from) {
  if (N == 1) to[0] = from[0];
  if (N == 2) *(float2 *)to = float2{{from[0], from[1]}};
  if (N == 4) *(float4 *)to = float4{{from[0], from[1], from[2], from[3]}};
}

// Spread is how `count` values of a thread lie among those of `groups` threads
// side by side: in vectors of up to four, each vector next to the neighbor's,
// so that a warp's accesses to shared memory are contiguous.
template <int COUNT> struct Spread {
  static constexpr int wide = COUNT < 4 ? COUNT : 4;
  static DEVICE u32 at(u32 group, u32 groups, u32 i) { return i / wide * wide * groups + group * wide + i % wide; }
};
template <int COUNT> DEVICE void gather(float *to, const float *from, u32 group, u32 groups) {
  using P = Spread<COUNT>;
  UNROLL for (int i = 0; i < COUNT; i += P::wide) load<P::wide>(to + i, from + P::at(group, groups, i));
}
template <int COUNT> DEVICE void scatter(float *to, const float *from, u32 group, u32 groups) {
  using P = Spread<COUNT>;
  UNROLL for (int i = 0; i < COUNT; i += P::wide) store<P::wide>(to + P::at(group, groups, i), from + i);
}

// products adds `depth` rows of weights times rows of values to the sums, in
// ascending order: one chain of fused multiply-adds for each sum.
template <int U, int S>
DEVICE void products(float (&sum)[U][S], const float *weights, u32 weight_stride, u32 ug, u32 ugs, const float *values,
                     u32 value_stride, u32 sg, u32 sgs, u32 depth) {
  _Pragma("unroll 4") for (u32 k = 0; k < depth; k++) {
    float w[U], x[S];
    gather<U>(w, weights + k * weight_stride, ug, ugs);
    gather<S>(x, values + k * value_stride, sg, sgs);
    UNROLL for (int i = 0; i < U; i++)
      UNROLL for (int q = 0; q < S; q++) sum[i][q] = FMA(w[i], x[q], sum[i][q]);
  }
}

// tanh_canonical is canon.Tanh; table is the image's first words, in shared
// memory. The argument is never NaN: samples, weights and rows are checked.
DEVICE float tanh_canonical(const float *table, float x) {
  const u32 bits = BITS_OF(x);
  float a = FLOAT_OF(bits & 0x7fffffffu);
  a = MIN(a, 9.015625f);
  const u32 v = BITS_OF(a + .625f);
  const float d = a - (FLOAT_OF(v & ~0x1fffffu) - .625f);
  const float *t = table + (v >> 21 & 15);
  float r = t[5 * TANH_INTERVALS];
  UNROLL for (int k = 4; k >= 0; k--) r = FMA(r, d, t[k * TANH_INTERVALS]);
  r = MIN(r, 1.f);
  return FLOAT_OF(BITS_OF(r) | (bits & 0x80000000u));
}

DEVICE const u32 *image(const Args &a) { return (const u32 *)a.image; }
DEVICE u32 *row_of(const Args &a, u32 slot) { return (u32 *)a.rows + (u64)slot * a.shape.row_words; }
DEVICE const Run &run_of(const Args &a, u32 i) { return ((const Run *)a.runs)[i]; }

// input is transformed input i of the run's sample t.
DEVICE float input(const Args &a, const Run &run, u32 t, u32 i) {
  const Shape &p = a.shape;
  const bool difference = i >= p.channels;
  const u32 c = difference ? i - p.channels : i;
  const float *norm = (const float *)(image(a) + p.norm) + c;
  const float *sample = (const float *)a.inputs + (u64)(run.from + t) * p.channels + c;
  if (!difference) return p.flags & SHAPE_STANDARDIZE ? (*sample - norm[0]) * norm[p.channels] : *sample;
  if (run.steps + t == 0) return 0.f;
  const float before = t > 0 ? *(sample - p.channels) : FLOAT_OF(row_of(a, run.slot)[p.previous + c]);
  return (*sample - before) * norm[2 * p.channels];
}
