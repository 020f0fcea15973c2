use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use super::super::Credentials;
use super::super::http_service::{Authority, Question, Reply, Service};
use super::*;
use crate::http::HttpOptions;

/// Resources by address, which a test may change.
#[derive(Debug, Clone, Default)]
struct Tree(Arc<Mutex<BTreeMap<String, Reply>>>);

impl Tree {
    fn of<const N: usize>(resources: [(&str, Value); N]) -> Self {
        let tree = Self::default();
        for (path, body) in resources {
            tree.set(path, Reply::json(&body));
        }
        tree
    }

    fn set(&self, path: &str, reply: Reply) {
        self.0.lock().unwrap().insert(path.to_owned(), reply);
    }

    fn reply(&self, question: &Question) -> Reply {
        self.0.lock().unwrap().get(&question.path).cloned().unwrap_or(Reply::Status(404))
    }

    fn serve(&self) -> Service {
        let tree = self.clone();
        Service::start(move |question| tree.reply(question))
    }
}

fn link_to(path: &str) -> Value {
    json!({ "@odata.id": path })
}

/// A service with one chassis, which has this.
fn chassis(properties: &Value) -> Tree {
    let mut chassis =
        json!({ "@odata.type": "#Chassis.v1_21_0.Chassis", "ChassisType": "RackMount" });
    chassis.as_object_mut().unwrap().extend(properties.as_object().unwrap().clone());
    Tree::of([
        ("/redfish/v1/", json!({ "Chassis": link_to("/redfish/v1/Chassis") })),
        ("/redfish/v1/Chassis", json!({ "Members": [link_to("/redfish/v1/Chassis/1")] })),
        ("/redfish/v1/Chassis/1", chassis),
    ])
}

const METRICS: &str = "/redfish/v1/Chassis/1/EnvironmentMetrics";
const POWER: &str = "/redfish/v1/Chassis/1/Power";

fn metrics(reading: &Value) -> Value {
    json!({ "@odata.id": METRICS, "PowerWatts": { "Reading": reading } })
}

fn with_metrics(reading: &Value) -> Tree {
    let tree = chassis(&json!({ "EnvironmentMetrics": link_to(METRICS) }));
    tree.set(METRICS, Reply::json(&metrics(reading)));
    tree
}

fn options() -> SourceOptions {
    let http = HttpOptions { longest: Some(Duration::from_millis(500)), ..HttpOptions::default() };
    SourceOptions { http, ..SourceOptions::default() }
}

fn open(service: &Service, path: &str) -> Result<Redfish, String> {
    Redfish::open(&service.url(path), "redfish", &options())
}

/// Power, energy and failures of one read.
fn read(source: &mut Redfish) -> (Option<f64>, Option<f64>, String) {
    let mut readings = Vec::new();
    source.read(&SystemClock, &mut readings);
    assert_eq!(readings.len(), 1);
    let Reading { sample, failures, .. } = &readings[0];
    (sample.power_w, sample.energy_j, failures.join("; "))
}

fn none(cause: &str) -> (Option<f64>, Option<f64>, String) {
    (None, None, cause.to_owned())
}

#[test]
fn the_newest_resource_of_the_only_chassis_is_read() {
    let tree = with_metrics(&json!(374));
    let service = tree.serve();
    for path in ["", "/", "/redfish/v1", "/redfish/v1/Chassis", "/redfish/v1/Chassis/1", METRICS] {
        let mut source = open(&service, path).unwrap();
        let stream = &source.streams()[0];
        assert_eq!((stream.entry.id.as_str(), stream.entry.scope), ("redfish", Scope::Node));
        assert_eq!(stream.entry.reading, ReadingKind::Instant);
        assert_eq!(stream.devices, ["node"]);
        // Rows are dated by this machine.
        assert_eq!(stream.entry.clock_offset_ns, Some(0));
        assert!(stream.entry.clock_offset_uncertainty_ns.unwrap() < 500_000_000);
        assert_eq!(read(&mut source), (Some(374.0), None, String::new()));
        tree.set(METRICS, Reply::json(&metrics(&json!("380.5"))));
        assert_eq!(read(&mut source), (Some(380.5), None, String::new()));
        tree.set(METRICS, Reply::json(&metrics(&json!(374))));
    }
}

