#!/usr/bin/python3
"""Reference values for sets of classes and for priors, by brute force in NumPy.

usage: make_sets.py < reference.json > sets.json    (numpy 1.24)

For each case of reference.json: the ridge classifier of standardized features with
alpha 1 is really refitted without each sample in turn, which is then scored. Of these
scores come the temperature (maximum likelihood, each label doubted by 1/(8n+2)), and at
it the thresholds of sets of classes: the k-th smallest probability of a true class,
k = floor((1 - level) (n + 1)), over all samples or over those of each class. With
priors each probability is multiplied by prior over share of the class in the training,
and divided by the sum of these products, before all that.
"""
import json
import sys

import numpy as np

LEVEL = .8


def scores(z, y, classes, held):
    """Scores of sample held by the classifier of all others, one for each class."""
    keep = np.arange(len(y)) != held
    target = np.where(y[:, None] == np.arange(classes), 1., -1.)
    mean, offset = z[keep].mean(0), target[keep].mean(0)
    c = z[keep] - mean
    w = np.linalg.solve(c.T @ c + np.eye(z.shape[1]), c.T @ (target[keep] - offset))
    s = offset + (z[held] - mean) @ w
    return np.array([0, s[1]]) if classes == 2 else s


def softmax(s):
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def temperature(s, y):
    n, doubt = len(y), 1 / (8 * len(y) + 2)
    own = s[np.arange(n), y]
    own = (1 - doubt) * own + doubt * (s.sum(1) - own) / (s.shape[1] - 1)

    def loss(t):
        top = s.max(1)
        return np.mean(np.log(np.exp(t * (s - top[:, None])).sum(1)) + t * (top - own))

    lo, hi = np.log(1e-4), np.log(1e6)
    for _ in range(300):
        a, b = lo + (hi - lo) / 3, hi - (hi - lo) / 3
        lo, hi = (lo, b) if loss(np.exp(a)) < loss(np.exp(b)) else (a, hi)
    return float(np.exp(lo))


def threshold(p):
    k = int((1 - LEVEL) * (len(p) + 1) + 1e-9)
    return float(np.sort(p)[k - 1]) if k else 0.


out = []
for case in json.load(sys.stdin):
    y, classes = np.array(case["labels"]), case["classes"]
    x = np.array(case["x"]).reshape(len(y), -1)
    dev = x.std(0)
    z = (x - x.mean(0)) * np.where(dev > 0, 1 / np.where(dev > 0, dev, 1), 0)
    s = np.array([scores(z, y, classes, i) for i in range(len(y))])
    t = temperature(s, y)
    priors = np.arange(1., classes + 1)
    share = np.bincount(y, minlength=classes)
    one = dict(name=case["name"], level=LEVEL, temperature=t, priors=priors.tolist())
    for name, p in ("plain", softmax(t * s)), ("prior", softmax(t * s) * priors / share):
        p = p / p.sum(1, keepdims=True)
        own = p[np.arange(len(y)), y]
        one[name] = dict(all=threshold(own), classes=[threshold(own[y == k]) for k in range(classes)],
                         predicted=p.argmax(1).tolist())
    out.append(one)
json.dump(out, sys.stdout, separators=(",", ":"))
sys.stdout.write("\n")
