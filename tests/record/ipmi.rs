//! A node's power from OpenIPMI's simulator of a board controller, which a module of ours teaches DCMI.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::peers::{Peer, Recorder, children, free_udp_port, program, skip};
use crate::support::{Place, device, is_about_lateness, wait_until};

const PASSWORD: &str = "s3cret-W0rd";

/// A simulated controller with files in a place. Its readings are in whole watts.
struct Controller {
    simulator: PathBuf,
    folder: PathBuf,
    port: u16,
    process: Option<Peer>,
}

impl Controller {
    /// `None` where the simulator or the client is not installed.
    fn start(place: &Place) -> Option<Self> {
        let simulator = program("ipmi_sim")?;
        program("ipmitool")?;
        let folder = place.path("controller");
        fs::create_dir_all(folder.join("state")).unwrap();
        let module = build_module(&folder)?;
        let port = free_udp_port();
        let auths = ["callback", "user", "operator", "admin"]
            .map(|level| format!("  allowed_auths_{level} none md2 md5 straight\n"));
        let configuration = format!(
            "name \"bmc\"\nloadlib \"{}\" \"{}\"\nstartlan 1\n  addr 127.0.0.1 {port}\n  priv_limit admin\n{}\
             guid a123456789abcdefa123456789abcdef\nendlan\nuser 2 true \"meter\" \"{PASSWORD}\" admin 10 none md2 md5 straight\n",
            module.display(),
            folder.display(),
            auths.concat(),
        );
        fs::write(folder.join("lan.conf"), configuration).unwrap();
        let setup = "mc_setbmc 0x20\n\
                     mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n\
                     mc_enable 0x20\n";
        fs::write(folder.join("bmc.emu"), setup).unwrap();
        let mut controller = Self { simulator, folder, port, process: None };
        controller.measure("1000 1 1000");
        controller.boot();
        Some(controller)
    }

    /// Starts the simulator, and waits until it answers a ping (ASF 2.0, "presence ping").
    fn boot(&mut self) {
        let folder = &self.folder;
        let mut command = Command::new(&self.simulator);
        command.arg("-c").arg(folder.join("lan.conf")).arg("-f").arg(folder.join("bmc.emu"));
        command.arg("-s").arg(folder.join("state")).arg("-n");
        let log = folder.join("simulator.log");
        let mut process = Peer::start(&mut command, &log);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        socket.connect(("127.0.0.1", self.port)).unwrap();
        let ping = [6, 0, 0xff, 6, 0, 0, 0x11, 0xbe, 0x80, 0, 0, 0];
        wait_until("the simulator answers", || {
            assert!(process.is_running(), "{}", fs::read_to_string(&log).unwrap());
            // Refused while the simulator is not there yet.
            let _ = socket.send(&ping);
            socket.recv(&mut [0; 64]).is_ok()
        });
        self.process = Some(process);
    }

    fn crash(&mut self) {
        self.process = None;
    }

    /// Sets "WATTS ACTIVE PERIOD_MS".
    fn measure(&self, reading: &str) {
        // Put in place whole: the module may read at any time.
        let new = self.folder.join("new");
        fs::write(&new, reading).unwrap();
        fs::rename(new, self.folder.join("reading")).unwrap();
    }

    fn forget(&self) {
        fs::remove_file(self.folder.join("reading")).unwrap();
    }

    /// What it answered so far: "WATTS ACTIVE" or "absent".
    fn served(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("served")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until it has given `answer` some times.
    fn wait_for(&self, answer: &str) {
        let count = || self.served().iter().filter(|served| *served == answer).count();
        wait_until(&format!("\"{answer}\" was served"), || count() >= 4);
    }

    fn source(&self) -> String {
        format!("ipmi=127.0.0.1:{}", self.port)
    }
}

/// Compiles the module; `None` where the simulator's headers are not installed.
fn build_module(folder: &Path) -> Option<PathBuf> {
    if !Path::new("/usr/include/OpenIPMI/mcserv.h").exists() {
        skip("libopenipmi-dev is not installed");
        return None;
    }
    let module = folder.join("dcmi.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/record/ipmi_dcmi.c");
    let status = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .arg(&module)
        .arg(source)
        .status()
        .unwrap();
    assert!(status.success());
    Some(module)
}

fn log_in(place: &Place, password: &str) -> String {
    // Suite 3 is the simulator's best, and naming it spares the search for one.
    let text = format!(
        "user = meter\npassword = {password}\nprivilege = administrator\ncipher_suite = 3\n"
    );
    place.write("login", &text).display().to_string()
}

fn attach<'a>(source: &'a str, login: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = ["attach", "--out", "{}/archive/run", "--keep-free", "0", "--json"];
    let source = ["--power", source, "--ipmi-credentials", login];
    words.into_iter().chain(source).chain(more.iter().copied()).collect()
}

