// Resident networks: a block keeps one member's weights and the states of TILE
// streams in shared memory and takes the streams through all their samples. A
// thread owns UNITS x STREAMS pairs of unit and stream: their sums, and with
// FEATURES their accumulators, stay in its registers.
//
// Shared memory: tanh table; weight rows (bias, inputs, states); states
// [unit][stream]; `chunk` transformed samples [sample][input][stream].
// There is one copy of the states: all are read, a barrier, all are written.
#pragma once
#include "device.h"

// Accumulators of a thread's pairs; without FEATURES nobody touches them and they
// vanish.
template <int UNITS, int STREAMS> struct Accumulators {
  float low[UNITS][STREAMS], square[UNITS][STREAMS], most[UNITS][STREAMS];
  u32 positive[UNITS][STREAMS];
};

template <int UNITS, int STREAMS, int TILE, bool FEATURES> struct Resident {
  static constexpr u32 SGS = TILE / STREAMS;  // threads along the streams
  const Args &a;
  const Shape &p;
  Member m;
  u32 ug, ugs, sg, first, live;  // the thread's place; the tile's first run, and how many exist
  float *table, *weights, *states, *staged;
  u32 count[STREAMS];  // samples of each of the thread's streams
  u32 fold[STREAMS];   // (samples before the run + 1) mod 256
  Accumulators<UNITS, STREAMS> acc;

  DEVICE u32 unit(u32 i) const { return Spread<UNITS>::at(ug, ugs, i); }
  DEVICE u32 stream(u32 q) const { return Spread<STREAMS>::at(sg, SGS, q); }
  DEVICE u32 *member_words(u32 slot) const { return row_of(a, slot) + p.first + BLOCK_Y * p.member_words; }

  DEVICE Resident(const Args &args, float *shared) : a(args), p(args.shape) {
    m = ((const Member *)(image(a) + p.member_table))[BLOCK_Y];
    ugs = p.stride / UNITS, ug = THREAD % ugs, sg = THREAD / ugs;
    first = BLOCK_X * TILE, live = MIN(a.run_count - first, (u32)TILE);
    const u32 recurrent = p.flags & SHAPE_RING ? 1 : p.units;
    table = shared, weights = table + TANH_TERMS * TANH_INTERVALS;
    states = weights + (1 + m.count + recurrent) * p.stride;
    staged = states + p.stride * TILE;
    const float *from = (const float *)image(a);
    for (u32 i = THREAD; i < TANH_TERMS * TANH_INTERVALS; i += THREADS) table[i] = from[i];
    from += m.weights;
    for (u32 i = THREAD; i < (u32)(states - weights); i += THREADS) weights[i] = from[i];
    UNROLL for (int q = 0; q < STREAMS; q++) {
      const u32 s = stream(q);
      count[q] = s < live ? run_of(a, first + s).count : 0;
      fold[q] = s < live ? run_of(a, first + s).steps + 1 & 255 : 0;
    }
  }

  // load_states fills the tile's states, zeros where there is none.
  DEVICE void load_states() {
    for (u32 s = sg; s < TILE; s += SGS) {
      const bool kept = s < live && !(run_of(a, first + s).flags & RUN_RESET);
      const float *from = kept ? (const float *)member_words(run_of(a, first + s).slot) + p.state : 0;
      for (u32 u = ug; u < p.stride; u += ugs) states[u * TILE + s] = kept && u < p.units ? from[u] : 0.f;
    }
  }
  DEVICE void store_states() {
    for (u32 s = sg; s < live; s += SGS) {
      float *to = (float *)member_words(run_of(a, first + s).slot) + p.state;
      for (u32 u = ug; u < p.units; u += ugs) to[u] = states[u * TILE + s];
    }
  }

  // move brings one kind of accumulator from the rows or back.
  template <bool LOAD, class T> DEVICE void move(u32 at, T (&v)[UNITS][STREAMS], T none) {
    if (at == ABSENT) return;
    UNROLL for (int q = 0; q < STREAMS; q++) {
      if (stream(q) >= live) continue;
      const Run &run = run_of(a, first + stream(q));
      u32 *words = member_words(run.slot) + at;
      UNROLL for (int i = 0; i < UNITS; i++) {
        if (unit(i) >= p.units) continue;
        if (!LOAD) words[unit(i)] = __builtin_bit_cast(u32, v[i][q]);
        else v[i][q] = run.flags & RUN_RESET ? none : __builtin_bit_cast(T, words[unit(i)]);
      }
    }
  }
  template <bool LOAD> DEVICE void accumulators() {
    move<LOAD>(p.sum_low, acc.low, 0.f);
    move<LOAD>(p.square_low, acc.square, 0.f);
    move<LOAD>(p.maximum, acc.most, -1.f);
    move<LOAD>(p.positive, acc.positive, 0u);
  }
  // clear_high resets the high-level sums, which stay in the row, where a
  // sequence starts.
  DEVICE void clear_high(u32 at) {
    if (at == ABSENT) return;
    for (u32 s = sg; s < live; s += SGS) {
      const Run &run = run_of(a, first + s);
      for (u32 u = ug; u < p.units && run.flags & RUN_RESET; u += ugs) member_words(run.slot)[at + u] = 0;
    }
  }
  // fold_sums adds the low-level sums of sample t to the high level, for the
  // streams whose count says so.
  DEVICE void fold_sums(u32 t, u32 high, float (&low)[UNITS][STREAMS]) {
    if (high == ABSENT) return;
    UNROLL for (int q = 0; q < STREAMS; q++) {
      if (!folds(q, t)) continue;
      float *words = (float *)member_words(run_of(a, first + stream(q)).slot) + high;
      UNROLL for (int i = 0; i < UNITS; i++) {
        if (unit(i) < p.units) words[unit(i)] += low[i][q];
        low[i][q] = 0.f;
      }
    }
  }
  DEVICE bool folds(int q, u32 t) const { return t < count[q] && (fold[q] + t & 255) == 0; }

  // stage transforms the samples [t0, t0+n) of every stream: eight lanes a
  // stream, along its row.
  DEVICE void stage(u32 t0, u32 n) {
    const u32 *seen = image(a) + m.inputs;
    for (u32 s = THREAD / 8; s < TILE; s += THREADS / 8) {
      const u32 has = s < live ? run_of(a, first + s).count : 0;
      u32 t = 0, i = THREAD % 8;
      for (;; i += 8) {
        for (; i >= m.count && t < n; t++) i -= m.count;
        if (t >= n) break;
        staged[(t * m.count + i) * TILE + s] = t0 + t < has ? input(a, run_of(a, first + s), t0 + t, seen[i]) : 0.f;
      }
    }
  }

  // arguments computes the tanh arguments of staged sample t.
  DEVICE void arguments(float (&z)[UNITS][STREAMS], u32 t) {
    float bias[UNITS];
    gather<UNITS>(bias, weights, ug, ugs);
    UNROLL for (int i = 0; i < UNITS; i++)
      UNROLL for (int q = 0; q < STREAMS; q++) z[i][q] = bias[i];
    const float *w = weights + p.stride;
    products<UNITS, STREAMS>(z, w, p.stride, ug, ugs, staged + t * m.count * TILE, TILE, sg, SGS, m.count);
    w += m.count * p.stride;
    if (!(p.flags & SHAPE_RING)) {
      products<UNITS, STREAMS>(z, w, p.stride, ug, ugs, states, TILE, sg, SGS, p.units);
      return;
    }
    float ring[UNITS];
    gather<UNITS>(ring, w, ug, ugs);
    UNROLL for (int i = 0; i < UNITS; i++) {
      const u32 u = unit(i);
      float x[STREAMS];
      gather<STREAMS>(x, states + (u == 0 ? p.units - 1 : u - 1) * TILE, sg, SGS);
      UNROLL for (int q = 0; q < STREAMS; q++) z[i][q] = FMA(ring[i], x[q], z[i][q]);
    }
  }

  // update writes the new states of sample t where the stream has one.
  // Units that only pad have zero weights: their state stays zero.
  DEVICE void update(const float (&z)[UNITS][STREAMS], u32 t) {
    UNROLL for (int i = 0; i < UNITS; i++) {
      float h[STREAMS];
      float *at = states + unit(i) * TILE;
      gather<STREAMS>(h, at, sg, SGS);
      UNROLL for (int q = 0; q < STREAMS; q++) {
        const float v = tanh_canonical(table, z[i][q]);
        const float next = FMA(m.gain, v, m.keep * h[q]);
        const bool has = t < count[q];
        if (FEATURES) accumulate(i, q, has, z[i][q], v, next);
        h[q] = has ? next : h[q];
      }
      scatter<STREAMS>(at, h, sg, SGS);
    }
  }

  // Selections, no branches: nearly every stream of a tile has a sample.
  DEVICE void accumulate(u32 i, u32 q, bool has, float z, float v, float h) {
    const float low = acc.low[i][q] + h, square = FMA(h, h, acc.square[i][q]);
    acc.low[i][q] = has ? low : acc.low[i][q];
    acc.square[i][q] = has ? square : acc.square[i][q];
    acc.positive[i][q] += has && z > 0.f;
    acc.most[i][q] = has && v > acc.most[i][q] ? v : acc.most[i][q];
  }

  DEVICE void run() {
    load_states();
    if (FEATURES) {
      accumulators<true>();
      clear_high(p.sum_high);
      clear_high(p.square_high);
    }
    const u32 samples = run_of(a, first).count;  // the tile's longest run is its first
    for (u32 t0 = 0; t0 < samples; t0 += a.chunk) {
      const u32 n = MIN(samples - t0, a.chunk);
      stage(t0, n);
      BARRIER();
      for (u32 t = 0; t < n; t++) {
        float z[UNITS][STREAMS];
        arguments(z, t);
        BARRIER();
        update(z, t0 + t);
        if (FEATURES) {
          bool any = false;
          UNROLL for (int q = 0; q < STREAMS; q++) any |= folds(q, t0 + t);
          if (any) {
            fold_sums(t0 + t, p.sum_high, acc.low);
            fold_sums(t0 + t, p.square_high, acc.square);
          }
        }
        BARRIER();
      }
    }
    store_states();
    if (FEATURES) accumulators<false>();
  }
};

extern SHARED ALIGN(16) float shared[];

#define RESIDENT(name, threads, UNITS, STREAMS, TILE, FEATURES) \
  KERNEL(name, threads) { Resident<UNITS, STREAMS, TILE, FEATURES>(a, shared).run(); }

RESIDENT(eusn_resident_64, 256, 8, 8, 64, false)
RESIDENT(eusn_resident_32, 256, 8, 4, 32, false)
RESIDENT(eusn_resident_16, 512, 4, 2, 16, false)
RESIDENT(eusn_resident_8, 512, 4, 1, 8, false)
RESIDENT(eusn_resident_features_64, 256, 4, 4, 64, true)
RESIDENT(eusn_resident_features_32, 512, 4, 4, 32, true)
RESIDENT(eusn_resident_features_16, 512, 4, 2, 16, true)
RESIDENT(eusn_resident_features_8, 512, 4, 1, 8, true)
