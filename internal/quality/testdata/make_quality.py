#!/usr/bin/python3
"""Reference values for package quality, by scikit-learn.

usage: make_quality.py > quality.json    (numpy 1.24, scikit-learn 1.2)

Each case is labels, scores and a temperature. scikit-learn has no calibration error;
it is computed here from its definition, bin by bin, and its mean over labels drawn with
the probabilities from the polynomial whose coefficients are the chances of so many right.
"""
import json
import sys

import numpy as np
from sklearn.metrics import balanced_accuracy_score, log_loss, precision_recall_fscore_support, roc_auc_score


def cases(rng):
    def draw(n, k, skill, weights=None, scale=1.0):
        y = rng.choice(k, n, p=weights)
        s = scale * rng.normal(size=(n, k))
        s[np.arange(n), y] += scale * skill
        return y, s

    yield "two classes", 3.0, *draw(60, 2, .8)
    yield "five, unbalanced", 1.5, *draw(200, 5, 1.2, [.6, .2, .1, .05, .05])
    y, s = draw(90, 4, 1.0)
    s[:, 2] -= 50
    yield "a class that is never predicted", 1.0, y, s
    yield "a class that is not there", 1.0, *draw(50, 3, 1.0, [.5, 0, .5])
    y, s = draw(80, 3, 1.0)
    yield "equal scores", .7, y, np.round(s)
    yield "sure, and often wrong", 40.0, *draw(70, 3, .5)
    yield "all right", 2.0, *draw(30, 3, 20.0)


def logsumexp(x):
    return x.max(1) + np.log(np.exp(x - x.max(1, keepdims=True)).sum(1))


def calibration_error(p, y, bins=15):
    confidence, right = p.max(1), p.argmax(1) == y
    error = 0
    for low, high in zip(np.arange(bins) / bins, np.arange(1, bins + 1) / bins):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            error += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return error


def by_chance(p, bins=15):
    confidence = p.max(1)
    error = 0
    for low, high in zip(np.arange(bins) / bins, np.arange(1, bins + 1) / bins):
        inside = confidence[(confidence > low) & (confidence <= high)]
        chances = np.ones(1)
        for v in inside:
            chances = np.convolve(chances, [1 - v, v])
        error += (chances * abs(np.arange(len(chances)) - inside.sum())).sum()
    return error / len(p)


def main():
    out = []
    for name, t, y, s in cases(np.random.default_rng(19)):
        k = s.shape[1]
        e = np.exp(t * (s - s.max(1, keepdims=True)))
        p = e / e.sum(1, keepdims=True)
        predicted = s.argmax(1)
        precision, recall, f1, of = precision_recall_fscore_support(y, predicted, labels=range(k), zero_division=0)
        there = of > 0
        # by the logarithm of the odds, which orders samples as p does, and keeps apart those near 1
        odds = np.stack([-logsumexp(t * (np.delete(s, c, 1) - s[:, c:c + 1])) for c in range(k)], 1)
        auroc = [roc_auc_score(y == c, odds[:, c]) if there[c] and of[c] < len(y) else None for c in range(k)]
        out.append(dict(
            name=name, temperature=t, labels=y.tolist(), scores=s.ravel().tolist(),
            precision=[float(v) if (predicted == c).any() else None for c, v in enumerate(precision)],
            recall=[float(v) if there[c] else None for c, v in enumerate(recall)],
            f1=[float(v) if there[c] else None for c, v in enumerate(f1)], auroc=auroc,
            balanced=balanced_accuracy_score(y, predicted) if set(predicted) <= set(y) else float(recall[there].mean()),
            mean_f1=float(f1[there].mean()), log_loss=float(log_loss(y, p, labels=range(k))), ece=float(calibration_error(p, y)), chance=float(by_chance(p))))
    json.dump(out, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


main()
