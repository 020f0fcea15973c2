//! The node's power from its board controller, by DCMI's command "Get Power Reading".
//!
//! `ipmitool` speaks to the controller. One process of it runs for the whole recording as a shell that takes
//! commands on a pipe, since a process for each read would cost forty times as much. The password goes to it
//! through its environment, which only the same user can read.

mod client;

use std::time::{Duration, Instant};

use wattrace_schema::{Reading as ReadingKind, Scope};

pub use client::IpmiLogin;
use client::{Client, ClientCommand};

use super::host::HostPort;
use super::{PowerSource, Reading, Sample, Stream, longest_read};
use crate::clock::{Clock, Span};

/// UDP port of RMCP+.
const PORT: u16 = 623;

/// Network function, command and data of "Get Power Reading" in mode 1, "system power statistics"
/// (DCMI 1.5, section 6.6.1).
const GET_POWER_READING: &str = "raw 0x2c 0x02 0xdc 0x01 0x00 0x00";

/// Identifies replies of DCMI.
const DCMI_GROUP: u8 = 0xdc;

/// Bit of the state that is set while power is being measured.
const STATE_ACTIVE: u8 = 0x40;

/// Time that the first reading may take, with the log-in.
const OPENING: Duration = Duration::from_secs(20);

/// A controller.
#[derive(Debug)]
pub(super) struct Ipmi {
    streams: Vec<Stream>,
    client: Client,
    longest_read: Duration,
    notes: Vec<String>,
}

impl Ipmi {
    /// Logs in and reads once. Without `host` it is the machine's own controller, which needs no log-in.
    pub(super) fn open(
        host: Option<&str>,
        login: Option<&IpmiLogin>,
        id: &str,
    ) -> Result<Self, String> {
        let host = host.map(|host| HostPort::parse(host, PORT)).transpose()?;
        let command = match (&host, login) {
            (None, _) => ClientCommand::local(),
            (Some(host), Some(login)) => ClientCommand::remote(host, login),
            (Some(_), None) => {
                return Err("it needs a user and a password; give them in a file by \
                            --ipmi-credentials, or as WATTRACE_IPMI_USER and WATTRACE_IPMI_PASSWORD"
                    .to_owned());
            }
        };
        let mut client = Client::new(command);
        let deadline = Instant::now() + OPENING;
        let ready = client.ready(deadline);
        let asked = Instant::now();
        let reply = ready.and_then(|()| client.ask(GET_POWER_READING, deadline));
        let answered_after = asked.elapsed();
        let reading = reply
            .and_then(|reply| PowerReading::parse(&reply))
            .map_err(|cause| format!("{cause}{}", hint(&cause)))?;
        let mut stream = Stream::new(id, Scope::Node, ReadingKind::Instant);
        stream.devices.push("node".to_owned());
        stream.answers_within(answered_after);
        let notes = vec![format!(
            "{id}: power as the board controller gives it by DCMI, in whole watts. The controller does not say \
             how often it renews the value or what it averages over; its own statistics (over {} ms) are not \
             recorded",
            reading.period_ms
        )];
        Ok(Self { streams: vec![stream], client, longest_read: Duration::from_millis(800), notes })
    }

    fn power_w(&mut self, deadline: Instant) -> Result<f64, String> {
        let reply = self.client.ask(GET_POWER_READING, deadline)?;
        PowerReading::parse(&reply).map(|reading| f64::from(reading.power_w))
    }
}

/// What might help, for causes that do not say it themselves.
fn hint(cause: &str) -> &'static str {
    if cause.contains("privilege") {
        "; expected a user who may read DCMI power: privilege = administrator in the credentials asks for \
         more rights"
    } else if cause.contains("session") {
        "; expected a controller at that host with IPMI over LAN switched on, and its user and password \
         (older controllers need cipher_suite = 3 in the credentials, others key Kg)"
    } else if cause.contains("open device") {
        "; expected /dev/ipmi0 (modules ipmi_si and ipmi_devintf, and rights to the device), or ipmi=HOST"
    } else if cause.contains("not active") {
        "; ipmitool dcmi power activate starts it on controllers that can"
    } else {
        ""
    }
}

