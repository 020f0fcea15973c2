//! Power of an outlet, a phase or a whole power distribution unit (PDU), by SNMP v2c or v3.
//!
//! An SNMP object is a bare integer; its unit stands in a MIB that is not sent along. A wrong unit is off by
//! factors of ten and still looks like power, so units come from [`known`] objects or from the user, and the
//! two have to agree.

mod known;
mod login;
mod session;
mod unit;

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use snmp2::{Oid, Value};
use wattrace_schema::{Reading as ReadingKind, Scope};

use known::Known;
pub use login::SnmpLogin;
use session::{Number, Session};
use unit::{CountUnit, Quantity};

use super::host::HostPort;
use super::{COARSEST_COUNT_J, PowerSource, Reading, Sample, Stream, longest_read, refresh_ms};
use crate::clock::{Clock, Span};

/// UDP port of agents.
const PORT: u16 = 161;

/// Time for each question on opening.
const OPENING: Duration = Duration::from_secs(3);

/// An object that is read, and what one count of it is.
#[derive(Debug, Clone)]
struct Object {
    oid: Oid<'static>,
    unit: CountUnit,
}

/// An agent, asked for the power of one device, its energy counter, or both.
pub(super) struct Snmp {
    streams: Vec<Stream>,
    agent: SocketAddr,
    login: SnmpLogin,
    objects: Vec<Object>,
    longest_read: Duration,
    /// `None` until the next read makes it: a new one forgets late answers and an agent's old engine.
    session: Option<Session>,
    notes: Vec<String>,
}

impl std::fmt::Debug for Snmp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Snmp");
        shown.field("agent", &self.agent).field("objects", &self.objects).finish_non_exhaustive()
    }
}

impl Snmp {
    /// Finds the units of the objects and reads them once. `objects` is `OID[:UNIT]`, or two of them with a
    /// comma between: one of power, one of energy.
    pub(super) fn open(
        host: &str,
        objects: &str,
        login: Option<&SnmpLogin>,
        id: &str,
    ) -> Result<Self, String> {
        let host = HostPort::parse(host, PORT)?;
        let requests: Vec<_> =
            objects.split(',').map(ObjectRequest::parse).collect::<Result<_, _>>()?;
        let agent = (host.host.as_str(), host.port)
            .to_socket_addrs()
            .map_err(|error| format!("\"{}\" cannot be found: {error}", host.host))?
            .next()
            .ok_or_else(|| format!("\"{}\" has no address", host.host))?;
        let login = login.cloned().unwrap_or_default();
        let mut source = Self {
            streams: Vec::new(),
            agent,
            login,
            objects: Vec::new(),
            longest_read: OPENING,
            session: None,
            notes: Vec::new(),
        };
        for request in &requests {
            let (unit, origin) = source.unit_of(request)?;
            if unit.quantity == Quantity::Energy && unit.of(1.0) > COARSEST_COUNT_J {
                return Err(format!(
                    "{} counts energy by {unit} ({origin}), too coarse for a run; expected 10 Wh or finer, or \
                     an object of power",
                    request.text
                ));
            }
            source.notes.push(format!(
                "{id}: {} of {host} is taken in units of {unit} ({origin}). How often the PDU renews it, and \
                 over what time it averages, is not known",
                request.text
            ));
            source.objects.push(Object { oid: request.oid.clone(), unit });
        }
        let quantity = |wanted| move |object: &&Object| object.unit.quantity == wanted;
        for wanted in [Quantity::Power, Quantity::Energy] {
            if source.objects.iter().filter(quantity(wanted)).count() > 1 {
                return Err(format!(
                    "two objects give {wanted}; expected one of power and one of energy for a device, and \
                     another --power for another device"
                ));
            }
        }
        let stream = source.first_read(id)?;
        source.streams.push(stream);
        Ok(source)
    }

