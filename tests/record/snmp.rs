//! PDUs, played by Net-SNMP's agent: a script answers for objects of PowerNet-MIB and PDU2-MIB.

use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::peers::{Peer, Recorder, free_udp_port, program};
use crate::support::{Place, device, is_about_lateness, wait_until};

const COMMUNITY: &str = "c0mmunity";
const AUTH_PASSWORD: &str = "auth-s3cret";
const PRIVACY_PASSWORD: &str = "privacy-s3cret";

/// rPDU2DeviceStatusPower of the first PDU, 0.01 kW.
const POWER: &str = "1.3.6.1.4.1.318.1.1.26.4.3.1.5.1";

/// Active power, apparent power and active energy of a Raritan's seventh outlet, without their type.
const OUTLET: &str = "1.3.6.1.4.1.13742.6.5.4.3.1.4.1.7";
const OUTLET_UNIT: &str = "1.3.6.1.4.1.13742.6.3.5.4.1.6.1.7";
const OUTLET_DIGITS: &str = "1.3.6.1.4.1.13742.6.3.5.4.1.7.1.7";

/// Objects that no MIB is known for.
const OWN: &str = "1.3.6.1.4.1.8072.9999.9999.1.0";
const ENERGY: &str = "1.3.6.1.4.1.8072.9999.9999.2.0";

