// Kind mixed (docs/mixed-bank.md): a warp takes a block of 8 members of one
// stream through all samples of its run, then the block of another stream. It is
// alone in its block of threads, so a barrier costs what a warp's does.
//
// Lane 8 q + r has units 4 q to 4 q + 3 of member r: their weights, and for the
// length of a run their state and all that they count, stay in its registers. A
// group is the units of two lanes: one exchange finds its largest and its
// smallest argument. What a lane reads of a row is in pieces of 32 bytes, next to
// its neighbors'.
//
// Shared memory: held states [half][q][r] of 4 floats (recurrent members alone);
// the window: for each input that the block sees its last `lags` values and those
// of a chunk of samples.
#pragma once
#include "device.h"

#define MIXED_LOWEST -3.40282347e38f

// Words of a block of 8 members: h, sum, square, max, then the counts ppv, sc,
// win, lose at two to a word.
#define MIXED_UNITS 128u
#define MIXED_COUNTS (4u * MIXED_UNITS)
#define MIXED_BLOCK (6u * MIXED_UNITS)
#define MIXED_SIGNS 4u

// activate is h and the activation of z, rounded as package canon does.
// ACTIVATION is SHAPE_CUBIC, SHAPE_CLIP, or 0: the network's.
template <u32 ACTIVATION> DEVICE float activate(const Args &a, float h, float z) {
  const u32 kind = ACTIVATION ? ACTIVATION : a.shape.flags & (SHAPE_CUBIC | SHAPE_CLIP);
  if (kind == SHAPE_CLIP) return h + LIMIT(z, 1.f);
  if (kind == SHAPE_CUBIC) {
    const float c = LIMIT(z, 1.5f);
    return FMA(c * (-4.f / 27.f), c * c, h + c);
  }
  return h + tanh_canonical((const float *)image(a), z);
}

// stride says of sample number t + 1: every how many samples are counted.
DEVICE u32 mixed_stride(u32 t) {
  u32 s = 1;
  for (; t >> 15 >= s; s *= 2) {}
  return s;
}

// Window is the inputs of a chunk, and those before it that taps reach.
struct Window {
  const Args &a;
  float *at;
  u32 lags, width;
  const u32 *seen;
  u32 count;

  // begin brings the past of the run's first sample, the oldest first.
  DEVICE void begin(const Run &run) const {
    const float *ring = (const float *)row_of(a, run.slot) + a.bank.ring;
    const u32 from = lags > 0 ? run.steps % lags : 0;
    for (u32 i = 0; i < count; i++)
      for (u32 k = THREAD; k < lags; k += 32) {
        const u32 word = from + k < lags ? from + k : from + k - lags;
        at[i * width + k] = run.flags & RUN_RESET ? 0.f : ring[seen[i] * lags + word];
      }
  }
  // fill brings n samples from sample t0 of the run on.
  DEVICE void fill(const Run &run, u32 t0, u32 n) const {
    for (u32 i = 0; i < count; i++)
      for (u32 t = THREAD; t < n; t += 32) at[i * width + lags + t] = input(a, run, t0 + t, seen[i]);
  }
  // shift makes the last samples of a chunk of n the past of the next one. Its
  // barrier (of recurrent members, which have no past, that of their last sample)
  // is also between who reads the chunk and who fills the next one.
  DEVICE void shift(u32 n) const {
    for (u32 i = 0; i < count; i++)
      for (u32 k0 = 0; k0 < lags; k0 += 32) {
        float *to = at + i * width + k0 + THREAD;
        const bool has = k0 + THREAD < lags;
        const float v = has ? to[n] : 0.f;
        BARRIER();
        if (has) *to = v;
      }
  }
};

// Sums are the arguments of a lane's four units: bias, sources, states. They are
// one of the following.

