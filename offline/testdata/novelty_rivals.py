#!/usr/bin/python3
"""Isolation forest and one-class SVM of scikit-learn on what TestNoveltyMeasure wrote,
on its features and on raw series, beside a full residual in NumPy.

usage: novelty_rivals.py FOLDER [PREFIX]    (scikit-learn 1.2, NumPy 1.24)

Samples are centered and divided by their deviation in the training part, features as
for the readout (softly, docs/mixed-bank.md), with which the SVM is better. The SVM has
scikit-learn's defaults, the forest 200 trees and the seed 0.
"""
import json
import pathlib
import sys

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM


def scaled(x, train):
    mean, deviation = x[train].mean(0), x[train].std(0)
    varies = deviation > 1e-6 * abs(mean)
    return np.where(varies, (x - mean) / np.where(varies, deviation, 1), 0)


SHARES = 2, 5, 6, 7  # kinds of feature that are a share of samples


def softly(x, train, length):
    mean, deviation = x[train].mean(0), x[train].std(0)
    kind = np.arange(x.shape[1]) // 16 % 8
    scale = np.zeros(x.shape[1])
    for k in range(8):
        here = (kind == k) & (deviation > 2.0**-22 * abs(mean))
        floor = 3 / length if k in SHARES else 0
        scale[here] = 1 / np.sqrt(deviation[here] ** 2 + np.median(deviation[here]) ** 2 + floor**2)
    return (x - mean) * scale


def residual(z, train, dims):
    axes = np.linalg.svd(z[train], full_matrices=False)[2][: min(dims, train.sum() - 1)]
    return ((z - z @ axes.T @ axes) ** 2).sum(1)


def main():
    folder, prefix = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    means = {}
    for path in sorted(folder.glob(prefix + "*.json")):
        info = json.loads(path.read_text())
        train, labels = np.array(info["train"]), np.array(info["labels"])
        test = ~train
        found = {}
        for suffix, width in ("features", "features"), ("raw", "values"):
            x = np.fromfile(path.with_suffix("." + suffix), np.float32).reshape(-1, info[width]).astype(float)
            z = scaled(x, train) if suffix == "raw" else softly(x, train, info["length"])
            forest = IsolationForest(n_estimators=200, random_state=0).fit(z[train])
            svm = OneClassSVM().fit(z[train])
            found["residual " + suffix] = residual(z, train, 32)
            found["forest " + suffix] = -forest.score_samples(z)
            found["svm " + suffix] = -svm.score_samples(z)
        line = []
        for what, score in found.items():
            area = roc_auc_score(labels[test], score[test])
            means.setdefault(what, {}).setdefault(path.stem.split("-")[1], []).append(area)
            line.append(f"{what} {area:.4f}")
        print(path.stem, int(train.sum()), "; ".join(line), flush=True)
    for what, sets in means.items():
        print(f"mean of {len(sets)} sets: {what} {np.mean([np.mean(v) for v in sets.values()]):.4f}")


main()
