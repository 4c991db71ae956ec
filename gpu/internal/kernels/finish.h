// After the samples of a round: what belongs to a row and not to a member.
#pragma once
#include "device.h"

// A block each run.
KERNEL(eusn_finish, 128) {
  const Shape &p = a.shape;
  const Run &run = run_of(a, BLOCK_X);
  u32 *row = row_of(a, run.slot);
  const bool clear = run.count == 0 && (run.flags & RUN_RESET);
  if (THREAD == 0) {
    row[0] = run.steps + run.count;  // reservoir.MaxSteps: the high half is always 0
    row[1] = 0;
  }
  if (p.previous != ABSENT && (clear || run.count > 0)) {
    const u32 *last = (const u32 *)a.inputs + (u64)(run.from + run.count - 1) * p.channels;
    for (u32 c = THREAD; c < p.channels; c += THREADS) row[p.previous + c] = clear ? 0 : last[c];
  }
  for (u32 r = 0; r < p.members; r++) {
    u32 *words = row + p.first + r * p.member_words;
    if (clear) {
      for (u32 w = THREAD; w < p.member_words; w += THREADS) {
        const bool maximum = p.maximum != ABSENT && w >= p.maximum && w - p.maximum < p.units;
        words[w] = maximum ? BITS_OF(-1.f) : 0;
      }
    } else if (a.step && (run.count & 1)) {
      const u32 *work = (const u32 *)a.work + ((u64)BLOCK_X * p.members + r) * p.units;
      for (u32 u = THREAD; u < p.units; u += THREADS) words[p.state + u] = work[u];
    }
  }
}
