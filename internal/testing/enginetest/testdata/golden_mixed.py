#!/usr/bin/python3
"""Golden values of kind mixed for the conformance suite, made without a line of the Go code: from the words of
docs/mixed-bank.md, and from golden.py, which has the generator, fma and tanh from the words of reservoir/doc.go.

    python3 golden_mixed.py > golden_mixed.json        (NumPy 1.20 or newer; a minute)

Each case is as in golden.json; a case may give its state rows a number of samples first ("steps")."""
import json, sys
import numpy as np
from golden import F32, F64, U64, bits, digest, fma, limit, scale, score, sequence, symmetric, tanh

N = 16
KINDS = ["last", "mean", "ppv", "max", "std", "sc", "win", "lose"]


# --- the weights -----------------------------------------------------------------------------------------------------
def below(seed, r, tensor, k, n):
    return ((int(bits(seed, r, tensor, [k])[0]) >> 32) * n) >> 32


def normal(seed, r, tensor, k):
    b = bits(seed, r, tensor, k)
    s = sum(((b >> U64(16 * q)) & U64(0xFFFF)).astype(np.int64) for q in range(4))
    return np.sqrt(F64(3)) * ((s - 131070) / 65536)


def top(seed, r, tensor, k):
    return int(bits(seed, r, tensor, [k])[0]) >> 63


def subset(s, r, x):  # before it is sorted
    places = list(range(x))
    if s["subset"] and x > 3:
        most = min(x, s["subset"])
        count = min(int(scale(s["seed"], r, 4, 0, (1.0, float(most + 1)))), most)
        for k in range(count):
            j = k + ((int(bits(s["seed"], r, 4, [k + 1])[0]) >> 32) * (x - k) >> 32)
            places[k], places[j] = places[j], places[k]
        places = places[:count]
    return places


def range_of(d):
    return d["lo"], d["hi"]


def biases(s, r, w):
    ratio = scale(s["seed"], r, 0, 4, range_of(s["bias"]))
    return limit(w * ratio * symmetric(s["seed"], r, 3, np.arange(N)), s["precision"])


def draw_tap(s, r):
    seed, c, t = s["seed"], s["channels"], s["taps"]
    x = c * (2 if s["difference"] else 1)
    channels = sorted({p % c for p in subset(s, r, x)[:3]})
    if s["difference"] and top(seed, r, 5, 0):
        channels = [p + c for p in channels]
    pairs = [(channels[below(seed, r, 5, 1 + 2 * k, len(channels))], 0 if k == 0 else below(seed, r, 5, 2 + 2 * k, t["max_lag"] + 1))
             for k in range(t["count"])]
    w = scale(seed, r, 0, 3, range_of(s["input"]))
    rows = []
    for i in range(N):
        v = normal(seed, r, 2, i * t["count"] + np.arange(t["count"]))
        if top(seed, r, 7, i):
            total = F64(0)
            for a in v:
                total = total + a
            v = v - total / t["count"]
        rows.append(limit((F64(w) / np.sqrt(F64(t["count"]))) * v, s["precision"]))
    leak = limit(np.array([-scale(seed, r, 6, i, range_of(s["gamma"])) for i in range(N)]), s["precision"])
    return dict(cols=[p for p, _ in pairs], lags=[l for _, l in pairs], win=np.array(rows), rec=leak, bias=biases(s, r, w))


def draw_recurrent(s, r):
    seed = s["seed"]
    x = s["channels"] * (2 if s["difference"] else 1)
    cols = sorted(subset(s, r, x))
    gamma = scale(seed, r, 0, 1, range_of(s["gamma"]))
    q = scale(seed, r, 0, 2, range_of(s["eps_rho"])) / 1.0 / (2 * float(np.sqrt(2 * N / 3)))
    u = symmetric(seed, r, 1, np.arange(N * N)).reshape(N, N)
    rec = limit(q * (u - u.T), s["precision"])
    rec[np.arange(N), np.arange(N)] = limit(-gamma, s["precision"])
    w = scale(seed, r, 0, 3, range_of(s["input"]))
    k = np.arange(N)[:, None] * x + np.array(cols)[None, :]
    return dict(cols=cols, lags=None, win=limit(w * symmetric(seed, r, 2, k), s["precision"]), rec=rec, bias=biases(s, r, w))


