#!/usr/bin/python3
"""Golden values for the conformance suite, made without a line of the Go code: the weights redrawn from their seed and
the canonical arithmetic emulated in NumPy, from the words of the package documentation of reservoir and canon only. The
one thing read from the project is the table of tanh coefficients.

    python3 golden.py > golden.json        (NumPy 1.20 or newer)

Each case holds a recipe, the transform's constants, a list of runs over inputs made by the generator below, and the
digests that must come out: weights, state rows, features, scores."""
import hashlib, json, os, re, sys
import numpy as np

U64, F32, F64 = np.uint64, np.float32, np.float64
np.seterr(over="ignore")


# --- the generator ---------------------------------------------------------------------------------------------------
def mix(z):
    z = U64(z) if np.isscalar(z) else z
    z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
    return z ^ (z >> U64(31))


def bits(seed, member, tensor, k):
    key = mix(mix(U64(seed)) + U64(16 * member + tensor))
    return mix(key + (np.asarray(k, U64) + U64(1)) * U64(0x9E3779B97F4A7C15))


def symmetric(seed, member, tensor, k):
    i = (bits(seed, member, tensor, k) >> U64(40)).astype(np.int64)
    return (2 * i + 1 - (1 << 24)).astype(F64) / (1 << 24)


def scale(seed, member, tensor, k, d):
    lo, hi = d
    if lo == hi:
        return lo
    i = int(bits(seed, member, tensor, [k])[0] >> U64(40))
    for bit in range(23, -1, -1):
        m = float(np.sqrt(F64(lo) * F64(hi)))
        if i >> bit & 1:
            lo = m
        else:
            hi = m
    return float(np.sqrt(F64(lo) * F64(hi)))


def limit(w, precision):
    w = np.asarray(w, F64).astype(F32)
    if precision == "tf32":
        u = w.view(np.uint32)
        u = (u + np.uint32(0xFFF) + (u >> np.uint32(13) & np.uint32(1))) & ~np.uint32(0x1FFF)
        w = u.view(F32)
    return w


def draw(s, r):
    n, seed = s["units"], s["seed"]
    x = s["channels"] * (2 if s["difference"] else 1)
    sc = lambda k, name: scale(seed, r, 0, k, (s[name]["lo"], s[name]["hi"]))
    cols = list(range(x))
    if s["subset"] and x > 3:
        most = min(x, s["subset"])
        count = min(int(scale(seed, r, 4, 0, (1.0, float(most + 1)))), most)
        for k in range(count):
            j = k + ((int(bits(seed, r, 4, [k + 1])[0]) >> 32) * (x - k) >> 32)
            cols[k], cols[j] = cols[j], cols[k]
        cols = sorted(cols[:count])
    u = symmetric(seed, r, 1, np.arange(n * n)).reshape(n, n)
    if s["kind"] == "eusn":
        eps, gamma = sc(0, "eps"), sc(1, "gamma")
        w = sc(2, "eps_rho") / eps / (2 * float(np.sqrt(2 * n / 3))) if "eps_rho" in s else sc(2, "recurrent")
        keep, gain = F32(1), F32(eps)
        rec = limit(w * (u - u.T), s["precision"])
        rec[np.arange(n), np.arange(n)] = limit(-gamma, s["precision"])
    else:
        leak, radius = sc(6, "leak"), sc(5, "spectral_radius")
        keep, gain = F32(1 - leak), F32(leak)
        if s["kind"] == "resn":
            rec = limit(np.full(n, radius), s["precision"])
        else:
            rec = limit(radius / float(np.sqrt(F64(n))) * (6 / float(np.sqrt(F64(12)))) * u, s["precision"])
    k = np.arange(n)[:, None] * x + np.array(cols)[None, :]
    win = limit(sc(3, "input") * symmetric(seed, r, 2, k), s["precision"])
    bias = limit(sc(4, "bias") * symmetric(seed, r, 3, np.arange(n)), s["precision"])
    return dict(cols=cols, keep=keep, gain=gain, rec=rec, win=win, bias=bias)


