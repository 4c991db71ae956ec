"""Golden values of exact_test.go, in exact rational numbers: python3 exact.py > exact.csv

Lines: b, c, McNemar's two-sided p, one-sided P(X >= c); then n, k, e, the upper and the
lower bound of Clopper and Pearson, by 40 bisections.
"""
from fractions import Fraction as F
from math import comb


def tail(n, k, p):  # P(X >= k)
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def bisect(below):
    lo, hi = F(0), F(1)
    for _ in range(40):
        mid = (lo + hi) / 2
        if below(mid):
            lo = mid
        else:
            hi = mid
    return lo


for b, c in [(0, 0), (0, 1), (1, 0), (0, 5), (3, 3), (4, 12), (12, 4), (10, 25), (100, 140), (1000, 1100), (0, 60)]:
    n, half = b + c, F(1, 2)
    two = min(F(1), 2 * (1 - tail(n, min(b, c) + 1, half)))
    print(f"p,{b},{c},{float(two)!r},{float(tail(n, c, half))!r}")
for n, k, e in [(1, 0, F(1, 40)), (10, 0, F(1, 40)), (10, 10, F(1, 40)), (20, 3, F(1, 20)), (100, 7, F(1, 40)), (100, 93, F(1, 200)), (300, 12, F(1, 40))]:
    up = F(1) if k == n else bisect(lambda p: 1 - tail(n, k + 1, p) > e)
    low = F(0) if k == 0 else bisect(lambda p: tail(n, k, p) <= e)
    print(f"b,{n},{k},{float(e)!r},{float(up)!r},{float(low)!r}")
