//! How far apart samples lie, for sources whose log does not say.

/// First and last sample of the first device.
#[derive(Debug, Default)]
pub(super) struct Cadence {
    device: Option<String>,
    first_ns: i64,
    last_ns: i64,
    samples: u32,
}

impl Cadence {
    /// Takes a sample into account.
    pub(super) fn add(&mut self, device: &str, t_ns: i64) {
        match &self.device {
            None => {
                self.device = Some(device.to_owned());
                (self.first_ns, self.last_ns, self.samples) = (t_ns, t_ns, 1);
            }
            Some(first) if first == device => {
                self.first_ns = self.first_ns.min(t_ns);
                self.last_ns = self.last_ns.max(t_ns);
                self.samples = self.samples.saturating_add(1);
            }
            Some(_) => {}
        }
    }

    /// Mean time between the samples of the first device, in whole milliseconds, at least one; a second
    /// where there are not two.
    pub(super) fn interval_ms(&self) -> f64 {
        const DEFAULT_MS: f64 = 1000.0;
        if self.samples < 2 {
            return DEFAULT_MS;
        }
        let span_ns = i128::from(self.last_ns) - i128::from(self.first_ns);
        (span_ns as f64 / 1e6 / f64::from(self.samples - 1)).round().max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_first_device() {
        let mut cadence = Cadence::default();
        assert_eq!(cadence.interval_ms(), 1000.0);
        for (device, ms) in [("a", 0), ("b", 5), ("a", 100), ("a", 210), ("b", 9000)] {
            cadence.add(device, ms * 1_000_000);
        }
        // (210 - 0) / 2
        assert_eq!(cadence.interval_ms(), 105.0);
        cadence.add("a", i64::MIN);
        cadence.add("a", i64::MAX);
        assert!(cadence.interval_ms() > 1e12);
    }
}
