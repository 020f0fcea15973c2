use super::super::testing::{Collected, file, nanos, options};
use super::*;

const POWER: &str = r#"
table = "power"
source = { id = "meter", scope = "gpu-board", reading = "instant", nominal_interval_ms = 100 }
run = { accelerator = "X100", accelerators = 2, model = "m-7b" }
[columns]
t = { column = "time", format = "%d.%m.%Y %H:%M:%S%.f" }
power_w = { column = "P (mW)", unit = "mW" }
energy_j = { column = "E", unit = "kWh" }
device = { column = "gpu", prefix = "gpu" }
memory_used_bytes = { column = "mem", unit = "GiB" }
utilization_percent = { column = "util", unit = "1" }
"#;

fn read(map: &str, bytes: &[u8], options: &ImportOptions) -> Result<Collected, String> {
    let (_folder, path) = file(bytes);
    let mapping = Mapping::parse(Path::new("map.toml"), map).map_err(|error| error.to_string())?;
    let mut collected = Collected::default();
    let read = mapping.read_input(&Input::new(&path), options, &mut collected);
    read.map_err(|error| error.with_causes().replace(&path.display().to_string(), "input"))?;
    Ok(collected)
}

#[test]
fn a_delimited_table_is_read_by_its_units() {
    let table = "time;gpu;P (mW);E;mem;util\n15.01.2025 12:34:56.5;0;412340;0.5;2;0.25\n\
                 15.01.2025 12:34:57.5;1;N/A;;-;\n";
    let collected = read(POWER, table.as_bytes(), &options()).unwrap();
    let first = &collected.power[0];
    assert_eq!(first.t_ns, nanos("2025-01-15T12:34:56.5Z"));
    assert_eq!((first.device.as_str(), first.source.as_str()), ("gpu0", "meter"));
    assert_eq!((first.power_w, first.energy_j), (Some(412.34), Some(1_800_000.0)));
    assert_eq!(
        (first.memory_used_bytes, first.utilization_percent),
        (Some(2_147_483_648), Some(25.0))
    );
    assert_eq!((collected.power[1].power_w, collected.power[1].energy_j), (None, None));
    let negative = table.replace("412340", "-1");
    let collected_negative = read(POWER, negative.as_bytes(), &options()).unwrap();
    assert_eq!(collected_negative.power[0].power_w, None);
    assert!(collected_negative.parts[0].notes.contains(&"negative readings, null: 1".to_owned()));
    let part = &collected.parts[0];
    assert_eq!((part.accelerator.as_deref(), part.accelerators), (Some("X100"), Some(2)));
    assert_eq!(part.clock.zone.as_deref(), Some("UTC"));
}

const REQUESTS: &str = r#"
table = "requests"
[columns]
request_id = { column = "id" }
t_send = { column = "times.sent", unit = "s" }
t_end = { column = "times.done", format = "rfc3339" }
ttft_ns = { column = "ttft", unit = "ms" }
output_tokens = { column = "n" }
itl_ns = { column = "gaps", unit = "s" }
status = { column = "state" }
"#;

#[test]
fn lines_of_json_are_read_by_paths() {
    let lines = r#"{"id": "a", "times": {"sent": 1736944496.123456789, "done": "2025-01-15T12:34:58Z"}, "ttft": 210, "n": 3, "gaps": [0.02, 0.03]}
{"id": "b", "times": {"sent": 1736944497}, "n": null, "state": "timeout"}
"#;
    let collected = read(REQUESTS, lines.as_bytes(), &ImportOptions::default()).unwrap();
    let first = &collected.requests[0];
    // Written digits are kept as far as serde_json's double does: 238 ns steps.
    assert!(first.t_send_ns.unwrap().abs_diff(1_736_944_496_123_456_789) < 250);
    assert_eq!(first.t_end_ns, Some(nanos("2025-01-15T12:34:58Z")));
    assert_eq!(first.itl_ns.as_deref(), Some(&[20_000_000, 30_000_000][..]));
    assert_eq!((first.output_tokens, first.ttft_ns), (Some(3), Some(210_000_000)));
    let second = &collected.requests[1];
    assert_eq!((second.status, second.output_tokens), (RequestStatus::Timeout, None));
}

