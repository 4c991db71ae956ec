"""Baselines with scikit-learn for the pages in this folder: python3 baseline.py skab|cmapss|tep|cwru|hydraulic|nab.

The folders of the data are in the current folder, for hydraulic also parts.json of its page, for nab a clone of
github.com/numenta/NAB. The splits are those of the pages. Prints CSV: figure, value. Figures that begin with "bound"
show what limits a figure of the page; some use labels of the test, which no choice of the program does.
"""
import csv
import glob
import gzip
import json
import os
import re
import sys

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


def row(figure, value):
    print(f'"{figure}","{value}"', flush=True)


def shape(windows):
    """Mean, deviation, slope and last value of each channel; windows: n x samples x channels."""
    t = np.arange(windows.shape[1]) - (windows.shape[1] - 1) / 2
    return np.concatenate([windows.mean(1), windows.std(1), np.einsum("t,ntc->nc", t / (t @ t), windows), windows[:, -1]], 1)


def discriminant(shrinkage):
    return make_pipeline(StandardScaler(), LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage))


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

    def features(x):
        """Values, running means and variances, in deviations of the first 400 samples."""
        z = (x - x[:400].mean(0)) / (x[:400].std(0) + 1e-9)
        sums = np.concatenate([np.zeros((1, 16)), np.cumsum(np.concatenate([z, z**2], 1), 0)])
        out, end = [z], np.arange(1, len(z) + 1)
        for length in (5, 20, 60):
            begin = np.maximum(0, end - length)
            m = (sums[end] - sums[begin]) / (end - begin)[:, None]
            out += [m[:, :8], np.log(np.maximum(m[:, 8:] - m[:, :8] ** 2, 1e-6))]
        return np.concatenate(out, 1)[400:]

    data = [read(f) for f in files]
    x, y = [features(x) for x, _ in data], [y[400:] for _, y in data]
    found = []
    for k in range(len(files)):
        others, labels = (np.concatenate(v[:k] + v[k + 1:])[::3] for v in (x, y))
        found.append(RandomForestClassifier(60, min_samples_leaf=5, random_state=0).fit(others, labels).predict(x[k]))
    row("bound: faults of the other experiments", confusion(np.concatenate(y), np.concatenate(found)))


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


HARD = ("00", "03", "09")  # normal operation, and faults that hardly differ


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

    def labeled(part, merged):
        """Windows of 20 samples of a part, and their labels."""
        x = [shape(cut(v, 20, 5)) for v in part.values()]
        return np.concatenate(x), np.concatenate([["00" if merged and k in HARD else k] * len(v) for k, v in zip(part, x)])

    def fit(part, to, merged):
        """Shares of right windows, by class."""
        x, y = labeled(to, merged)
        right = RandomForestClassifier(300, random_state=0).fit(*labeled(part, merged)).predict(x) == y
        return {k: right[y == k].mean() for k in np.unique(y)}

    share = fit(train, test, True)
    row("3, 9 merged with normal: faults, normal right", f"{100 * np.mean([v for k, v in share.items() if k != '00']):.1f} %, {100 * share['00']:.1f} %")
    share = fit({k: test[k][:390] for k in HARD}, {k: test[k][410:] for k in HARD}, False)
    row("bound: normal, 3, 9", f"{np.mean(list(share.values())):.3f}")
    found = {k: outliers(train["00"], x, 0.99) for k, x in test.items()}
    faults = np.concatenate([found[k] for k in test if k != "00"])
    row("detected, false", f"{100 * faults.mean():.1f} %, {100 * found['00'].mean():.1f} %")


ORDERS = (3.5848, 5.4152, 4.7135, 0.39828, 1)  # of outer race, inner race, ball, cage and shaft


def envelope(w, rpm):
    """Envelope spectrum at the orders of the bearing, in four bands of 1.5 kHz; needs the speed."""
    out, spectrum, frequency = [], np.fft.fft(w), np.fft.fftfreq(len(w), 1 / 12000)
    for low in range(0, 6000, 1500):
        h = np.abs(np.fft.ifft(np.where((frequency > low) & (frequency <= low + 1500), spectrum, 0)))
        power = np.abs(np.fft.rfft((h - h.mean()) * np.hanning(len(w)), 16384)) ** 2
        power /= power[8:1400].mean()
        for order in ORDERS:
            for k in (1, 2):
                at = k * order * rpm / 60
                out.append(power[max(0, int((at - 4) / 12000 * 16384)):int((at + 4) / 12000 * 16384) + 1].max())
    return np.log(out)