#[test]
fn older_services_tell_the_power_of_the_system_and_its_mean_is_not_taken() {
    let tree = chassis(&json!({ "Power": link_to(POWER), "EnvironmentMetrics": link_to(METRICS) }));
    // There are metrics, but of temperature only.
    tree.set(METRICS, Reply::json(&json!({ "TemperatureCelsius": { "Reading": 30 } })));
    let control = json!({ "Name": "System Input Power", "PowerConsumedWatts": 344,
        "PowerMetrics": { "IntervalInMin": 30, "AverageConsumedWatts": 319 } });
    let tray = json!({ "Name": "GPU tray", "PowerConsumedWatts": 200 });
    tree.set(POWER, Reply::json(&json!({ "@odata.id": POWER, "PowerControl": [tray, control] })));
    let service = tree.serve();
    let mut source = open(&service, "").unwrap();
    assert_eq!(read(&mut source).0, Some(344.0));
    // Two members of which none is the node.
    tree.set(
        POWER,
        Reply::json(&json!({ "@odata.id": POWER, "PowerControl": [
            { "Name": "A", "PowerConsumedWatts": 1 }, { "Name": "B", "PowerConsumedWatts": 2 }] })),
    );
    assert_eq!(read(&mut source), none("the answer tells no power in a known way"));
}

#[test]
fn without_a_reading_of_the_node_power_supplies_are_added() {
    let supplies = "/redfish/v1/Chassis/1/PowerSubsystem/PowerSupplies";
    let tree =
        chassis(&json!({ "PowerSubsystem": link_to("/redfish/v1/Chassis/1/PowerSubsystem") }));
    let members: Vec<Value> = (1..=3).map(|bay| link_to(&format!("{supplies}/{bay}"))).collect();
    let bay = |reading: Value| Reply::json(&json!({ "InputPowerWatts": { "Reading": reading } }));
    tree.set(
        "/redfish/v1/Chassis/1/PowerSubsystem",
        Reply::json(&json!({ "PowerSupplies": link_to(supplies) })),
    );
    tree.set(supplies, Reply::json(&json!({ "Members": members })));
    for (number, state) in [(1, "Enabled"), (2, "Enabled"), (3, "Absent")] {
        let metrics = format!("{supplies}/{number}/Metrics");
        let body = json!({ "Status": { "State": state }, "Metrics": link_to(&metrics) });
        tree.set(&format!("{supplies}/{number}"), Reply::json(&body));
        tree.set(&metrics, bay(json!(400.25)));
    }
    let service = tree.serve();
    let mut source = open(&service, "").unwrap();
    // The bay without a supply does not count: 2 × 400.25 W.
    assert_eq!(read(&mut source).0, Some(800.5));
    assert!(
        source.notes()[0].starts_with("Redfish: node power is the sum of the input power of 2")
    );
    // A supply that stands by draws nothing; one without a reading leaves no sum.
    tree.set(&format!("{supplies}/2/Metrics"), bay(json!(0)));
    assert_eq!(read(&mut source).0, Some(400.25));
    tree.set(&format!("{supplies}/2/Metrics"), bay(Value::Null));
    assert_eq!(read(&mut source), none("power: the reading of a power supply is null"));
}

#[test]
fn of_several_chassis_the_one_that_is_the_node_is_read() {
    let tree = with_metrics(&json!(3000));
    let other = "/redfish/v1/Chassis/2";
    let both = json!({ "Members": [link_to("/redfish/v1/Chassis/1"), link_to(other)] });
    tree.set("/redfish/v1/Chassis", Reply::json(&both));
    let part = |links: Value| {
        Reply::json(
            &json!({ "ChassisType": "Enclosure", "EnvironmentMetrics": link_to("/two"), "Links": links }),
        )
    };
    tree.set("/two", Reply::json(&json!({ "@odata.id": "/redfish/v1/Chassis/2/EnvironmentMetrics", "PowerWatts": { "Reading": 2000 } })));
    tree.set(other, part(json!({ "ContainedBy": link_to("/redfish/v1/Chassis/1") })));
    let service = tree.serve();
    assert_eq!(read(&mut open(&service, "").unwrap()).0, Some(3000.0));
    // Neither contains the other: the user has to say.
    tree.set(other, part(json!({})));
    insta::assert_snapshot!(open(&service, "").unwrap_err(), @"several chassis tell their power, and one may contain another: /redfish/v1/Chassis/1, /redfish/v1/Chassis/2; expected the address of one of them");
    assert_eq!(read(&mut open(&service, other).unwrap()).0, Some(2000.0));
    // Only one of them holds a system.
    tree.set(other, part(json!({ "ComputerSystems": [link_to("/redfish/v1/Systems/1")] })));
    assert_eq!(read(&mut open(&service, "").unwrap()).0, Some(2000.0));
}