def draw(s):
    taps = s["taps"]["members"]
    rest = [draw_recurrent(s, r) for r in range(taps, s["members"])]
    return [draw_tap(s, r) for r in range(taps)] + sorted(rest, key=lambda m: len(m["cols"]))


# --- one sequence ----------------------------------------------------------------------------------------------------
def add(activation, h, z):
    if activation == "tanh":
        return h + tanh(z)
    if activation == "clip":
        return h + np.clip(z, F32(-1), F32(1))
    c = np.clip(z, F32(-1.5), F32(1.5))
    return fma(c * F32(-4 / 27), c * c, h + c)


class Sequence:
    def __init__(self, s, norm, members):
        self.s, self.norm, self.members, self.t = s, norm, members, 0
        self.x = s["channels"] * (2 if s["difference"] else 1)
        shape = (len(members), N)
        z = lambda: np.zeros(shape, F32)
        self.h, self.sum, self.square, self.max = z(), z(), z(), np.full(shape, np.finfo(F32).min)
        self.count = {k: np.zeros(shape, np.int64) for k in ("ppv", "sc", "win", "lose")}
        self.sign = np.zeros(shape, bool)
        self.prev = np.zeros(s["channels"], F32)
        self.past = {}  # sample number -> inputs
        # tap members are computed side by side
        self.taps = s["taps"]["members"]
        tap = members[: self.taps]
        self.cols, self.lags = np.array([m["cols"] for m in tap]), np.array([m["lags"] for m in tap])
        self.win, self.leak, self.bias = (np.array([m[k] for m in tap]) for k in ("win", "rec", "bias"))

    def inputs(self, sample):
        s, x = self.s, np.array(sample, F32)
        u = (x - self.norm["mean"]) * self.norm["scale"] if s["standardize"] else x
        if s["difference"]:
            u = np.concatenate([u, (x - self.prev) * self.norm["diff"] if self.t else np.zeros_like(x)])
        self.prev = x
        return u

    def arguments(self):
        lag = self.s["taps"]["max_lag"]
        zero = np.zeros(self.x, F32)
        before = np.array([self.past.get(self.t - k, zero) for k in range(lag + 1)])  # by lag
        z = self.bias
        for k in range(self.s["taps"]["count"]):
            z = fma(self.win[:, :, k], before[self.lags[:, k], self.cols[:, k]][:, None], z)
        all_z = [fma(self.leak, self.h[: self.taps], z)]
        for r in range(self.taps, len(self.members)):
            m, z = self.members[r], self.members[r]["bias"]
            for k, c in enumerate(m["cols"]):
                z = fma(m["win"][:, k], before[0][c], z)
            for k in range(N):
                z = fma(m["rec"][:, k], self.h[r][k], z)
            all_z.append(z[None])
        return np.concatenate(all_z)

    def step(self, sample):
        u = self.inputs(sample)
        self.t += 1
        self.past[self.t] = u
        self.past.pop(self.t - self.s["taps"]["max_lag"] - 1, None)
        z = self.arguments()
        self.h = add(self.s["taps"]["activation"], self.h, z)
        stride = 1
        while self.t > 32768 * stride:
            stride *= 2
        positive = z > 0
        if self.t % stride == 0:
            self.sum = self.sum + self.h
            self.square = fma(self.h, self.h, self.square)
            self.max = np.where(z > self.max, z, self.max)
            g = z.reshape(-1, 2, 8)
            for k, v in (("ppv", positive), ("sc", positive != self.sign), ("win", (g == g.max(2, keepdims=True)).reshape(z.shape)),
                         ("lose", (g == g.min(2, keepdims=True)).reshape(z.shape))):
                self.count[k] += v
        self.sign = positive
        if self.t == 32768 * stride:
            self.sum, self.square = self.sum * F32(0.5), self.square * F32(0.5)
            for k in self.count:
                self.count[k] //= 2

    def row(self):
        lag, words = self.s["taps"]["max_lag"], lambda a: np.ascontiguousarray(a).view(np.uint32).ravel()
        out = [np.array([self.t & 0xFFFFFFFF, self.t >> 32], np.uint32)]
        if self.s["difference"]:
            out.append(words(self.prev))
        ring = np.zeros((self.x, lag), F32)
        for t, u in self.past.items():
            if t > self.t - lag:
                ring[:, (t - 1) % lag] = u
        out.append(words(ring))
        for b in range(0, len(self.members), 8):
            signs = self.sign[b:b + 8].T.ravel().astype(np.uint32).reshape(4, 32)  # unit, then member
            out.append((signs << np.arange(32, dtype=np.uint32)).sum(1).astype(np.uint32))
        for b in range(0, len(self.members), 8):
            place = lambda a: np.ascontiguousarray(a[b:b + 8].T).ravel()
            for a in (self.h, self.sum, self.square, self.max):
                out.append(words(place(a)))
            for k in ("ppv", "sc", "win", "lose"):
                n = place(self.count[k]).astype(np.uint32)
                out.append(n[0::2] | n[1::2] << np.uint32(16))
        return np.concatenate(out)

    def features(self):
        if self.t == 0:
            return np.zeros(len(self.members) * N * 8, F32)
        s = 1
        while self.t >= 32768 * s:
            s *= 2
        m = F32(self.t // s)
        mean = self.sum / m
        d = fma(-mean, mean, self.square / m)
        every = dict(last=self.h, mean=mean, max=add(self.s["taps"]["activation"], np.zeros_like(self.max), self.max),
                     std=np.sqrt(np.where(d > 0, d, F32(0))), **{k: v.astype(F32) / m for k, v in self.count.items()})
        return np.stack([every[k] for k in KINDS], 1).ravel()


# --- the cases -------------------------------------------------------------------------------------------------------
def case(name, spec, lengths, limited=True):
    c = spec["channels"]
    norm = {k: sequence(seed, c) + F32(plus) for k, seed, plus in (("mean", 101, 0), ("scale", 102, 3), ("diff", 103, 3))}
    members = draw(spec)
    features = spec["members"] * N * 8
    readout = dict(center=sequence(104, features), weights=sequence(105, 3 * features).reshape(3, features), intercept=sequence(106, 3))
    if limited:
        readout["limit"] = sequence(108, features) + F32(2.5)
    inputs = sequence(107, sum(lengths) * c).reshape(-1, c)
    rows, feats, scores, at = [], [], [], 0
    for n in lengths:
        q = Sequence(spec, norm, members)
        for k in range(at, at + n):
            q.step(inputs[k])
        at += n
        f = q.features()
        assert np.isfinite(f).all()
        rows.append(q.row()), feats.append(f), scores.append(score(readout, f))
    weights = []
    for m in members:
        weights += [np.array(m["cols"], np.int32)] + ([np.array(m["lags"], np.int32)] if m["lags"] else [])
        weights += [m["rec"], m["win"], m["bias"], np.array([1, 1], F32)]
    return dict(name=name, spec=spec, lengths=lengths, weights=digest(*weights), rows=digest(*rows), features=digest(*feats),
                limited=limited, scores=[[float(v) for v in s] for s in scores])


if __name__ == "__main__":
    mixed = dict(arithmetic=2, kind="mixed", channels=1, members=16, units=N, seed=1, precision="float32", standardize=True, difference=True,
                 subset=9, features=KINDS, gamma=dict(lo=3e-4, hi=0.5), eps_rho=dict(lo=1e-2, hi=0.3), input=dict(lo=0.03125, hi=3),
                 bias=dict(lo=0.03, hi=3), taps=dict(members=8, count=6, max_lag=64, activation="cubic"))
    taps = {k: v for k, v in dict(mixed, members=8).items() if k != "eps_rho"}
    cases = [
        case("standard", mixed, [300, 64, 63, 1, 0]),
        case("many channels", dict(mixed, channels=7, members=24, seed=2026, taps=dict(mixed["taps"], max_lag=5)), [40, 7], limited=False),
        case("small", dict(taps, channels=3, taps=dict(members=8, count=3, max_lag=37, activation="clip")), [150, 5]),
        case("tanh", dict(mixed, channels=2, seed=5, taps=dict(mixed["taps"], max_lag=1, count=1, activation="tanh")), [70]),
        case("tf32, all inputs, no transform", dict(mixed, precision="tf32", channels=5, subset=0, standardize=False, difference=False,
                                                     seed=18446744073709551615), [40]),
        case("thinned", dict(taps, taps=dict(mixed["taps"], max_lag=3, count=2)), [66001, 32768, 32767]),
    ]
    json.dump(cases, sys.stdout, indent=1)
    print()