    /// The unit of one count, and where it is from.
    fn unit_of(&mut self, request: &ObjectRequest) -> Result<(CountUnit, String), String> {
        let (documented, origin) = match known::find(&request.arcs) {
            None => match &request.unit {
                Some(unit) => return Ok((unit.clone(), "as given".to_owned())),
                None => return Ok((CountUnit::watts(), "assumed, since nothing says".to_owned())),
            },
            Some(Known::Unit { object, mib, unit }) => {
                (CountUnit::parse(unit)?, format!("{object} of {mib}"))
            }
            Some(Known::NotPower { object, mib, what }) => {
                return Err(format!("{} is {object} of {mib}, which is {what}", request.text));
            }
            Some(Known::Described { object, mib, unit, digits }) => (
                self.described(request, unit, digits)?,
                format!("{object} of {mib}, as the PDU says"),
            ),
        };
        match &request.unit {
            Some(given) if !given.is_same(&documented) => Err(format!(
                "{} counts {documented} ({origin}), but {given} is given; leave it out",
                request.text
            )),
            _ => Ok((documented, origin)),
        }
    }

    /// The unit that the PDU itself gives in two further objects.
    fn described(
        &mut self,
        request: &ObjectRequest,
        unit: Oid<'static>,
        digits: Oid<'static>,
    ) -> Result<CountUnit, String> {
        let answers = self.ask(&[unit, digits], Instant::now() + 3 * OPENING);
        let fail = |cause: String| format!("the unit of {} cannot be read: {cause}", request.text);
        let mut answers = answers.map_err(fail)?.into_iter();
        let mut next = || answers.next().unwrap_or_else(|| Err("no value".to_owned()));
        let unit = next().map_err(fail)?;
        let digits = next().map_err(fail)?;
        known::raritan_unit(unit.value, digits.value)
            .map_err(|problem| format!("{} {problem}", request.text))
    }

    /// Reads once; what fails now would fail for the whole recording.
    fn first_read(&mut self, id: &str) -> Result<Stream, String> {
        let oids: Vec<_> = self.objects.iter().map(|object| object.oid.clone()).collect();
        let asked = Instant::now();
        let answers = self.ask(&oids, asked + 3 * OPENING).map_err(|cause| {
            format!(
                "{cause}; expected an SNMP agent at {} that lets {} read",
                self.agent,
                self.login.who()
            )
        })?;
        let mut stream = Stream::new(id, Scope::Pdu, ReadingKind::Instant);
        stream.devices.push("pdu0".to_owned());
        stream.answers_within(asked.elapsed());
        let (mut power_w, mut step_j) = (None, None);
        for (object, answer) in self.objects.iter().zip(answers) {
            let number = answer.map_err(|cause| format!("{}: {cause}", object.oid))?;
            match object.unit.quantity {
                Quantity::Power => power_w = Some(object.unit.of(number.value)),
                Quantity::Energy => {
                    step_j = Some(object.unit.of(1.0));
                    stream.entry.counter_wrap_j =
                        number.wraps_after.map(|counts| object.unit.of(counts));
                }
            }
        }
        stream.entry.counter_refresh_ms = step_j.and_then(|step_j| refresh_ms(step_j, power_w));
        Ok(stream)
    }