#[test]
fn parts_of_the_node_have_their_scope() {
    let gpu = "/redfish/v1/Systems/1/Processors/GPU_0/EnvironmentMetrics";
    let sensor = "/redfish/v1/Chassis/1/Sensors/CPU1Power";
    let module = "/redfish/v1/Chassis/HGX_GPU_1";
    let tree = Tree::of([
        (
            gpu,
            json!({ "@odata.id": gpu, "PowerWatts": { "Reading": 500 }, "EnergyJoules": { "Reading": 12.5 } }),
        ),
        (
            sensor,
            json!({ "@odata.id": sensor, "Id": "CPU1Power", "ReadingType": "Power", "Reading": 90,
            "ReadingUnits": "W", "PhysicalContext": "CPU", "Accuracy": 0.2, "AveragingInterval": "PT0.5S" }),
        ),
        (module, json!({ "ChassisType": "Module", "EnvironmentMetrics": link_to(gpu) })),
    ]);
    let service = tree.serve();
    let mut source = open(&service, gpu).unwrap();
    let stream = &source.streams()[0];
    assert_eq!((stream.entry.id.as_str(), stream.entry.scope), ("redfish-gpu", Scope::GpuBoard));
    assert_eq!(stream.devices, ["GPU_0"]);
    assert_eq!(read(&mut source), (Some(500.0), Some(12.5), String::new()));
    let mut source = open(&service, sensor).unwrap();
    let entry = &source.streams()[0].entry;
    assert_eq!((entry.id.as_str(), entry.scope), ("redfish-cpu", Scope::Cpu));
    assert_eq!((entry.reading, entry.averaging_window_ms), (ReadingKind::Average, Some(500.0)));
    assert_eq!(entry.accuracy_percent, Some(0.2));
    assert_eq!(read(&mut source).0, Some(90.0));
    let message = open(&service, module).unwrap_err();
    assert!(message.starts_with("a chassis of type Module is a part of a node"), "{message}");
}

#[test]
fn a_sensor_stands_in_where_its_excerpt_is_null() {
    let sensor = "/redfish/v1/Chassis/1/Sensors/Total";
    let tree = with_metrics(&Value::Null);
    tree.set(
        METRICS,
        Reply::json(&json!({ "@odata.id": METRICS,
            "PowerWatts": { "Reading": null, "DataSourceUri": sensor } })),
    );
    tree.set(
        sensor,
        Reply::json(&json!({ "@odata.id": sensor, "ReadingType": "Power", "Reading": 812,
            "PhysicalContext": "Chassis" })),
    );
    let service = tree.serve();
    assert_eq!(read(&mut open(&service, "").unwrap()).0, Some(812.0));
}

#[test]
fn whatever_goes_wrong_is_a_null_with_its_cause_and_the_next_read_works() {
    let tree = with_metrics(&Value::Null);
    let service = tree.serve();
    // A value may come later.
    let mut source = open(&service, "").unwrap();
    assert_eq!(read(&mut source), none("power: the reading is null"));
    let causes = [
        (Reply::json(&metrics(&json!(0))), "power: 0 W, which a machine that runs does not draw"),
        (Reply::json(&metrics(&json!(1e9))), "power: more than is possible"),
        (Reply::json(&metrics(&json!("hot"))), "the answer tells no power in a known way"),
        (Reply::json(&json!({})), "the answer tells no power in a known way"),
        (Reply::json(&json!([1])), "the answer is no JSON object"),
        (Reply::Text("<html>".into()), "the answer is no JSON object"),
        (Reply::Status(401), "the log-in was refused (HTTP 401)"),
        (Reply::Status(404), "the service answered with HTTP 404"),
        (Reply::Status(503), "the service answered with HTTP 503"),
        (Reply::Noise, "the answer is no HTTP"),
        (Reply::Silence, "no answer in time"),
    ];
    for (number, (reply, cause)) in causes.into_iter().enumerate() {
        tree.set(METRICS, reply);
        assert_eq!(read(&mut source), none(cause));
        let power_w = 300.0 + number as f64;
        tree.set(METRICS, Reply::json(&metrics(&json!(power_w))));
        assert_eq!(read(&mut source), (Some(power_w), None, String::new()));
    }
    drop(service);
}

#[test]
fn a_service_that_goes_away_is_a_cause_too() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let message = Redfish::open(&url, "redfish", &options()).unwrap_err();
    assert!(message.starts_with("\"/redfish/v1/\": connection refused: "), "{message}");
}

#[test]
fn a_service_that_does_not_speak_tls_is_said() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 512]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let message = Redfish::open(&url, "redfish", &options()).unwrap_err();
    assert!(message.starts_with("\"/redfish/v1/\": no TLS connection: "), "{message}");
}

