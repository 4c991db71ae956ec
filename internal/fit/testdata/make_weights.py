#!/usr/bin/python3
"""Reference values for readouts with class weights, by scikit-learn and by brute force.

usage: make_weights.py > weights.json    (numpy 1.24, scikit-learn 1.2)

Each case is a small labeled feature matrix, some of whose classes are rare. With
class_weight="balanced" and with weights of its own, on raw features and on features
divided by their weighted deviation (StandardScaler with sample_weight), it stores
RidgeClassifier's coef_ and intercept_ as functions of the raw features, and what really
refitting without each group of samples gives: the score of each sample, and the mean
squared error with the samples' weights. The weights stay those of all samples, with a
mean of 1; so does the scale of the features.
"""
import json
import sys

import numpy as np
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.preprocessing import StandardScaler

ALPHAS = [0.1, 10.0]


def cases(rng):
    def draw(n, f, shares, size):
        classes = len(shares)
        y = rng.choice(classes, n, p=shares)
        y[:4 * classes] = np.arange(4 * classes) % classes
        centers = rng.normal(size=(classes, f))
        x = centers[y] + 2 * rng.normal(size=(n, f)) + 5
        return x.astype(np.float32), y, np.arange(n) // size

    yield "two, one rare", *draw(60, 6, [.9, .1], 1), [1, 4.5]
    yield "three", *draw(50, 8, [.7, .2, .1], 1), [2, 3, 11]
    yield "more features than samples", *draw(24, 40, [.6, .2, .2], 1), [1, 2, 5]
    yield "two, more features", *draw(20, 30, [.8, .2], 1), [3, 1]
    yield "groups", *draw(60, 12, [.7, .3], 4), [1, 3]
    yield "groups, more features", *draw(24, 40, [.6, .2, .2], 3), [1, 1, 4]
    yield "groups of more samples than features", *draw(60, 4, [.6, .2, .2], 12), [1, 5, 2]


def coded(y, classes):
    target = np.where(y[:, None] == np.arange(classes), 1., -1.)
    return target[:, 1:] if classes == 2 else target


def solve(x, y, groups, weights, alpha, standardize):
    classes = int(y.max()) + 1
    count = np.bincount(y)
    balanced = weights is None
    w = (1 / count if balanced else np.array(weights, float))[y]
    w = w * len(y) / w.sum()
    x = x.astype(np.float64)
    scaler = StandardScaler(with_mean=False).fit(x, sample_weight=w)
    scale = 1 / scaler.scale_ if standardize else np.ones(x.shape[1])
    z = x * scale
    if balanced:
        m = RidgeClassifier(alpha=alpha, class_weight="balanced", solver="cholesky").fit(z, y)
    else:
        mean = w.sum() / len(y)
        m = RidgeClassifier(alpha=alpha, solver="cholesky").fit(z, y, sample_weight=w / mean)
    target = coded(y, classes)
    scores = np.empty_like(target)
    for g in np.unique(groups):
        out = groups == g
        r = Ridge(alpha=alpha, solver="cholesky").fit(z[~out], target[~out], sample_weight=w[~out])
        scores[out] = r.predict(z[out]).reshape(-1, target.shape[1])
    return dict(weights=None if balanced else weights, alpha=alpha, standardize=standardize,
                coef=(m.coef_ * scale).ravel().tolist(), intercept=m.intercept_.tolist(),
                scores=scores.ravel().tolist(),
                loo_error=float((w[:, None] * (target - scores) ** 2).mean()))


def main():
    out = []
    for name, x, y, groups, weights in cases(np.random.default_rng(20261123)):
        fits = [solve(x, y, groups, w, a, s) for w in (None, weights) for s in (False, True) for a in ALPHAS]
        out.append(dict(name=name, features=x.shape[1], classes=int(y.max()) + 1,
                        x=x.astype(np.float64).ravel().tolist(), labels=y.tolist(), groups=groups.tolist(), fits=fits))
    json.dump(out, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


main()
