"""Baselines with scikit-learn for the pages in this folder: python3 baseline.py skab|cmapss|tep|cwru|hydraulic.

The folders of the data are in the current folder, and for hydraulic also parts.json of its page. The splits are those of
the pages. Prints CSV: figure, value.
"""
import glob
import gzip
import json
import os
import re
import sys

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.preprocessing import StandardScaler


def row(figure, value):
    print(f'"{figure}","{value}"', flush=True)


def shape(windows):
    """Mean, deviation, slope and last value of each channel; windows: n x samples x channels."""
    t = np.arange(windows.shape[1]) - (windows.shape[1] - 1) / 2
    return np.concatenate([windows.mean(1), windows.std(1), np.einsum("t,ntc->nc", t / (t @ t), windows), windows[:, -1]], 1)


def cut(x, length, hop):
    return np.stack([x[i - length:i] for i in range(length, len(x) + 1, hop)])


def outliers(healthy, later, level):
    """Principal components: T2 or Q above the quantile of healthy data, median of five samples."""
    scale = StandardScaler().fit(healthy)
    pca = PCA(0.85).fit(scale.transform(healthy))

    def statistics(x):
        z = scale.transform(x)
        t = pca.transform(z)
        both = np.stack([(t**2 / pca.explained_variance_).sum(1), ((z - pca.inverse_transform(t)) ** 2).sum(1)])
        return np.stack([np.median(both[:, max(0, i - 4):i + 1], 1) for i in range(both.shape[1])], 1)

    limit = np.quantile(statistics(healthy), level, axis=1)
    return (statistics(later) > limit[:, None]).any(0)


def confusion(label, found):
    tp, fp, fn, tn = (label & found).sum(), (~label & found).sum(), (label & ~found).sum(), (~label & ~found).sum()
    return f"{tp / (tp + (fp + fn) / 2):.3f}, {100 * fp / (fp + tn):.1f} %, {100 * fn / (fn + tp):.1f} %"


def skab():
    def read(path):
        x = np.array([line.split(";")[1:] for line in gzip.open(path, "rt").read().splitlines()[1:]], float)
        return x[:, :8], x[:, 8] > 0

    def measure(files, common):
        data = [read(f) for f in files]
        pooled = np.concatenate([x[:400][~y[:400]] for x, y in data])
        found = [outliers(pooled if common else x[:400], x, 0.999)[400:] for x, _ in data]
        return confusion(np.concatenate([y[400:] for _, y in data]), np.concatenate(found))

    for folder in ("valve1", "valve2"):
        if os.path.isdir("skab/" + folder):
            row(f"{folder[:-1]} {folder[-1]}, one model: F1, false, missed", measure(sorted(glob.glob(f"skab/{folder}/*.gz")), True))
    files = sorted(f for f in glob.glob("skab/*/*.gz") if "anomaly-free" not in f)
    row("a model per experiment: F1, false, missed", measure(files, False))


def cmapss():
    def read(path):
        x = np.loadtxt(gzip.open(path))
        return [x[x[:, 0] == unit][:, 2:] for unit in np.unique(x[:, 0])]

    def features(x, end):
        h = x[:end]
        last = h[-40:]
        t = np.arange(len(last)) - (len(last) - 1) / 2
        return np.r_[h[-5:].mean(0), h[-15:].mean(0), last.mean(0), h.mean(0), (t / (t @ t + 1e-9)) @ last, end]

    for path in sorted(glob.glob("cmapss/train_FD*")):
        name = re.search("FD...", path)[0]
        x, y = [], []
        for unit in read(path):
            for end in range(10, len(unit) + 1, 8):
                x.append(features(unit, end))
                y.append(min(125, len(unit) - end))
        model = HistGradientBoostingRegressor(max_iter=200, learning_rate=0.06, max_leaf_nodes=15, random_state=0).fit(x, y)
        rest = np.minimum(125, np.loadtxt(gzip.open(f"cmapss/RUL_{name}.txt.gz")))
        error = model.predict([features(u, len(u)) for u in read(f"cmapss/test_{name}.txt.gz")]) - rest
        row(f"{name}: RMSE at the last cycle", f"{np.sqrt(np.mean(error**2)):.2f}")
        row(f"{name}: PHM score", f"{np.where(error < 0, np.exp(-error / 13), np.exp(error / 10)).sum() - len(error):.0f}")


