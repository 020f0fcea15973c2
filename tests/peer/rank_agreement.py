"""Reference numbers for rank agreement from scipy, and exact p-values by plain enumeration.

Prints the rows that src/analysis/stats/rank.rs stores: name, n, rho, p, tau-b. rho and tau-b are
scipy's. p is the share of all orders whose |rho| is at least as large for n <= 9, counted here over
itertools.permutations with fractions, and scipy's Student t value beyond.
"""

from fractions import Fraction
from itertools import permutations

import scipy
from scipy.stats import kendalltau, rankdata, spearmanr

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
        p = exact_p(x, y) if len(x) <= 9 else p
        tau = kendalltau(x, y, variant="b").statistic
        print(f"{name}: {len(x)}, {float(rho)!r}, {float(p)!r}, {float(tau)!r}")


if __name__ == "__main__":
    main()
