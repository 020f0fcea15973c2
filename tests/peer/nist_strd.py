"""Recomputes the certified values of the NIST StRD linear regressions with rational arithmetic.

Data and certified values: NIST Statistical Reference Datasets, Linear Regression
(https://www.itl.nist.gov/div898/strd/lls/lls.shtml): Longley, Wampler1 to Wampler5.
Least squares is solved over fractions, so nothing is rounded before the last line; only the square
roots of the standard errors use decimal arithmetic (40 digits). The script needs Python's standard
library alone. It prints what src/analysis/stats/known_answers.rs expects, and stops at the first
certified value that differs from the exact one in its 15 printed digits.
"""

from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 40

LONGLEY = """
60323 83.0 234289 2356 1590 107608 1947
61122 88.5 259426 2325 1456 108632 1948
60171 88.2 258054 3682 1616 109773 1949
61187 89.5 284599 3351 1650 110929 1950
63221 96.2 328975 2099 3099 112075 1951
63639 98.1 346999 1932 3594 113270 1952
64989 99.0 365385 1870 3547 115094 1953
63761 100.0 363112 3578 3350 116219 1954
66019 101.2 397469 2904 3048 117388 1955
67857 104.6 419180 2822 2857 118734 1956
68169 108.4 442769 2936 2798 120445 1957
66513 110.8 444546 4681 2637 121950 1958
68655 112.6 482704 3813 2552 123366 1959
69564 114.2 502601 3931 2514 125368 1960
69331 115.7 518173 4806 2572 127852 1961
70551 116.9 554894 4007 2827 130081 1962
"""

WAMPLER = {
    1: "1 6 63 364 1365 3906 9331 19608 37449 66430 111111 177156 271453 402234 579195 813616 "
    "1118481 1508598 2000719 2613660 3368421",
    2: "1.00000 1.11111 1.24992 1.42753 1.65984 1.96875 2.38336 2.94117 3.68928 4.68559 6.00000 "
    "7.71561 9.92992 12.75603 16.32384 20.78125 26.29536 33.05367 41.26528 51.16209 63.00000",
    3: "760 -2042 2111 -1684 3888 1858 11379 17560 39287 64382 113159 175108 273291 400186 581243 "
    "811568 1121004 1506550 2002767 2611612 3369180",
    4: "75901 -204794 204863 -204436 253665 -200894 214131 -185192 221249 -138370 315911 -27644 "
    "455253 197434 783995 608816 1370781 1303798 2205519 2408860 3444321",
    5: "7590001 -20479994 20480063 -20479636 25231365 -20476094 20489331 -20460392 18417449 "
    "-20413570 20591111 -20302844 18651453 -20077766 21059195 -19666384 26348481 -18971402 "
    "22480719 -17866340 10958421",
}

# Coefficients, then their standard errors, then residual standard deviation and R².
CERTIFIED = {
    "Longley": (
        "-3482258.63459582 15.0618722713733 -0.0358191792925910 -2.02022980381683 "
        "-1.03322686717359 -0.0511041056535807 1829.15146461355",
        "890420.383607373 84.9149257747669 0.0334910077722432 0.488399681651699 "
        "0.214274163161675 0.226073200069370 455.478499142212",
        "304.854073561965 0.995479004577296",
    ),
    "Wampler1": ("1 1 1 1 1 1", "0 0 0 0 0 0", "0 1"),
    "Wampler2": ("1 0.1 0.01 0.001 0.0001 0.00001", "0 0 0 0 0 0", "0 1"),
    "Wampler3": (
        "1 1 1 1 1 1",
        "2152.32624678170 2363.55173469681 779.343524331583 101.475507550350 "
        "5.64566512170752 0.112324854679312",
        "2360.14502379268 0.999995559025820",
    ),
    "Wampler4": (
        "1 1 1 1 1 1",
        "215232.624678170 236355.173469681 77934.3524331583 10147.5507550350 "
        "564.566512170752 11.2324854679312",
        "236014.502379268 0.957478440825662",
    ),
    "Wampler5": (
        "1 1 1 1 1 1",
        "21523262.4678170 23635517.3469681 7793435.24331583 1014755.07550350 "
        "56456.6512170752 1123.24854679312",
        "23601450.2379268 0.00224668921574940",
    ),
}


def inverse(matrix):
    """The exact inverse by Gauss-Jordan elimination."""
    k = len(matrix)
    rows = [row[:] + [Fraction(int(i == j)) for j in range(k)] for i, row in enumerate(matrix)]
    for i in range(k):
        pivot = next(r for r in range(i, k) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for r in range(k):
            if r != i and rows[r][i] != 0:
                rows[r] = [a - rows[r][i] * b for a, b in zip(rows[r], rows[i])]
    return [row[k:] for row in rows]


def root(value):
    return (Decimal(value.numerator) / Decimal(value.denominator)).sqrt()


def decimal(value):
    return Decimal(value.numerator) / Decimal(value.denominator)


def least_squares(x, y):
    n, k = len(x), len(x[0])
    gram = [[sum(row[i] * row[j] for row in x) for j in range(k)] for i in range(k)]
    moment = [sum(row[i] * value for row, value in zip(x, y)) for i in range(k)]
    gram_inverse = inverse(gram)
    b = [sum(g * m for g, m in zip(row, moment)) for row in gram_inverse]
    residuals = [value - sum(c * v for c, v in zip(b, row)) for row, value in zip(x, y)]
    ssr = sum(r * r for r in residuals)
    mean = sum(y) / n
    total = sum((value - mean) ** 2 for value in y)
    variance = ssr / (n - k)
    errors = [root(variance * gram_inverse[i][i]) for i in range(k)]
    return [decimal(c) for c in b], errors, [root(variance), decimal(1 - ssr / total)]


def datasets():
    rows = [[Fraction(v) for v in line.split()] for line in LONGLEY.split("\n") if line]
    yield "Longley", [[Fraction(1)] + row[1:] for row in rows], [row[0] for row in rows]
    powers = [[Fraction(x) ** p for p in range(6)] for x in range(21)]
    for number, text in WAMPLER.items():
        yield f"Wampler{number}", powers, [Fraction(v) for v in text.split()]


def main():
    for name, x, y in datasets():
        print(name)
        kinds = ("coefficient", "standard error", "residual std, R squared")
        for kind, exact, certified in zip(kinds, least_squares(x, y), CERTIFIED[name]):
            for value, text in zip(exact, certified.split(), strict=True):
                print(f"  {kind:24} {value:.17E}  certified {text}")
                claimed = Decimal(text)
                assert abs(value - claimed) <= abs(claimed) * Decimal("1e-14"), (name, kind, text)


if __name__ == "__main__":
    main()
