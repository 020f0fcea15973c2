//! Fits compared with certified values and with another program.
//!
//! NIST: Statistical Reference Datasets, Linear Regression, Longley and Wampler1 to Wampler5
//! (<https://www.itl.nist.gov/div898/strd/lls/lls.shtml>). Every certified number here is recomputed
//! with rational arithmetic by `tests/peer/nist_strd.py`. The statsmodels numbers were printed by
//! `tests/peer/cluster_robust.py`.

use super::{Design, LinearFit, Term, least_squares};

/// Employment, then price deflator, GNP, unemployment, armed forces, population, year.
const LONGLEY: [[f64; 7]; 16] = [
    [60323.0, 83.0, 234289.0, 2356.0, 1590.0, 107608.0, 1947.0],
    [61122.0, 88.5, 259426.0, 2325.0, 1456.0, 108632.0, 1948.0],
    [60171.0, 88.2, 258054.0, 3682.0, 1616.0, 109773.0, 1949.0],
    [61187.0, 89.5, 284599.0, 3351.0, 1650.0, 110929.0, 1950.0],
    [63221.0, 96.2, 328975.0, 2099.0, 3099.0, 112075.0, 1951.0],
    [63639.0, 98.1, 346999.0, 1932.0, 3594.0, 113270.0, 1952.0],
    [64989.0, 99.0, 365385.0, 1870.0, 3547.0, 115094.0, 1953.0],
    [63761.0, 100.0, 363112.0, 3578.0, 3350.0, 116219.0, 1954.0],
    [66019.0, 101.2, 397469.0, 2904.0, 3048.0, 117388.0, 1955.0],
    [67857.0, 104.6, 419180.0, 2822.0, 2857.0, 118734.0, 1956.0],
    [68169.0, 108.4, 442769.0, 2936.0, 2798.0, 120445.0, 1957.0],
    [66513.0, 110.8, 444546.0, 4681.0, 2637.0, 121950.0, 1958.0],
    [68655.0, 112.6, 482704.0, 3813.0, 2552.0, 123366.0, 1959.0],
    [69564.0, 114.2, 502601.0, 3931.0, 2514.0, 125368.0, 1960.0],
    [69331.0, 115.7, 518173.0, 4806.0, 2572.0, 127852.0, 1961.0],
    [70551.0, 116.9, 554894.0, 4007.0, 2827.0, 130081.0, 1962.0],
];

/// What Wampler added to the exact polynomial: once, 100-fold and 10,000-fold.
const WAMPLER_NOISE: [f64; 21] = [
    759.0, -2048.0, 2048.0, -2048.0, 2523.0, -2048.0, 2048.0, -2048.0, 1838.0, -2048.0, 2048.0,
    -2048.0, 1838.0, -2048.0, 2048.0, -2048.0, 2523.0, -2048.0, 2048.0, -2048.0, 759.0,
];

/// Responses of Wampler2, printed with five decimals by NIST (and exact).
const WAMPLER_2: [f64; 21] = [
    1.0, 1.11111, 1.24992, 1.42753, 1.65984, 1.96875, 2.38336, 2.94117, 3.68928, 4.68559, 6.0,
    7.71561, 9.92992, 12.75603, 16.32384, 20.78125, 26.29536, 33.05367, 41.26528, 51.16209, 63.0,
];

const WAMPLER_STD_ERRORS: [f64; 6] = [
    2152.32624678170,
    2363.55173469681,
    779.343524331583,
    101.475507550350,
    5.64566512170752,
    0.112324854679312,
];

struct Certified {
    coefficients: Vec<f64>,
    std_errors: Vec<f64>,
    residual_std: f64,
    r_squared: f64,
}

fn longley() -> LinearFit {
    let names = ["deflator", "gnp", "unemployed", "armed_forces", "population", "year"];
    let column = |index: usize| LONGLEY.iter().map(|row| row[index]).collect();
    let terms = names.iter().enumerate().map(|(i, &name)| Term::new(name, column(i + 1))).collect();
    let design = Design::new("constant", column(0), terms, (0..16).collect()).unwrap();
    least_squares(&design).unwrap()
}

fn wampler(response: Vec<f64>) -> LinearFit {
    let power = |p: i32| (0..21).map(|x| f64::from(x).powi(p)).collect();
    let terms = (1..=5).map(|p| Term::new(format!("x{p}"), power(p))).collect();
    let design = Design::new("x0", response, terms, (0..21).collect()).unwrap();
    least_squares(&design).unwrap()
}

