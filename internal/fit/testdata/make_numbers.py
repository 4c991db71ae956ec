#!/usr/bin/python3
"""Reference values for regressions, by brute force in NumPy.

usage: make_numbers.py < reference.json > numbers.json    (numpy 1.24)

For each case of reference.json: numbers that depend on some features, with noise. The
ridge regression of standardized features (their scale is that of all samples) is really
refitted without each sample, or each group of three neighbors, for each of some alphas;
what is left out is predicted. The alpha of the least mean squared error is taken. Of its
residuals, true less predicted, low and high are the k-th smallest and the k-th largest,
k = floor((1 - level) / 2 (n + 1)). value is what the regression of all samples says.
"""
import json
import sys

import numpy as np

LEVEL = .8
ALPHAS = [.001, .03, 1., 30.]


def fit(z, y, alpha):
    mean, offset = z.mean(0), y.mean()
    c = z - mean
    w = np.linalg.solve(c.T @ c + alpha * np.eye(z.shape[1]), c.T @ (y - offset))
    return lambda x: offset + (x - mean) @ w


out = []
rng = np.random.default_rng(19)
for case in json.load(sys.stdin):
    n = len(case["labels"])
    x = np.array(case["x"]).reshape(n, -1)
    dev = x.std(0)
    z = (x - x.mean(0)) * np.where(dev > 0, 1 / np.where(dev > 0, dev, 1), 0)
    y = 40 + 3 * z[:, 0] - 5 * z[:, 1] + np.exp(rng.normal(0, 1, n))
    one = dict(name=case["name"], level=LEVEL, alphas=ALPHAS, numbers=y.tolist())
    for name, groups in ("each", np.arange(n)), ("threes", np.arange(n) // 3):
        best = None
        for alpha in ALPHAS:
            left = np.empty(n)
            for g in np.unique(groups):
                out_of = groups == g
                left[out_of] = y[out_of] - fit(z[~out_of], y[~out_of], alpha)(z[out_of])
            if best is None or np.mean(left**2) < np.mean(best[1]**2):
                best = alpha, left
        alpha, left = best
        k = int((1 - LEVEL) / 2 * (n + 1) + 1e-9)
        ranked = np.sort(left)
        low, high = ranked[k - 1], ranked[n - k]
        one[name] = dict(alpha=alpha, low=low, high=high, rmse=np.sqrt(np.mean(left**2)), mae=np.mean(np.abs(left)),
                         bias=-np.mean(left), r2=1 - np.sum(left**2) / np.sum((y - y.mean())**2),
                         coverage=np.mean((left >= low) & (left <= high)), value=fit(z, y, alpha)(z).tolist())
    out.append(one)
json.dump(out, sys.stdout, separators=(",", ":"))
sys.stdout.write("\n")