def cwru():
    def read(load):
        x, orders, kind, size = [], [], [], []
        for path in sorted(glob.glob(f"cwru/{load}*.npz")):
            signal = np.load(path)["DE"].ravel()
            m = re.search(r"_(B|IR|OR|Normal)(?:@\d+)?(?:_(\d+))?", path)
            for w in cut(signal, 2048, 2048):
                w = w - w.mean()
                power = np.abs(np.fft.rfft(w * np.hanning(2048))) ** 2
                rms = w.std()
                bands = np.log(power[1:].reshape(32, 32).sum(1) + 1e-9)
                x.append(np.r_[bands, np.log(rms), np.mean(w**4) / rms**4, np.abs(w).max() / rms])
                orders.append(envelope(w / rms, int(load)))
                kind.append(m[1])
                size.append(m[2] or "0")
        return np.array(x), np.array(orders), np.array(kind), np.array(size)

    x, orders, kind, size = read("1797")
    right = [np.mean(RandomForestClassifier(200, random_state=0).fit(x[size != s], kind[size != s]).predict(x[size == s]) == kind[size == s]) for s in ("7", "14", "21")]
    row("bearings of another diameter: accuracy", f"{np.mean(right):.3f}")
    later = read("1772")
    right = RandomForestClassifier(200, random_state=0).fit(x, kind).predict(later[0]) == later[2]
    row("the same bearings, another load: accuracy", f"{right.mean():.3f}")

    def auroc(x, model):
        """Macro AUROC of each diameter, trained with the two others."""
        all = []
        for s in ("7", "14", "21"):
            train, test = np.isin(size, [d for d in ("7", "14", "21") if d != s]), size == s
            p = model.fit(x[train], kind[train]).predict_proba(x[test])
            all.append(np.mean([roc_auc_score(kind[test] == k, p[:, i]) for i, k in enumerate(model.classes_)]))
        return np.array(all)

    models = [RandomForestClassifier(200, random_state=0), discriminant(0.01)]
    models += [make_pipeline(StandardScaler(), m) for m in (LogisticRegression(C=0.1, max_iter=300), SVC(C=3, probability=True, random_state=0))]
    tried = np.array([auroc(f, m) for f in (x, orders, np.concatenate([x, orders], 1)) for m in models])
    row("bearings of another diameter: macro AUROC", f"{tried[0].mean():.3f}")
    best = tried[tried.mean(1).argmax()]
    row("bound: best of 12 methods by test labels", f"{best.mean():.3f} ({', '.join(f'{v:.3f}' for v in best)})")


def hydraulic():
    profile = np.loadtxt("hydraulic/profile.txt").astype(int)
    channels = []
    for path in sorted(glob.glob("hydraulic/*.gz")):
        x = np.loadtxt(gzip.open(path))
        channels.append(x.reshape(len(x), 60, -1).mean(2))
    x = np.stack(channels, 2)
    parts = x.reshape(len(x), 12, 5, x.shape[2])
    parts = np.concatenate([parts.mean(2), parts.std(2)], 1).reshape(len(x), -1)
    x = np.concatenate([shape(x), x.min(1), x.max(1), x[:, :20].mean(1), x[:, 40:].mean(1)], 1)
    test = json.load(open("parts.json"))["test"]
    held = np.isin([f"{(i + 1) // 100:02d}" for i in range(len(x))], test)
    for k, part in enumerate(("cooler", "valve", "pump", "accumulator")):
        forest = RandomForestClassifier(200, random_state=0).fit(x[~held], profile[~held, k])
        linear = discriminant(1e-3).fit(parts[~held], profile[~held, k])
        row(part, f"{forest.score(x[held], profile[held, k]):.3f} forest, {linear.score(parts[held], profile[held, k]):.3f} discriminant")


def nab():
    """Detectors that NAB publishes, on its files with artificial anomalies and known causes, scored as in score_test.go."""
    windows = json.load(open("NAB/labels/combined_windows.json"))
    files = [f for f in sorted(windows) if windows[f] and f.split("/")[0] in ("artificialWithAnomaly", "realKnownCause")]

    def sigmoid(x):
        return -1 if x > 3 else 2 / (1 + np.exp(5 * x)) - 1

    def points(found, spans, first):
        sum, hit = 0, set()
        for i in found[found >= first]:
            inside = [k for k, (a, b) in enumerate(spans) if a <= i <= b]
            before = [k for k, (a, b) in enumerate(spans) if b < i]
            if inside and inside[0] not in hit:
                a, b = spans[inside[0]]
                hit.add(inside[0])
                sum += sigmoid((i - b - 1) / (b - a + 1)) / sigmoid(-1)
            elif not inside:
                a, b = spans[before[-1]] if before else (0, 0)
                sum += 0.11 * sigmoid((i - b) / (b - a)) if before else -0.11
        return sum - len(spans) + len(hit)

    for detector, profiles in sorted(json.load(open("NAB/config/thresholds.json")).items()):
        total, best, count = 0, 0, 0
        for f in files:
            rows = list(csv.DictReader(open("NAB/results/{0}/{1}/{0}_{2}".format(detector, *f.split("/")))))
            scores = np.array([float(r["anomaly_score"]) for r in rows])
            times = np.array([r["timestamp"][:19] for r in rows])
            spans = [(np.argmax(times >= a[:19]), np.nonzero(times <= b[:19])[0][-1]) for a, b in windows[f]]
            first = min(len(rows) * 15 // 100, 750)
            limits = np.r_[profiles["standard"]["threshold"], np.quantile(scores, (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 1)), np.inf]
            reached = [points(np.nonzero(scores >= limit)[0], spans, first) for limit in limits]
            total, best, count = total + reached[0], best + max(reached), count + len(spans)
        row(f"{detector}: score with its published limit, with the best limit of each file by labels", f"{50 * (total / count + 1):.1f}, {50 * (best / count + 1):.1f}")


if __name__ == "__main__":
    {"skab": skab, "cmapss": cmapss, "tep": tep, "cwru": cwru, "hydraulic": hydraulic, "nab": nab}[sys.argv[1]]()