impl PowerSource for Ipmi {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn set_interval_ms(&mut self, interval_ms: f64) {
        self.longest_read = longest_read(interval_ms);
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        let deadline = Instant::now() + self.longest_read;
        // A log-in is no part of the time that dates the reading.
        let ready = self.client.ready(deadline);
        let (span, power_w) = Span::of(clock, || ready.and_then(|()| self.power_w(deadline)));
        let sample = Sample { power_w: power_w.as_ref().ok().copied(), ..Sample::default() };
        let failures = power_w.err().into_iter().collect();
        readings.push(Reading { stream: 0, device: 0, span, sample, failures });
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn take_helper_cpu(&mut self) -> Duration {
        self.client.take_cpu()
    }
}

/// What the controller answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PowerReading {
    power_w: u16,
    /// Of minimum, maximum and average, not of the power.
    period_ms: u32,
}

impl PowerReading {
    /// Reads the bytes that follow the completion code, as hexadecimal text.
    fn parse(reply: &str) -> Result<Self, String> {
        let bytes: Option<Vec<u8>> = reply
            .split_whitespace()
            .map(|word| (word.len() == 2).then(|| u8::from_str_radix(word, 16).ok()).flatten())
            .collect();
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
            return Err(refusal(reply));
        };
        // Group, then power, minimum, maximum, average (u16), time stamp, period (u32) and state.
        let [DCMI_GROUP, low, high, _, _, _, _, _, _, _, _, _, _, p0, p1, p2, p3, state, ..] =
            bytes[..]
        else {
            return Err("the reply is no power reading".to_owned());
        };
        if state & STATE_ACTIVE == 0 {
            return Err("the controller's power measurement is not active".to_owned());
        }
        match u16::from_le_bytes([low, high]) {
            0 => Err("the controller gives 0 W, as those do that cannot measure".to_owned()),
            power_w => Ok(Self { power_w, period_ms: u32::from_le_bytes([p0, p1, p2, p3]) }),
        }
    }
}

/// What ipmitool says instead of bytes, without the codes before the last colon.
fn refusal(reply: &str) -> String {
    let last = reply.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    match last.rsplit_once("): ") {
        Some((_, reason)) => format!("the controller refuses: {reason}"),
        None if last.is_empty() => "the reply is empty".to_owned(),
        None => format!("ipmitool: {last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1234 W (0x04d2), period 1000 ms (0x3e8), active.
    const REPLY: &str = " dc d2 04 0b 00 70 17 16 00 00 f1 53 65 e8 03 00\n 00 40\n";

    #[test]
    fn the_current_power_is_taken_and_none_of_the_statistics() {
        let reading = PowerReading::parse(REPLY).unwrap();
        assert_eq!(reading, PowerReading { power_w: 1234, period_ms: 1000 });
    }

    #[test]
    fn what_is_no_measurement_is_said() {
        let inactive = REPLY.replace(" 40", " 00");
        let zero = REPLY.replace("d2 04", "00 00");
        let short = " dc d2 04\n";
        let other = REPLY.replace("dc d2", "dd d2");
        let command = "Unable to send RAW command (channel=0x0 netfn=0x2c lun=0x0 cmd=0x2 rsp=0xcb): \
                       Requested sensor, data, or record not found\n";
        let texts = [&inactive, &zero, short, &other, command, "", "Broken pipe\n"];
        let causes = texts.map(|text| PowerReading::parse(text).unwrap_err());
        insta::assert_snapshot!(causes.join("\n"), @r#"
        the controller's power measurement is not active
        the controller gives 0 W, as those do that cannot measure
        the reply is no power reading
        the reply is no power reading
        the controller refuses: Requested sensor, data, or record not found
        the reply is empty
        ipmitool: Broken pipe
        "#);
    }
}
