use std::path::Path;

use wattrace_schema::RunManifest;

use super::super::testing::{nanos, options};
use super::*;
use crate::{LoadedRun, ReadOptions, list_archive, read_run};

const BENCH: &[u8] = super::super::vllm_bench::tests::MINIMAL;
const LOG: &str = "INFO 01-15 12:34:55 [loggers.py:199] Engine 000: Iteration(1): 1 context requests, 512 context tokens, 0 generation requests, 0 generation tokens, iteration elapsed time: 210.00 ms
INFO 01-15 12:34:56 [loggers.py:199] Engine 000: Iteration(2): 0 context requests, 0 context tokens, 1 generation requests, 1 generation tokens, iteration elapsed time: 20.00 ms
";
const MAP: &str = r#"
table = "power"
source = { id = "meter", scope = "node", reading = "instant", nominal_interval_ms = 100 }
[columns]
t = { column = "t", unit = "s" }
power_w = { column = "p", unit = "kW" }
device = { constant = "node" }
"#;

/// A folder with the inputs above, and power of a node every 0.1 s.
struct Case {
    folder: tempfile::TempDir,
    inputs: Vec<(Role, String)>,
    offsets: Vec<ClockOffset>,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut power = "t,p\n".to_owned();
        for tenth in 0..20 {
            power += &format!("{}.{},1.5\n", 1_736_944_495 + tenth / 10, tenth % 10);
        }
        for (name, bytes) in [
            ("bench.json", BENCH),
            ("server.log", LOG.as_bytes()),
            ("map.toml", MAP.as_bytes()),
            ("power.csv", power.as_bytes()),
        ] {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let file = |name: &str| folder.path().join(name).display().to_string();
        let inputs = vec![
            (Role::Power, format!("map={}:{}", file("map.toml"), file("power.csv"))),
            (Role::Requests, file("bench.json")),
            (Role::Steps, format!("vllm-log:{}", file("server.log"))),
        ];
        Self { folder, inputs, offsets: Vec::new() }
    }

    fn join(&self) -> Result<(LoadedRun, Vec<String>), String> {
        let inputs = self.inputs.iter().map(|(role, text)| JoinInput::parse(*role, text)).collect();
        let archive = self.folder.path().join("archive");
        let joined = Join { inputs, model_config: None, offsets: self.offsets.clone() };
        let options = ImportOptions { run_id: Some("joined".into()), ..options() };
        let summary = join(&joined, &archive, &options).map_err(|error| {
            assert!(!archive.exists(), "nothing is left of a join that failed");
            error.with_causes().replace(&format!("{}/", self.folder.path().display()), "")
        })?;
        let listing = list_archive(&archive).unwrap();
        Ok((read_run(&listing.runs[0], ReadOptions::default()).unwrap(), summary.notes))
    }
}

fn manifest(run: &LoadedRun) -> &RunManifest {
    &run.run.manifest
}

#[test]
fn inputs_become_one_run_and_keep_their_clocks() {
    let (run, notes) = Case::new().join().unwrap();
    let manifest = manifest(&run);
    assert_eq!(manifest.run_id, "joined");
    assert_eq!(
        (manifest.model.name.as_str(), manifest.engine.name.as_deref()),
        ("m-7b", Some("vllm"))
    );
    assert_eq!(run.run.requests.as_ref().unwrap().len(), 3);
    assert_eq!(run.run.steps.as_ref().unwrap().prefill_tokens, [512, 0]);
    assert_eq!(run.run.power[0].power_w.value, [1500.0; 20]);
    assert_eq!(run.run.power[0].power_w.t_ns[0], 1_736_944_495_000_000_000);
    let inputs: Vec<String> = manifest
        .provenance
        .inputs
        .iter()
        .map(|input| {
            format!(
                "{} {} {} ±{:?}",
                input.role.as_deref().unwrap(),
                input.format,
                input.clock.base.name(),
                input.clock.uncertainty_ns
            )
        })
        .collect();
    assert_eq!(
        inputs,
        [
            "requests vllm-bench monotonic ±Some(1000000000)",
            "steps vllm-log local ±Some(500000000)",
            "power map epoch ±None",
        ]
    );
    // The benchmark's date, 12:34:56, is its end.
    assert_eq!(manifest.stages.formal_end.unwrap().nanos(), nanos("2025-01-15T12:34:56Z"));
    assert!(notes.iter().any(|note| note.starts_with("steps (server.log): ")), "{notes:?}");
}