/// `1 + x + x² + … + x⁵` plus a multiple of the noise, exact in `f64`.
fn noisy_polynomial(noise: f64) -> Vec<f64> {
    (0..21)
        .zip(WAMPLER_NOISE)
        .map(|(x, error)| (0..=5).map(|p| f64::from(x).powi(p)).sum::<f64>() + noise * error)
        .collect()
}

/// Decimal digits that agree: the log relative error, or the log error where the certified value
/// is zero. Equal numbers count as 15, which is all that NIST prints.
fn matching_digits(computed: f64, certified: f64) -> f64 {
    let scale = if certified == 0.0 { 1.0 } else { certified.abs() };
    (-((computed - certified).abs() / scale).log10()).min(15.0)
}

fn assert_digits(name: &str, fit: &LinearFit, certified: &Certified, required: f64) {
    let values = fit.coefficients.iter().map(|c| c.value);
    let errors = fit.coefficients.iter().map(|c| c.std_error.unwrap());
    let computed = values.chain(errors).chain([fit.residual_std, fit.r_squared.unwrap()]);
    let expected = certified.coefficients.iter().chain(&certified.std_errors);
    let expected = expected.copied().chain([certified.residual_std, certified.r_squared]);
    let digits: Vec<f64> = computed.zip(expected).map(|(c, e)| matching_digits(c, e)).collect();
    let fewest = digits.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{name}: at least {fewest:.1} digits");
    assert!(fewest >= required, "{name}: {digits:?}");
}

#[test]
fn nist_longley() {
    let certified = Certified {
        coefficients: vec![
            -3482258.63459582,
            15.0618722713733,
            -0.0358191792925910,
            -2.02022980381683,
            -1.03322686717359,
            -0.0511041056535807,
            1829.15146461355,
        ],
        std_errors: vec![
            890420.383607373,
            84.9149257747669,
            0.0334910077722432,
            0.488399681651699,
            0.214274163161675,
            0.226073200069370,
            455.478499142212,
        ],
        residual_std: 304.854073561965,
        r_squared: 0.995479004577296,
    };
    assert_digits("Longley", &longley(), &certified, 12.0);
}

#[test]
fn nist_wampler_without_noise() {
    let exact = |coefficients| Certified {
        coefficients,
        std_errors: vec![0.0; 6],
        residual_std: 0.0,
        r_squared: 1.0,
    };
    let first = wampler(noisy_polynomial(0.0));
    assert_digits("Wampler1", &first, &exact(vec![1.0; 6]), 12.0);
    let second = wampler(WAMPLER_2.to_vec());
    let coefficients = (0..6).map(|p| 10f64.powi(-p)).collect();
    assert_digits("Wampler2", &second, &exact(coefficients), 12.0);
}

#[test]
fn nist_wampler_with_noise() {
    let r_squared = [0.999995559025820, 0.957478440825662, 0.00224668921574940];
    for (index, r_squared) in r_squared.into_iter().enumerate() {
        let noise = 100f64.powi(index as i32);
        let certified = Certified {
            coefficients: vec![1.0; 6],
            std_errors: WAMPLER_STD_ERRORS.iter().map(|error| error * noise).collect(),
            residual_std: 2360.14502379268 * noise,
            r_squared,
        };
        let name = format!("Wampler{}", index + 3);
        assert_digits(&name, &wampler(noisy_polynomial(noise)), &certified, 11.0);
    }
}

/// Cell, q_w and q_kv in GB/token, tau in s/token, energy in J/token: eight cells of three repeats,
/// invented, the last row an outlier.
pub(super) const EIGHT_CELLS: [[f64; 5]; 24] = [
    [0.0, 1.768, 0.057, 0.0171, 6.391],
    [0.0, 1.768, 0.058, 0.0174, 6.472],
    [0.0, 1.768, 0.057, 0.0168, 6.322],
    [1.0, 0.884, 0.115, 0.0092, 3.602],
    [1.0, 0.884, 0.116, 0.0094, 3.581],
    [1.0, 0.884, 0.114, 0.0091, 3.633],
    [2.0, 0.442, 0.229, 0.0061, 2.417],
    [2.0, 0.443, 0.230, 0.0060, 2.398],
    [2.0, 0.442, 0.231, 0.0063, 2.466],
    [3.0, 0.221, 0.459, 0.0049, 2.115],
    [3.0, 0.221, 0.457, 0.0051, 2.187],
    [3.0, 0.222, 0.458, 0.0048, 2.101],
    [4.0, 1.769, 0.230, 0.0162, 6.702],
    [4.0, 1.768, 0.229, 0.0164, 6.689],
    [4.0, 1.768, 0.231, 0.0167, 6.751],
    [5.0, 0.884, 0.344, 0.0104, 4.399],
    [5.0, 0.885, 0.343, 0.0102, 4.376],
    [5.0, 0.884, 0.345, 0.0105, 4.402],
    [6.0, 0.442, 0.115, 0.0066, 2.205],
    [6.0, 0.442, 0.116, 0.0064, 2.198],
    [6.0, 0.443, 0.115, 0.0067, 2.231],
    [7.0, 0.221, 0.057, 0.0033, 1.098],
    [7.0, 0.221, 0.058, 0.0035, 1.151],
    [7.0, 0.221, 0.057, 0.0034, 1.629],
];