// Taps of a number known to the compiler: all weights in registers.
template <u32 COUNT> struct FixedTaps {
  static constexpr bool recurrent = false;
  const float *x[COUNT];
  float bias[4], weights[COUNT][4], own[4];

  DEVICE FixedTaps(const Args &a, const Block &b, const Window &w, float *) {
    const float *from = (const float *)(image(a) + b.weights) + 4 * THREAD;
    const u32 *sources = image(a) + b.sources + THREAD % 8;
    load<4>(bias, from);
    UNROLL for (u32 k = 0; k < COUNT; k++) {
      load<4>(weights[k], from + (1 + k) * MIXED_UNITS);
      const u32 s = sources[8 * k];
      x[k] = w.at + (s & 0xffff) * w.width + w.lags - (s >> 16);
    }
    load<4>(own, from + (1 + COUNT) * MIXED_UNITS);
  }
  DEVICE void arguments(float (&z)[4], const float (&h)[4], u32 t) const {
    UNROLL for (int j = 0; j < 4; j++) z[j] = bias[j];
    UNROLL for (u32 k = 0; k < COUNT; k++) {
      const float v = x[k][t];
      UNROLL for (int j = 0; j < 4; j++) z[j] = FMA(weights[k][j], v, z[j]);
    }
    UNROLL for (int j = 0; j < 4; j++) z[j] = FMA(own[j], h[j], z[j]);
  }
};

// Any number of sources, read again at every sample.
struct Sources {
  const Window &w;
  const u32 *sources;
  const float *weights;
  u32 count, columns;

  DEVICE Sources(const Args &a, const Block &b, const Window &window) : w(window) {
    sources = image(a) + b.sources + THREAD % 8;
    weights = (const float *)(image(a) + b.weights) + 4 * THREAD;
    count = image(a)[b.counts + THREAD % 8], columns = b.columns;
  }
  DEVICE void arguments(float (&z)[4], u32 t) const {
    load<4>(z, weights);
    _Pragma("nounroll") for (u32 k = 0; k < count; k++) {  // members of a block may have different numbers
      const u32 s = sources[8 * k];
      const float v = w.at[(s & 0xffff) * w.width + w.lags - (s >> 16) + t];
      float row[4];
      load<4>(row, weights + (1 + k) * MIXED_UNITS);
      UNROLL for (int j = 0; j < 4; j++) z[j] = FMA(row[j], v, z[j]);
    }
  }
};

struct AnyTaps {
  static constexpr bool recurrent = false;
  Sources sources;
  float own[4];

  DEVICE AnyTaps(const Args &a, const Block &b, const Window &w, float *) : sources(a, b, w) {
    load<4>(own, sources.weights + (1 + sources.columns) * MIXED_UNITS);
  }
  DEVICE void arguments(float (&z)[4], const float (&h)[4], u32 t) const {
    sources.arguments(z, t);
    UNROLL for (int j = 0; j < 4; j++) z[j] = FMA(own[j], h[j], z[j]);
  }
};

// Recurrent members: the states of a member's 16 units go through shared memory.
// There are two places for them, taken in turn, so that one barrier a sample is
// enough: who writes a place has passed the barrier after its last reading.
#define MIXED_HELD (2u * MIXED_UNITS)
struct States {
  static constexpr bool recurrent = true;
  Sources sources;
  float *held;
  float weights[16][4];

  DEVICE States(const Args &a, const Block &b, const Window &w, float *shared) : sources(a, b, w), held(shared) {
    UNROLL for (u32 k = 0; k < 16; k++) load<4>(weights[k], sources.weights + (1 + sources.columns + k) * MIXED_UNITS);
  }
  DEVICE void arguments(float (&z)[4], const float (&h)[4], u32 t) const {
    float *half = held + t % 2 * MIXED_UNITS;
    store<4>(half + 4 * THREAD, h);
    sources.arguments(z, t);
    BARRIER();
    UNROLL for (u32 q = 0; q < 4; q++) {
      float other[4];
      load<4>(other, half + (q * 8 + THREAD % 8) * 4);
      UNROLL for (u32 k = 0; k < 4; k++)
        UNROLL for (int j = 0; j < 4; j++) z[j] = FMA(weights[4 * q + k][j], other[k], z[j]);
    }
  }
};

// MIXED_SIGN has a 1 for each of the counts in a word.
#define MIXED_SIGN 0x10001u

// Units are what a lane keeps of its four units. Counts are two to a word: ppv
// and sc, win and lose.
struct Units {
  float h[4], sum[4], square[4], most[4];
  u32 signs[4], ends[4];
  u32 positive[4];  // MIXED_SIGN: the last argument was; else 0

  DEVICE static u32 place(u32 j) { return THREAD / 8 * 32 + j * 8 + THREAD % 8; }
  // swap gives a word to the neighbor, member r ^ 1, and takes its.
  DEVICE static u32 swap(u32 v) { return exchange(v, 1); }
  DEVICE static u32 low(u32 first, u32 second) { return (first & 0xffff) | second << 16; }
  DEVICE static u32 high(u32 first, u32 second) { return first >> 16 | (second & 0xffff0000u); }

