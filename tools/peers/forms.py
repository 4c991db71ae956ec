#!/usr/bin/env python3
"""The peers of peers.py, each in several forms: one process computes one.

    forms.py NAME MEMBERS UNITS INPUTS STREAMS SAMPLES [RECIPE_PROGRAM]

prints "ready", the form chosen and its relative error, then answers each line
(seconds to work) with stream-steps per second. The error is against float64; of the
peers of standard, which tools/peers/recipe draws, that of the features of three series
against those of our engine.
"""
import importlib.util
import os
import sys
import time

import mixed

NETWORKS = ("numpy", "sgemm", "torch", "reservoirpy")
BANKS = ("numpy-bank",)
MIXED = ("numpy-mixed", "torch-mixed")
EPS = 0.01
TOLERANCE = 1e-4  # float32 against float64 after a call's samples: rounding only, eps * scale is far from chaos


def missing(name):
    """Why a peer cannot take part here; empty where it can."""
    if name == "reservoirpy":
        folder = os.environ.get("RESERVOIRPY", "")
        if not folder:
            return "set RESERVOIRPY to the folder that holds its package"
        return "" if os.path.isdir(os.path.join(folder, "reservoirpy")) else f"RESERVOIRPY={folder} holds no folder reservoirpy"
    package = "torch" if name.startswith("torch") else "numpy"
    return "" if importlib.util.find_spec(package) else f"{sys.executable} has no {package} (Debian: apt-get install python3-{package})"


def draw(np, units, inputs, streams, samples):
    """One network's weights and a call's samples, float32."""
    rng = np.random.default_rng(1)
    w = rng.uniform(-0.1, 0.1, (units, units))
    m = w - w.T - 0.001 * np.eye(units)
    u = rng.uniform(-1, 1, (units, inputs))
    b = rng.uniform(-1, 1, units)
    x = rng.standard_normal((samples, streams, inputs))
    return [a.astype(np.float32) for a in (m, u, b, x)]


def reference(np, m, u, b, x):
    """The states of a few streams in float64."""
    m, u, b, x = (a.astype(np.float64) for a in (m, u, b, x[:, :3]))
    h = np.zeros((3, len(b)))
    for sample in x:
        h += float(np.float32(EPS)) * np.tanh(h @ m.T + sample @ u.T + b)
    return h


def numpy_rows(np, m, u, b, x, block):
    """Streams are rows; inputs and bias are columns beside the state, so that a
    step is one product."""
    units, inputs = u.shape
    streams = x.shape[1]
    weights = np.ascontiguousarray(np.concatenate([m.T, u.T, b[None]]))
    parts = [np.ascontiguousarray(x[:, k:k + block]) for k in range(0, streams, block)]
    operands = [np.zeros((p.shape[1], units + inputs + 1), np.float32) for p in parts]

    def call():
        for p, a in zip(parts, operands):
            a[:] = 0
            a[:, -1] = 1
            h, z = a[:, :units], np.empty((len(a), units), np.float32)
            for sample in p:
                a[:, units:-1] = sample
                np.matmul(a, weights, out=z)
                np.tanh(z, out=z)
                z *= np.float32(EPS)
                h += z
        return np.concatenate([a[:, :units] for a in operands])
    return call


def numpy_columns(np, m, u, b, x, block):
    """As numpy_rows, but streams are columns."""
    units, inputs = u.shape
    weights = np.ascontiguousarray(np.concatenate([m, u, b[:, None]], 1))
    parts = [np.ascontiguousarray(x[:, k:k + block].transpose(0, 2, 1)) for k in range(0, x.shape[1], block)]
    operands = [np.zeros((units + inputs + 1, p.shape[2]), np.float32) for p in parts]

    def call():
        for p, a in zip(parts, operands):
            a[:] = 0
            a[-1] = 1
            h, z = a[:units], np.empty((units, a.shape[1]), np.float32)
            for sample in p:
                a[units:-1] = sample
                np.matmul(weights, a, out=z)
                np.tanh(z, out=z)
                z *= np.float32(EPS)
                h += z
        return np.concatenate([a[:units].T for a in operands])
    return call


