use wattrace_schema::RunKind;

use super::super::ImportOptions;
use super::super::testing::{self, collect, detected, options};

/// A batch with power, and one without.
pub(in super::super) const MINIMAL: &[u8] = b"model,hardware,prompt_size,batch_size,token_size,peak_power,average_power,prompt_time,token_time,e2e_time,tensor_parallel\nllama2-70b,a100-80gb,512,1,128,1.25,0.75,196.25,54.5,7117.75,2\nllama2-70b,a100-80gb,512,2,128,0.0,0.0,300.5,60.0,7920.5,8\n";

#[test]
fn every_batch_is_a_summary_of_claims() {
    let collected = collect("splitwise", MINIMAL, &options()).unwrap();
    let [first, second] = collected.parts.as_slice() else { panic!() };
    let shown: Vec<String> = first
        .claims
        .iter()
        .map(|claim| format!("{} {} {} ({})", claim.metric, claim.value, claim.unit, claim.source))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    ttft_mean_ms 196.25 ms (input line 2 prompt_time)
    tpot_mean_ms 54.5 ms (input line 2 token_time)
    e2e_mean_ms 7117.75 ms (input line 2 e2e_time)
    formal_power_share_of_rated 0.75 1 (input line 2 average_power)
    peak_power_share_of_rated 1.25 1 (input line 2 peak_power)
    ");
    assert_eq!(first.kind, Some(RunKind::Summary));
    assert_eq!((first.accelerators, second.accelerators), (Some(2), Some(8)));
    assert_eq!(
        first.notes,
        [
            "one batch of 1 requests, 512 prompt and 128 output tokens each; power is a share of rated power, \
          which the file does not state"
        ]
    );
    // What was not measured is not claimed.
    assert!(!second.claims.iter().any(|claim| claim.metric.contains("power")));
}

#[test]
fn broken_rows_say_what_is_wrong() {
    let strict = ImportOptions { strict: true, ..options() };
    let text = String::from_utf8(MINIMAL.to_vec()).unwrap();
    let fails =
        |text: String| collect("splitwise", text.as_bytes(), &strict).map(|_| ()).unwrap_err();
    assert_eq!(
        fails(text.replace("196.25", "fast")),
        "\"input\" line 2: prompt_time is \"fast\"; expected a number"
    );
    assert_eq!(
        fails(text.replace("0.75", "-0.75")),
        "\"input\" line 2: average_power is -0.75; expected a number of 0 or more"
    );
    assert_eq!(
        fails(text.replace("7920.5,8", "7920.5")),
        "\"input\" line 3: has 10 cells of 11; expected a whole row"
    );
    assert_eq!(
        fails(text.replace("300.5,60.0,7920.5", "0,0,0")),
        "\"input\" line 3: states no time; expected prompt_time, token_time or e2e_time in ms"
    );
    assert_eq!(
        fails(text.replace("7920.5,8", "7920.5,")),
        "\"input\" line 3: has no tensor_parallel; expected a whole number of 1 or more"
    );
}

#[test]
fn it_is_told_by_its_columns() {
    assert_eq!(
        detected("splitwise", MINIMAL).unwrap(),
        "\"input\" has the columns prompt_size, batch_size, token_size, prompt_time, token_time, e2e_time of \
         Splitwise"
    );
}

/// The published table, read in place where it is.
#[test]
fn the_published_table_loads_as_claims() {
    let Some(folder) = super::super::tests::shared_data("splitwise_sim") else { return };
    let bytes = std::fs::read(folder.join("perf_model.csv")).unwrap();
    let (runs, notes, failed) = testing::imported("splitwise", &bytes, &options());
    assert_eq!((failed.len(), runs.len()), (0, 1260), "{notes:?}");
    let first = &testing::manifest(&runs[0]).claims[0];
    assert_eq!((first.metric.as_str(), first.value), ("ttft_mean_ms", 196.253_219_153_732_1));
}
