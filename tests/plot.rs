//! Figures of the sample archive, drawn by the program.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use support::{Ended, analyzed, sample_archive, wattrace};

fn sample(results: &Path, more: &[&str]) {
    analyzed(&sample_archive(), results, &[&["--bootstrap", "0"], more].concat());
}

fn plot(results: &Path, more: &[&str]) -> Ended {
    let mut arguments = vec!["plot", results.to_str().unwrap()];
    arguments.extend(more);
    wattrace(arguments)
}

/// Kinds of the figures that were drawn, and reasons of those that were not.
fn outcome(ended: &Ended) -> (BTreeSet<String>, Vec<(String, String)>) {
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let drawn = report["files"].as_array().unwrap().iter().map(|file| text(&file["figure"]));
    let not_drawn = report["not_drawn"].as_array().unwrap().iter();
    let reason = |figure: &Value| (text(&figure["figure"]), text(&figure["reason"]));
    (drawn.collect(), not_drawn.map(reason).collect())
}

#[test]
fn the_sample_archive_gives_its_figures_and_names_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    sample(&results, &["--per-request"]);
    let ended = plot(&results, &["--json", "--format", "svg"]);
    let (drawn, not_drawn) = outcome(&ended);
    for name in [
        "power-timeline",
        "request-energy",
        "steady-lifecycle",
        "predicted-measured",
        "ablation-errors",
        "energy-batch-history",
        "step-time",
    ] {
        assert!(drawn.contains(name), "{name}: {ended:?}");
    }
    for (figure, reason) in &not_drawn {
        assert!(!drawn.contains(figure) && reason.starts_with("needs "), "{figure}: {reason}");
    }
    // The sample has no sweep under a spec.
    assert!(not_drawn.iter().any(|(figure, _)| figure == "slo-sweep"), "{not_drawn:?}");
    assert_eq!(ended.code, 0, "{ended:?}");
    let mut figures = 0;
    for file in std::fs::read_dir(results.join("figures")).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(path.extension().unwrap(), "svg");
        let svg = std::fs::read_to_string(&path).unwrap();
        // Every run of the sample is simulated.
        assert!(svg.contains("\nsynthetic data\n"), "{}", path.display());
        figures += 1;
    }
    assert!(figures >= 7, "{figures}");
}

#[test]
fn one_figure_of_one_run_is_the_same_however_many_jobs_draw_it() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    sample(&results, &[]);
    let run_id = support::read_csv(&results.join("runs.csv"))
        .into_iter()
        .find(|row| row["kind"] == "serving")
        .map(|row| row["run_id"].clone())
        .unwrap();
    let draw = |out: &str, jobs: &str| {
        let out = folder.path().join(out);
        let figure = ["--figure", "power-timeline", "--run", run_id.as_str()];
        let ended = plot(
            &results,
            &[&figure[..], &["--jobs", jobs, "--out", out.to_str().unwrap()]].concat(),
        );
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(ended.stdout.lines().count(), 2, "{ended:?}");
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(&out)
            .unwrap()
            .map(|file| file.unwrap().path())
            .map(|path| {
                (
                    path.file_name().unwrap().to_str().unwrap().to_owned(),
                    std::fs::read(&path).unwrap(),
                )
            })
            .collect();
        files.sort();
        files
    };
    let files = draw("one", "1");
    assert_eq!(files[0].0, format!("power-timeline-{run_id}.png"));
    assert_eq!(&files[0].1[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(files, draw("many", "4"));

    // Without the energies of single requests the figure of them is refused by name.
    let ended = plot(&results, &["--figure", "request-energy"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(
        ended.stderr.contains(
            "request-energy not drawn: needs table requests (wattrace analyze --per-request)"
        ),
        "{ended:?}"
    );
    // One that can be drawn and one that cannot: done, with findings.
    let ended = plot(
        &results,
        &["--figure", "request-energy", "--figure", "ablation-errors", "--format", "svg"],
    );
    assert_eq!(ended.code, 1, "{ended:?}");
}

#[test]
fn bad_usage_and_missing_results_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let ended = plot(folder.path(), &[]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("holds no results.json"), "{ended:?}");
    let ended = plot(folder.path(), &["--figure", "pie-chart"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("expected one of power-timeline, request-energy"), "{ended:?}");
    let ended = wattrace(["plot", "--list"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("slo-sweep\n"), "{ended:?}");
}
