// Features and scores of the round's emitting runs: a matrix product of
// centred features and readout weights, one chain for each score. A block
// takes EMITS runs by one tile of columns, FEATURES features at a time.
#pragma once
#include "device.h"

#define EMITS 64
#define FEATURES 32

struct ScoreShared {
  float features[FEATURES][EMITS + 2];
  float weights[FEATURES][SCORE_COLUMNS];
};

// feature is value `kind` (a SHAPE_ flag) of a unit, as Layout.FeaturesOf.
DEVICE float feature(const Shape &p, const u32 *words, u32 kind, u32 u, float n) {
  const float *f = (const float *)words;
  if (kind == SHAPE_LAST) return f[p.state + u];
  if (kind == SHAPE_MAX) return f[p.maximum + u];
  if (kind == SHAPE_PPV) return (float)words[p.positive + u] / n;
  const float mean = (f[p.sum_high + u] + f[p.sum_low + u]) / n;
  if (kind == SHAPE_MEAN) return mean;
  const float square = (f[p.square_high + u] + f[p.square_low + u]) / n;
  const float v = FMA(-mean, mean, square);
  return v > 0.f ? __builtin_sqrtf(v) : 0.f;
}

// kind_of is the n-th of the network's features.
DEVICE u32 kind_of(const Shape &p, u32 n) {
  u32 kind = SHAPE_LAST;
  for (;; kind <<= 1)
    if (p.flags & kind && n-- == 0) return kind;
}

KERNEL(eusn_scores, 128) {
  static SHARED ALIGN(16) ScoreShared sh;
  const Shape &p = a.shape;
  const u32 *heads = (const u32 *)a.heads;
  const Tile tile = ((const Tile *)heads)[BLOCK_Y];
  const float *center = (const float *)(heads + tile.center), *weights = (const float *)(heads + tile.weights);
  const u32 first = BLOCK_X * EMITS, live = MIN(a.emit_count - first, (u32)EMITS);
  const u32 eg = THREAD % 32, cg = THREAD / 32;  // two emits by two columns
  const u32 kinds = p.features / (p.members * p.units);
  const u32 *emits = (const u32 *)a.emits + first;
  float sum[2][2];
  UNROLL for (int e = 0; e < 2; e++)
    UNROLL for (int c = 0; c < 2; c++) sum[e][c] = weights[cg * 2 + c];
  weights += SCORE_COLUMNS;
  for (u32 k0 = 0; k0 < p.features; k0 += FEATURES) {
    const u32 depth = MIN(p.features - k0, (u32)FEATURES);
    BARRIER();
    for (u32 i = THREAD; i < depth * SCORE_COLUMNS; i += 128) (&sh.weights[0][0])[i] = weights[k0 * SCORE_COLUMNS + i];
    const u32 k = k0 + THREAD % 32;
    if (k < p.features) {
      const u32 u = k % p.units, group = k / p.units, kind = kind_of(p, group % kinds);
      const float middle = center[k];
      for (u32 e = THREAD / 32; e < EMITS; e += 4) {
        float f = 0.f;
        if (e < live) {
          const Run &run = run_of(a, emits[e]);
          const u32 n = run.steps + run.count;
          const u32 *words = row_of(a, run.slot) + p.first + group / kinds * p.member_words;
          if (n > 0) f = feature(p, words, kind, u, (float)n);
        }
        sh.features[THREAD % 32][e] = f - middle;
      }
    }
    BARRIER();
    for (u32 i = 0; i < depth; i++) {
      float x[2], w[2];
      load<2>(x, &sh.features[i][eg * 2]);
      load<2>(w, &sh.weights[i][cg * 2]);
      UNROLL for (int e = 0; e < 2; e++)
        UNROLL for (int c = 0; c < 2; c++) sum[e][c] = FMA(w[c], x[e], sum[e][c]);
    }
  }
  UNROLL for (int e = 0; e < 2; e++)
    UNROLL for (int c = 0; c < 2; c++) {
      if (eg * 2 + e >= live || cg * 2 + c >= tile.columns) continue;
      const Run &run = run_of(a, emits[eg * 2 + e]);
      ((float *)a.scores)[(u64)run.score * p.score_width + tile.first + cg * 2 + c] = sum[e][c];
    }
}
