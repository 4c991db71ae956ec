#!/usr/bin/python3
"""Reference values for the readout tests, by scikit-learn and by brute force.

usage: make_reference.py > reference.json    (numpy 1.24, scikit-learn 1.2)

Each case is a small labeled feature matrix. For several alphas, on raw and on
standardized features, it stores RidgeClassifier's coef_, intercept_ and
decision_function (as a function of the raw features), and the leave-one-out
errors found by really refitting without each sample in turn. The scale of
standardized features is that of all samples, as in the Go code. RidgeCV's own
leave-one-out values are compared with the refits before anything is written.
"""
import json
import sys

import numpy as np
from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV

ALPHAS = [0.01, 1.0, 100.0]


def cases(rng):
    def draw(n, f, classes, weights=None):
        y = rng.choice(classes, n, p=weights)
        y[:2 * classes] = np.arange(2 * classes) % classes  # at least two of each
        centers = rng.normal(size=(classes, f))
        return centers[y] + rng.normal(size=(n, f)), y

    yield "two classes", *draw(40, 6, 2)
    yield "five unbalanced", *draw(60, 8, 5, [.6, .2, .1, .05, .05])
    yield "fewer samples than features", *draw(20, 35, 3)
    x, y = draw(50, 10, 3)
    x = x.astype(np.float32)
    x[:, 7] = x[:, 2]
    x[:, 8] = 2 * x[:, 3]
    x[:, 9] = 0.5 * x[:, 7]
    yield "deficient rank", x, y
    x, y = draw(45, 7, 2, [.85, .15])
    x[:, 4] = 0.25
    x[:, 6] = 0
    yield "constant features", x, y
    x, y = draw(30, 40, 4)
    x[:, 11] = -3
    yield "wide with a constant", x, y
    x, y = draw(40, 5, 3)
    yield "large means, small deviations", 1000 + x * [1, .1, 10, .01, 1], y


def fit(x, y, alpha):
    return RidgeClassifier(alpha=alpha, solver="svd").fit(x, y)


def columns(decision):
    return decision.reshape(len(decision), -1)


def solve(x, y, alpha, standardize):
    scale = np.ones(x.shape[1])
    if standardize:
        dev = x.std(0)
        scale = np.where(dev > 0, 1 / np.where(dev > 0, dev, 1), 0)
    z = (x - x.mean(0)) * scale
    m = fit(z, y, alpha)
    coef = m.coef_ * scale
    classes = m.classes_
    target = np.where(y[:, None] == classes, 1., -1.)
    if len(classes) == 2:
        target = target[:, 1:]
    loo = np.empty_like(target)
    for i in range(len(y)):
        keep = np.arange(len(y)) != i
        loo[i] = target[i] - fit(z[keep], y[keep], alpha).decision_function(z[i:i + 1]).reshape(-1)
    cv = RidgeClassifierCV(alphas=[alpha], store_cv_values=True).fit(z, y)
    assert np.allclose(cv.cv_values_.reshape(loo.shape), loo ** 2, rtol=1e-6, atol=1e-9), "refits and RidgeCV disagree"
    score = target - loo
    predicted = (score[:, 0] > 0).astype(int) if len(classes) == 2 else score.argmax(1)
    return dict(alpha=alpha, standardize=standardize, coef=coef.ravel().tolist(),
                intercept=(m.intercept_ - (coef * x.mean(0)).sum(1)).tolist(),
                decision=columns(m.decision_function(z)).ravel().tolist(),
                loo_error=float((loo ** 2).mean()), loo_accuracy=float((predicted == y).mean()))


def main():
    out = []
    for name, x, y in cases(np.random.default_rng(20220317)):
        x = x.astype(np.float32)
        fits = [solve(x.astype(np.float64), y, a, s) for s in (False, True) for a in ALPHAS]
        out.append(dict(name=name, features=x.shape[1], classes=int(y.max()) + 1,
                        x=x.astype(np.float64).ravel().tolist(), labels=y.tolist(), fits=fits))
    json.dump(out, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


main()
