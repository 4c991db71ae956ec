"""Scores and p-values of package novelty, computed another way: residuals of NumPy's
singular value decomposition of the centered and scaled features, all in float64. What is
usual by place, and the directions of splices: ridge regressions as least squares with
further rows for the penalty. The spliced vectors are those of a formula, which the test
computes, too.

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


def ridge(x, y, penalty):
    """Coefficients of centered columns, and the constant."""
    middle, level = x.mean(0), y.mean()
    rows = np.concatenate([x - middle, np.sqrt(penalty * len(x)) * np.eye(x.shape[1])])
    w = np.linalg.lstsq(rows, np.concatenate([y - level, np.zeros(x.shape[1])]), rcond=None)[0]
    return w, level - middle @ w


def by_place(products, left, fold, new_products, new, between=None, new_between=None):
    """Squared residuals over what is usual for them: of left-out sequences, of new ones.
    With products with directions of splices, what is unusual along these makes it less."""
    design = lambda t: np.concatenate([t, t**2], 1)
    raw = design(products)
    z, y = (raw - raw.mean(0)) / raw.std(0), np.log(left)
    tried = []
    for penalty in [1e-3, 1e-2, 1e-1, 1, 10, 100, 1e4]:
        out = np.zeros(len(y))
        for k in set(fold):
            w, constant = ridge(z[fold != k], y[fold != k], penalty)
            out[fold == k] = z[fold == k] @ w + constant
        tried.append((((out - y) ** 2).sum(), penalty, out))
    loss, penalty, out = min(tried, key=lambda t: t[0])
    assert loss < sum((y[i] - y[fold != fold[i]].mean()) ** 2 for i in range(len(y)))
    w, constant = ridge(z, y, penalty)
    fitted = np.sort(z @ w + constant)
    low, high = fitted[len(y) // 10], fitted[len(y) - 1 - len(y) // 10]
    at = (design(new_products) - raw.mean(0)) / raw.std(0) @ w + constant
    if between is not None:
        deviation = np.sqrt(loss / len(y))
        apart = lambda t: 0.35 * deviation * (((t - between.mean(0)) / between.std(0)) ** 2).sum(1)
        out, at, low = out - apart(between), at - apart(new_between), low - 64 * 0.35 * deviation
    usual = lambda x: np.exp(np.clip(x, low, high) - low)
    return left / usual(out), new / usual(at), penalty


def splice_direction(z, spliced):
    """The ridge regression that tells spliced from whole ones, of unit length."""
    a = np.concatenate([z, spliced])
    a = a - a.mean(0)
    penalty = 0.5 * (a**2).sum() / len(a)
    rows = np.concatenate([a, np.sqrt(penalty) * np.eye(a.shape[1])])
    y = np.concatenate([-np.ones(len(z)), np.ones(len(spliced)), np.zeros(a.shape[1])])
    w = np.linalg.lstsq(rows, y, rcond=None)[0]
    return w / np.linalg.norm(w)


def splices():
    """Three classes, of which each two have a direction of their own."""
    random = np.random.default_rng(9)
    n, features, dims, folds, pairs = 246, 16, 7, 10, 3
    spread, apart = random.normal(size=(3, features)), 3 * random.normal(size=(3, features))
    make = lambda k: np.round(64 * (random.normal(size=(k, 3)) @ spread + apart[np.arange(k) % 3] + (0.3 + 0.3 * (np.arange(k) % 3))[:, None] * random.normal(size=(k, features)))) / 64
    x, new = make(n), make(12)
    new[8:] += np.round(64 * 0.7 * random.normal(size=(4, features))) / 64
    made = 0

    def spliced(k):
        nonlocal made
        at = np.arange(made, made + k)[:, None]
        made += k
        return (np.cos(0.37 * at + 0.21 * np.arange(features) ** 2) * (2 + at % 5)).astype(np.float32)

    fold = np.arange(n) % folds

    def learn(x):
        part = Subspace(x, dims - pairs)
        z = (x - part.mean) * part.scale
        part.between = np.stack([splice_direction(z, (spliced(len(z)) - part.mean) * part.scale) for _ in range(pairs)])
        return part

    last = learn(x)
    left, products, between = np.zeros(n), np.zeros((n, dims - pairs)), np.zeros((n, pairs))
    for k in range(folds):
        part = learn(x[fold != k])
        left[fold == k] = part.scores(x[fold == k])
        z = (x[fold == k] - last.mean) * part.scale
        u, _, v = np.linalg.svd(part.axes @ last.axes.T, full_matrices=False)
        products[fold == k] = z @ part.axes.T @ u @ v
        between[fold == k] = z @ part.between.T
    z = (new - last.mean) * last.scale
    left, scores, penalty = by_place(products, left, fold, z @ last.axes.T, last.scores(new), between, z @ last.between.T)
    median = np.sort(left)[n // 2]
    left, scores = np.sort(left) / median, scores / median
    return {
        "n": n, "dims": dims, "penalty": penalty,
        "features": [float(v) for v in x.ravel()], "new": [float(v) for v in new.ravel()],
        "left": left.tolist(), "scores": scores.tolist(),
        "p": [(1 + int((left >= s).sum())) / (n + 1) for s in scores],
    }


def classes():
    """A quiet class and a loud one, which are apart."""
    random = np.random.default_rng(8)
    n, features, dims, folds = 70, 50, 10, 10
    spread, apart = random.normal(size=(4, features)), 4 * random.normal(size=features)

    def make(k):
        loud = np.arange(k) % 2
        x = random.normal(size=(k, 4)) @ spread + loud[:, None] * apart
        return (x + (0.2 + 0.6 * loud)[:, None] * random.normal(size=(k, features))).astype(np.float32)

    x, new = make(n), make(12)
    new[8:] += (0.8 * random.normal(size=(4, features))).astype(np.float32)
    fold = np.arange(n) % folds
    x64, last = x.astype(float), Subspace(x.astype(float), dims)
    left, products = np.zeros(n), np.zeros((n, 8))
    for k in range(folds):
        part = Subspace(x64[fold != k], dims)
        left[fold == k] = part.scores(x64[fold == k])
        z = (x64[fold == k] - last.mean) * part.scale
        u, _, v = np.linalg.svd(part.axes @ last.axes[:8].T, full_matrices=False)
        products[fold == k] = z @ part.axes.T @ u @ v
    z = (new.astype(float) - last.mean) * last.scale
    left, scores, penalty = by_place(products, left, fold, (z @ last.axes.T)[:, :8], last.scores(new.astype(float)))
    median = np.sort(left)[n // 2]
    left, scores = np.sort(left) / median, scores / median
    return {
        "n": n, "dims": dims, "groups": None, "penalty": penalty,
        "features": [float(v) for v in x.ravel()], "new": [float(v) for v in new.ravel()],
        "left": left.tolist(), "scores": scores.tolist(),
        "p": [(1 + int((left >= s).sum())) / (n + 1) for s in scores],
    }


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
        "classes": classes(),
        "splices": splices(),
    }))


main()
