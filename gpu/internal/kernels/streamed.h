// Streamed networks: weights too large for shared memory. One launch takes
// sample `step` of the round's first `run_count` runs: a block computes a tile
// of UNIT_TILE units by STREAM_TILE streams as a matrix product, `DEPTH` inputs
// or states at a time through two shared buffers.
//
// Blocks of the same launch read all old states while others write new ones,
// so even samples go from the rows to Work and odd ones back; finish brings
// home what ended in Work.
#pragma once
#include "device.h"

#define DEPTH 16

template <int UNITS, int STREAMS, int UNIT_TILE, int STREAM_TILE, int WEIGHT_PAD = 0, int VALUE_PAD = 4> struct Streamed {
  static constexpr u32 UGS = UNIT_TILE / UNITS, SGS = STREAM_TILE / STREAMS, THREAD_COUNT = UGS * SGS;
  // What a thread brings of a chunk: vectors of four weights of a row, and one
  // value each of several streams.
  static constexpr u32 ROW = UNIT_TILE / 4, WEIGHTS = DEPTH * ROW / THREAD_COUNT, VALUES = DEPTH * STREAM_TILE / THREAD_COUNT;
  // Rows of the shared chunks are padded so that a warp meets different banks.
  static constexpr u32 WEIGHT_PITCH = UNIT_TILE + WEIGHT_PAD, PITCH = STREAM_TILE + VALUE_PAD;
  struct Shared {
    float table[TANH_TERMS * TANH_INTERVALS];
    union {
      struct {
        float weights[2][DEPTH * WEIGHT_PITCH];
        float values[2][DEPTH * PITCH];
      };
      float sums[STREAM_TILE][UNIT_TILE];  // when all products are done
    };
  };
  const Args &a;
  const Shape &p;
  Shared &sh;
  Member m;
  u32 ug, sg, unit0, stream0;
  float weights[WEIGHTS][4], values[VALUES];  // the chunk on its way to shared memory
  const float *old[VALUES];                   // states before this sample of the streams it brings; 0: zeros

  DEVICE Streamed(const Args &args, Shared &shared) : a(args), p(args.shape), sh(shared) {
    m = ((const Member *)(image(a) + p.member_table))[BLOCK_Z];
    ug = THREAD % UGS, sg = THREAD / UGS, unit0 = BLOCK_Y * UNIT_TILE, stream0 = BLOCK_X * STREAM_TILE;
    for (u32 i = THREAD; i < TANH_TERMS * TANH_INTERVALS; i += THREAD_COUNT) sh.table[i] = ((const float *)image(a))[i];
    UNROLL for (u32 e = 0; e < VALUES; e++) {
      const u32 i = bring(e);
      old[e] = i < a.run_count && !fresh(run_of(a, i)) ? states(i, 0) : 0;
    }
  }
  // bring is the run whose value `e` this thread brings, for input or state
  // THREAD % DEPTH of a chunk.
  DEVICE u32 bring(u32 e) const { return stream0 + (e * THREAD_COUNT + THREAD) / DEPTH; }

  DEVICE u32 *member_words(const Run &run) const { return row_of(a, run.slot) + p.first + BLOCK_Z * p.member_words; }
  // states of run i before (0) or after (1) this sample.
  DEVICE float *states(u32 i, u32 after) const {
    if ((a.step + after & 1) == 0) return (float *)member_words(run_of(a, i)) + p.state;
    return (float *)a.work + ((u64)i * p.members + BLOCK_Z) * p.units;
  }
  DEVICE bool fresh(const Run &run) const { return a.step == 0 && (run.flags & RUN_RESET); }

  // fetch reads a chunk of weight rows [row, row+depth) and the values they
  // meet: inputs from `from` on, or states.
  DEVICE void fetch(u32 row, u32 depth, bool inputs, u32 from) {
    const float *w = (const float *)(image(a) + m.weights) + (u64)row * p.stride + unit0;
    UNROLL for (u32 e = 0; e < WEIGHTS; e++) {
      const u32 k = (e * THREAD_COUNT + THREAD) / ROW, u = (e * THREAD_COUNT + THREAD) % ROW * 4;
      UNROLL for (int i = 0; i < 4; i++) weights[e][i] = 0.f;
      if (k < depth && unit0 + u < p.stride) load<4>(weights[e], w + k * p.stride + u);
    }
    const u32 k = THREAD % DEPTH;
    UNROLL for (u32 e = 0; e < VALUES; e++) values[e] = 0.f;
    if (k >= depth) return;
    if (inputs) {
      const u32 c = image(a)[m.inputs + from + k];
      UNROLL for (u32 e = 0; e < VALUES; e++)
        if (bring(e) < a.run_count) values[e] = input(a, run_of(a, bring(e)), a.step, c);
    } else {
      UNROLL for (u32 e = 0; e < VALUES; e++)
        if (old[e]) values[e] = old[e][from + k];
    }
  }
  DEVICE void put(u32 buffer) {
    UNROLL for (u32 e = 0; e < WEIGHTS; e++) {
      const u32 k = (e * THREAD_COUNT + THREAD) / ROW, u = (e * THREAD_COUNT + THREAD) % ROW * 4;
      store<4>(sh.weights[buffer] + k * WEIGHT_PITCH + u, weights[e]);
    }
    UNROLL for (u32 e = 0; e < VALUES; e++) sh.values[buffer][THREAD % DEPTH * PITCH + bring(e) - stream0] = values[e];
  }

  // fetch_chunk is fetch of the chain's chunk j: first the inputs, then the states.
  DEVICE u32 fetch_chunk(u32 j, u32 input_chunks) {
    const bool inputs = j < input_chunks;
    const u32 from = (inputs ? j : j - input_chunks) * DEPTH;
    const u32 depth = MIN((inputs ? m.count : p.units) - from, (u32)DEPTH);
    fetch(1 + (inputs ? 0 : m.count) + from, depth, inputs, from);
    return depth;
  }

  DEVICE float bias(u32 unit) const {
    return unit0 + unit < p.stride ? ((const float *)(image(a) + m.weights))[unit0 + unit] : 0.f;
  }

  // chain brings the chunks of the sums, in order, and calls take(weights,
  // values, depth) on each.
  template <class Take> DEVICE void chain(Take take) {
    const u32 input_chunks = (m.count + DEPTH - 1) / DEPTH;
    const u32 chunks = input_chunks + (p.flags & SHAPE_RING ? 0 : (p.units + DEPTH - 1) / DEPTH);
    u32 depth = fetch_chunk(0, input_chunks);
    put(0);
    BARRIER();
    for (u32 j = 0; j < chunks; j++) {
      u32 next = 0;
      if (j + 1 < chunks) next = fetch_chunk(j + 1, input_chunks);
      take(sh.weights[j & 1], sh.values[j & 1], depth);
      if (j + 1 < chunks) put(j + 1 & 1);
      BARRIER();
      depth = next;
    }
  }

  DEVICE void run() {
    float z[UNITS][STREAMS];
    UNROLL for (int i = 0; i < UNITS; i++)
      UNROLL for (int q = 0; q < STREAMS; q++) z[i][q] = bias(Spread<UNITS>::at(ug, UGS, i));
    chain([&](const float *w, const float *x, u32 depth) __attribute__((always_inline)) {
      products<UNITS, STREAMS>(z, w, WEIGHT_PITCH, ug, UGS, x, PITCH, sg, SGS, depth);
    });
    UNROLL for (int q = 0; q < STREAMS; q++) {
      float column[UNITS];
      UNROLL for (int i = 0; i < UNITS; i++) column[i] = z[i][q];
      scatter<UNITS>(sh.sums[Spread<STREAMS>::at(sg, SGS, q)], column, ug, UGS);
    }
    BARRIER();
    update_all();
  }

  // update_all takes every pair to its next state, from its argument in sums.
  DEVICE void update_all() {
    // From here on neighboring threads have neighboring units.
    _Pragma("nounroll") for (u32 e = THREAD; e < UNIT_TILE * STREAM_TILE; e += THREAD_COUNT) {
      const u32 s = stream0 + e / UNIT_TILE, u = unit0 + e % UNIT_TILE;
      if (s < a.run_count && u < p.units) update(run_of(a, s), s, u, sh.sums[e / UNIT_TILE][e % UNIT_TILE]);
    }
  }

  // update takes unit u of run s to its next state.
  DEVICE void update(const Run &run, u32 s, u32 u, float z) {
    const bool zero = fresh(run);
    const float *old = states(s, 0);
    if (p.flags & SHAPE_RING) {
      const float weight = ((const float *)(image(a) + m.weights))[(1 + m.count) * p.stride + u];
      z = FMA(weight, zero ? 0.f : old[u == 0 ? p.units - 1 : u - 1], z);
    }
    const float v = tanh_canonical(sh.table, z);
    const float h = FMA(m.gain, v, m.keep * (zero ? 0.f : old[u]));
    states(s, 1)[u] = h;
    u32 *words = member_words(run);
    const bool fold = (run.steps + a.step + 1 & 255) == 0;
    if (p.sum_low != ABSENT) sum(words, p.sum_low, p.sum_high, u, zero, fold, (zero ? 0.f : FLOAT_OF(words[p.sum_low + u])) + h);
    if (p.square_low != ABSENT)
      sum(words, p.square_low, p.square_high, u, zero, fold, FMA(h, h, zero ? 0.f : FLOAT_OF(words[p.square_low + u])));
    if (p.positive != ABSENT) words[p.positive + u] = (zero ? 0 : words[p.positive + u]) + (z > 0.f);
    if (p.maximum != ABSENT) {
      const float most = zero ? -1.f : FLOAT_OF(words[p.maximum + u]);
      words[p.maximum + u] = BITS_OF(v > most ? v : most);
    }
  }

  // sum stores a new low-level sum, or moves it to the high level.
  DEVICE void sum(u32 *words, u32 low, u32 high, u32 u, bool zero, bool fold, float v) {
    float *f = (float *)words;
    if (zero) f[high + u] = 0.f;
    if (fold) f[high + u] += v;
    f[low + u] = fold ? 0.f : v;
  }
};

#define STREAMED(name, UNITS, STREAMS, UNIT_TILE, STREAM_TILE)                          \
  KERNEL(name, UNIT_TILE / UNITS * (STREAM_TILE / STREAMS)) {                           \
    static SHARED ALIGN(16) Streamed<UNITS, STREAMS, UNIT_TILE, STREAM_TILE>::Shared s; \
    Streamed<UNITS, STREAMS, UNIT_TILE, STREAM_TILE>(a, s).run();                       \
  }

STREAMED(eusn_streamed_64, 8, 8, 128, 64)
STREAMED(eusn_streamed_16, 4, 2, 64, 16)
STREAMED(eusn_streamed_8, 4, 1, 32, 8)