    /// Values of objects, in their order. An error is for all of them, and the session is given up then.
    fn ask(
        &mut self,
        oids: &[Oid<'static>],
        deadline: Instant,
    ) -> Result<Vec<Result<Number, String>>, String> {
        let session = match self.session.take() {
            Some(session) => Ok(session),
            None => Session::open(self.agent, &self.login, self.longest_read),
        };
        let mut session = session?;
        let answers = session.get(oids, deadline)?;
        self.session = Some(session);
        Ok(answers)
    }
}

impl PowerSource for Snmp {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn set_interval_ms(&mut self, interval_ms: f64) {
        self.longest_read = longest_read(interval_ms);
        // The time limit belongs to the session.
        self.session = None;
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        let deadline = Instant::now() + self.longest_read;
        let oids: Vec<_> = self.objects.iter().map(|object| object.oid.clone()).collect();
        let (span, answers) = Span::of(clock, || self.ask(&oids, deadline));
        let mut sample = Sample::default();
        let mut failures = Vec::new();
        match answers {
            Err(cause) => failures.push(cause),
            Ok(answers) => {
                for (object, answer) in self.objects.iter().zip(answers) {
                    let quantity = object.unit.quantity;
                    match answer {
                        Ok(number) => {
                            let value = Some(object.unit.of(number.value));
                            match quantity {
                                Quantity::Power => sample.power_w = value,
                                Quantity::Energy => sample.energy_j = value,
                            }
                        }
                        Err(cause) => failures.push(format!("{quantity}: {cause}")),
                    }
                }
            }
        }
        readings.push(Reading { stream: 0, device: 0, span, sample, failures });
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// An object as the command line names it.
#[derive(Debug, Clone)]
struct ObjectRequest {
    /// Its number as it was given.
    text: String,
    arcs: Vec<u64>,
    oid: Oid<'static>,
    unit: Option<CountUnit>,
}

impl ObjectRequest {
    fn parse(text: &str) -> Result<Self, String> {
        let (number, unit) = match text.split_once(':') {
            Some((number, unit)) => (number, Some(CountUnit::parse(unit)?)),
            None => (text, None),
        };
        let error = || {
            format!(
                "\"{number}\" is no object; expected its number, such as 1.3.6.1.4.1.318.1.1.26.4.3.1.5.1 \
                 (snmptranslate -On shows it), with a unit after a colon where it is none known"
            )
        };
        let arcs: Vec<u64> = number
            .strip_prefix('.')
            .unwrap_or(number)
            .split('.')
            .map(|arc| arc.parse::<u32>().map(u64::from))
            .collect::<Result<_, _>>()
            .map_err(|_| error())?;
        let oid = Oid::from(&arcs).map_err(|_| error())?;
        Ok(Self { text: number.to_owned(), arcs, oid, unit })
    }
}

/// A value as a number, or why it is none.
fn number(value: &Value<'_>) -> Result<Number, String> {
    let plain = |value| Ok(Number { value, wraps_after: None });
    match value {
        Value::Integer(value) if *value < 0 => {
            Err("the value is negative, as PDUs give for what they do not measure".to_owned())
        }
        Value::Integer(value) => plain(*value as f64),
        Value::Unsigned32(value) => plain(f64::from(*value)),
        Value::Counter32(value) => {
            Ok(Number { value: f64::from(*value), wraps_after: Some(4_294_967_296.0) })
        }
        Value::Counter64(value) => plain(*value as f64),
        Value::NoSuchObject => Err("the agent has no such object".to_owned()),
        Value::NoSuchInstance => Err("the agent has no such instance of the object".to_owned()),
        Value::EndOfMibView => Err("the agent does not show the object".to_owned()),
        Value::OctetString(_) => Err("the value is a text, not a number".to_owned()),
        _ => Err("the value is no number".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_with_and_without_a_unit() {
        let request = ObjectRequest::parse(".1.3.6.1.4.1.1:0.1W").unwrap();
        assert_eq!(
            (request.text.as_str(), request.oid.to_string()),
            (".1.3.6.1.4.1.1", "1.3.6.1.4.1.1".into())
        );
        assert_eq!(request.unit.unwrap().to_string(), "0.1W");
        for text in ["", "sysUpTime.0", "1..3", "1.3.-6", "9.9", "1.3.6:", "1.3.6:W:W"] {
            ObjectRequest::parse(text).unwrap_err();
        }
    }

    #[test]
    fn what_is_no_number_is_said() {
        assert_eq!(number(&Value::Integer(0)).unwrap().value, 0.0);
        assert_eq!(number(&Value::Counter64(5)).unwrap(), Number { value: 5.0, wraps_after: None });
        assert_eq!(number(&Value::Counter32(5)).unwrap().wraps_after, Some(4_294_967_296.0));
        let causes = [
            Value::Integer(-1),
            Value::NoSuchObject,
            Value::NoSuchInstance,
            Value::OctetString(b"12"),
            Value::Null,
        ]
        .map(|value| number(&value).unwrap_err());
        insta::assert_snapshot!(causes.join("\n"), @r#"
        the value is negative, as PDUs give for what they do not measure
        the agent has no such object
        the agent has no such instance of the object
        the value is a text, not a number
        the value is no number
        "#);
    }
}
