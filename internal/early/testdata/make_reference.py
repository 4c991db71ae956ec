"""Makes reference.json: the rule of package early, learned and applied with SciPy.

    python3 make_reference.py > reference.json
"""
import json

import numpy as np
from scipy.optimize import minimize

rng = np.random.default_rng(5)
N, EVERY, CLASSES = 60, 10, 3


def sequences():
    out = []
    for _ in range(N):
        label = int(rng.integers(CLASSES))
        length = int(rng.integers(60, 140))
        places = list(range(EVERY, length, EVERY)) + [length]
        prefixes = []
        for n in places:
            sure = n / length
            right = rng.random() < 0.35 + 0.6 * sure
            c = label if right else int(rng.integers(CLASSES))
            margin = round(float(rng.gamma(2, 0.5 + (2 if right else 0.4) * sure)), 6)
            prefixes.append({"samples": n, "class": c, "margin": margin})
        out.append({"label": label, "prefixes": prefixes})
    return out


def learn(seqs, loss):
    lengths = sorted(s["prefixes"][-1]["samples"] for s in seqs)
    median = lengths[len(lengths) // 2]
    rows, stays = [], []
    for s in seqs:
        for p in s["prefixes"][:-1]:
            t = min(1, p["samples"] / median)
            rows.append([1, t, p["margin"], p["margin"] * t])
            stays.append(p["class"] == s["prefixes"][-1]["class"])
    x, stays = np.array(rows), np.array(stays)
    scale = np.sqrt((x**2).mean(0))
    y = np.where(stays, (stays.sum() + 1) / (stays.sum() + 2), 1 / ((~stays).sum() + 2))

    def cost(c):
        z = x / scale @ c
        return (np.logaddexp(0, z) - y * z).sum() + (c[1:] ** 2).sum() / 2

    def slope(c):
        z = x / scale @ c
        g = (x / scale).T @ (1 / (1 + np.exp(-z)) - y)
        g[1:] += c[1:]
        return g

    best = minimize(cost, np.zeros(4), jac=slope, method="BFGS", options={"gtol": 1e-9})
    c = best.x / scale

    def change(p):
        t = min(1, p["samples"] / median)
        return float(1 / (1 + np.exp(c @ [1, t, p["margin"], p["margin"] * t])))

    def apply(most):
        right = share = decided = doubt = 0
        for s in seqs:
            whole = s["prefixes"][-1]
            at = next((p for p in s["prefixes"][:-1] if change(p) <= most), whole)
            decided += at is not whole
            doubt += 0 if at is whole else change(at)
            right += at["class"] == s["label"]
            share += at["samples"] / whole["samples"]
        return right / len(seqs), share / len(seqs), decided / len(seqs), doubt / len(seqs)

    most, result = 0.0, apply(0.0)
    whole = result[0]
    for k in range(96):
        next_most = (1 + (k % 8) / 8) * 2.0 ** (k // 8 - 12)
        got = apply(next_most)
        if got[0] < whole - loss - 1e-9 or got[3] > loss:
            break
        most, result = next_most, got
    return {
        "loss": loss, "length": median, "coefficients": list(c), "most": most, "whole": whole,
        "accuracy": result[0], "earliness": result[1], "decided": result[2],
        "changes": [change(p) for s in seqs[:5] for p in s["prefixes"]],
    }


seqs = sequences()
print(json.dumps({"sequences": seqs, "rules": [learn(seqs, loss) for loss in (0.001, 0.02, 0.05, 0.1)]}))