def tep():
    def read(pattern, skip=0):
        all = {}
        for path in sorted(glob.glob(pattern)):
            x = np.loadtxt(gzip.open(path))
            all[re.search(r"d(\d\d)", path)[1]] = (x.T if x.shape[0] == 52 else x)[skip:]
        return all

    train, test = read("tep/d??.dat.gz"), read("tep/d??_te.dat.gz", 160)
    windows = [np.concatenate([shape(cut(x, 100, 5)) for x in part.values()]) for part in (train, test)]
    labels = [np.concatenate([[k] * len(cut(x, 100, 5)) for k, x in part.items()]) for part in (train, test)]
    forest = RandomForestClassifier(300, random_state=0).fit(windows[0], labels[0])
    right = forest.predict(windows[1]) == labels[1]
    row("which fault: accuracy", f"{np.mean([right[labels[1] == k].mean() for k in test]):.3f}")
    found = {k: outliers(train["00"], x, 0.99) for k, x in test.items()}
    faults = np.concatenate([found[k] for k in test if k != "00"])
    row("detected, false", f"{100 * faults.mean():.1f} %, {100 * found['00'].mean():.1f} %")


def cwru():
    def read(load):
        x, kind, size = [], [], []
        for path in sorted(glob.glob(f"cwru/{load}*.npz")):
            signal = np.load(path)["DE"].ravel()
            m = re.search(r"_(B|IR|OR|Normal)(?:@\d+)?(?:_(\d+))?", path)
            for w in cut(signal, 2048, 2048):
                w = w - w.mean()
                power = np.abs(np.fft.rfft(w * np.hanning(2048))) ** 2
                rms = w.std()
                bands = np.log(power[1:].reshape(32, 32).sum(1) + 1e-9)
                x.append(np.r_[bands, np.log(rms), np.mean(w**4) / rms**4, np.abs(w).max() / rms])
                kind.append(m[1])
                size.append(m[2] or "0")
        return np.array(x), np.array(kind), np.array(size)

    x, kind, size = read("1797")
    right = [np.mean(RandomForestClassifier(200, random_state=0).fit(x[size != s], kind[size != s]).predict(x[size == s]) == kind[size == s]) for s in ("7", "14", "21")]
    row("bearings of another diameter: accuracy", f"{np.mean(right):.3f}")
    later = read("1772")
    right = RandomForestClassifier(200, random_state=0).fit(x, kind).predict(later[0]) == later[1]
    row("the same bearings, another load: accuracy", f"{right.mean():.3f}")


def hydraulic():
    profile = np.loadtxt("hydraulic/profile.txt").astype(int)
    channels = []
    for path in sorted(glob.glob("hydraulic/*.gz")):
        x = np.loadtxt(gzip.open(path))
        channels.append(x.reshape(len(x), 60, -1).mean(2))
    x = np.stack(channels, 2)
    x = np.concatenate([shape(x), x.min(1), x.max(1), x[:, :20].mean(1), x[:, 40:].mean(1)], 1)
    test = json.load(open("parts.json"))["test"]
    held = np.isin([f"{(i + 1) // 100:02d}" for i in range(len(x))], test)
    for k, part in enumerate(("cooler", "valve", "pump", "accumulator")):
        forest = RandomForestClassifier(200, random_state=0).fit(x[~held], profile[~held, k])
        row(part, f"{np.mean(forest.predict(x[held]) == profile[held, k]):.3f}")


if __name__ == "__main__":
    {"skab": skab, "cmapss": cmapss, "tep": tep, "cwru": cwru, "hydraulic": hydraulic}[sys.argv[1]]()
