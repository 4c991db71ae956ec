"""Prints golden.json: what NumPy and scikit-learn make of the search and the split.

    /usr/bin/python3 golden.py > golden.json
"""
import hashlib
import json

import numpy as np
from sklearn.model_selection import train_test_split

# Class counts: even, uneven with ties in the remainders, two classes, more than
# nine (so that "10" sorts before "2"), and one the size of a real set.
CASES = [
    [10, 10, 10],
    [2, 3, 4, 5, 6, 7],
    [50, 3],
    [4, 3, 5, 4, 3, 6, 4, 5, 7, 4, 3, 8],
    [17 + k % 5 for k in range(37)],
]


def labels(counts):
    """Class k+1 as text, classes taking turns while they last."""
    left, out = list(counts), []
    while any(left):
        for k, n in enumerate(left):
            if n:
                out.append(str(k + 1))
                left[k] -= 1
    return out


def split(counts):
    y = labels(counts)
    rows = np.arange(len(y))
    fit, held = train_test_split(rows, test_size=0.33, stratify=y, random_state=42)
    case = {"counts": counts, "digest": digest(fit.tolist() + held.tolist())}
    if len(y) < 60:
        case.update(fit=fit.tolist(), validation=held.tolist())
    return case


def digest(numbers):
    return hashlib.sha256(" ".join(map(str, numbers)).encode()).hexdigest()


def lists(n):
    """The published experiments' draws, in their order, n for each model."""
    np.random.seed(42)
    r = np.random.randint
    eusn = [[10 * r(1, 21), r(-5, 1), r(-5, 1), r(-3, 2), r(-3, 2), r(-3, 2)] for _ in range(n)]
    esn = [[10 * r(1, 21), r(-5, 1), r(-3, 2), r(1, 16), r(-3, 2)] for _ in range(n)]
    resn = [[10 * r(1, 21), r(-5, 1), r(-3, 2), r(1, 16), r(-3, 2)] for _ in range(n)]
    deepesn = [[r(2, 6), 10 * r(1, 21), r(-5, 1), r(-3, 2), r(1, 16), r(-3, 2)] for _ in range(n)]
    named = (("eusn", eusn), ("esn", esn), ("resn", resn), ("deepesn", deepesn))
    return {k: digest([int(v) for row in rows for v in row]) for k, rows in named}


state = np.random.RandomState(7)
print(json.dumps({
    "splits": [split(c) for c in CASES],
    "lists": lists(200),
    "stopped": lists(140),
    "permutation": state.permutation(20).tolist(),
    "randint": [int(state.randint(0, n)) for n in (1, 2, 3, 1000, 1 << 20)],
}))
