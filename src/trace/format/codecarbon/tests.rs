use wattrace_schema::RunKind;

use super::super::ImportOptions;
use super::super::testing::{self, collect, detected, options};

/// A tracker of two boards, and one of a machine without any.
pub(in super::super) const MINIMAL: &[u8] = b"timestamp,project_name,run_id,duration,emissions,emissions_rate,cpu_power,gpu_power,ram_power,cpu_energy,gpu_energy,ram_energy,energy_consumed,cpu_count,cpu_model,gpu_count,gpu_model,tracking_mode,pue
2025-01-15T12:34:56,chat,a1,100.0,0.001,1e-05,50.0,360.0,10.0,0.001,0.01,0.0003,0.0113,8,\"CPU, fast\",2,H200,machine,1.2
2025-01-15T12:35:56,chat,,10.0,,,50.0,0.0,10.0,0.001,0.0,0.0003,0.0013,8,\"CPU, fast\",,,process,1.0
";

fn text() -> String {
    String::from_utf8(MINIMAL.to_vec()).unwrap()
}

#[test]
fn every_tracker_is_a_summary_of_claims_in_joules() {
    let collected = collect("codecarbon", MINIMAL, &options()).unwrap();
    let [boards, none] = collected.parts.as_slice() else { panic!() };
    let shown: Vec<String> = boards
        .claims
        .iter()
        .map(|claim| format!("{} {} {} ({})", claim.metric, claim.value, claim.unit, claim.source))
        .collect();
    // 0.01 kWh are 36,000 J.
    insta::assert_snapshot!(shown.join("\n"), @"
    energy_consumed_j 40680 J (input line 2 energy_consumed)
    gpu_energy_j 36000 J (input line 2 gpu_energy)
    cpu_energy_j 3600 J (input line 2 cpu_energy)
    ram_energy_j 1080 J (input line 2 ram_energy)
    gpu_power_w 360 W (input line 2 gpu_power)
    cpu_power_w 50 W (input line 2 cpu_power)
    ram_power_w 10 W (input line 2 ram_power)
    duration_s 100 s (input line 2 duration)
    emissions_kg 0.001 kg (input line 2 emissions)
    ");
    assert_eq!(boards.kind, Some(RunKind::Summary));
    assert_eq!((boards.accelerator.as_deref(), boards.accelerators), (Some("H200"), Some(2)));
    insta::assert_snapshot!(boards.notes.join("\n"), @"
    totals of one tracker (timestamp 2025-01-15T12:34:56, run_id a1, tracking_mode machine); energies may be modelled, the file does not say which
    pue is 1.2: energy_consumed may hold that factor of the building, the parts do not
    ");
    // A machine without boards claims nothing for them.
    assert!(!none.claims.iter().any(|claim| claim.metric.starts_with("gpu")));
    assert_eq!(none.accelerator.as_deref(), Some("CPU, fast"));
    assert!(collected.power.is_empty() && collected.requests.is_empty());
}

#[test]
fn broken_rows_say_what_is_wrong() {
    let strict = ImportOptions { strict: true, ..options() };
    let fails = |text: String| collect("codecarbon", text.as_bytes(), &strict).unwrap_err();
    assert_eq!(
        fails(text().replace("0.0113", "much")),
        "\"input\" line 2: energy_consumed is \"much\"; expected a number"
    );
    assert_eq!(
        fails(text().replace("0.01,0.0003", "-0.01,0.0003")),
        "\"input\" line 2: gpu_energy is -0.01; expected a number of 0 or more"
    );
    assert_eq!(
        fails(text().replace(",process,1.0", "")),
        "\"input\" line 3: has 17 cells of 19; expected a whole row"
    );
    assert!(fails(text().replace("energy_consumed", "energy")).starts_with(
        "\"input\" line 1: has no column \"energy_consumed\"; its columns are \"timestamp\", \"project_name\""
    ));
    let none = "timestamp,duration,emissions,energy_consumed\n2025-01-15T12:34:56,1.0,0,\n";
    assert_eq!(
        collect("codecarbon", none.as_bytes(), &options()).unwrap_err(),
        "\"input\": holds no row with an energy; input line 2 skipped: states no energy; expected \
         energy_consumed in kWh"
    );
}

#[test]
fn it_is_told_by_its_columns() {
    assert_eq!(
        detected("codecarbon", MINIMAL).unwrap(),
        "\"input\" has the columns timestamp, duration, emissions, energy_consumed of CodeCarbon"
    );
}

/// The published example, read in place where it is.
#[test]
fn the_published_example_loads_as_claims() {
    let Some(folder) = super::super::tests::shared_data("codecarbon") else { return };
    let bytes = std::fs::read(folder.join("emissions.csv")).unwrap();
    let (runs, _, failed) = testing::imported("codecarbon", &bytes, &options());
    assert_eq!(failed, [""; 0]);
    let first = &testing::manifest(&runs[0]).claims[0];
    // 0.0004047892176375 kWh
    assert_eq!(
        (first.metric.as_str(), first.value),
        ("energy_consumed_j", 0.000_404_789_217_637_5 * 3.6e6)
    );
    println!("codecarbon: {} runs of claims", runs.len());
}