/// The design of `EIGHT_CELLS` with its three coordinates.
pub(super) fn eight_cells() -> Design {
    let column = |index: usize| EIGHT_CELLS.iter().map(|row| row[index]).collect();
    let terms = ["alpha", "beta", "p_tau_w"];
    let terms = terms.iter().enumerate().map(|(i, &name)| Term::new(name, column(i + 1))).collect();
    let clusters = EIGHT_CELLS.iter().map(|row| row[0] as usize).collect();
    Design::new("c", column(4), terms, clusters).unwrap()
}

/// Both programs solve the same equations in `f64`; statsmodels loses about three digits to the
/// condition number of the raw columns.
pub(super) fn assert_close(computed: f64, expected: f64) {
    let relative = (computed - expected).abs() / expected.abs();
    assert!(relative < 1e-10, "{computed} against {expected}");
}

#[test]
fn least_squares_agrees_with_statsmodels() {
    let fit = least_squares(&eight_cells()).unwrap();
    let values = [0.22538674033901357, 2.377684007907729, 2.081331552283049, 111.31953025160803];
    let errors = [0.1379183595825992, 0.48853200533668767, 0.25499076083468164, 59.43832647054694];
    let low = [-0.06230591645715805, 1.3586241019559067, 1.549430145791391, -12.666646132607923];
    for (index, estimate) in fit.coefficients.iter().enumerate() {
        assert_close(estimate.value, values[index]);
        assert_close(estimate.std_error.unwrap(), errors[index]);
        assert_close(estimate.low.unwrap(), low[index]);
    }
    let information = fit.information.unwrap();
    assert_close(information.log_likelihood, 16.346307915307175);
    assert_close(information.aic, -24.69261583061435);
    assert_close(information.bic, -19.98040050922257);
    for (row, leverage) in
        [(0, 0.21632943399373095), (11, 0.21219328265142862), (23, 0.22086023141629318)]
    {
        assert_close(fit.leverage[row], leverage);
    }
    let inflation = [111.73924526858798, 1.5632114636515417, 108.63146986457744];
    for (computed, expected) in fit.variance_inflation.iter().zip(inflation) {
        assert_close(*computed, expected);
    }
    assert_close(fit.condition_number, 21.366689124359784);
}

#[test]
fn cluster_robust_errors_agree_with_statsmodels() {
    let fit = least_squares(&eight_cells()).unwrap();
    let robust = fit.cluster_robust.unwrap();
    assert_eq!((robust.clusters, robust.degrees_of_freedom), (8, 7));
    let errors = [0.1329894103923676, 0.3734372908415189, 0.29707331993240815, 47.95664930898308];
    let low = [-0.08908324467980433, 1.4946451335347657, 1.3788647754696948, -2.079925729543689];
    let high = [0.5398567253578315, 3.2607228822806924, 2.7837983290964035, 224.71898623275973];
    for (index, estimate) in robust.coefficients.iter().enumerate() {
        assert_close(estimate.std_error.unwrap(), errors[index]);
        assert_close(estimate.low.unwrap(), low[index]);
        assert_close(estimate.high.unwrap(), high[index]);
    }
    assert_close(robust.covariance[(1, 2)], -0.02590738993407376);
}

#[test]
fn predictions_agree_with_statsmodels() {
    let fit = least_squares(&eight_cells()).unwrap();
    let prediction = fit.predict(&[0.6, 0.2, 0.008]);
    assert_close(prediction.value, 2.958819697553125);
    assert_close(prediction.mean_std_error, 0.04646583696271536);
    assert_close(prediction.mean_interval.0, 2.861893660102286);
    assert_close(prediction.mean_interval.1, 3.0557457350039643);
    assert_close(prediction.interval.0, 2.6626972381057126);
    assert_close(prediction.interval.1, 3.2549421570005377);
}