#[test]
fn one_connection_is_kept_and_made_anew_when_the_service_closed_it() {
    let tree = with_metrics(&json!(374));
    let service = tree.serve();
    let mut source = open(&service, "").unwrap();
    read(&mut source);
    assert_eq!(service.connections(), 1);
    tree.set(METRICS, Reply::TextAndClose(metrics(&json!(375)).to_string()));
    for _ in 0..5 {
        assert_eq!(read(&mut source).0, Some(375.0));
    }
    assert!(service.connections() >= 5, "{}", service.connections());
}

#[test]
fn counters_are_recorded_where_their_steps_are_fine() {
    let with_energy = |power: f64, energy: Value| {
        let tree = with_metrics(&json!(power));
        let body = json!({ "@odata.id": METRICS, "PowerWatts": { "Reading": power },
            "EnergykWh": { "Reading": energy } });
        tree.set(METRICS, Reply::json(&body));
        (tree.serve(), tree)
    };
    // 0.0005 kWh = 1800 J, in steps of 0.0001 kWh = 360 J, which 100 W use up in 3.6 s.
    let (service, tree) = with_energy(100.0, json!(0.0005));
    let mut source = open(&service, "").unwrap();
    assert_eq!(source.streams()[0].entry.counter_refresh_ms, Some(3600.0));
    assert_eq!(read(&mut source), (Some(100.0), Some(1800.0), String::new()));
    tree.set(METRICS, Reply::json(&metrics(&json!(100))));
    assert_eq!(read(&mut source), (Some(100.0), None, "energy: the reading is null".into()));
    // Whole kilowatt-hours.
    let (service, _) = with_energy(374.0, json!(325_675));
    let mut source = open(&service, "").unwrap();
    assert_eq!(read(&mut source), (Some(374.0), None, String::new()));
    assert!(source.notes().iter().any(|note| note.contains("its steps of 1.0 kWh are too coarse")));
}

#[test]
fn the_clock_of_the_service_is_compared_with_this_machine() {
    // It says 1994 in every answer.
    let service = with_metrics(&json!(374)).serve();
    let source = open(&service, "").unwrap();
    let note = source.notes().into_iter().find(|note| note.contains("the clock of")).unwrap();
    assert!(
        note.contains(" behind this machine's, by the tightest bounds of 8 questions"),
        "{note}"
    );
    // A manager whose clock is finer is asked instead: a year 9 digits after the point.
    let tree = with_metrics(&json!(374));
    let root = json!({ "Chassis": link_to("/redfish/v1/Chassis"), "Managers": link_to("/redfish/v1/Managers") });
    tree.set("/redfish/v1/", Reply::json(&root));
    tree.set("/redfish/v1/Managers", Reply::json(&json!({ "Members": [link_to("/m")] })));
    let answers = tree.clone();
    let service = Service::start(move |question| match question.path.as_str() {
        "/m" => {
            let ahead_ns = SystemClock.wall_ns() + 5_000_000_000;
            let time = wattrace_schema::TimestampNs::from_nanos(
                ahead_ns / 1_000_000 * 1_000_000 + 1_000_000,
            );
            Reply::json(&json!({ "DateTime": time.to_string() }))
        }
        _ => answers.reply(question),
    });
    let source = open(&service, "").unwrap();
    let note = source.notes().into_iter().find(|note| note.contains("the clock of")).unwrap();
    assert!(note.contains("is 5.0") || note.contains("is 4.9"), "{note}");
    assert!(note.contains("ahead of"), "{note}");
}

/// Answers only whoever logs in as `root` with `calvin`.
fn guarded(tree: &Tree, question: &Question) -> Reply {
    // "root:calvin" in base64, by coreutils: printf root:calvin | base64
    match question.authorization.as_deref() {
        Some("Basic cm9vdDpjYWx2aW4=") => tree.reply(question),
        _ => Reply::Status(401),
    }
}

fn login(password: &str) -> Option<Credentials> {
    Some(Credentials { user: "root".into(), password: password.into() })
}

#[test]
fn log_ins_are_taken_or_refused_and_never_shown() {
    let tree = with_metrics(&json!(374));
    let service = Service::start(move |question| guarded(&tree, question));
    let url = service.url("");
    let with = |redfish_login| SourceOptions { redfish_login, ..options() };
    let mut source = Redfish::open(&url, "redfish", &with(login("calvin"))).unwrap();
    assert_eq!(read(&mut source).0, Some(374.0));
    assert!(!format!("{source:?}").contains("cm9vd"));
    let message = Redfish::open(&url, "redfish", &with(login("hobbes"))).unwrap_err();
    assert_eq!(message, "\"/redfish/v1/\": the log-in was refused (HTTP 401)");
    let message = Redfish::open(&url, "redfish", &with(None)).unwrap_err();
    assert!(message.ends_with("(HTTP 401): no user and password were given"), "{message}");
    // A password does not go through a network in the clear.
    let message = Redfish::open("http://192.0.2.1", "redfish", &with(login("calvin"))).unwrap_err();
    assert!(message.starts_with("would send the password unencrypted"), "{message}");
    assert!(!message.contains("calvin"), "{message}");
}

