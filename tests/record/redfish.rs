//! Board controllers by Redfish: a server of another maker, and one that asks for a log-in.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use wattrace_schema::Scope;

use crate::http_service::{Authority, Reply, Service};
use crate::support::{Place, device, failures, is_about_lateness, python_program, wait_until};

/// A server that ends with the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts sushy-static over the resources beside this file, with a certificate.
fn sushy_static(program: &Path, place: &Place, authority: &Authority) -> (Peer, u16) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let (certificate, key) = authority.certificate_and_key();
    let certificate = place.write("server.pem", &certificate);
    let key = place.write("server.key", &key);
    let resources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/record/redfish");
    let child = Command::new(program)
        .args(["-i", "127.0.0.1", "-p", &port.to_string(), "-m"])
        .arg(resources)
        .arg("-c")
        .arg(certificate)
        .arg("-k")
        .arg(key)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut peer = Peer(child);
    wait_until("sushy-static listens", || {
        assert!(peer.0.try_wait().unwrap().is_none(), "sushy-static has ended");
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    (peer, port)
}

#[test]
fn a_server_of_another_maker_is_read_over_tls() {
    let Some(program) = python_program("sushy-static") else { return };
    let place = Place::new();
    let authority = Authority::new();
    let ca_file = place.write("ca.pem", &authority.pem()).display().to_string();
    let (_peer, port) = sushy_static(&program, &place, &authority);
    let record = |run: &str, path: &str, rest: &[&str]| {
        let out = format!("{{}}/archive/{run}");
        let source = format!("redfish=https://127.0.0.1:{port}{path}");
        let mut words = vec!["attach", "--out", &out, "--power", &source, "--interval"];
        words.extend(["redfish=200", "--seconds", "1", "--keep-free", "0"]);
        words.extend(rest);
        place.output(&words)
    };
    // Its certificate is of nobody's that the system knows.
    let refused = record("new", "", &[]);
    assert_eq!(refused.status.code(), Some(2));
    let message = place.stderr(&refused);
    assert!(message.contains("the certificate is not trusted"), "{message}");
    assert!(!place.archive().exists());

    for (run, path) in [("new", ""), ("old", "/redfish/v1/Chassis/Old")] {
        let output = record(run, path, &["--ca-file", &ca_file]);
        assert!(output.status.success(), "{}", place.stderr(&output));
    }
    let run = place.run("new");
    let source = &run.manifest.power_sources[0];
    assert_eq!((source.id.as_str(), source.scope), ("redfish", Scope::Node));
    assert_eq!(source.accuracy_percent, Some(1.5));
    let node = device(&run, "redfish", "node");
    assert!(node.power_w.len() >= 3, "{}", node.power_w.len());
    assert!(node.power_w.value.iter().all(|power_w| *power_w == 5120.5));
    // Whole kilowatt-hours are of no use.
    assert!(node.energy_j.is_empty());
    let notes = run.manifest.provenance.notes.join("\n");
    assert!(notes.contains("/redfish/v1/Chassis/Node/EnvironmentMetrics"), "{notes}");
    assert!(notes.contains("steps of 1.0 kWh are too coarse"), "{notes}");
    assert!(notes.contains("this machine's, by the tightest bounds of 8 questions"), "{notes}");
    assert!(failures(&run).is_empty(), "{:?}", failures(&run));
    // The mean over ten minutes, 650 W, is not taken.
    let old = place.run("old");
    let node = device(&old, "redfish", "node");
    assert!(node.power_w.value.iter().all(|power_w| *power_w == 731.0));
    let broken: Vec<_> =
        place.broken_rules().into_iter().filter(|finding| !is_about_lateness(finding)).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

/// A controller that wants root and calvin, and whose readings rise from 1000 W. Every sixth answer is
/// refused for another reason.
fn guarded(authority: &Authority) -> Service {
    let metrics = "/redfish/v1/Chassis/1/EnvironmentMetrics";
    Service::start_tls(authority, move |question| {
        // "root:calvin" in base64.
        if question.authorization.as_deref() != Some("Basic cm9vdDpjYWx2aW4=") {
            return Reply::Status(401);
        }
        match question.path.as_str() {
            _ if question.number > 20 && question.number % 6 == 5 => Reply::Status(503),
            "/redfish/v1/Chassis/1" => Reply::json(&json!({
                "ChassisType": "RackMount", "EnvironmentMetrics": { "@odata.id": metrics } })),
            path if path == metrics => Reply::json(&json!({
                "@odata.id": metrics, "PowerWatts": { "Reading": 1000 + question.number } })),
            _ => Reply::Status(404),
        }
    })
}

#[test]
fn a_log_in_appears_nowhere_and_lost_answers_are_null() {
    let place = Place::new();
    let authority = Authority::new();
    let service = guarded(&authority);
    let source = format!("redfish={}", service.url("/redfish/v1/Chassis/1"));
    let words = |rest: &[&'static str]| {
        let mut words = vec!["attach", "--out", "{}/archive/run", "--power", &source];
        words.extend(["--interval", "redfish=50", "--seconds", "1", "--flush", "0.3"]);
        words.extend(["--keep-free", "0", "--ca-file", "{}/ca.pem"]);
        words.extend(rest);
        place.record(&words)
    };
    place.write("ca.pem", &authority.pem());
    place.write("wrong", "user = root\npassword = hobbes\n");
    place.write("right", "user = root\npassword = calvin\n");

    let wrong = words(&["--redfish-credentials", "{}/wrong"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    let message = place.stderr(&wrong);
    assert!(message.contains("the log-in was refused (HTTP 401)"), "{message}");
    let absent = words(&["--redfish-credentials", "{}/none"]).output().unwrap();
    assert!(place.stderr(&absent).contains("--redfish-credentials: \"{}/none\" cannot be read"));
    let half = words(&[]).env("WATTRACE_REDFISH_USER", "root").output().unwrap();
    assert!(place.stderr(&half).contains("WATTRACE_REDFISH_PASSWORD: password is missing"));
    assert!(!place.archive().exists());

    let output = words(&["--redfish-credentials", "{}/right"]).output().unwrap();
    assert!(output.status.success(), "{}", place.stderr(&output));
    let run = place.run("run");
    let node = device(&run, "redfish", "node");
    assert!(node.power_w.len() >= 3);
    // Each reading is that of its own question.
    assert!(
        node.power_w.value.windows(2).all(|pair| pair[0] < pair[1]),
        "{:?}",
        node.power_w.value
    );
    let lost = failures(&run);
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(
        (lost[0].0.as_str(), lost[0].1.as_str()),
        ("node", "the service answered with HTTP 503")
    );
    let manifest = std::fs::read_to_string(place.path("archive/run/run.json")).unwrap();
    for secret in ["calvin", "hobbes", "cm9vd"] {
        assert!(!manifest.contains(secret), "{manifest}");
        for output in [&wrong, &output] {
            assert!(!String::from_utf8_lossy(&output.stderr).contains(secret));
            assert!(!String::from_utf8_lossy(&output.stdout).contains(secret));
        }
    }
    assert!(manifest.contains("--redfish-credentials ***"), "{manifest}");
}

#[test]
fn what_is_not_verified_is_said_loudly() {
    let place = Place::new();
    let service = guarded(&Authority::new());
    let source = format!("redfish={}", service.url("/redfish/v1/Chassis/1"));
    let mut command = place.record(&[
        "attach",
        "--out",
        "{}/archive/run",
        "--power",
        &source,
        "--seconds",
        "0.2",
        "--quiet",
        "--keep-free",
        "0",
        "--insecure",
    ]);
    command.env("WATTRACE_REDFISH_USER", "root").env("WATTRACE_REDFISH_PASSWORD", "calvin");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", place.stderr(&output));
    assert!(
        place.stderr(&output).starts_with("WARNING: --insecure: certificates are NOT verified")
    );
    let notes = place.run("run").manifest.provenance.notes.join("\n");
    assert!(notes.contains("was not verified by its certificate (--insecure)"), "{notes}");
}
