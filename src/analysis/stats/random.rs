//! Reproducible random numbers for resampling.
//!
//! Every resample has a stream of its own, named by (seed, index). Which thread draws it, and in
//! what order, then cannot matter.

/// A stream of random numbers: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014).
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    state: u64,
}

impl Stream {
    /// The stream `index` of a seed.
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        // Mixing twice puts the streams of neighbouring indices and seeds far apart.
        let of_seed = Self { state: seed }.next();
        Self { state: Self { state: of_seed ^ index }.next() }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero, each with equal probability (Lemire, "Fast random
    /// integer generation in an interval", ACM TOMACS 29, 2019).
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        loop {
            let product = u128::from(self.next()) * u128::from(bound);
            let fraction = product as u64;
            // Rejecting the few fractions below 2⁶⁴ mod bound leaves equally many for each result.
            if fraction >= bound || fraction >= bound.wrapping_neg() % bound {
                return (product >> 64) as usize;
            }
        }
    }
}

#[cfg(test)]
impl Stream {
    /// A standard normal number (Box and Muller), for simulated errors in tests.
    pub(super) fn normal(&mut self) -> f64 {
        let mut uniform = || ((self.next() >> 11) as f64 + 0.5) / 2f64.powi(53);
        let (radius, angle) = (uniform(), uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The published sequence of the reference program for seed 1234567.
        let mut stream = Stream { state: 1_234_567 };
        let drawn = [stream.next(), stream.next(), stream.next()];
        let reference =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(drawn, reference);
    }

    #[test]
    fn draws_are_even() {
        // 60,000 draws of six: each expected 10,000 ± 91 (one standard deviation).
        let mut counts = [0i32; 6];
        let mut stream = Stream::new(1, 0);
        for _ in 0..60_000 {
            counts[stream.below(6)] += 1;
        }
        assert!(counts.iter().all(|count| (count - 10_000).abs() < 400), "{counts:?}");
    }

    #[test]
    fn streams_differ_by_seed_and_by_index() {
        let first = |seed, index| Stream::new(seed, index).next();
        assert_ne!(first(1, 2), first(2, 1));
        assert_ne!(first(0, 0), first(0, 1));
        assert_ne!(first(0, 0), first(1, 0));
    }
}