def torch_rows(torch, m, u, b, x, block):
    """Streams are rows; two products, the first with the bias."""
    m, u, b, x = (torch.from_numpy(a) for a in (m.T.copy(), u.T.copy(), b, x))
    streams, units = x.shape[1], len(b)
    parts = [x[:, k:k + block].contiguous() for k in range(0, streams, block)]
    states = [torch.zeros(p.shape[1], units) for p in parts]

    @torch.no_grad()
    def call():
        for p, h in zip(parts, states):
            h.zero_()
            v, z = torch.empty_like(h), torch.empty_like(h)
            for sample in p:
                torch.addmm(b, sample, u, out=v)
                torch.addmm(v, h, m, out=z)
                h.add_(z.tanh_(), alpha=EPS)
        return torch.cat(states).numpy()
    return call


def torch_plain(torch, m, u, b, x, block):
    """As the equation is written; the block is all streams."""
    m, u, b, x = (torch.from_numpy(a) for a in (m.T.copy(), u.T.copy(), b, x))

    @torch.no_grad()
    def call():
        h = torch.zeros(x.shape[1], len(b))
        for sample in x:
            h = h + EPS * torch.tanh(torch.addmm(torch.addmm(b, sample, u), h, m))
        return h.numpy()
    return call


def reservoirpy_node(np, m, u, b, x, block):
    """Its Reservoir with leak rate eps and these weights, series by series:
    another equation (1 - eps beside h), the same work."""
    sys.path.insert(0, os.environ["RESERVOIRPY"])
    import scipy.sparse
    if not hasattr(scipy.sparse, "sparray"):  # SciPy before 1.11 has it under another name
        scipy.sparse.sparray = scipy.sparse._arrays._sparray
    from reservoirpy.nodes import Reservoir

    class Generator(np.random.Generator):  # NumPy before 1.25 has no spawn
        def spawn(self, n):
            return [np.random.default_rng(i) for i in range(n)]

    node = Reservoir(W=m, Win=u, bias=b, lr=EPS, dtype=np.float32, seed=Generator(np.random.PCG64(0)))
    series = [np.ascontiguousarray(x[:, k]) for k in range(min(64, x.shape[1]))]  # one by one: more would cost the same each

    def call():
        last = []
        for s in series:
            if node.initialized:
                node.reset()
            last.append(np.asarray(node.run(s))[-1])
        return np.array(last)
    call.streams = len(series)
    call.leak = True
    return call


def numpy_bank(np, net, x, block):
    """All members of a block of streams at once; the five accumulators."""
    m, u, b, eps = net
    parts = [np.ascontiguousarray(x[:, k:k + block]) for k in range(0, x.shape[1], block)]
    shape = [(len(b), p.shape[1], b.shape[-1]) for p in parts]

    def call():
        last = []
        for p, s in zip(parts, shape):
            h, total, square, positive = (np.zeros(s, np.float32) for _ in range(4))
            top, z, t = np.full(s, -1, np.float32), np.empty(s, np.float32), np.empty(s, np.float32)
            for sample in p:
                np.matmul(h, m, out=z)
                z += np.matmul(sample, u, out=t)
                z += b
                positive += z > 0
                np.tanh(z, out=z)
                np.maximum(top, z, out=top)
                z *= eps
                h += z
                total += h
                np.multiply(h, h, out=t)
                square += t
            last.append(np.stack([h, total, square, positive, top]))
        return np.concatenate(last, 2)
    return call


def draw_bank(np, members, units, inputs):
    rng = np.random.default_rng(2)
    eps = 10 ** rng.uniform(-3, 0, members)
    scale = 10 ** rng.uniform(-2, np.log10(0.2), members) / eps / (2 * np.sqrt(2 * units / 3))
    w = rng.uniform(-1, 1, (members, units, units)) * scale[:, None, None]
    m = w - w.transpose(0, 2, 1) - 0.01 * np.eye(units)
    u = rng.uniform(-1, 1, (members, inputs, units))
    b = rng.uniform(-1, 1, (members, 1, units))
    return [a.astype(np.float32) for a in (m, u, b, eps[:, None, None])]


