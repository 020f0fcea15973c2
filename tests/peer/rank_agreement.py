"""Reference numbers for rank agreement from scipy, checked by plain enumeration.

Prints the rows that src/analysis/stats/rank.rs stores: name, n, rho, p, tau-b, and where p comes from.
rho and tau-b are scipy's. For n <= 9, p is that of scipy's permutation test over all pairings with |rho|
as the statistic: the share of all orders whose |rho| is at least as large. The same share is counted
over itertools.permutations with whole numbers, and the two must be equal. Beyond, p is scipy's Student t
value. Needs scipy (1.17.1 printed the stored numbers).
"""

from fractions import Fraction
from itertools import permutations

import numpy as np
import scipy
from scipy.stats import kendalltau, permutation_test, rankdata, spearmanr

CASES = {
    "three alike": ([1, 2, 3], [10, 20, 30]),
    "three reversed": ([1, 2, 3], [3, 2, 1]),
    "four, one swap": ([1, 2, 3, 4], [1, 3, 2, 4]),
    "five, a tie in x": ([1, 2, 2, 4, 5], [2, 1, 3, 5, 4]),
    "six, ties in both": ([1, 1, 2, 3, 3, 4], [2, 1, 2, 4, 3, 4]),
    "seven": ([0.41, 0.52, 0.38, 0.97, 1.44, 0.71, 2.2], [0.5, 0.61, 0.66, 1.2, 1.1, 0.8, 3.0]),
    "eight, two groups": ([1, 1, 1, 1, 2, 2, 2, 2], [1, 2, 3, 4, 5, 6, 7, 8]),
    "nine, nearly alike": ([1, 2, 3, 4, 5, 6, 7, 8, 9], [2, 1, 3, 5, 4, 6, 7, 9, 8]),
    "nine, unrelated": ([1, 2, 3, 4, 5, 6, 7, 8, 9], [5, 1, 9, 4, 2, 8, 3, 7, 6]),
    "ten": ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [3, 1, 4, 2, 6, 5, 9, 7, 10, 8]),
    "twelve, ties": ([1, 2, 2, 3, 4, 4, 4, 5, 6, 7, 8, 8], [3, 1, 2, 2, 5, 4, 6, 6, 4, 9, 7, 8]),
    "fifteen, weak": (list(range(15)), [4, 9, 1, 12, 0, 7, 14, 3, 10, 5, 13, 2, 8, 11, 6]),
}


def permutation_p(x, y):
    """scipy's exact permutation test. Its own two-sided p doubles the smaller tail, which differs from the
    share of |rho| where ties make the distribution lopsided; hence |rho| and one side."""
    a = rankdata(x)

    def statistic(order, axis):
        b = rankdata(order, axis=axis)
        a_centred = a - a.mean()
        b_centred = b - b.mean(axis=axis, keepdims=True)
        products = (a_centred * b_centred).sum(axis=axis)
        return np.abs(products) / np.sqrt(
            (a_centred**2).sum() * (b_centred**2).sum(axis=axis)
        )

    found = permutation_test(
        (y,),
        statistic,
        permutation_type="pairings",
        alternative="greater",
        n_resamples=np.inf,
        vectorized=True,
        batch=50_000,
    )
    return found.pvalue


def exact_p(x, y):
    """Ranks are halves, so the sums of products are fractions and compare exactly."""
    mean = Fraction(len(x) + 1, 2)
    a = [Fraction(r) - mean for r in rankdata(x).tolist()]
    b = [Fraction(r) - mean for r in rankdata(y).tolist()]
    observed = abs(sum(u * v for u, v in zip(a, b)))
    # Doubled, the ranks are whole numbers, which is only quicker.
    a, b, observed = [int(2 * u) for u in a], [int(2 * v) for v in b], 4 * observed
    sums = [abs(sum(u * v for u, v in zip(a, order))) for order in permutations(b)]
    return sum(s >= observed for s in sums) / len(sums)


def main():
    print("scipy", scipy.__version__)
    for name, (x, y) in CASES.items():
        rho, p = spearmanr(x, y)
        method = "t"
        if len(x) <= 9:
            p, method = permutation_p(x, y), "all pairings"
            assert abs(p - exact_p(x, y)) < 1e-15, name
        tau = kendalltau(x, y, variant="b").statistic
        print(f"{name}: {len(x)}, {float(rho)!r}, {float(p)!r}, {float(tau)!r}, {method}")


if __name__ == "__main__":
    main()
