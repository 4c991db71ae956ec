"""Scores and p-values of package novelty, computed another way: residuals of NumPy's
singular value decomposition of the centred and scaled features, all in float64.

    python3 make_reference.py > reference.json
"""
import json

import numpy as np

class Subspace:
    def __init__(self, x, dims):
        self.mean, deviation = x.mean(0), x.std(0)
        varies = deviation > 2.0**-22 * abs(self.mean)
        self.scale = np.where(varies, 1 / np.where(varies, deviation, 1), 0)
        self.axes = np.linalg.svd((x - self.mean) * self.scale, full_matrices=False)[2][: min(dims, len(x) - 1)]

    def scores(self, x):
        z = (x - self.mean) * self.scale
        residual = z - z @ self.axes.T @ self.axes
        return (residual**2).sum(1)


def main():
    random = np.random.default_rng(7)
    n, features, dims, folds = 36, 40, 4, 10
    spread = random.normal(size=(5, features)) * 2.0 ** random.integers(-3, 4, features)
    make = lambda k, noise: (random.normal(size=(k, 5)) @ spread + noise * random.normal(size=(k, features)) + 3).astype(np.float32)
    x, new = make(n, 0.3), np.concatenate([make(4, 0.3), make(4, 3)])
    x[:, 11] = new[:, 11] = 7  # never varies
    group = [i * 7 % n // 3 for i in range(n)]  # twelve groups, not next to each other
    number = {}
    for g in group:
        number.setdefault(g, len(number))
    fold = np.array([number[g] % folds for g in group])
    x64, left = x.astype(float), np.zeros(n)
    for k in range(folds):
        left[fold == k] = Subspace(x64[fold != k], dims).scores(x64[fold == k])
    median = np.sort(left)[n // 2]
    last = Subspace(x64, dims).scores(new.astype(float)) / median
    left = np.sort(left) / median
    print(json.dumps({
        "n": n, "dims": dims, "groups": group,
        "features": [float(v) for v in x.ravel()], "new": [float(v) for v in new.ravel()],
        "left": left.tolist(), "scores": last.tolist(),
        "p": [(1 + int((left >= s).sum())) / (n + 1) for s in last],
    }))


main()