#[test]
fn known_offsets_move_rows_or_stand_in_the_source() {
    let mut case = Case::new();
    case.offsets = ["power=-1.5s±20ms", "requests=250ms"]
        .map(|text| ClockOffset::parse(text).unwrap())
        .to_vec();
    let (run, _) = case.join().unwrap();
    let manifest = manifest(&run);
    assert_eq!(manifest.power_sources[0].clock_offset_ns, Some(-1_500_000_000));
    assert_eq!(manifest.power_sources[0].clock_offset_uncertainty_ns, Some(20_000_000));
    // The reader puts power on the run's clock.
    assert_eq!(run.run.power[0].power_w.t_ns[0], 1_736_944_493_500_000_000);
    assert_eq!(manifest.stages.formal_end.unwrap().nanos(), nanos("2025-01-15T12:34:56.25Z"));
    let ends = &run.run.requests.as_ref().unwrap().t_end_ns;
    assert_eq!(ends.iter().flatten().max(), Some(&nanos("2025-01-15T12:34:56.25Z")));
}

#[test]
fn what_is_measured_twice_is_refused() {
    let mut case = Case::new();
    case.inputs.push(case.inputs[0].clone());
    assert_eq!(
        case.join().unwrap_err(),
        "\"node\" is measured by \"meter\" (power.csv) and by \"meter_2\" (power.csv), both of scope node; \
         expected one of them, since they cannot be added"
    );
    // A board within the node is kept apart, and a note says so.
    let mut case = Case::new();
    let board = MAP
        .replace("\"node\", reading", "\"gpu-board\", reading")
        .replace("\"node\" }", "\"gpu0\" }");
    std::fs::write(case.folder.path().join("board.toml"), board).unwrap();
    case.inputs.push((Role::Power, case.inputs[0].1.replace("map.toml", "board.toml")));
    let (run, notes) = case.join().unwrap();
    assert_eq!(manifest(&run).power_sources[1].id, "meter_2");
    assert!(
        notes.iter().any(|note| note.contains("node contains gpu-board: they are kept apart")),
        "{notes:?}"
    );
}

#[test]
fn two_readings_of_one_log_are_kept_apart() {
    let mut case = Case::new();
    let log = "timestamp, index, power.draw.average [W], power.draw.instant [W]\n\
               2025/01/15 12:34:55.000, 0, 290.00 W, 300.00 W\n\
               2025/01/15 12:34:56.000, 0, 291.00 W, 301.00 W\n";
    let path = case.folder.path().join("gpu.csv");
    std::fs::write(&path, log).unwrap();
    case.inputs[0] = (Role::Power, path.display().to_string());
    let (run, notes) = case.join().unwrap();
    // The reading of an instant comes first, whatever the order of the columns, so analyses take it.
    let ids: Vec<&str> =
        manifest(&run).power_sources.iter().map(|source| source.id.as_str()).collect();
    assert_eq!(ids, ["power.draw.instant", "power.draw.average"]);
    assert!(
        notes.contains(
            &"\"power.draw.average\" and \"power.draw.instant\" of gpu.csv measure the same devices in \
              scope gpu-board: they are kept apart and never added"
                .to_owned()
        ),
        "{notes:?}"
    );
    // The same log twice would count every board twice.
    case.inputs.push(case.inputs[0].clone());
    std::fs::remove_dir_all(case.folder.path().join("archive")).unwrap();
    assert!(case.join().unwrap_err().contains("since they cannot be added"));
}

#[test]
fn joins_that_cannot_be_say_why() {
    let refused = |role: Role, text: &str| {
        let mut case = Case::new();
        std::fs::write(case.folder.path().join("twice.json"), [BENCH, BENCH].concat()).unwrap();
        std::fs::write(case.folder.path().join("odd"), "odd\n").unwrap();
        case.inputs = vec![(role, text.replace("DIR", &case.folder.path().display().to_string()))];
        case.join().unwrap_err()
    };
    assert_eq!(
        refused(Role::Requests, "DIR/twice.json"),
        "\"twice.json\": holds more than one run; expected one (import it on its own, or keep the run that is \
         meant)"
    );
    assert_eq!(
        refused(Role::Power, "DIR/odd"),
        "\"odd\" looks like no format that can be joined; name one, such as --power FORMAT:odd"
    );
    assert_eq!(
        refused(Role::Power, "mlperf-power:DIR/odd"),
        "mlperf-power finds its runs in folders and cannot be joined; import it on its own"
    );
    for (text, message) in [
        ("power", "expected an input and a duration, such as power=-1.5s±20ms"),
        (
            "gpu=1s",
            "\"gpu=1s\" names no input; expected an input and a duration, such as power=-1.5s±20ms",
        ),
    ] {
        assert_eq!(ClockOffset::parse(text).unwrap_err(), message);
    }
    let error = join(&Join::default(), Path::new("a"), &options()).unwrap_err();
    assert_eq!(error.to_string(), "a join needs inputs; expected --power, --requests or --steps");
}
