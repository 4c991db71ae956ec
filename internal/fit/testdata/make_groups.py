#!/usr/bin/python3
"""Reference values for leaving out outer groups, by brute force in numpy.

usage: make_groups.py > groups.json    (numpy 1.24)

Each case is a small labeled feature matrix whose samples are in groups (windows of
one series), and these in outer groups (machines), in no order. For several alphas it
really fits the ridge classifier and the linear discriminant without each outer group
in turn, and without each group in turn, by a general solver, and counts the samples
that are right. The scale of standardized features is that of all samples, as in the
Go code.
"""
import json
import sys

import numpy as np

ALPHAS = [0.1, 3.0, 100.0]


def cases(rng):
    for name, n, f, classes, machines, alone in (
            ("fewer samples than features", 48, 70, 3, 6, False),
            ("fewer, two classes", 50, 60, 2, 5, False),
            ("more samples than features", 90, 12, 4, 7, False),
            ("more, two classes", 80, 9, 2, 4, False),
            ("a group larger than the features", 80, 5, 3, 3, False),
            ("a class of one machine alone", 60, 20, 3, 5, True)):
        group = np.sort(rng.integers(0, n // 4, n))
        machine_of = rng.integers(0, machines, n // 4)
        machine_of[:machines] = np.arange(machines)
        y = rng.integers(0, classes, n)
        outer = machine_of[group]
        if alone:
            y = np.where(y == classes - 1, 0, y)
            y[np.flatnonzero(outer == 2)[::2]] = classes - 1
        # what a class, a machine and a series add: leaving out a series alone flatters
        x = (0.6 * rng.normal(size=(classes, f))[y] + rng.normal(size=(machines, classes, f))[outer, y]
             + 0.5 * rng.normal(size=(n // 4, f))[group] + rng.normal(size=(n, f)))
        order = rng.permutation(n)
        yield name, x[order].astype(np.float32), y[order], group[order], outer[order], classes


def ridge(z, y, classes, alpha, at):
    t = np.where(y[:, None] == np.arange(classes), 1., -1.)
    mean, base = z.mean(0), t.mean(0)
    w = np.linalg.solve((z - mean).T @ (z - mean) + alpha * np.eye(z.shape[1]), (z - mean).T @ (t - base))
    return base + (at - mean) @ w


def discriminant(z, y, classes, alpha, at):
    scores = np.full((len(at), classes), -np.inf)
    means = {c: z[y == c].mean(0) for c in range(classes) if (y == c).any()}
    scatter = alpha * np.eye(z.shape[1])
    for c, m in means.items():
        scatter += (z[y == c] - m).T @ (z[y == c] - m)
    inverse = np.linalg.inv(scatter)
    for c, m in means.items():
        scores[:, c] = -0.5 * np.einsum("ij,jk,ik->i", at - m, inverse, at - m)
    return scores


def left_out(fit, z, y, classes, alpha, groups):
    scores = np.empty((len(y), classes))
    for g in np.unique(groups):
        out = groups == g
        scores[out] = fit(z[~out], y[~out], classes, alpha, z[out])
    return scores


def main():
    out = []
    for name, x, y, group, outer, classes in cases(np.random.default_rng(20261123)):
        x64 = x.astype(np.float64)
        fits = []
        for standardize in (False, True):
            z = (x64 - x64.mean(0)) / (x64.std(0) if standardize else 1)
            for alpha in ALPHAS:
                one = dict(alpha=alpha, standardize=standardize)
                for kind, fit in (("ridge", ridge), ("discriminant", discriminant)):
                    scores = left_out(fit, z, y, classes, alpha, outer)
                    plain = left_out(fit, z, y, classes, alpha, group)
                    right = scores.argmax(1) == y
                    one[kind] = dict(correct={int(g): int(right[outer == g].sum()) for g in np.unique(outer)},
                                     plain=float((plain.argmax(1) == y).mean()))
                    if kind == "ridge":
                        t = np.where(y[:, None] == np.arange(classes), 1., -1.)
                        e = (t - scores)[:, 1:] if classes == 2 else t - scores
                        one["error"] = float((e ** 2).mean())
                fits.append(one)
        out.append(dict(name=name, features=x.shape[1], classes=classes, x=x64.ravel().tolist(), labels=y.tolist(),
                        groups=group.tolist(), outer=outer.tolist(), fits=fits))
    json.dump(out, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


main()
