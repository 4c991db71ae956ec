#!/usr/bin/env python3
"""A model file opened with NumPy alone: states and scores of one series, in float64.
usage: model_in_numpy.py MODEL.safetensors SERIES.npy...    each SERIES is an array (samples, channels)
Prints one JSON line per series: {"class": label, "probability": p, "scores": [...], "features": [...]}
and the number with its interval, if the model predicts numbers: {"value": v, "low": l, "high": h}"""
import json, struct, sys
import numpy as np

raw = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8:8 + size])
meta = header.pop("__metadata__")
T = {k: np.frombuffer(raw, {"F32": "<f4", "I32": "<i4"}[v["dtype"]], int(np.prod(v["shape"])), 8 + size + v["data_offsets"][0])
     .reshape(v["shape"]).astype({"F32": "f8", "I32": "i8"}[v["dtype"]]) for k, v in header.items()}
spec, readout = json.loads(meta["eusn.spec"]), json.loads(meta["eusn.readouts"])[0]
front = json.loads(meta.get("eusn.front", "{}"))


def front_end(x):  # of a whole sequence
    level, smooth, envelope, decimate = (front.get(k, 0) for k in ("normalize", "smooth", "envelope", "decimate"))
    mean, variance, e, y = 0, 0, 0, np.array(x)
    if "regimes" in front:
        g = {k: np.array(v) for k, v in front["regimes"].items()}
        s = (y[:, g["settings"]] - g["mean"]) * g["scale"]
        of = ((s[:, None] - g["centers"]) ** 2).sum(2).argmin(1)
        y = (y - g["means"][of]) * g["scales"][of]
    for k, row in enumerate(y, 1):  # a view: the sample is changed in place
        if level or "center" in front:
            a = 1 / min(k, level or front["center"])
            d = row - mean
            mean = mean + a * d
            variance = (1 - a) * (variance + a * d * d)
            row -= mean
        if level:
            s = np.sqrt(variance)
            row[:] = np.where(s > 2.0 ** -22 * abs(mean), row / np.where(s > 0, s, 1), 0)
        if smooth:
            e = e + (row - e) / min(k, smooth)
            row[:] = e
        if envelope:
            e = e + (abs(row) - e) / min(k, envelope)
            row[:] = e
    if decimate:
        y = y[:len(y) // decimate * decimate].reshape(-1, decimate, y.shape[1]).mean(1)
    return y


def statistics(x):  # of the front end's output: of segments, or running means of several lengths, and their differences
    if "segments" in front:
        parts = x.reshape(front["segments"]["count"], front["segments"]["length"], x.shape[1])
        return np.stack([parts.mean(1), parts.std(1)], 2).ravel()
    means = np.zeros((len(front["means"]), x.shape[1]))
    for k, row in enumerate(x, 1):
        means += (row - means) / np.minimum(k, front["means"])[:, None]
    return np.vstack([means[:1], means[:-1] - means[1:]]).T.ravel()


def features(x):
    u = (x - T["norm.mean"]) * T["norm.scale"] if spec["standardize"] else x
    if spec["difference"]:
        d = np.vstack([np.zeros((1, x.shape[1])), np.diff(x, axis=0)]) * T["norm.diff"]
        u = np.hstack([u, d])
    if spec["kind"] == "mixed":
        return mixed_features(u)
    out = []
    for r in range(spec["members"]):
        W, U, b, cols = (T[f"member.{r}.{k}"] for k in ("recurrent", "input", "bias", "inputs"))
        if spec["kind"] == "resn":  # one weight a unit, from the unit before it
            W = np.diag(W) @ np.roll(np.eye(spec["units"]), -1, axis=1)
        keep, gain = T[f"member.{r}.keep_gain"]
        h, H, Z = np.zeros(spec["units"]), [], []
        for row in u[:, cols]:
            z = b + U @ row + W @ h
            h = keep * h + gain * np.tanh(z)
            H.append(h), Z.append(z)
        H, Z = np.array(H), np.array(Z)
        every = dict(last=H[-1], mean=H.mean(0), ppv=(Z > 0).mean(0), max=np.tanh(Z.max(0)), std=H.std(0))
        out += [every[k] for k in ("last", "mean", "ppv", "max", "std") if k in spec["features"]]
    return np.concatenate(out)


def mixed_features(u):  # mixed-bank.md; of at most 32768 samples, of which all are counted
    act = {"tanh": np.tanh, "clip": lambda z: np.clip(z, -1, 1),
           "cubic": lambda z: np.clip(z, -1.5, 1.5) - 4 / 27 * np.clip(z, -1.5, 1.5) ** 3}[spec["taps"]["activation"]]
    n, out = len(u), []
    for r in range(spec["members"]):
        W, U, b, cols = (T[f"member.{r}.{k}"] for k in ("recurrent", "input", "bias", "inputs"))
        lags = T.get(f"member.{r}.lags", 0 * cols)
        seen = np.array([np.concatenate([np.zeros(lag), u[:, c]])[:n] for c, lag in zip(cols, lags)]).T
        h, H, Z = np.zeros(16), [], []
        for row in seen:
            z = b + U @ row + (W * h if W.ndim == 1 else W @ h)
            h = h + act(z)
            H.append(h), Z.append(z)
        H, Z = np.array(H), np.array(Z)
        G = Z.reshape(n, 2, 8)
        positive = np.vstack([np.zeros((1, 16), bool), Z > 0])
        out += [H[-1], H.mean(0), (Z > 0).mean(0), act(Z.max(0)), H.std(0), (positive[1:] != positive[:-1]).mean(0),
                (G == G.max(2, keepdims=True)).reshape(n, 16).mean(0), (G == G.min(2, keepdims=True)).reshape(n, 16).mean(0)]
    return np.concatenate(out)


for path in sys.argv[2:]:
    x = front_end(np.load(path).astype("f8"))
    f = features(x)
    limit = T.get("readout.0.limit", np.inf)  # a readout may limit its features
    s = T["readout.0.intercept"] + T["readout.0.weights"] @ np.clip(f - T["readout.0.center"], -limit, limit)
    if readout.get("random"):  # random features
        W, c, b, out = (T[f"readout.0.random.{k}"] for k in ("weights", "center", "bias", "out"))
        s = s + out @ np.tanh(b + W @ (statistics(x) - c))
    if readout.get("segments"):
        center, limit = T["readout.0.segments.center"], T["readout.0.segments.limit"]
        s = s + T["readout.0.segments.weights"] @ np.clip(statistics(x) - center, -limit, limit)
    k = int(s[0] > 0) if len(readout["classes"]) == 2 else int(s.argmax())
    all_scores = np.append([0], s) if len(s) == 1 else s
    t = readout.get("temperature")  # none: the model makes no probabilities
    p = 1 / np.exp(t * (all_scores - all_scores.max())).sum() if t else None
    number, v = {}, readout.get("interval")
    if v:
        ends = np.clip(s[0] + np.array([0, v["low"], v["high"]]), *v.get("clip", (-np.inf, np.inf)))
        number = dict(zip(("value", "low", "high"), ends.tolist()))
    print(json.dumps({"class": readout["classes"][k], "probability": p, "scores": s.tolist(), "features": f.tolist(), **number}))
