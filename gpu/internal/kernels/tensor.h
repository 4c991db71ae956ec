// Streamed networks on tensor cores: approximate, chosen by the caller. Every
// float32 is split into a TF32 part `high` and the TF32 part `low` of the rest.
// PRODUCTS is 3: low*high + high*low + high*high; or 2, for weights that TF32
// holds exactly, whose low part is zero.
//
// Tensor cores truncate their sums. So each chunk of DEPTH products starts from
// zero, small products first, and joins the sum by an ordinary addition, which
// rounds to nearest.
#pragma once
#include "streamed.h"

// tf32 rounds to the nearest TF32 number, ties away from zero, as
// cvt.rna.tf32.f32 does for finite ones in more instructions.
DEVICE u32 tf32(float x) { return BITS_OF(x) + 0x1000u & ~0x1fffu; }
DEVICE void split(float x, u32 &high, u32 &low) {
  high = tf32(x);
  low = tf32(x - FLOAT_OF(high));
}

// multiply adds a 16x8 tile of weights (lane: g = lane/4, c = lane%4) times an
// 8x8 tile of values to the 16x8 tile of sums.
DEVICE void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A block has four warps; each takes 32 units (two tiles) by all 64 streams
// (eight tiles).
template <int PRODUCTS> struct Tensor : Streamed<8, 8, 128, 64, 8, 8> {
  using Base = Streamed<8, 8, 128, 64, 8, 8>;
  using Base::Base;

  DEVICE void run() {
    const u32 g = THREAD % 32 / 4, c = THREAD % 4, u0 = THREAD / 32 * 32;
    float sum[2][8][4] = {};
    this->chain([&](const float *w, const float *x, u32) __attribute__((always_inline)) {  // beyond the depth are zeros
      asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");  // lanes may have parted while they fetched
      u32 wh[2][DEPTH / 8][4], wl[2][DEPTH / 8][4];
      UNROLL for (int m = 0; m < 2; m++)
        UNROLL for (int k = 0; k < DEPTH / 8; k++)
          UNROLL for (int i = 0; i < 4; i++)
            split(w[(k * 8 + c + i / 2 * 4) * Base::WEIGHT_PITCH + u0 + m * 16 + g + i % 2 * 8], wh[m][k][i], wl[m][k][i]);
      UNROLL for (int n = 0; n < 8; n++) {
        u32 xh[DEPTH / 8][2], xl[DEPTH / 8][2];
        UNROLL for (int k = 0; k < DEPTH / 8; k++)
          UNROLL for (int i = 0; i < 2; i++) split(x[(k * 8 + c + i * 4) * Base::PITCH + n * 8 + g], xh[k][i], xl[k][i]);
        UNROLL for (int m = 0; m < 2; m++) {
          float part[4] = {};
          UNROLL for (int k = 0; k < DEPTH / 8; k++) {
            if (PRODUCTS == 3) multiply(part, wl[m][k], xh[k]);
            multiply(part, wh[m][k], xl[k]);
          }
          UNROLL for (int k = 0; k < DEPTH / 8; k++) multiply(part, wh[m][k], xh[k]);
          UNROLL for (int i = 0; i < 4; i++) sum[m][n][i] += part[i];
        }
      }
    });
    UNROLL for (int m = 0; m < 2; m++)
      UNROLL for (int i = 0; i < 4; i++) {
        const u32 u = u0 + m * 16 + g + i / 2 * 8;
        const float bias = this->bias(u);
        UNROLL for (int n = 0; n < 8; n++) this->sh.sums[n * 8 + 2 * c + i % 2][u] = bias + sum[m][n][i];
      }
    BARRIER();
    this->update_all();
  }
};

#define TENSOR(name, PRODUCTS)                 \
  KERNEL(name, 128) {                          \
    static SHARED ALIGN(16) Tensor<PRODUCTS>::Shared s; \
    Tensor<PRODUCTS>(a, s).run();              \
  }

TENSOR(eusn_tensor3, 3)
TENSOR(eusn_tensor2, 2)
