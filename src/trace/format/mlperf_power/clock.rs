//! Decides what the times of the samples and of the load generator mean: neither names its zone, and a
//! date may have its day first.
//!
//! PTDaemon writes UTC since version 1.1 and local time before; the power session's own files hold the
//! phases in seconds since 1970, so an interpretation is right when it puts the samples there.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use wattrace_schema::{NANOS_PER_SECOND, TimestampNs};

use super::super::local_time::{self, DateOrder};
use super::session::Session;
use super::spl::DateReading;

/// How far the clocks of the machines may differ, in seconds. They are synchronised for a power run, and
/// time zones differ by 900 s at least.
const TOLERANCE_S: f64 = 60.0;

/// How to read a time without zone.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    pub(super) order: DateOrder,
    pub(super) zone: TimeZone,
    /// Earliest and latest of the logged times.
    pub(super) span: (TimestampNs, TimestampNs),
    /// The zone and why it is that one, for the notes.
    pub(super) reason: String,
}

/// A zone that may be meant, and how a person would say so.
#[derive(Clone)]
struct Candidate {
    zone: TimeZone,
    name: String,
}

/// What is known besides the logged times.
pub(super) struct Evidence<'a> {
    pub(super) session: &'a Session,
    /// Zone that the caller names.
    pub(super) zone: Option<TimeZone>,
}