# --- the arithmetic --------------------------------------------------------------------------------------------------
def fma(a, b, c):
    """float32 fused multiply-add: the product is exact in float64; the float64 sum is rounded to odd, so that rounding
    it to float32 equals rounding the exact sum (Boldo and Melquiond 2008)."""
    p, c = np.asarray(a, F32).astype(F64) * np.asarray(b, F32).astype(F64), np.asarray(c, F32).astype(F64)
    p, c = np.broadcast_arrays(p, c)
    s = p + c
    v = s - c
    e = (p - v) + (c - (s - v))
    u = np.array(s).view(np.int64)
    odd = (e != 0) & (u & 1 == 0)
    u = u + np.where(odd, np.where((e > 0) == (s > 0), 1, -1), 0)
    return u.view(F64).astype(F32)


def read_table():
    text = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../internal/canon/table.go")).read()
    v = [float.fromhex(x.replace("p+", "p").replace("p", "p")) for x in re.findall(r"-?0x[0-9a-f.]+p[+-]\d+", text)]
    return np.array(v, F32).reshape(6, 16)


TABLE = read_table()


def tanh(z):
    z = np.asarray(z, F32)
    a = np.minimum(np.abs(z), F32(9.015625))
    v = (a + F32(0.625)).view(np.uint32)
    edge = (v & np.uint32(0xFFE00000)).view(F32) - F32(0.625)
    d, i = a - edge, v >> np.uint32(21) & np.uint32(15)
    r = TABLE[5][i]
    for k in (4, 3, 2, 1, 0):
        r = fma(r, d, TABLE[k][i])
    return np.copysign(np.minimum(r, F32(1)), z)


# --- one sequence ----------------------------------------------------------------------------------------------------
class Sequence:
    def __init__(self, s, norm, members):
        self.s, self.norm, self.members, self.steps = s, norm, members, 0
        self.prev = np.zeros(s["channels"], F32)
        n, z = s["units"], lambda: np.zeros((s["members"], s["units"]), F32)
        self.h, self.sl, self.sh, self.ql, self.qh = z(), z(), z(), z(), z()
        self.pos, self.mx = np.zeros((s["members"], n), np.uint32), z() - F32(1)

    def step(self, sample):
        s, x = self.s, np.array(sample, F32)
        u = (x - self.norm["mean"]) * self.norm["scale"] if s["standardize"] else x
        if s["difference"]:
            d = (x - self.prev) * self.norm["diff"] if self.steps else np.zeros_like(x)
            u = np.concatenate([u, d])
        self.prev = x
        self.steps += 1
        for r, m in enumerate(self.members):
            z = m["bias"]
            for k, c in enumerate(m["cols"]):
                z = fma(m["win"][:, k], u[c], z)
            h = self.h[r]
            if s["kind"] == "resn":
                z = fma(m["rec"], np.roll(h, 1), z)
            else:
                for k in range(s["units"]):
                    z = fma(m["rec"][:, k], h[k], z)
            v = tanh(z)
            h = fma(m["gain"], v, m["keep"] * h)
            self.h[r] = h
            self.pos[r] += z > 0
            self.mx[r] = np.maximum(self.mx[r], v)
            self.sl[r] += h
            self.ql[r] = fma(h, h, self.ql[r])
        if self.steps % 256 == 0:
            self.sh += self.sl
            self.qh += self.ql
            self.sl[:], self.ql[:] = 0, 0

    def row(self):
        f, w = self.s["features"], lambda a: np.ascontiguousarray(a).view(np.uint32).ravel()
        out = [np.array([self.steps & 0xFFFFFFFF, self.steps >> 32], np.uint32)]
        if self.s["difference"]:
            out.append(w(self.prev))
        for r in range(self.s["members"]):
            out.append(w(self.h[r]))
            if "mean" in f or "std" in f:
                out += [w(self.sl[r]), w(self.sh[r])]
            if "ppv" in f:
                out.append(self.pos[r])
            if "max" in f:
                out.append(w(self.mx[r]))
            if "std" in f:
                out += [w(self.ql[r]), w(self.qh[r])]
        return np.concatenate(out)

    def features(self):
        n, out = F32(self.steps), []
        for r in range(self.s["members"]):
            if self.steps == 0:
                out.append(np.zeros(self.s["units"] * len(self.s["features"]), F32))
                continue
            mean = (self.sh[r] + self.sl[r]) / n
            var = fma(-mean, mean, (self.qh[r] + self.ql[r]) / n)
            every = dict(last=self.h[r], mean=mean, ppv=self.pos[r].astype(F32) / n, max=self.mx[r], std=np.sqrt(np.maximum(var, F32(0))))
            out += [every[k] for k in ("last", "mean", "ppv", "max", "std") if k in self.s["features"]]
        return np.concatenate(out)