  DEVICE void reset() {
    UNROLL for (int j = 0; j < 4; j++) {
      h[j] = sum[j] = square[j] = 0.f, most[j] = MIXED_LOWEST;
      signs[j] = ends[j] = positive[j] = 0;
    }
  }
  // A count's word is of two members: the lane of the even one reads and writes
  // ppv and sc of both, that of the odd one win and lose.
  DEVICE void read(const u32 *words, const u32 *bits) {
    const bool odd = THREAD & 1;
    const u32 *counts = words + MIXED_COUNTS + (odd ? MIXED_UNITS : 0);
    const u32 sign = bits[THREAD / 8];
    UNROLL for (u32 j = 0; j < 4; j++) {
      const u32 p = place(j);
      h[j] = FLOAT_OF(words[p]), sum[j] = FLOAT_OF(words[MIXED_UNITS + p]);
      square[j] = FLOAT_OF(words[2 * MIXED_UNITS + p]), most[j] = FLOAT_OF(words[3 * MIXED_UNITS + p]);
      const u32 first = counts[p / 2], second = counts[MIXED_UNITS / 2 + p / 2];
      const u32 even = low(first, second), other = high(first, second);
      const u32 got = swap(odd ? even : other);
      signs[j] = odd ? got : even, ends[j] = odd ? other : got;
      positive[j] = sign >> p % 32 & 1 ? MIXED_SIGN : 0;
    }
  }
  DEVICE void write(u32 *words, u32 *bits) const {
    const bool odd = THREAD & 1;
    u32 *counts = words + MIXED_COUNTS + (odd ? MIXED_UNITS : 0);
    u32 sign = 0;
    UNROLL for (u32 j = 0; j < 4; j++) {
      const u32 p = place(j);
      words[p] = BITS_OF(h[j]), words[MIXED_UNITS + p] = BITS_OF(sum[j]);
      words[2 * MIXED_UNITS + p] = BITS_OF(square[j]), words[3 * MIXED_UNITS + p] = BITS_OF(most[j]);
      const u32 got = swap(odd ? signs[j] : ends[j]);
      const u32 even = odd ? got : signs[j], other = odd ? ends[j] : got;
      counts[p / 2] = low(even, other), counts[MIXED_UNITS / 2 + p / 2] = high(even, other);
      sign |= (positive[j] & 1) << p % 32;
    }
    UNROLL for (int d = 1; d < 8; d *= 2) sign |= exchange(sign, d);
    if (THREAD % 8 == 0) bits[THREAD / 8] = sign;
  }

  // count takes a counted sample: the arguments and their signs, with the new
  // states.
  DEVICE void count(const float (&z)[4], const u32 (&sign)[4]) {
    float largest = z[0], smallest = z[0];
    UNROLL for (int j = 1; j < 4; j++) largest = LARGER(largest, z[j]), smallest = SMALLER(smallest, z[j]);
    largest = LARGER(largest, exchange(largest, 8)), smallest = SMALLER(smallest, exchange(smallest, 8));
    UNROLL for (int j = 0; j < 4; j++) {
      sum[j] += h[j], square[j] = FMA(h[j], h[j], square[j]);
      most[j] = z[j] > most[j] ? z[j] : most[j];
      signs[j] += sign[j] ^ (positive[j] & 0xffff0000u);  // low: positive; high: changed
      ends[j] += (z[j] == largest) + ((u32)(z[j] == smallest) << 16);
    }
  }
  DEVICE void halve() {
    UNROLL for (int j = 0; j < 4; j++) {
      sum[j] *= .5f, square[j] *= .5f;
      signs[j] = signs[j] >> 1 & 0x7fff7fffu, ends[j] = ends[j] >> 1 & 0x7fff7fffu;
    }
  }
};

