"""Reference numbers for classical, cluster-robust and Huber errors from statsmodels.

Prints what src/analysis/stats/known_answers.rs stores. The 24 rows are an invented setting of eight cells
with three repeats; the columns have the sizes of weight and cache bytes (GB/token) and time
(s/token). Run with statsmodels; the version is printed first.
"""

import numpy
import statsmodels
import statsmodels.api as sm
from statsmodels.stats.outliers_influence import variance_inflation_factor

# cell, q_w, q_kv, tau, energy
ROWS = numpy.array(
    [
        [0, 1.768, 0.057, 0.0171, 6.391], [0, 1.768, 0.058, 0.0174, 6.472], [0, 1.768, 0.057, 0.0168, 6.322],
        [1, 0.884, 0.115, 0.0092, 3.602], [1, 0.884, 0.116, 0.0094, 3.581], [1, 0.884, 0.114, 0.0091, 3.633],
        [2, 0.442, 0.229, 0.0061, 2.417], [2, 0.443, 0.230, 0.0060, 2.398], [2, 0.442, 0.231, 0.0063, 2.466],
        [3, 0.221, 0.459, 0.0049, 2.115], [3, 0.221, 0.457, 0.0051, 2.187], [3, 0.222, 0.458, 0.0048, 2.101],
        [4, 1.769, 0.230, 0.0162, 6.702], [4, 1.768, 0.229, 0.0164, 6.689], [4, 1.768, 0.231, 0.0167, 6.751],
        [5, 0.884, 0.344, 0.0104, 4.399], [5, 0.885, 0.343, 0.0102, 4.376], [5, 0.884, 0.345, 0.0105, 4.402],
        [6, 0.442, 0.115, 0.0066, 2.205], [6, 0.442, 0.116, 0.0064, 2.198], [6, 0.443, 0.115, 0.0067, 2.231],
        [7, 0.221, 0.057, 0.0033, 1.098], [7, 0.221, 0.058, 0.0035, 1.151], [7, 0.221, 0.057, 0.0034, 1.629],
    ]
)


def show(label, values):
    print(label, ", ".join(repr(float(v)) for v in numpy.ravel(values)))


def main():
    print("statsmodels", statsmodels.__version__, "numpy", numpy.__version__)
    x, y = sm.add_constant(ROWS[:, 1:4]), ROWS[:, 4]
    fit = sm.OLS(y, x).fit()
    show("coefficients", fit.params)
    show("classical", fit.bse)
    show("classical low", fit.conf_int()[:, 0])
    show("log-likelihood, aic, bic", [fit.llf, fit.aic, fit.bic])
    show("leverage of rows 0, 11, 23", fit.get_influence().hat_matrix_diag[[0, 11, 23]])
    inflation = variance_inflation_factor
    show("vif", [inflation(x, i) for i in (1, 2, 3)])
    centred = x[:, 1:] - x[:, 1:].mean(axis=0)
    singular = numpy.linalg.svd(centred / centred.std(axis=0), compute_uv=False)
    show("condition number", singular[0] / singular[-1])

    # use_correction: G/(G-1) (N-1)/(N-K); use_t: Student's t with G-1 degrees of freedom.
    robust = sm.OLS(y, x).fit(
        cov_type="cluster", cov_kwds={"groups": ROWS[:, 0].astype(int), "use_correction": True}, use_t=True
    )
    show("cluster", robust.bse)
    show("cluster low", robust.conf_int()[:, 0])
    show("cluster high", robust.conf_int()[:, 1])
    show("cluster covariance [1, 2]", robust.cov_params()[1, 2])

    at = numpy.array([[1.0, 0.6, 0.2, 0.008]])
    predicted = fit.get_prediction(at)
    show("prediction", predicted.predicted)
    show("mean error", predicted.se_mean)
    show("mean interval", predicted.conf_int())
    show("observation interval", predicted.conf_int(obs=True))

    restricted = sm.OLS(y, numpy.column_stack([x[:, 0], x[:, 1] + x[:, 2], x[:, 3]])).fit()
    show("merged against full: F, p, df", fit.compare_f_test(restricted))

    huber = sm.RLM(y, x, M=sm.robust.norms.HuberT(1.345)).fit(cov="H1", tol=1e-14, maxiter=10000)
    show("huber", huber.params)
    show("huber errors", huber.bse)
    show("huber scale", huber.scale)
    show("huber weight of row 23", huber.weights[23])


if __name__ == "__main__":
    main()