fn finish(place: &Place, recorder: Recorder) -> serde_json::Value {
    let output = recorder.interrupt();
    assert!(output.status.success(), "{}", place.stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn readings_are_those_that_the_controller_gave_and_its_failures_lose_nothing_else() {
    let place = Place::new();
    let Some(mut controller) = Controller::start(&place) else { return };
    place.write("board.csv", "t,device,power_w,energy_j\n0,gpu0,100,0\n");
    let (source, login) = (controller.source(), log_in(&place, PASSWORD));
    let more =
        ["--power", "replay={}/board.csv", "--interval", "ipmi=200", "--interval", "replay=50"];
    let recorder = Recorder::start(&mut place.record(&attach(&source, &login, &more)));
    controller.wait_for("1000 1");
    controller.measure("1234 1 1000");
    controller.wait_for("1234 1");
    // No reading, one of a measurement that is switched off, and one that only who cannot measure gives.
    controller.forget();
    controller.wait_for("absent");
    controller.measure("777 0 1000");
    controller.wait_for("777 0");
    controller.measure("0 1 1000");
    controller.wait_for("0 1");
    controller.measure("1500 1 1000");
    controller.wait_for("1500 1");
    // The password is nowhere that others can read.
    let client = children(recorder.id(), "ipmitool");
    assert_eq!(client.len(), 1, "one client serves all reads");
    let words = fs::read_to_string(format!("/proc/{}/cmdline", client[0])).unwrap();
    assert!(words.contains("meter") && !words.contains(PASSWORD), "{words}");
    // A controller that is gone; the client is started again at every read until it is back.
    controller.crash();
    wait_until("the client was given up", || children(recorder.id(), "ipmitool") != client);
    controller.measure("1700 1 1000");
    controller.boot();
    controller.wait_for("1700 1");
    let stdout = finish(&place, recorder);

    let run = place.run("run");
    assert_eq!(run.manifest.power_sources[0].scope, wattrace_schema::Scope::Node);
    let node = device(&run, "ipmi", "node");
    // An answer that came too late was served and not recorded, so only the order of values is sure.
    let mut seen = node.power_w.value.clone();
    seen.dedup();
    assert_eq!(seen, [1000.0, 1234.0, 1500.0, 1700.0]);
    // Every failed read is a null row, counted by its cause.
    let failures = stdout["recorder_cost"]["failures"].as_array().unwrap();
    let count = |cause: &str| {
        let found = failures.iter().find(|failure| failure["cause"] == cause);
        found.map_or(0, |failure| failure["count"].as_u64().unwrap())
    };
    assert!(
        count("the controller refuses: Requested sensor, data, or record not found") > 0,
        "{stdout}"
    );
    assert!(count("the controller's power measurement is not active") > 0, "{stdout}");
    assert!(count("the controller gives 0 W, as those do that cannot measure") > 0, "{stdout}");
    assert!(count("no answer in time") > 0, "{stdout}");
    let failed: u64 = failures.iter().map(|failure| failure["count"].as_u64().unwrap()).sum();
    let rows = stdout["rows"]["power.parquet"].as_u64().unwrap();
    let board = device(&run, "replay", "gpu0").power_w.len();
    assert_eq!(rows, node.power_w.len() as u64 + failed + board as u64);
    // The client's processor time is in the cost.
    let cost = &stdout["recorder_cost"];
    assert!(cost["helper_cpu_s"].as_f64().unwrap() > 0.0, "{cost}");
    assert!(cost["cpu_s"].as_f64() > cost["helper_cpu_s"].as_f64(), "{cost}");
    let manifest = fs::read_to_string(place.path("archive/run/run.json")).unwrap();
    assert!(!manifest.contains(PASSWORD));
    let broken: Vec<_> =
        place.broken_rules().into_iter().filter(|finding| !is_about_lateness(finding)).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn the_client_dies_with_a_recorder_that_is_killed() {
    let place = Place::new();
    let Some(controller) = Controller::start(&place) else { return };
    let (source, login) = (controller.source(), log_in(&place, PASSWORD));
    let recorder = Recorder::start(&mut place.record(&attach(&source, &login, &[])));
    controller.wait_for("1000 1");
    let client = children(recorder.id(), "ipmitool");
    assert_eq!(client.len(), 1);
    drop(recorder);
    wait_until("the client is gone", || {
        let words = fs::read_to_string(format!("/proc/{}/cmdline", client[0])).unwrap_or_default();
        !words.starts_with("ipmitool")
    });
}

#[test]
fn a_wrong_password_too_few_rights_and_a_missing_log_in_are_said_before_anything_is_written() {
    let place = Place::new();
    let Some(controller) = Controller::start(&place) else { return };
    let source = controller.source();
    let refused = |login: &str| {
        let output = place.output(&attach(&source, login, &["--seconds", "1"]));
        assert_eq!(output.status.code(), Some(2));
        assert!(!place.archive().exists());
        place.stderr(&output).replace(&controller.port.to_string(), "PORT")
    };
    let wrong = refused(&log_in(&place, "hunter2"));
    assert!(!wrong.contains("hunter2"));
    let low = format!("user = meter\npassword = {PASSWORD}\ncipher_suite = 3\n");
    let low = refused(&place.write("low", &low).display().to_string());
    let half = refused(&place.write("half", "user = meter\n").display().to_string());
    let words = ["attach", "--out", "{}/archive/run", "--power", &source];
    let none =
        place.stderr(&place.record(&words).env_remove("WATTRACE_IPMI_USER").output().unwrap());
    let none = none.replace(&controller.port.to_string(), "PORT");
    insta::assert_snapshot!([wrong, low, half, none].concat(), @r#"
    error: power source "ipmi=127.0.0.1:PORT": Unable to establish IPMI v2 / RMCP+ session; expected a controller at that host with IPMI over LAN switched on, and its user and password (older controllers need cipher_suite = 3 in the credentials, others key Kg)
    error: power source "ipmi=127.0.0.1:PORT": the controller refuses: Insufficient privilege level; expected a user who may read DCMI power: privilege = administrator in the credentials asks for more rights
    error: the log-in for IPMI: "{}/half": password is missing
    error: power source "ipmi=127.0.0.1:PORT": it needs a user and a password; give them in a file by --ipmi-credentials, or as WATTRACE_IPMI_USER and WATTRACE_IPMI_PASSWORD
    "#);
}

#[test]
fn the_environment_logs_in_as_well() {
    let place = Place::new();
    let Some(controller) = Controller::start(&place) else { return };
    let source = controller.source();
    let words = [
        "attach",
        "--out",
        "{}/archive/run",
        "--power",
        &source,
        "--seconds",
        "1.5",
        "--keep-free",
        "0",
    ];
    let mut command = place.record(&words);
    command.env("WATTRACE_IPMI_USER", "meter").env("WATTRACE_IPMI_PASSWORD", PASSWORD);
    command.env("WATTRACE_IPMI_PRIVILEGE", "administrator").env("WATTRACE_IPMI_CIPHER_SUITE", "3");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", place.stderr(&output));
    let run = place.run("run");
    assert_eq!(device(&run, "ipmi", "node").power_w.value[0], 1000.0);
}

#[test]
fn a_machine_without_a_client_is_told_what_to_install() {
    let place = Place::new();
    let words = ["attach", "--out", "{}/archive/run", "--power", "ipmi"];
    let output = place.record(&words).env("PATH", place.path("empty")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        place.stderr(&output),
        "error: power source \"ipmi\": the program ipmitool is missing; install it (Debian: apt-get install \
         ipmitool)\n"
    );
}