template <class Sums, u32 ACTIVATION> DEVICE void mixed(const Args &a, float *shared) {
  const u32 number = a.step + BLOCK_Y;
  const Block b = ((const Block *)(image(a) + a.bank.blocks))[number];
  const u32 lags = Sums::recurrent ? 0 : a.bank.lags;
  const Window window = {a, shared + (Sums::recurrent ? MIXED_HELD : 0), lags, lags + a.chunk, image(a) + b.seen, b.seen_count};
  const Sums sums(a, b, window, shared);
  for (u32 i = BLOCK_X; i < a.run_count; i += GRID_X) {
    const Run &run = run_of(a, i);
    if (run.count == 0) return;  // none of those that follow has a sample
    u32 *words = row_of(a, run.slot) + a.shape.first + number * MIXED_BLOCK;
    u32 *bits = row_of(a, run.slot) + a.bank.signs + number * MIXED_SIGNS;
    BARRIER();  // the window of the run before has been read; all lanes are here
    Units u;
    if (run.flags & RUN_RESET) u.reset();
    else u.read(words, bits);
    window.begin(run);
    u32 every = mixed_stride(run.steps);
    for (u32 t0 = 0; t0 < run.count;) {
      const u32 next = run.steps + t0;  // samples before the chunk
      // A chunk ends where sums are halved, at 32768 * every samples, or before.
      const u32 n = MIN(MIN(run.count - t0, a.chunk), (every << 15) - next);
      window.fill(run, t0, n);
      BARRIER();
      for (u32 t = 0; t < n; t++) {
        float z[4];
        u32 sign[4];
        sums.arguments(z, u.h, t);
        UNROLL for (int j = 0; j < 4; j++) u.h[j] = activate<ACTIVATION>(a, u.h[j], z[j]), sign[j] = z[j] > 0.f ? MIXED_SIGN : 0;
        if (((next + t + 1) & (every - 1)) == 0) u.count(z, sign);
        UNROLL for (int j = 0; j < 4; j++) u.positive[j] = sign[j];
      }
      t0 += n;
      if (t0 < run.count) window.shift(n);
      if (next + n == every << 15) u.halve(), every *= 2;
    }
    u.write(words, bits);
  }
}

#define MIXED(name, SUMS, ACTIVATION) \
  KERNEL(name, 32) { mixed<SUMS, ACTIVATION>(a, mixed_shared); }

extern SHARED ALIGN(16) float mixed_shared[];

MIXED(eusn_mixed_taps_6, FixedTaps<6>, SHAPE_CUBIC)
MIXED(eusn_mixed_taps_3, FixedTaps<3>, SHAPE_CLIP)
MIXED(eusn_mixed_taps, AnyTaps, 0)
MIXED(eusn_mixed_recurrent, States, SHAPE_CUBIC)
MIXED(eusn_mixed_recurrent_any, States, 0)

// What belongs to a row and not to a block, after the samples: the ring, the
// previous sample, the number of samples, and resets of empty runs. A block each
// run.
KERNEL(eusn_mixed_finish, 128) {
  const Shape &p = a.shape;
  const Run &run = run_of(a, BLOCK_X);
  u32 *row = row_of(a, run.slot);
  const bool fresh = run.flags & RUN_RESET, clear = run.count == 0 && fresh;
  const u32 end = run.steps + run.count;
  for (u32 e = THREAD; e < p.inputs * a.bank.lags; e += THREADS) {
    const u32 i = e / a.bank.lags, slot = e % a.bank.lags;
    const u32 before = (end + a.bank.lags - 1 - slot) % a.bank.lags;  // samples since the slot's was taken
    if (before < run.count) row[a.bank.ring + e] = BITS_OF(input(a, run, run.count - 1 - before, i));
    else if (fresh) row[a.bank.ring + e] = 0;
  }
  if (clear) {
    const u32 blocks = p.members / 8;
    for (u32 w = THREAD; w < blocks * MIXED_SIGNS; w += THREADS) row[a.bank.signs + w] = 0;
    for (u32 w = THREAD; w < blocks * MIXED_BLOCK; w += THREADS)
      row[p.first + w] = w % MIXED_BLOCK / MIXED_UNITS == 3 ? BITS_OF(MIXED_LOWEST) : 0;
  }
  BARRIER();  // input reads the previous sample
  if (THREAD == 0) {
    row[0] = end;  // reservoir.MaxSteps: the high half is always 0
    row[1] = 0;
  }
  if (p.previous != ABSENT && (clear || run.count > 0)) {
    const u32 *last = (const u32 *)a.inputs + (u64)(run.from + run.count - 1) * p.channels;
    for (u32 c = THREAD; c < p.channels; c += THREADS) row[p.previous + c] = clear ? 0 : last[c];
  }
}
