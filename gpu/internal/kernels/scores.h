// Features and scores of the round's emitting runs: a matrix product of
// centered features and readout weights, one chain for each score. A block
// takes EMITS runs by one tile of columns, FEATURES features at a time.
#pragma once
#include "device.h"
#include "mixed.h"

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

// Feature is the feature vector's value k, of any run.
struct Feature {
  const Args &a;
  u32 words, kind, unit;  // `words`: of the row

  DEVICE Feature(const Args &args, u32 k) : a(args) {
    const Shape &p = a.shape;
    const u32 kinds = p.features / (p.members * p.units), group = k / p.units;
    unit = k % p.units, kind = kind_of(p, group % kinds), words = p.first + group / kinds * p.member_words;
  }
  DEVICE float of(const Run &run) const {
    const u32 n = run.steps + run.count;
    return n > 0 ? feature(a.shape, row_of(a, run.slot) + words, kind, unit, (float)n) : 0.f;
  }
};

// MixedFeature is that of kind mixed.
struct MixedFeature {
  const Args &a;
  u32 words, kind, place;

  DEVICE MixedFeature(const Args &args, u32 k) : a(args) {
    const u32 member = k / MIXED_UNITS;
    kind = k / 16 % 8, place = k % 16 * 8 + member % 8, words = a.shape.first + member / 8 * MIXED_BLOCK;
  }
  DEVICE float of(const Run &run) const {
    const u32 n = run.steps + run.count;
    if (n == 0) return 0.f;
    const u32 *w = row_of(a, run.slot) + words;
    const float *f = (const float *)w + place;
    const float counted = (float)(n / mixed_stride(n));
    if (kind == 0) return f[0];
    if (kind == 3) return activate<0>(a, 0.f, f[3 * MIXED_UNITS]);
    if (kind == 1 || kind == 4) {
      const float mean = f[MIXED_UNITS] / counted;
      if (kind == 1) return mean;
      const float v = FMA(-mean, mean, f[2 * MIXED_UNITS] / counted);
      return v > 0.f ? __builtin_sqrtf(v) : 0.f;
    }
    const u32 count = kind == 2 ? 0 : kind - 4;  // ppv, sc, win, lose
    return (float)(w[MIXED_COUNTS + count * (MIXED_UNITS / 2) + place / 2] >> place % 2 * 16 & 0xffff) / counted;
  }
};

template <class F> DEVICE void scores(const Args &a, ScoreShared &sh) {
  const Shape &p = a.shape;
  const u32 *readouts = (const u32 *)a.readouts;
  const Tile tile = ((const Tile *)readouts)[BLOCK_Y];
  const float *center = (const float *)(readouts + tile.center), *weights = (const float *)(readouts + tile.weights);
  const float *limits = center + p.features;
  const u32 first = BLOCK_X * EMITS, live = MIN(a.emit_count - first, (u32)EMITS);
  const u32 eg = THREAD % 32, cg = THREAD / 32;  // two emits by two columns
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
      const F feature(a, k);
      const float middle = center[k], limit = limits[k];
      for (u32 e = THREAD / 32; e < EMITS; e += 4) {
        const float f = e < live ? feature.of(run_of(a, emits[e])) : 0.f;
        float d = f - middle;
        if (d > limit) d = limit;
        if (d < -limit) d = -limit;
        sh.features[THREAD % 32][e] = d;
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

#define SCORES(name, F)                     \
  KERNEL(name, 128) {                       \
    static SHARED ALIGN(16) ScoreShared sh; \
    scores<F>(a, sh);                       \
  }

SCORES(eusn_scores, Feature)
SCORES(eusn_mixed_scores, MixedFeature)
