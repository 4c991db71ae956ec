// The binary interface between the host (Go, abi.go) and the kernels. Words are
// 32 bits, little endian; device addresses 64 bits. A test compares the sizes
// and offsets asserted here with those of the Go structs.
#pragma once
typedef unsigned int u32;
typedef unsigned long long u64;

// Run advances one slot by `count` input rows from row `from` on. Within a
// round all slots are different and counts do not ascend.
struct Run {
  u32 slot;
  u32 from;
  u32 count;
  u32 flags;  // RUN_RESET, RUN_EMIT
  u32 steps;  // samples of the sequence before this run: 0 with RUN_RESET
  u32 score;  // with RUN_EMIT: row of Args.scores
};
#define RUN_RESET 1u
#define RUN_EMIT 2u

// Member is one block of the bank, in the image at Args.member_table.
// `inputs` and `weights` are words of the image.
struct Member {
  u32 inputs;   // `count` numbers of transformed inputs, ascending
  u32 weights;  // rows of Args.stride floats: bias, one per input seen, then one
                // per state unit k (column k of M; ring: the one row of M's weights)
  u32 count;
  float keep, gain;
  u32 pad[3];
};

// Block is 8 members of kind mixed, in the image at Bank.blocks. Offsets
// are words of the image; a lane is a thread of the warp that takes the block,
// see mixed.h.
struct Block {
  u32 seen;     // the transformed inputs that its members see, `seen_count` numbers
  u32 seen_count;
  u32 counts;   // of each member: how many sources, taps or inputs, it has
  u32 sources;  // by source, then member: place in `seen`, lag in the high half
  u32 weights;  // rows of 128 floats, four of each lane: bias, one a source, then
                // own weight (tap members) or one a state unit
  u32 columns;  // sources there is room for: the most of any member
};

// Tile is up to SCORE_COLUMNS columns of one readout, in the readouts image from
// word 0 on. Offsets are words of the readouts image.
struct Tile {
  u32 center;     // one float per feature, then one limit per feature: infinity for none
  u32 weights;    // rows of SCORE_COLUMNS floats: intercepts, then one per feature
  u32 columns;    // columns that exist, at most SCORE_COLUMNS; the rest are zeros
  u32 first;      // the first column's place in a score row
};
#define SCORE_COLUMNS 8u

// Parts of a member's row that may be missing.
#define ABSENT 0xffffffffu

// Shape is what of the network every kernel needs. Row offsets are
// engine.Layout's.
struct Shape {
  u32 channels;     // floats of an input row
  u32 inputs;       // values of a transformed sample
  u32 members;
  u32 units;
  u32 stride;       // units rounded up to a multiple of 8: floats of a weight row
  u32 flags;        // SHAPE_*
  u32 row_words;
  u32 previous;     // ABSENT without differences
  u32 first;
  u32 member_words;
  u32 state, sum_low, sum_high, positive, maximum, square_low, square_high;
  u32 norm;         // image word of mean, scale, diff: channels floats each
  u32 member_table; // image word of the Members
  u32 inputs_most;  // most inputs any member sees
  u32 features;     // length of a feature vector
  u32 score_width;  // floats of a score row
};
#define SHAPE_RING 1u
#define SHAPE_STANDARDIZE 2u
#define SHAPE_DIFFERENCE 4u
#define SHAPE_LAST 8u  // features: the last state is one of them
#define SHAPE_MEAN 16u
#define SHAPE_PPV 32u
#define SHAPE_MAX 64u
#define SHAPE_STD 128u
#define SHAPE_CUBIC 256u  // kind mixed: the activation; neither is tanh
#define SHAPE_CLIP 512u

// Bank is what kind mixed has beyond Shape: docs/mixed-bank.md, "The state". Of
// the offsets in Shape it has `previous`, and `first`, where its blocks begin.
struct Bank {
  u32 ring;    // of past inputs: inputs x lags words
  u32 lags;    // the largest lag, at least 1
  u32 signs;   // MIXED_SIGNS words a block of 8 members
  u32 blocks;  // image word of the Blocks
};

