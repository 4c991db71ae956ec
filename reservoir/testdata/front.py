#!/usr/bin/env python3
"""Golden values of the front end, by its definition alone (reservoir.Front.Run), in NumPy.
usage: front.py > front.golden
Each line: name, the four lengths, samples, then the float32 bits of what comes out, row by row, in hexadecimal,
and the float64 bits of the state behind them: mean, variance, envelope, sum of each channel. In these a product that was
fused with a sum shows; what comes out is rounded too often for that."""
import numpy as np

CHANNELS = 3


def series(n):  # integers alone, so that any program makes the same
    x = np.empty((n, CHANNELS), np.float32)
    for i in range(n):
        for c in range(CHANNELS):
            v = (i * i * 7919 + i * 104729 * (c + 1)) % 4001 - 2000
            x[i, c] = np.float32(v) / np.float32(16) + np.float32([0, 9810, -0.5][c])
    x[:, 2] = np.where(np.arange(n) // 50 % 2 == 0, np.float32(7.25), x[:, 2])  # stands still half of the time
    x[n // 2:, 1] *= np.float32(1e9)
    x[0, 0], x[n // 3, 0], x[n // 3 + 1, 0] = 1e15, -1e15, 1e15
    return x


def front(x, center, normalize, envelope, decimate):
    f8 = np.float64
    out, state = [], []
    for c in range(x.shape[1]):
        mean = variance = level = total = f8(0)
        col = []
        for k, v in enumerate(x[:, c], 1):
            y = f8(v)
            if center or normalize:
                a = f8(1) / f8(min(k, center or normalize))
                d = y - mean
                mean = mean + a * d
                y = y - mean
                if normalize:
                    variance = (f8(1) - a) * (variance + (a * d) * d)
                    deviation = np.sqrt(variance)
                    y = y / deviation if deviation > f8(2.0 ** -22) * abs(mean) else f8(0)
            if envelope:
                level = level + (f8(1) / f8(min(k, envelope))) * (abs(y) - level)
                y = level
            if decimate:
                total = total + y
                if k % decimate:
                    continue
                y, total = total / f8(decimate), f8(0)
            col.append(np.clip(np.float32(y), np.float32(-1e15), np.float32(1e15)))
        out.append(col)
        state += [mean, variance, level, total]
    return np.array(out, np.float32).T, np.array(state, f8)


for name, parts, n in [
    ("center", (20, 0, 0, 0), 120), ("normalize", (0, 25, 0, 0), 300), ("envelope", (0, 0, 7, 0), 120),
    ("rectify", (0, 0, 1, 0), 60), ("decimate", (0, 0, 0, 7), 200), ("level", (50, 0, 9, 10), 400),
    ("all", (0, 40, 5, 8), 403), ("long", (0, 1 << 30, 1 << 20, 3), 333),
]:
    y, state = front(series(n), *parts)
    print(name, *parts, n, *("".join(size % b for b in np.ascontiguousarray(v).view(kind).ravel())
                             for size, kind, v in (("%08x", np.uint32, y), ("%016x", np.uint64, state))))
