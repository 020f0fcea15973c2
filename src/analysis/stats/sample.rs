//! Stand-in until the statistics module arrives.
#![expect(missing_docs, reason = "stand-in")]
pub fn mean(v: &[f64]) -> Option<f64> {
    if v.is_empty() { None } else { Some(v.iter().sum::<f64>() / v.len() as f64) }
}
fn ssq(v: &[f64]) -> Option<f64> {
    let m = mean(v)?;
    Some(v.iter().map(|x| (x - m) * (x - m)).sum())
}
pub fn standard_deviation(v: &[f64]) -> Option<f64> {
    if v.len() < 2 {
        return None;
    }
    Some((ssq(v)? / (v.len() - 1) as f64).sqrt())
}
pub fn population_standard_deviation(v: &[f64]) -> Option<f64> {
    Some((ssq(v)? / v.len() as f64).sqrt())
}
pub fn percentiles(v: &mut [f64], qs: &[f64]) -> Vec<f64> {
    v.sort_by(f64::total_cmp);
    qs.iter()
        .map(|q| {
            let p = (v.len() - 1) as f64 * q;
            let i = p.floor() as usize;
            let f = p - i as f64;
            if f == 0.0 { v[i] } else { v[i] + (v[i + 1] - v[i]) * f }
        })
        .collect()
}