/// Answers the agent's questions: for `get` and an object its number, type and value, or NONE where there is no
/// value. Every answer is appended to `served`. It stays running: of a program that is started for each question
/// the agent keeps the last answer for half a minute.
const SCRIPT: &str = r#"
while read -r verb; do
  [ "$verb" != PING ] || { echo PONG; continue; }
  read -r object
  file=$1/values/${object#.}
  if [ "$verb" = get ] && [ -e "$file" ]; then
    read -r type value <"$file"
    printf '%s\n%s\n%s\n' "$object" "$type" "$value"
    printf '%s %s\n' "${object#.}" "$value" >>"$1/served"
  else
    echo NONE
  fi
done
"#;

/// An agent with files in a place.
struct Agent {
    program: PathBuf,
    folder: PathBuf,
    port: u16,
    process: Option<Peer>,
}

impl Agent {
    /// `None` where the agent is not installed.
    fn start(place: &Place) -> Option<Self> {
        let program = program("snmpd")?;
        let folder = place.path("agent");
        fs::create_dir_all(folder.join("values")).unwrap();
        let port = free_udp_port();
        fs::write(folder.join("answer.sh"), SCRIPT).unwrap();
        let answer = format!("/bin/sh {0}/answer.sh {0}", folder.display());
        let configuration = format!(
            "agentAddress udp:127.0.0.1:{port}\n\
             rocommunity {COMMUNITY} 127.0.0.1\n\
             createUser meter SHA \"{AUTH_PASSWORD}\" AES \"{PRIVACY_PASSWORD}\"\n\
             rouser meter authPriv\n\
             pass_persist .1.3.6.1.4.1.318.1.1.26 {answer}\n\
             pass_persist .1.3.6.1.4.1.13742.6 {answer}\n\
             pass_persist .1.3.6.1.4.1.8072.9999.9999 {answer}\n"
        );
        fs::write(folder.join("snmpd.conf"), configuration).unwrap();
        let mut agent = Self { program, folder, port, process: None };
        agent.boot();
        Some(agent)
    }

    /// Starts the agent and waits until it says that it listens.
    fn boot(&mut self) {
        let log = self.folder.join("agent.log");
        fs::write(&log, "").unwrap();
        let mut command = Command::new(&self.program);
        command.args(["-f", "-Le", "-r", "-C", "-c"]).arg(self.folder.join("snmpd.conf"));
        command.arg("-p").arg(self.folder.join("pid"));
        // Where it keeps how often it was started, which v3 needs. It needs no MIBs, which it would read long.
        command.env("SNMP_PERSISTENT_DIR", self.folder.join("state")).env("MIBS", "");
        let mut process = Peer::start(&mut command, &log);
        wait_until("the agent listens", || {
            let said = fs::read_to_string(&log).unwrap();
            assert!(process.is_running(), "{said}");
            said.contains("NET-SNMP version")
        });
        self.process = Some(process);
    }

    fn crash(&mut self) {
        self.process = None;
    }

    /// Takes a few requests in the place of an agent that crashed, and answers none.
    fn lose_requests(&self) {
        let socket = UdpSocket::bind(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        (0..3).for_each(|_| assert!(socket.recv(&mut [0; 2048]).unwrap() > 0));
    }

    /// Sets an object to `TYPE VALUE`.
    fn set(&self, object: &str, value: &str) {
        // Put in place whole: the script may read at any time.
        let new = self.folder.join("new");
        fs::write(&new, format!("{value}\n")).unwrap();
        fs::rename(new, self.folder.join("values").join(object)).unwrap();
    }

    fn forget(&self, object: &str) {
        fs::remove_file(self.folder.join("values").join(object)).unwrap();
    }

    /// Waits until the value of an object was asked for a few times from now on.
    fn wait_for(&self, object: &str, value: &str) {
        let count = || {
            let served = fs::read_to_string(self.folder.join("served")).unwrap_or_default();
            served.lines().filter(|line| *line == format!("{object} {value}")).count()
        };
        let before = count();
        wait_until(&format!("{value} was asked for"), || count() >= before + 4);
    }

    fn source(&self, objects: &str) -> String {
        format!("snmp=127.0.0.1:{},{objects}", self.port)
    }
}

fn community(place: &Place) -> String {
    place.write("community", &format!("community = {COMMUNITY}\n")).display().to_string()
}

fn user(place: &Place, auth_password: &str) -> String {
    let text = format!(
        "user = meter\nauth_protocol = SHA\nauth_password = {auth_password}\nprivacy_protocol = AES\n\
         privacy_password = {PRIVACY_PASSWORD}\n"
    );
    place.write("user", &text).display().to_string()
}

fn attach<'a>(source: &'a str, login: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = ["attach", "--out", "{}/archive/run", "--keep-free", "0", "--json"];
    let source = ["--power", source, "--snmp-credentials", login];
    words.into_iter().chain(source).chain(more.iter().copied()).collect()
}

fn finish(place: &Place, recorder: Recorder) -> serde_json::Value {
    let output = recorder.interrupt();
    assert!(output.status.success(), "{}", place.stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn count(stdout: &serde_json::Value, cause: &str) -> u64 {
    let failures = stdout["recorder_cost"]["failures"].as_array().unwrap();
    let counts = failures.iter().filter(|failure| failure["cause"] == cause);
    counts.map(|failure| failure["count"].as_u64().unwrap()).sum()
}

fn without_repeats(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.dedup();
    values
}

fn broken_rules(place: &Place) -> Vec<wattrace_trace::Finding> {
    place.broken_rules().into_iter().filter(|finding| !is_about_lateness(finding)).collect()
}

#[test]
fn a_pdu_is_read_by_v2c_in_its_own_units_and_its_failures_lose_nothing_else() {
    let place = Place::new();
    let Some(mut agent) = Agent::start(&place) else { return };
    place.write("board.csv", "t,device,power_w,energy_j\n0,gpu0,100,0\n");
    agent.set(POWER, "gauge 123");
    agent.set(ENERGY, "counter 7");
    let (source, login) = (agent.source(&format!("{POWER},{ENERGY}:Wh")), community(&place));
    let more =
        ["--power", "replay={}/board.csv", "--interval", "snmp=200", "--interval", "replay=50"];
    let recorder = Recorder::start(&mut place.record(&attach(&source, &login, &more)));
    agent.wait_for(POWER, "123");
    agent.set(ENERGY, "counter 8");
    agent.set(POWER, "gauge 613");
    agent.wait_for(POWER, "613");
    // The power is unknown, negative, a text, and no longer there; the counter is there all the time.
    agent.set(POWER, "integer -1");
    agent.wait_for(POWER, "-1");
    agent.set(POWER, "string 500");
    agent.wait_for(POWER, "500");
    agent.forget(POWER);
    agent.wait_for(ENERGY, "8");
    agent.set(POWER, "gauge 0");
    agent.wait_for(POWER, "0");
    // Datagrams that get lost, then another agent.
    agent.crash();
    agent.lose_requests();
    agent.set(POWER, "gauge 250");
    agent.boot();
    agent.wait_for(POWER, "250");
    let stdout = finish(&place, recorder);

    let run = place.run("run");
    let entry = &run.manifest.power_sources[0];
    assert_eq!(
        (entry.scope, entry.counter_wrap_j),
        (
            wattrace_schema::Scope::Pdu,
            // A 32-bit counter of Wh: 2^32 x 3600 J.
            Some(4_294_967_296.0 * 3600.0),
        )
    );
    let pdu = device(&run, "snmp", "pdu0");
    // Counts of 0.01 kW; 0 W is a value here: an outlet may be off.
    assert_eq!(without_repeats(&pdu.power_w.value), [1230.0, 6130.0, 0.0, 2500.0]);
    assert_eq!(without_repeats(&pdu.energy_j.value), [25_200.0, 28_800.0]);
    let negative =
        count(&stdout, "power: the value is negative, as PDUs give for what they do not measure");
    let text = count(&stdout, "power: the value is a text, not a number");
    let absent = count(&stdout, "power: the agent has no such instance of the object");
    let silent = count(&stdout, "no answer in time");
    assert!(negative > 0 && text > 0 && absent > 0 && silent > 0, "{stdout}");
    // Every failed read is a row without power.
    let rows = stdout["rows"]["power.parquet"].as_u64().unwrap();
    let board = device(&run, "replay", "gpu0").power_w.len();
    let failed = negative + text + absent + silent;
    assert_eq!(rows, pdu.power_w.len() as u64 + failed + board as u64);
    assert_eq!(pdu.energy_j.len() as u64, rows - board as u64 - silent);
    let manifest = fs::read_to_string(place.path("archive/run/run.json")).unwrap();
    assert!(!manifest.contains(COMMUNITY));
    assert!(
        manifest.contains("in units of 0.01kW (rPDU2DeviceStatusPower of PowerNet-MIB)"),
        "{manifest}"
    );
    assert!(broken_rules(&place).is_empty(), "{:?}", broken_rules(&place));
}

#[test]
fn a_user_of_v3_reads_encrypted_and_goes_on_after_the_agent_was_restarted() {
    let place = Place::new();
    let Some(mut agent) = Agent::start(&place) else { return };
    agent.set(POWER, "gauge 123");
    let (source, login) = (agent.source(POWER), user(&place, AUTH_PASSWORD));
    let more = ["--interval", "snmp=200"];
    let recorder = Recorder::start(&mut place.record(&attach(&source, &login, &more)));
    agent.wait_for(POWER, "123");
    // It starts again with a higher count of starts, and its time from zero.
    agent.crash();
    agent.set(POWER, "gauge 456");
    agent.boot();
    agent.wait_for(POWER, "456");
    finish(&place, recorder);
    let run = place.run("run");
    let values = &device(&run, "snmp", "pdu0").power_w.value;
    assert_eq!(without_repeats(values), [1230.0, 4560.0]);
    let manifest = fs::read_to_string(place.path("archive/run/run.json")).unwrap();
    assert!(!manifest.contains(AUTH_PASSWORD) && !manifest.contains(PRIVACY_PASSWORD));
    assert!(broken_rules(&place).is_empty(), "{:?}", broken_rules(&place));
}

#[test]
fn units_come_from_the_pdu_or_the_user_and_outlets_are_devices_of_their_own() {
    let place = Place::new();
    let Some(agent) = Agent::start(&place) else { return };
    // Watt (3) with one decimal digit: 1805 is 180.5 W. WattHour (5) without: 2 Wh are 7200 J.
    for (kind, unit, digits, value) in [("5", 3, 1, 1805), ("8", 5, 0, 2)] {
        agent.set(&format!("{OUTLET_UNIT}.{kind}"), &format!("integer {unit}"));
        agent.set(&format!("{OUTLET_DIGITS}.{kind}"), &format!("gauge {digits}"));
        agent.set(&format!("{OUTLET}.{kind}"), &format!("gauge {value}"));
    }
    agent.set(OWN, "integer 421");
    let outlet = agent.source(&format!("{OUTLET}.5,{OUTLET}.8"));
    let (tenths, watts) = (agent.source(&format!("{OWN}:0.1W")), agent.source(OWN));
    let login = community(&place);
    let more = ["--power", &tenths, "--power", &watts, "--seconds", "0.2"];
    let output = place.output(&attach(&outlet, &login, &more));
    assert!(output.status.success(), "{}", place.stderr(&output));
    let run = place.run("run");
    let first = |source, name| device(&run, source, name).power_w.value[0];
    assert_eq!(first("snmp", "pdu0"), 180.5);
    assert_eq!(device(&run, "snmp", "pdu0").energy_j.value[0], 7200.0);
    assert_eq!(first("snmp-2", "pdu1"), 42.1);
    assert_eq!(first("snmp-3", "pdu2"), 421.0);
    // What was assumed is said.
    let notes = serde_json::to_string(&run.manifest.provenance).unwrap();
    assert!(notes.contains("taken in units of W (assumed, since nothing says)"), "{notes}");
}

#[test]
fn what_would_be_a_wrong_number_is_refused_before_anything_is_written() {
    let place = Place::new();
    let Some(agent) = Agent::start(&place) else { return };
    agent.set(POWER, "gauge 123");
    agent.set(&format!("{OUTLET_UNIT}.6"), "integer 4");
    agent.set(&format!("{OUTLET_DIGITS}.6"), "gauge 0");
    agent.set(&format!("{OUTLET}.6"), "gauge 200");
    agent.set(&format!("{OUTLET}.5"), "gauge 200");
    agent.set(OWN, "string 421 W");
    let (right, wrong) = (community(&place), user(&place, "hunter2-hunter2"));
    let refused = |objects: &str, login: &str| {
        let output = place.output(&attach(&agent.source(objects), login, &["--seconds", "1"]));
        assert_eq!(output.status.code(), Some(2));
        assert!(!place.archive().exists());
        let message = place.stderr(&output).replace(&agent.port.to_string(), "PORT");
        let (source, problem) = message.split_once("\": ").unwrap();
        assert!(source.starts_with("error: power source \"snmp=127.0.0.1:PORT,"), "{message}");
        problem.to_owned()
    };
    let messages = [
        refused(&format!("{POWER}:W"), &right),
        refused("1.3.6.1.4.1.318.1.1.12.1.18.0", &right),
        refused("1.3.6.1.4.1.318.1.1.26.4.3.1.9.1", &right),
        refused(&format!("{OUTLET}.6"), &right),
        refused(&format!("{OUTLET}.5"), &right),
        refused(&format!("{POWER},{OWN}:W"), &right),
        refused(&format!("{OWN}:W"), &right),
        refused(&format!("{OWN}.7:W"), &right),
        refused("sysUpTime.0", &right),
        refused(POWER, &wrong),
    ];
    assert!(!messages.concat().contains("hunter2"));
    insta::assert_snapshot!(messages.concat(), @r#"
    1.3.6.1.4.1.318.1.1.26.4.3.1.5.1 counts 0.01kW (rPDU2DeviceStatusPower of PowerNet-MIB), but W is given; leave it out
    1.3.6.1.4.1.318.1.1.12.1.18.0 is rPDUIdentDevicePowerVA of PowerNet-MIB, which is apparent power (VA), more than the power that is drawn; expected active power
    1.3.6.1.4.1.318.1.1.26.4.3.1.9.1 counts energy by 0.1kWh (rPDU2DeviceStatusEnergy of PowerNet-MIB), too coarse for a run; expected 10 Wh or finer, or an object of power
    1.3.6.1.4.1.13742.6.5.4.3.1.4.1.7.6 is apparent power (VA), more than the power that is drawn; expected active power
    the unit of 1.3.6.1.4.1.13742.6.5.4.3.1.4.1.7.5 cannot be read: the agent has no such instance of the object
    two objects give power; expected one of power and one of energy for a device, and another --power for another device
    1.3.6.1.4.1.8072.9999.9999.1.0: the value is a text, not a number
    1.3.6.1.4.1.8072.9999.9999.1.0.7: the agent has no such instance of the object
    "sysUpTime.0" is no object; expected its number, such as 1.3.6.1.4.1.318.1.1.26.4.3.1.5.1 (snmptranslate -On shows it), with a unit after a colon where it is none known
    the log-in fails: Not authenticated; expected an SNMP agent at 127.0.0.1:PORT that lets the user of the credentials read
    "#);
}

#[test]
fn an_agent_that_is_not_there_and_credentials_that_do_not_fit_are_said() {
    let place = Place::new();
    // Nobody listens at a port that was free a moment ago.
    let source = format!("snmp=127.0.0.1:{},{POWER}", free_udp_port());
    let words = ["attach", "--out", "{}/archive/run", "--power", &source, "--seconds", "1"];
    let mut command = place.record(&words);
    let output = command.env_remove("WATTRACE_SNMP_COMMUNITY").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = place.stderr(&output);
    assert!(
        message.contains("no answer in time; expected an SNMP agent at 127.0.0.1:"),
        "{message}"
    );
    assert!(message.contains("that lets community public read"), "{message}");
    let half = place.write("half", "user = meter\nauth_protocol = sha\n").display().to_string();
    let output = place.output(&attach(&source, &half, &["--seconds", "1"]));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        place.stderr(&output),
        "error: the log-in for SNMP: \"{}/half\": auth_password is missing\n"
    );
    assert!(!place.archive().exists());
}