#[test]
fn certificates_are_verified_unless_told_otherwise() {
    let tree = with_metrics(&json!(374));
    let authority = Authority::new();
    let service = Service::start_tls(&authority, move |question| guarded(&tree, question));
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    let open_with = |http: HttpOptions| {
        let http = HttpOptions { longest: Some(Duration::from_secs(20)), ..http };
        let options = SourceOptions { http, redfish_login: login("calvin"), ..options() };
        Redfish::open(&service.url(""), "redfish", &options)
    };
    let message = open_with(HttpOptions::default()).unwrap_err();
    assert!(message.contains("the certificate is not trusted: "), "{message}");
    assert!(message.contains("--ca-file"), "{message}");
    // Another authority is no better.
    let known = |file: &std::path::Path| HttpOptions {
        ca_file: Some(file.into()),
        ..HttpOptions::default()
    };
    std::fs::write(&ca_file, Authority::new().pem()).unwrap();
    open_with(known(&ca_file)).unwrap_err();
    std::fs::write(&ca_file, "no certificate").unwrap();
    let message = open_with(known(&ca_file)).unwrap_err();
    assert!(message.ends_with("which holds no certificate in PEM"), "{message}");
    std::fs::write(&ca_file, authority.pem()).unwrap();
    let mut source = open_with(known(&ca_file)).unwrap();
    assert_eq!(read(&mut source).0, Some(374.0));
    assert!(!source.notes().join(" ").contains("--insecure"));
    let insecure = HttpOptions { insecure: true, ..HttpOptions::default() };
    let mut source = open_with(insecure).unwrap();
    assert_eq!(read(&mut source).0, Some(374.0));
    assert!(source.notes().join(" ").contains("was not verified by its certificate (--insecure)"));
}

#[test]
fn digits_tell_the_step_of_a_counter_and_lengths_of_time_are_read() {
    let step = |body: Value| counter_step_j(body.as_object().unwrap());
    assert_eq!(step(json!({ "EnergykWh": { "Reading": 325_675 } })), Some(3.6e6));
    assert_eq!(step(json!({ "EnergykWh": { "Reading": 3.0 } })), Some(3.6e6));
    assert_eq!(step(json!({ "EnergykWh": { "Reading": "3.250" } })), Some(3600.0));
    assert_eq!(step(json!({ "ReadingType": "EnergyJoules", "Reading": 12 })), Some(1.0));
    assert_eq!(step(json!({ "PowerWatts": { "Reading": 12 } })), None);
    let lengths = ["PT0.5S", "PT1M30S", "PT1H", "PT", "PT0S", "P1D", "P1DT1S", "soon", "PT5"];
    let read: Vec<_> = lengths.map(duration_ms).to_vec();
    let (half, minutes, hour) = (Some(500.0), Some(90_000.0), Some(3_600_000.0));
    assert_eq!(read, [half, minutes, hour, None, None, None, None, None, None]);
}

/// DMTF's mock values, read where they lie.
#[test]
fn the_values_of_a_public_mockup_are_read() {
    let folder = std::env::var_os("WATTRACE_SHARED_DATA").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        Into::into,
    );
    let Ok(files) = std::fs::read_dir(folder.join("redfish_mockup")) else {
        println!("skipped: {} has no redfish_mockup", folder.display());
        return;
    };
    let tree = Tree::default();
    for file in files {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).unwrap();
            tree.set(&format!("/redfish/v1/{}", name.replace('_', "/")), Reply::Text(text));
        }
    }
    let service = tree.serve();
    let power_w = |path: &str| {
        let path = format!("/redfish/v1/Chassis/1U/{path}");
        open(&service, &path).map(|mut source| read(&mut source).0)
    };
    // As they stand in the files.
    assert_eq!(power_w("EnvironmentMetrics"), Ok(Some(374.0)));
    assert_eq!(power_w("Power"), Ok(Some(344.0)));
    assert_eq!(power_w("Sensors/CPU1Power"), Ok(Some(90.0)));
    power_w("Sensors/PS1Energy").unwrap_err();
    power_w("PowerSubsystem/PowerSupplies/Bay1/Metrics").unwrap_err();
}