def check(np, got, want, what, tolerance=TOLERANCE):
    """The relative error of what should be the same but for rounding, or an end."""
    error = float(np.linalg.norm(got - want) / np.linalg.norm(want))
    if not error < tolerance:
        raise SystemExit(f"{what}: relative error {error:.1e}, want below {tolerance:.0e}")
    return error


def candidates(name, members, units, inputs, streams, samples, recipe=""):
    """Forms of a peer, each with what its result must be."""
    import numpy as np
    if name in MIXED:
        if name == "torch-mixed":
            import torch
            torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        for form, call, got, want in mixed.forms(np, name, recipe, inputs, streams, samples):
            yield form, call, lambda _, got=got, want=want: check(np, got, want, name, mixed.TOLERANCE)
        return
    blocks = sorted({min(streams, k) for k in (128, 256, 512, streams)})
    if name == "numpy-bank":
        net = draw_bank(np, members, units, inputs)
        x = np.random.default_rng(3).standard_normal((samples, streams, inputs)).astype(np.float32)
        want = numpy_bank(np, [a.astype(np.float64) for a in net], x[:, :3].astype(np.float64), 3)()
        for k in sorted({min(streams, k) for k in (8, 16, 32, 64, 128, 512)}):
            yield f"{k} streams a block", numpy_bank(np, net, x, k), lambda got: check(np, got[:, :, :3], want, name)
        return
    m, u, b, x = draw(np, units, inputs, streams, samples)
    if name == "sgemm":
        h, z = np.random.default_rng(4).standard_normal((streams, units)).astype(np.float32), np.empty((streams, units), np.float32)
        w = np.ascontiguousarray(m.T)

        def call():
            for _ in range(samples):
                np.matmul(h, w, out=z)
            return z
        yield "the product alone", call, lambda got: check(np, got[:3], h[:3].astype(np.float64) @ w.astype(np.float64), name)
        return
    want = reference(np, m, u, b, x)
    same = lambda got: check(np, got[:3], want, name)  # noqa: E731
    if name == "numpy":
        for form in (numpy_rows, numpy_columns):
            for k in blocks:
                yield f"{form.__name__}, {k} streams a block", form(np, m, u, b, x, k), same
    elif name == "torch":
        import torch
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        yield "torch_plain", torch_plain(torch, m, u, b, x, streams), same
        for k in blocks:
            yield f"torch_rows, {k} streams a block", torch_rows(torch, m, u, b, x, k), same
    elif name == "reservoirpy":
        h = np.zeros((3, units))
        for sample in x[:, :3].astype(np.float64):
            h = (1 - EPS) * h + EPS * np.tanh(h @ m.T.astype(np.float64) + sample @ u.T.astype(np.float64) + b)
        yield "series by series", reservoirpy_node(np, m, u, b, x, streams), lambda got: check(np, got[:3], h, name)
    else:
        raise SystemExit(f"no peer {name}")


def timed(call, seconds, steps):
    """Stream-steps per second over at least so long."""
    calls, begin = 0, time.perf_counter()
    while calls == 0 or time.perf_counter() - begin < seconds:
        call()
        calls += 1
    return calls * steps / (time.perf_counter() - begin)


def library():
    """The BLAS that is loaded."""
    loaded = {os.path.basename(os.path.realpath(line.split()[-1])) for line in open("/proc/self/maps") if "/" in line}
    found = sorted(name for name in loaded if any(blas in name for blas in ("openblas", "mkl_core", "blis", "libblas")))
    return ", ".join(found) or "no BLAS library"


def main():
    name, (members, units, inputs, streams, samples) = sys.argv[1], map(int, sys.argv[2:7])
    best = None
    for form, call, examine in candidates(name, members, units, inputs, streams, samples, *sys.argv[7:]):
        error = examine(call())
        steps = getattr(call, "streams", streams) * samples
        rate = max(timed(call, 0.1, steps) for _ in range(3))
        if best is None or rate > best[0]:
            best = rate, form, call, steps, error
    _, form, call, steps, error = best
    print(f"ready {form}; {library()}; error {error:.0e}", flush=True)
    for line in sys.stdin:
        print(timed(call, float(line), steps), flush=True)


if __name__ == "__main__":
    main()