impl Evidence<'_> {
    /// The clock under which the times of `what`, read in the orders that exist, fall into the session.
    ///
    /// # Errors
    /// Why it cannot be told; the remedy is to name the zone.
    pub(super) fn decide(&self, what: &str, readings: &[DateReading]) -> Result<Clock, String> {
        let Some(first) = readings.first() else {
            return Err(format!("{what} have no order of day and month in which all dates exist"));
        };
        if let Some(zone) = &self.zone {
            return self.named(what, readings, zone);
        }
        let Some(testing) = self.session.testing else {
            return Err(format!(
                "{what} have no zone, and there is no client.json or server.json whose \"testing\" phase \
                 could tell it; name the zone (--tz), such as UTC"
            ));
        };
        let mut fitting: Vec<Clock> = Vec::new();
        for reading in readings {
            for Candidate { zone, name } in self.candidates() {
                let Ok(span) = span(reading, &zone) else { continue };
                if lies_in(span, testing) {
                    let reason = format!(
                        "{what} are {name}: read so, they lie in the session's testing phase"
                    );
                    fitting.push(Clock { order: reading.order, zone, span, reason });
                }
            }
        }
        // Where day and month are the same number, both orders are one reading.
        fitting.dedup_by_key(|clock| clock.span);
        match fitting.len() {
            1 => Ok(fitting.remove(0)),
            0 => Err(format!(
                "{what}, {} to {}, lie outside the session's testing phase, {} to {}, read as {}; name the zone \
                 (--tz)",
                first.span.0,
                first.span.1,
                epoch_text(testing.0),
                epoch_text(testing.1),
                self.candidates()
                    .iter()
                    .map(|zone| zone.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
            _ => {
                let names: Vec<&str> = fitting.iter().map(|clock| clock.reason.as_str()).collect();
                Err(format!("more than one zone fits: {}; name the zone (--tz)", names.join("; ")))
            }
        }
    }

    /// The caller's zone. The order of dates is the one that fits the session, or else the first.
    fn named(
        &self,
        what: &str,
        readings: &[DateReading],
        zone: &TimeZone,
    ) -> Result<Clock, String> {
        let mut clocks = Vec::new();
        for reading in readings {
            let reason = format!("{what} are in the zone that the import names");
            let span = span(reading, zone)?;
            clocks.push(Clock { order: reading.order, zone: zone.clone(), span, reason });
        }
        let fits =
            |clock: &Clock| self.session.testing.is_none_or(|testing| lies_in(clock.span, testing));
        let fitting = clocks.iter().position(fits);
        let mut clock = clocks.swap_remove(fitting.unwrap_or(0));
        if fitting.is_none() {
            clock.reason.push_str(", although so they lie outside the session's testing phase");
        }
        Ok(clock)
    }

    /// UTC, and the zones of the two machines; their files give the offset without daylight saving.
    fn candidates(&self) -> Vec<Candidate> {
        let mut candidates = vec![Candidate { zone: TimeZone::UTC, name: "UTC".into() }];
        for west in &self.session.zones_west_s {
            for (east, season) in [(-west, "local time"), (3600 - west, "local summer time")] {
                let Some(zone) = local_time::zone_of_seconds(east) else { continue };
                if candidates.iter().all(|known| known.zone != zone) {
                    candidates
                        .push(Candidate { name: format!("{season} (UTC{})", offset(east)), zone });
                }
            }
        }
        candidates
    }
}

impl Clock {
    /// A logged time as a point in time.
    pub(super) fn timestamp(&self, local: DateTime) -> Result<TimestampNs, String> {
        local_time::to_timestamp(&self.zone, local)
    }
}

fn span(reading: &DateReading, zone: &TimeZone) -> Result<(TimestampNs, TimestampNs), String> {
    let at = |local| local_time::to_timestamp(zone, local);
    Ok((at(reading.span.0)?, at(reading.span.1)?))
}

fn lies_in(span: (TimestampNs, TimestampNs), testing: (f64, f64)) -> bool {
    let [first, last] = [span.0, span.1].map(|time| time.nanos() as f64 / NANOS_PER_SECOND);
    first >= testing.0 - TOLERANCE_S && last <= testing.1 + TOLERANCE_S
}

fn offset(east: i64) -> String {
    let sign = if east < 0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", east.abs() / 3600, east.abs() % 3600 / 60)
}

/// Seconds since 1970 as text; a number no calendar holds stays a number.
fn epoch_text(seconds: f64) -> String {
    let timestamp = jiff::Timestamp::from_millisecond((seconds * 1e3) as i64);
    timestamp.map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::super::local_time::LoggedTime;
    use super::super::spl::Survey;
    use super::*;

    /// 2024-07-17 09:00:00 UTC and half an hour later.
    const TESTING: (f64, f64) = (1_721_206_800.0, 1_721_208_600.0);

    fn readings(from: &str, to: &str) -> Vec<DateReading> {
        let mut survey = Survey::default();
        survey.add(LoggedTime::parse(from).unwrap());
        survey.add(LoggedTime::parse(to).unwrap());
        survey.readings()
    }

    fn decide(
        session: &Session,
        zone: Option<&str>,
        from: &str,
        to: &str,
    ) -> Result<Clock, String> {
        let zone = zone.map(|name| local_time::parse_zone(name).unwrap());
        Evidence { session, zone }.decide("the samples", &readings(from, to))
    }

    fn session(zones_west_s: &[i64]) -> Session {
        Session {
            zones_west_s: zones_west_s.to_vec(),
            testing: Some(TESTING),
            ..Session::default()
        }
    }

    #[test]
    fn the_session_tells_utc_from_local_time() {
        // A machine at UTC-7 without daylight saving: 25200 s west.
        let session = session(&[25_200, 25_200]);
        let utc = decide(&session, None, "07-17-2024 09:01:00", "07-17-2024 09:29:00").unwrap();
        assert_eq!(
            utc.reason,
            "the samples are UTC: read so, they lie in the session's testing phase"
        );
        let local = decide(&session, None, "07-17-2024 02:01:00", "07-17-2024 02:29:00").unwrap();
        assert!(
            local.reason.starts_with("the samples are local time (UTC-07:00)"),
            "{}",
            local.reason
        );
        let start = local.timestamp("2024-07-17T02:01:00".parse().unwrap()).unwrap();
        assert_eq!(start.to_string(), "2024-07-17T09:01:00Z");
    }

    #[test]
    fn summer_time_is_an_hour_from_the_offset_in_the_file() {
        // Pacific time in July: time.timezone still says 8 hours west, the wall clock 7.
        let summer = session(&[28_800]);
        let clock = decide(&summer, None, "07-17-2024 02:01:00", "07-17-2024 02:29:00").unwrap();
        assert!(clock.reason.contains("local summer time (UTC-07:00)"), "{}", clock.reason);
    }

    #[test]
    fn the_session_tells_the_order_of_the_date() {
        // 7 August 2024, 09:00 UTC; as 8 July the samples would lie a month before the session.
        let testing = (1_723_021_200.0, 1_723_023_000.0);
        let session = Session { testing: Some(testing), ..Session::default() };
        let clock = decide(&session, None, "07-08-2024 09:01:00", "07-08-2024 09:29:00").unwrap();
        assert_eq!(clock.order, DateOrder::DayFirst);
    }

    #[test]
    fn what_cannot_be_told_asks_for_the_zone() {
        let unknown = Session::default();
        let message = decide(&unknown, None, "07-17-2024 09:01:00", "07-17-2024 09:29:00");
        insta::assert_snapshot!(message.unwrap_err(), @r#"the samples have no zone, and there is no client.json or server.json whose "testing" phase could tell it; name the zone (--tz), such as UTC"#);
        let session = session(&[25_200]);
        let message = decide(&session, None, "07-17-2024 12:00:00", "07-17-2024 12:30:00");
        insta::assert_snapshot!(message.unwrap_err(), @"the samples, 2024-07-17T12:00:00 to 2024-07-17T12:30:00, lie outside the session's testing phase, 2024-07-17T09:00:00Z to 2024-07-17T09:30:00Z, read as UTC, local time (UTC-07:00), local summer time (UTC-06:00); name the zone (--tz)");
        // A session so long that two zones fit.
        let long = Session { testing: Some((TESTING.0 - 1e5, TESTING.1 + 1e5)), ..session };
        let message =
            decide(&long, None, "07-17-2024 09:01:00", "07-17-2024 09:29:00").unwrap_err();
        assert!(message.starts_with("more than one zone fits: the samples are UTC"), "{message}");
        let nothing = Evidence { session: &long, zone: None }.decide("the samples", &[]);
        assert!(nothing.unwrap_err().ends_with("in which all dates exist"));
    }

    #[test]
    fn a_named_zone_settles_it() {
        let unknown = Session::default();
        let clock =
            decide(&unknown, Some("-07:00"), "07-17-2024 02:01:00", "07-17-2024 02:29:00").unwrap();
        assert_eq!(clock.reason, "the samples are in the zone that the import names");
        let session = session(&[25_200]);
        let clock =
            decide(&session, Some("UTC"), "07-17-2024 02:01:00", "07-17-2024 02:29:00").unwrap();
        assert!(clock.reason.ends_with("although so they lie outside the session's testing phase"));
    }
}
