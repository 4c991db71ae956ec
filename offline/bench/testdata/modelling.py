"""Prints modelling.json: one-step-ahead modelling with NumPy and scikit-learn.

    /usr/bin/python3 modelling.py > modelling.json

Weights are drawn again from the text in reservoir/draw.go, states run in
float64, the readout is scikit-learn's Ridge on all rows at once, and the error
is ||o - y|| / sqrt(rows). Also the search lists, as digests.
"""
import hashlib
import json

import numpy as np
from sklearn.linear_model import Ridge

M64 = 2**64 - 1
RECURRENT, INPUT, BIAS = 1, 2, 3  # tensors


def mix(z):
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & M64
    return z ^ z >> 31


def uniform(seed, tensor, count):
    key = mix((mix(seed) + tensor) & M64)
    top = [mix((key + (k + 1) * 0x9E3779B97F4A7C15) & M64) >> 40 for k in range(count)]
    return np.array([(2 * i + 1 - 2**24) / 2**24 for i in top])


def network(kind, inputs, c, seed):
    """keep, gain, M, U, b; weights rounded to float32."""
    n = c["units"]
    f32 = lambda a: np.asarray(a, np.float32).astype(np.float64)
    u = f32(c["input"] * uniform(seed, INPUT, n * inputs)).reshape(n, inputs)
    b = f32(c["bias"] * uniform(seed, BIAS, n))
    if kind == "eusn":
        w = uniform(seed, RECURRENT, n * n).reshape(n, n)
        return 1.0, c["eps"], f32(c["recurrent"] * (w - w.T) - c["gamma"] * np.eye(n)), u, b
    radius, leak = c["spectral_radius"], c["leak"]
    if kind == "resn":
        m = f32(radius * np.roll(np.eye(n), 1, axis=0))
    else:
        v = radius / np.sqrt(n) * (6 / np.sqrt(12))
        m = f32(v * uniform(seed, RECURRENT, n * n)).reshape(n, n)
    return 1 - leak, leak, m, u, b


def layers(kind, c):
    if kind != "deepesn":
        return [network(kind, 1, c, c["seed"])]
    each = c["units"] // c["layers"]
    units, inputs, out = c["units"] - each * (c["layers"] - 1), 1, []
    for l in range(c["layers"]):
        out.append(network("esn", inputs, {**c, "units": units}, c["seed"] + (l << 32)))
        inputs, units = units, each
    return out


def states(nets, x):
    h = [np.zeros(len(net[4])) for net in nets]
    rows = []
    for v in x:
        s = np.array([v])
        for l, (keep, gain, m, u, b) in enumerate(nets):
            h[l] = s = keep * h[l] + gain * np.tanh(m @ h[l] + u @ s + b)
        rows.append(np.concatenate(h))
    return np.array(rows)


def rmse(kind, c, with_input, learn, ask):
    nets = layers(kind, c)

    def table(series):
        x, y = [], []
        for s in series:
            h = states(nets, s)[:-1]
            x.append(np.column_stack([h, s[:-1]]) if with_input else h)
            y.append(s[1:])
        return np.concatenate(x), np.concatenate(y)

    x, y = table(learn)
    readout = Ridge(alpha=1, solver="svd").fit(x, y)
    x, y = table(ask)
    return float(np.linalg.norm(readout.predict(x) - y) / np.sqrt(len(y)))


def lists():
    """The published program's draws, ESN then EuSN, with input then without;
    then R-ESN and DeepESN in the same way."""
    np.random.seed(42)
    r = np.random.randint
    leaky = lambda: [r(-5, 1), r(-3, 2), r(1, 5), r(-3, 2)]
    draw = {
        "esn": leaky,
        "eusn": lambda: [r(-5, 1), r(-5, 1), r(-3, 2), r(-3, 2), r(-3, 2)],
        "resn": leaky,
        "deepesn": lambda: [r(2, 6)] + leaky(),
    }
    out = {}
    for model, one in draw.items():
        for name in (model + "+input", model):
            text = " ".join(str(int(v)) for _ in range(100) for v in one())
            out[name] = hashlib.sha256(text.encode()).hexdigest()
    return out


def series(k):
    """Two sines about an offset, a multiple of 1/64 each: exact in float32."""
    t = np.arange(20 + 7 * k)
    return np.round(64 * (3 + np.sin(0.3 * t + k) + 0.5 * np.sin(0.11 * (k + 1) * t))) / 64


LEARN, ASK = [series(k) for k in range(6)], [series(k) for k in range(6, 9)]
LEAKY = {"units": 25, "leak": 0.1, "spectral_radius": 0.9, "input": 0.1, "bias": 0.1}
CASES = {
    "eusn": {"units": 25, "eps": 0.01, "gamma": 0.001, "recurrent": 1, "input": 1, "bias": 0.1, "seed": 3},
    "esn": {**LEAKY, "seed": 4},
    "resn": {**LEAKY, "seed": 5},
    "deepesn": {**LEAKY, "layers": 2, "seed": 6},
}
print(json.dumps({
    "learn": [s.tolist() for s in LEARN],
    "ask": [s.tolist() for s in ASK],
    "configs": CASES,
    "rmse": {k: {"without": rmse(k, c, False, LEARN, ASK), "with": rmse(k, c, True, LEARN, ASK)} for k, c in CASES.items()},
    "lists": lists(),
}))