#[test]
fn a_parquet_table_is_read_by_column() {
    // The archive's own steps.parquet serves as some Parquet file.
    let folder = tempfile::tempdir().unwrap();
    let mut writer = crate::RunWriter::create(folder.path(), "run").unwrap();
    writer
        .step(StepRow {
            step: 1,
            replica: 0,
            t_start_ns: None,
            t_end_ns: 5_000_000,
            active_sequences: 2,
            new_tokens: 2,
            history_tokens: Some(9),
            max_sequence_tokens: None,
            prefill_tokens: 0,
            iterations: 1,
            active_experts: None,
            graph_mode: None,
        })
        .unwrap();
    let run = wattrace_schema::RunManifest::new(
        "run".into(),
        wattrace_schema::RunKind::Serving,
        wattrace_schema::Model { name: "m".into(), ..Default::default() },
        wattrace_schema::Hardware { accelerator: "x".into(), count: 1, ..Default::default() },
    );
    let run = writer.finish(run).unwrap();
    let bytes = std::fs::read(run.join("steps.parquet")).unwrap();
    let map = r#"
        table = "steps"
        [columns]
        t_end = { column = "t_end", unit = "ns" }
        active_sequences = { column = "active_sequences" }
        new_tokens = { column = "new_tokens" }
        history_tokens = { column = "history_tokens" }
    "#;
    let collected = read(map, &bytes, &ImportOptions::default()).unwrap();
    let step = &collected.steps[0];
    assert_eq!((step.t_end_ns, step.new_tokens, step.history_tokens), (5_000_000, 2, Some(9)));
}

/// Every unit of power, energy and memory by one mapping: a prefix is a factor, and a wrong one is refused.
#[test]
fn units_are_told_apart() {
    let table = b"t,v\n1736944496,1500\n";
    let mapped = |target: &str, unit: &str| {
        let column = format!("{target} = {{ column = \"v\", unit = \"{unit}\" }}");
        let power = "power_w = { constant = 1.0, unit = \"W\" }";
        let columns = if target == "power_w" { column } else { format!("{power}\n{column}") };
        let map = RELATIVE
            .replace(", since = \"anchor\"", "")
            .replace("power_w = { column = \"p\", unit = \"W\" }", &columns);
        read(&map, table, &options()).map(|mut collected| collected.power.remove(0))
    };
    let power = |unit| mapped("power_w", unit).map(|row| row.power_w);
    let energy = |unit| mapped("energy_j", unit).map(|row| row.energy_j);
    let memory = |unit| mapped("memory_used_bytes", unit).map(|row| row.memory_used_bytes);
    for (unit, watts) in [("mW", 1.5), ("W", 1500.0), ("kW", 1_500_000.0)] {
        assert_eq!(power(unit), Ok(Some(watts)), "{unit}");
    }
    for (unit, joules) in [
        ("uJ", 0.0015),
        ("mJ", 1.5),
        ("J", 1500.0),
        ("kJ", 1.5e6),
        ("MJ", 1.5e9),
        ("Wh", 5.4e6),
        ("kWh", 5.4e9),
    ] {
        assert_eq!(energy(unit), Ok(Some(joules)), "{unit}");
    }
    for (unit, bytes) in [("MB", 1_500_000_000), ("MiB", 1_572_864_000), ("GB", 1_500_000_000_000)]
    {
        assert_eq!(memory(unit), Ok(Some(bytes)), "{unit}");
    }
    for wrong in [power("J"), energy("W"), power("mw")] {
        assert!(wrong.unwrap_err().contains(".unit\": "));
    }
}

const RELATIVE: &str = r#"
table = "power"
source = { id = "meter", scope = "node", reading = "instant", nominal_interval_ms = 100 }
[columns]
t = { column = "t", unit = "s", since = "anchor" }
power_w = { column = "p", unit = "W" }
"#;