def score(readout, f):
    acc = readout["intercept"]
    for j in range(len(f)):
        d = f[j] - readout["center"][j]
        if "limit" in readout:
            d = np.minimum(np.maximum(d, -readout["limit"][j]), readout["limit"][j])
        acc = fma(readout["weights"][:, j], d, acc)
    return acc


# --- the cases -------------------------------------------------------------------------------------------------------
def digest(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        h.update(np.ascontiguousarray(a).astype(np.ascontiguousarray(a).dtype.newbyteorder("<")).tobytes())
    return h.hexdigest()


def sequence(seed, n):  # test inputs, norms and readouts: symmetric(seed, member 0, tensor 9), times 2
    return (2 * symmetric(seed, 0, 9, np.arange(n))).astype(F32)


def case(name, spec, lengths):
    c = spec["channels"]
    norm = {k: sequence(seed, c) + F32(add) for k, seed, add in (("mean", 101, 0), ("scale", 102, 3), ("diff", 103, 3))}
    members = [draw(spec, r) for r in range(spec["members"])]
    features = spec["members"] * spec["units"] * len(spec["features"])
    readout = dict(center=sequence(104, features), weights=sequence(105, 3 * features).reshape(3, features), intercept=sequence(106, 3))
    inputs = sequence(107, sum(lengths) * c).reshape(-1, c)
    rows, feats, scores, at = [], [], [], 0
    for n in lengths:
        q = Sequence(spec, norm, members)
        for k in range(at, at + n):
            q.step(inputs[k])
        at += n
        rows.append(q.row()), feats.append(q.features()), scores.append(score(readout, q.features()))
    weights = []
    for m in members:
        weights += [np.array(m["cols"], np.int32), m["rec"], m["win"], m["bias"], np.array([m["keep"], m["gain"]], F32)]
    return dict(name=name, spec=spec, lengths=lengths, weights=digest(*weights), rows=digest(*rows), features=digest(*feats),
                scores=[[float(v) for v in s] for s in scores])


if __name__ == "__main__":
    ALL = ["last", "mean", "ppv", "max", "std"]
    base = dict(arithmetic=1, channels=2, members=1, units=20, seed=1, precision="float32", standardize=False, difference=False,
                subset=0, features=["last"], input=dict(lo=1, hi=1), bias=dict(lo=0.1, hi=0.1))
    fix = lambda v: dict(lo=v, hi=v)
    eusn = dict(base, kind="eusn", eps=fix(0.01), gamma=fix(0.001), recurrent=fix(1))
    bank = dict(base, kind="eusn", channels=3, members=4, units=17, seed=2026, standardize=True, difference=True, subset=9, features=ALL,
                eps=dict(lo=1e-3, hi=1), gamma=dict(lo=1e-4, hi=1e-1), eps_rho=dict(lo=1e-2, hi=0.2), input=dict(lo=0.03125, hi=3), bias=dict(lo=0.01, hi=3))
    cases = [
        case("paper", dict(eusn, units=200, channels=1), [30, 1, 0]),
        case("chaotic", dict(eusn, units=50, channels=6, eps=fix(1)), [150]),
        case("esn", dict(base, kind="esn", units=33, spectral_radius=fix(0.9), leak=fix(0.3)), [40, 7]),
        case("resn", dict(base, kind="resn", units=31, spectral_radius=fix(1.1), leak=fix(1)), [40, 7]),
        case("bank", bank, [300, 20, 1, 0]),
        case("bank of tf32 weights", dict(bank, precision="tf32", seed=18446744073709551615), [40]),
        case("saturated", dict(eusn, units=9, input=fix(100), bias=fix(10)), [50]),
        case("last and std", dict(bank, features=["last", "std"], channels=1, subset=0), [520]),
    ]
    json.dump(cases, sys.stdout, indent=1)
    print()
