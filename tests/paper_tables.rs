//! Tables of papers, and their check against what was published, through the program.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::{Ended, analyzed, run, sample_archive, shared_data, wattrace};

/// A file of our own in `tests/paper/`.
fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/paper").join(name)
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn analyze(archive: &Path, results: &Path) {
    analyzed(archive, results, &["--bootstrap", "0"]);
}

/// The results of two small runs on different engines, with claims that hold, do not hold and cannot be
/// checked.
fn results(folder: &Path) -> PathBuf {
    let archive = folder.join("archive");
    let claim = |metric: &str, value: f64| json!({"metric": metric, "value": value, "unit": "J/token", "source": "table 1"});
    let mut first = run("first");
    // 9000 J over 1200 tokens is 7.5 J/token.
    first.manifest["claims"] =
        json!([claim("formal_j_per_token", 7.5), claim("lifecycle_j_per_token", 7.6)]);
    first.write(&archive);
    let mut second = run("second");
    second.manifest["engine"]["name"] = json!("other-engine");
    second.manifest["claims"] = json!([claim("steady_j_per_token", 7.5)]);
    second.write(&archive);
    let results = folder.join("results");
    analyze(&archive, &results);
    results
}

fn tables(results: &Path, more: &[&str]) -> Ended {
    let mut arguments = vec!["tables".as_ref(), results.as_os_str()];
    arguments.extend(more.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
    wattrace(arguments)
}

#[test]
fn published_power_averages_pass_and_a_changed_digit_fails() {
    let Some(data) = shared_data() else {
        println!("skipped: the published logs (../shared/data) are not beside this checkout");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (archive, results) = (folder.path().join("archive"), folder.path().join("results"));
    let ended = wattrace([
        "import".as_ref(),
        "mlperf-power".as_ref(),
        data.join("mlperf_v4.1_power").as_os_str(),
        "--out".as_ref(),
        archive.as_os_str(),
    ]);
    assert_eq!(ended.code, 0, "{ended:?}");
    analyze(&archive, &results);
    let paper = own("mlperf-power.toml");
    let check = |published: &Path, more: &[&str]| {
        let (paper, published) = (paper.to_str().unwrap(), published.to_str().unwrap());
        let mut arguments = vec!["--paper", paper, "--against", published];
        arguments.extend(more);
        tables(&results, &arguments)
    };
    let published = own("mlperf-power.csv");
    let ended = check(&published, &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("4 published values: 4 within tolerance, 0 off"), "{ended:?}");
    println!("{}", ended.stdout);

    let text = std::fs::read_to_string(&published).unwrap();
    for (right, wrong) in
        [("6,280.2140", "6,280.2141"), ("6152.9844", "6152.9834"), ("0.24357", "0.24358")]
    {
        assert!(text.contains(right));
        let changed = write(folder.path(), "changed.csv", &text.replace(right, wrong));
        let ended = check(&changed, &[]);
        assert_eq!(ended.code, 1, "{wrong}: {ended:?}");
        assert!(ended.stdout.contains("3 within tolerance, 1 off"), "{ended:?}");
        assert_eq!(check(&changed, &["--tolerance", "0.01"]).code, 0, "{wrong}");
    }
}

#[test]
fn built_in_tables_are_made_from_the_sample_archive() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let sample = sample_archive();
    analyze(&sample, &results);
    let ended = tables(&results, &["--paper", "lifecycle", "--table", "energy-per-token"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("Synthetic data (simulated, not measured)"), "{ended:?}");
    assert!(ended.stdout.contains("release-not-closed"), "gaps are explained: {ended:?}");
    let ended = tables(&results, &["--paper", "decode-energy"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for table in ["coefficients", "heldout-errors", "ablations", "leave-one-cell-out", "transfer"] {
        assert!(ended.stdout.contains(&format!("**{table}.**")), "{table}: {ended:?}");
    }
    let ended = tables(&results, &["--paper", "decode-energy", "--format", "latex"]);
    assert!(ended.stdout.contains("\\toprule"), "{ended:?}");
    assert_eq!(ended.stdout.matches('{').count(), ended.stdout.matches('}').count());
}

#[test]
fn what_was_printed_passes_its_own_check() {
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path());
    let csv = folder.path().join("tables.csv");
    let name = csv.to_str().unwrap();
    let made = tables(
        &results,
        &["--paper", "lifecycle", "--table", "service-speed", "--format", "csv", "--out", name],
    );
    assert_eq!((made.code, made.stdout.as_str()), (0, ""), "{made:?}");
    let check = || {
        tables(&results, &["--paper", "lifecycle", "--table", "service-speed", "--against", name])
    };
    assert_eq!(check().code, 0, "{:?}", check());
    // 1200 tokens in 30 s.
    let text = std::fs::read_to_string(&csv).unwrap();
    assert!(text.contains("test-engine,40.00,"), "{text}");
    std::fs::write(&csv, text.replacen("test-engine,40.00,", "test-engine,40.10,", 1)).unwrap();
    let ended = check();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.contains("40.10") && ended.stdout.contains("off"), "{ended:?}");
}

#[test]
fn a_table_that_the_results_do_not_hold_costs_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path());
    let text = "
[[table]]
name = \"first\"
source = \"tides\"
columns = [{ heading = \"height\", column = \"height_m\" }]

[[table]]
name = \"second\"
source = \"runs\"
rows = [\"run_id\"]
columns = [{ heading = \"energy\", unit = \"J/token\", column = \"formal_j_per_token\", decimals = 2 }]
";
    let paper = write(folder.path(), "paper.toml", text);
    let paper = paper.to_str().unwrap();
    let ended = tables(&results, &["--paper", paper]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("table \"first\" was not made: the results hold no table \"tides\""),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("| first  |             7.50 |"), "{ended:?}");
    let ended = tables(&results, &["--paper", paper, "--json"]);
    let parsed: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        parsed["tables"][1]["rows"][0]["energy (J/token)"],
        json!({"value": 7.5, "printed": "7.50"})
    );
    // Alone, it is no usable input.
    assert_eq!(tables(&results, &["--paper", paper, "--table", "first"]).code, 3);

    let wrong = write(folder.path(), "wrong.toml", &text.replace("formal_j", "former_j"));
    let ended = tables(&results, &["--paper", wrong.to_str().unwrap()]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(
        ended.stderr.contains("wrong.toml\" line 11, in \"column\": table \"runs\" has no column \"former_j_per_token\""),
        "{ended:?}"
    );
}

#[test]
fn claims_are_checked_to_their_last_digit() {
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path());
    let ended = tables(&results, &["--paper", "claims", "--json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let parsed: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        parsed["counts"],
        json!({"within": 1, "off": 1, "cannot_be_had": 1, "not_published": 0})
    );
    let ended = tables(&results, &["--paper", "claims"]);
    assert!(ended.stdout.contains("too-few-requests"), "{ended:?}");
    assert!(
        ended.stdout.contains("3 published values: 1 within tolerance, 1 off, 1 cannot be had"),
        "{ended:?}"
    );
}

#[test]
fn results_of_an_older_metric_version_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path());
    let path = results.join("results.json");
    let mut manifest: Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let version = manifest["metric_definitions_version"].as_u64().unwrap();
    manifest["metric_definitions_version"] = json!(version - 1);
    std::fs::write(&path, manifest.to_string()).unwrap();
    let published = own("mlperf-power.csv");
    let own_paper = own("mlperf-power.toml");
    let own_paper = own_paper.to_str().unwrap();
    let commands: [&[&str]; 5] = [
        &["--paper", "lifecycle"],
        &["--paper", "decode-energy", "--format", "csv"],
        &["--paper", "goodput", "--json"],
        &["--paper", "claims"],
        &["--paper", own_paper, "--against", published.to_str().unwrap()],
    ];
    for command in commands {
        let ended = tables(&results, command);
        assert_eq!((ended.code, ended.stdout.as_str()), (3, ""), "{command:?}: {ended:?}");
        let message = format!(
            "was written with version {} of the metric definitions, and this program has version {version}",
            version - 1
        );
        assert!(ended.stderr.contains(&message), "{command:?}: {ended:?}");
        assert!(ended.stderr.contains(path.to_str().unwrap()), "{command:?}: {ended:?}");
    }
}

#[test]
fn bad_usage_is_said_and_has_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path());
    let code = |more: &[&str], message: &str| {
        let ended = tables(&results, more);
        assert!(ended.stderr.contains(message), "{more:?}: {ended:?}");
        ended.code
    };
    assert_eq!(
        code(&["--paper", "nature"], "expected lifecycle, decode-energy, goodput, claims"),
        2
    );
    assert_eq!(
        code(&["--paper", "lifecycle", "--table", "x"], "expected one of energy-per-token"),
        2
    );
    assert_eq!(code(&["--paper", "nowhere.toml"], "cannot read declaration"), 3);
    assert_eq!(
        code(&["--paper", "lifecycle", "--against", "nowhere.csv"], "cannot read published"),
        3
    );
    assert_eq!(code(&["--paper", "lifecycle", "--tolerance", "1"], "--against"), 2);
    assert_eq!(code(&["--paper", "lifecycle", "--tolerance", "-1"], "zero or more"), 2);
    let empty = write(folder.path(), "empty.csv", "task,model,engine\n");
    let against =
        ["--paper", "lifecycle", "--table", "service-speed", "--against", empty.to_str().unwrap()];
    assert_eq!(code(&against, "no published value"), 3);
    assert_eq!(tables(folder.path(), &["--paper", "lifecycle"]).code, 3);
}

#[test]
fn a_built_in_declaration_is_a_start_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path());
    let printed = wattrace(["tables", "--paper", "lifecycle", "--declaration"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let paper = write(folder.path(), "mine.toml", &printed.stdout);
    let mine = tables(&results, &["--paper", paper.to_str().unwrap()]);
    assert_eq!(mine.stdout, tables(&results, &["--paper", "lifecycle"]).stdout);
}