#[test]
fn times_that_count_from_an_unknown_instant_need_an_anchor() {
    let table = b"t,p\n0.5,100\n0.7000000000000001,101\n";
    assert_eq!(
        read(RELATIVE, table, &options()).unwrap_err(),
        "\"input\": columns.t counts from an unknown instant; name its time (--anchor), such as \
         zero=2026-01-31T12:00:00Z"
    );
    // Tenths of a second after 12:34:56 of the two readings, whichever instant the anchor names.
    for (instant, tenths) in [("zero", [5, 7]), ("start", [0, 2]), ("end", [-2, 0])] {
        let anchor = Anchor::parse(&format!("{instant}=2025-01-15T12:34:56Z±20ms")).unwrap();
        let options = ImportOptions { anchor: Some(anchor), ..options() };
        let collected = read(RELATIVE, table, &options).unwrap();
        let times: Vec<i64> = collected.power.iter().map(|row| row.t_ns).collect();
        let at = |tenths: i64| nanos("2025-01-15T12:34:56Z") + tenths * 100_000_000;
        assert_eq!(times, tenths.map(at), "{instant}");
        let clock = &collected.parts[0].clock;
        assert_eq!((clock.base, clock.uncertainty_ns), (ClockBase::Relative, Some(20_000_000)));
    }
    let written = RELATIVE.replace("unit = \"s\"", "format = \"local\"");
    assert!(
        read(&written, table, &options())
            .unwrap_err()
            .ends_with("is \"anchor\"; only times with a unit count from an anchor")
    );
}

#[test]
fn mappings_that_guess_are_refused() {
    let refused = |from: &str, to: &str| {
        let map = POWER.replacen(from, to, 1);
        assert_ne!(map, POWER, "{from} is there");
        Mapping::parse(Path::new("map.toml"), &map).unwrap_err().to_string()
    };
    assert_eq!(
        refused(", unit = \"mW\"", ""),
        "\"map.toml\": key \"columns.power_w.unit\" is missing; it is never guessed"
    );
    assert_eq!(
        refused("unit = \"kWh\"", "unit = \"kwh\""),
        "\"map.toml\": key \"columns.energy_j.unit\": \"kwh\" is no unit of energy; expected one of J, Joules, \
         joules, nJ, uJ, µJ, mJ, kJ, MJ, Wh, kWh, mWh"
    );
    assert_eq!(
        refused("power_w =", "watts ="),
        "\"map.toml\": key \"columns.watts\" is no column; expected one of t, power_w, device, energy_j, \
         temperature_c, sm_clock_mhz, mem_clock_mhz, memory_used_bytes, utilization_percent"
    );
    assert_eq!(
        refused("column = \"E\", unit", "column = \"E\", constant = 1, unit"),
        "\"map.toml\": key \"columns.energy_j\" needs either a column or a constant"
    );
    assert_eq!(
        refused("source =", "sources ="),
        "\"map.toml\": is no mapping: TOML parse error at line 3, column 1\n  |\n3 | sources = { id = \"meter\", \
         scope = \"gpu-board\", reading = \"instant\", nominal_interval_ms = 100 }\n  | ^^^^^^^\nunknown field \
         `sources`, expected one of `table`, `separator`, `skip-lines`, `zone`, `source`, `run`, `columns`"
    );
    assert_eq!(
        Mapping::parse(Path::new("map.toml"), "table = \"steps\"\n[columns]\n")
            .unwrap_err()
            .to_string(),
        "\"map.toml\": key \"columns.t_end\" is missing; such rows need it"
    );
}

#[test]
fn broken_rows_are_named_with_their_column() {
    let table = |row: &str| format!("time,gpu,P (mW),E,mem,util\n{row}\n");
    let strict = ImportOptions { strict: true, ..options() };
    let error = |row: &str| read(POWER, table(row).as_bytes(), &strict).unwrap_err();
    assert_eq!(
        error("15.01.2025 12:34:56,0,many,1,2,0"),
        "\"input\" line 2: column \"P (mW)\": \"many\" is no number"
    );
    assert_eq!(
        error("2025-01-15 12:34:56,0,1,1,2,0"),
        "\"input\" line 2: column \"time\": \"2025-01-15 12:34:56\" is no time of the format \"%d.%m.%Y \
         %H:%M:%S%.f\""
    );
    assert_eq!(
        error("15.01.2025 12:34:56,0,1"),
        "\"input\" line 2: has 3 cells; expected 6, as the header"
    );
    let without_zone = read(POWER, table("").as_bytes(), &ImportOptions::default()).unwrap_err();
    assert!(without_zone.contains("--tz"), "{without_zone}");
    assert_eq!(
        read(POWER, b"time,gpu\n", &options()).unwrap_err(),
        "\"input\": has no column \"E\"; its columns are \"time\", \"gpu\""
    );
    assert_eq!(
        read(POWER, table("x,y").as_bytes(), &options()).unwrap_err(),
        "\"input\": holds no row that the mapping can read: input line 2 skipped: has 2 cells; expected 6, as \
         the header"
    );
}
