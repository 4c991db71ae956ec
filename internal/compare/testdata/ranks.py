"""Writes ranks.json: ranks, Friedman tests and Nemenyi quantiles by SciPy.

    python3 ranks.py > ranks.json
"""

import json
import sys

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

rng = np.random.default_rng(7)
cases = []
for n, k, digits in [(7, 3, 3), (10, 6, 3), (4, 3, 1), (30, 5, 1), (2, 4, 2), (12, 8, 1)]:
    scores = np.round(rng.random((n, k)) + 0.1 * np.arange(k), digits)
    test = friedmanchisquare(*scores.T)
    cases.append({
        "scores": scores.tolist(),
        "ranks": np.mean([rankdata(-row) for row in scores], axis=0).tolist(),
        "statistic": test.statistic,
        "p": test.pvalue,
    })
quantiles = {str(k): studentized_range.ppf(0.95, k, np.inf) for k in [2, 3, 4, 5, 6, 8, 10, 20]}
json.dump({"cases": cases, "quantiles": quantiles}, sys.stdout, indent=1)
print()