// Args is the one parameter of every kernel.
struct Args {
  u64 rows;    // state rows: slots x row_words words
  u64 image;   // the network's image
  u64 inputs;  // input rows: rows x channels floats, raw samples
  u64 runs;    // the round's Runs
  u64 emits;   // numbers of the round's emitting runs, `emit_count` words
  u64 readouts; // the readouts image
  u64 scores;  // the call's score rows
  u64 work;    // streamed kernels: run_count x members x units floats
  Shape shape;
  Bank bank;   // zeros of the other kinds
  u32 run_count;
  u32 emit_count;
  u32 step;    // streamed kernels: which sample of each run; finish: 1 after them, else 0;
               // mixed: the first block
  u32 chunk;   // resident and mixed kernels: samples staged at a time
};

#define TANH_INTERVALS 16u
#define TANH_TERMS 6u  // the image starts with TANH_TERMS x TANH_INTERVALS floats

#define OFFSET(type, field, bytes) static_assert(__builtin_offsetof(type, field) == bytes, #type "." #field)
#define SIZE(type, bytes) static_assert(sizeof(type) == bytes, #type)
SIZE(Run, 24);
OFFSET(Run, slot, 0);
OFFSET(Run, from, 4);
OFFSET(Run, count, 8);
OFFSET(Run, flags, 12);
OFFSET(Run, steps, 16);
OFFSET(Run, score, 20);
SIZE(Member, 32);
OFFSET(Member, inputs, 0);
OFFSET(Member, weights, 4);
OFFSET(Member, count, 8);
OFFSET(Member, keep, 12);
OFFSET(Member, gain, 16);
SIZE(Block, 24);
OFFSET(Block, seen, 0);
OFFSET(Block, seen_count, 4);
OFFSET(Block, counts, 8);
OFFSET(Block, sources, 12);
OFFSET(Block, weights, 16);
OFFSET(Block, columns, 20);
SIZE(Tile, 16);
OFFSET(Tile, center, 0);
OFFSET(Tile, weights, 4);
OFFSET(Tile, columns, 8);
OFFSET(Tile, first, 12);
SIZE(Shape, 88);
OFFSET(Shape, channels, 0);
OFFSET(Shape, inputs, 4);
OFFSET(Shape, members, 8);
OFFSET(Shape, units, 12);
OFFSET(Shape, stride, 16);
OFFSET(Shape, flags, 20);
OFFSET(Shape, row_words, 24);
OFFSET(Shape, previous, 28);
OFFSET(Shape, first, 32);
OFFSET(Shape, member_words, 36);
OFFSET(Shape, state, 40);
OFFSET(Shape, sum_low, 44);
OFFSET(Shape, sum_high, 48);
OFFSET(Shape, positive, 52);
OFFSET(Shape, maximum, 56);
OFFSET(Shape, square_low, 60);
OFFSET(Shape, square_high, 64);
OFFSET(Shape, norm, 68);
OFFSET(Shape, member_table, 72);
OFFSET(Shape, inputs_most, 76);
OFFSET(Shape, features, 80);
OFFSET(Shape, score_width, 84);
SIZE(Bank, 16);
OFFSET(Bank, ring, 0);
OFFSET(Bank, lags, 4);
OFFSET(Bank, signs, 8);
OFFSET(Bank, blocks, 12);
SIZE(Args, 184);
OFFSET(Args, rows, 0);
OFFSET(Args, image, 8);
OFFSET(Args, inputs, 16);
OFFSET(Args, runs, 24);
OFFSET(Args, emits, 32);
OFFSET(Args, readouts, 40);
OFFSET(Args, scores, 48);
OFFSET(Args, work, 56);
OFFSET(Args, shape, 64);
OFFSET(Args, bank, 152);
OFFSET(Args, run_count, 168);
OFFSET(Args, emit_count, 172);
OFFSET(Args, step, 176);
OFFSET(Args, chunk, 180);
