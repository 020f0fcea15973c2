//! How far the clock of a service lies from this machine's.

use wattrace_schema::TimestampNs;

/// Nanoseconds in a second.
const SECOND_NS: i64 = 1_000_000_000;

/// A time that a service gave, and this machine's wall clock around the question for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Observation {
    /// Before the question.
    pub(super) asked_ns: i64,
    /// After the answer.
    pub(super) answered_ns: i64,
    /// What the service's clock said.
    pub(super) remote: RemoteTime,
}

/// A time cut off to whole units, as services give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RemoteTime {
    /// Nanoseconds since the Unix epoch.
    t_ns: i64,
    /// Length of the unit that it is cut off to.
    unit_ns: i64,
}

impl RemoteTime {
    /// A time of RFC 3339, with as many digits as the service has.
    pub(super) fn rfc3339(text: &str) -> Option<Self> {
        let t_ns = TimestampNs::parse(text).ok()?.nanos();
        let digits = text
            .split_once('.')
            .map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count().min(9));
        Some(Self { t_ns, unit_ns: SECOND_NS / 10_i64.pow(digits as u32) })
    }

    /// Whether it tells more than whole seconds.
    pub(super) const fn has_parts_of_a_second(self) -> bool {
        self.unit_ns < SECOND_NS
    }

    /// The header `Date` of HTTP, such as `Sun, 06 Nov 1994 08:49:37 GMT`: whole seconds.
    pub(super) fn http_date(text: &str) -> Option<Self> {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let words: Vec<&str> = text.split_whitespace().collect();
        let [_, day, month, year, time, "GMT"] = words[..] else { return None };
        let month = MONTHS.iter().position(|name| *name == month)? + 1;
        Self::rfc3339(&format!("{year}-{month:02}-{day:0>2}T{time}Z"))
    }
}

/// The service's clock less this machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    pub(super) offset_ns: i64,
    /// The true offset lies within this of it, as long as neither clock was stepped meanwhile.
    pub(super) uncertainty_ns: i64,
}

/// The offset that agrees with every observation. A service reads its clock somewhere between question
/// and answer, and cuts the time off, so each observation bounds the offset on both sides; the best
/// bound of each side counts. Where no offset agrees with all of them a clock was stepped, and the
/// narrowest observation alone counts. `None` without observations.
pub(super) fn offset(observations: &[Observation]) -> Option<Offset> {
    let bounds = |seen: &Observation| {
        let low_ns = seen.remote.t_ns.saturating_sub(seen.answered_ns);
        let high_ns =
            seen.remote.t_ns.saturating_add(seen.remote.unit_ns).saturating_sub(seen.asked_ns);
        (low_ns, high_ns)
    };
    let width = |(low_ns, high_ns): (i64, i64)| high_ns.saturating_sub(low_ns);
    let all = observations.iter().map(bounds);
    let both = all.clone().reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))?;
    let narrowest = all.min_by_key(|bounds| width(*bounds))?;
    let (low_ns, high_ns) = if both.0 <= both.1 { both } else { narrowest };
    let half_ns = width((low_ns, high_ns)) / 2;
    Some(Offset { offset_ns: low_ns + half_ns, uncertainty_ns: half_ns })
}

impl Offset {
    /// The offset in words: "0.250 s ahead of".
    pub(super) fn words(self) -> String {
        let seconds = |ns: i64| ns.unsigned_abs() as f64 / SECOND_NS as f64;
        let side = if self.offset_ns < 0 { "behind" } else { "ahead of" };
        format!(
            "{:.3} s (within {:.3} s) {side}",
            seconds(self.offset_ns),
            seconds(self.uncertainty_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn seen(asked_ms: i64, answered_ms: i64, remote_ms: i64, unit_ms: i64) -> Observation {
        let remote = RemoteTime { t_ns: remote_ms * MS, unit_ns: unit_ms * MS };
        Observation { asked_ns: asked_ms * MS, answered_ns: answered_ms * MS, remote }
    }

    #[test]
    fn the_midpoint_of_a_round_trip_counts_where_the_stamp_is_fine() {
        // Asked at 1000 ms, answered at 1040 ms; the service said 6020 ms to the millisecond. Its clock
        // is ahead by 6020 − 1040 = 4980 to 6021 − 1000 = 5021 ms: 5000.5 ± 20.5 ms.
        let found = offset(&[seen(1000, 1040, 6020, 1)]).unwrap();
        assert_eq!(found, Offset { offset_ns: 5_000_500_000, uncertainty_ns: 20_500_000 });
        assert_eq!(found.words(), "5.000 s (within 0.021 s) ahead of");
        assert_eq!(offset(&[]), None);
    }

    #[test]
    fn whole_seconds_are_narrowed_by_several_observations() {
        // A clock 300 ms ahead, in whole seconds. At 600 ms it reads 0.9 s, given as 0: the offset is
        // −610 to 400 ms. At 800 ms it reads 1.1 s, given as 1: 190 to 1200 ms. Both: 190 to 400 ms.
        let found = offset(&[seen(600, 610, 0, 1000), seen(800, 810, 1000, 1000)]).unwrap();
        assert_eq!(found, Offset { offset_ns: 295 * MS, uncertainty_ns: 105 * MS });
        // A third one after a step of an hour contradicts both; the narrowest is kept: 3,599,490 to
        // 3,600,499 ms.
        let stepped = seen(1501, 1510, 3_601_000, 1000);
        let found = offset(&[seen(600, 610, 0, 1000), seen(800, 810, 1000, 1000), stepped]);
        assert_eq!(found.unwrap().uncertainty_ns, 1009 * MS / 2);
        assert_eq!(found.unwrap().offset_ns, 3_599_490 * MS + 1009 * MS / 2);
    }

    #[test]
    fn times_of_services_are_read() {
        let date = RemoteTime::http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(date, RemoteTime { t_ns: 784_111_777 * SECOND_NS, unit_ns: SECOND_NS });
        let manager = RemoteTime::rfc3339("1994-11-06T14:49:37.25+06:00").unwrap();
        let quarter_ns = SECOND_NS / 4;
        assert_eq!(manager.t_ns, date.t_ns + quarter_ns);
        assert_eq!(manager.unit_ns, 10 * MS);
        for text in ["", "now", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Foo 1994 08:49:37 GMT"] {
            assert_eq!(RemoteTime::http_date(text), None, "{text}");
        }
    }
}
