//! What leaves the program opens elsewhere: result tables in pandas, polars and DuckDB, notebooks in
//! Jupyter.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{analyzed, files_below, python_with, read_csv, sample_archive, wattrace};

/// The sample archive, analysed.
fn results(folder: &Path) -> PathBuf {
    let results = folder.join("results");
    analyzed(&sample_archive(), &results, &[]);
    results
}

/// Every table seen through `tool` has the rows, columns, missing values and sums of its CSV file.
fn opens_in(tool: &str, imports: &str) {
    let Some(python) = python_with(imports) else { return };
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peer/open_results.py");
    let output = Command::new(python).arg(script).arg(tool).arg(&results).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let listed: Value =
        serde_json::from_slice(&std::fs::read(results.join("results.json")).unwrap()).unwrap();
    let tables = listed["tables"].as_array().unwrap();
    assert_eq!(seen.as_object().unwrap().len(), tables.len());
    let mut sums = 0;
    for table in tables {
        let name = table["name"].as_str().unwrap();
        let rows = read_csv(&results.join(format!("{name}.csv")));
        assert_eq!(seen[name]["rows"], rows.len(), "{name}");
        for column in table["columns"].as_array().unwrap() {
            let column = column.as_str().unwrap();
            let found = &seen[name]["columns"][column];
            let cells: Vec<&str> = rows.iter().map(|row| row[column].as_str()).collect();
            if let Some(sum) = found["sum"].as_f64() {
                sums += 1;
                let numbers = cells.iter().filter(|cell| !cell.is_empty());
                let expected: f64 = numbers.map(|cell| cell.parse::<f64>().unwrap()).sum();
                let size = expected.abs().max(1.0);
                assert!((sum - expected).abs() <= 1e-9 * size, "{name}.{column}: {sum} {expected}");
                let missing = cells.iter().filter(|cell| cell.is_empty()).count();
                assert_eq!(found["missing"], missing, "{name}.{column}");
            }
        }
    }
    assert!(sums > 50, "only {sums} columns of numbers");
}

#[test]
fn results_open_in_pandas() {
    opens_in("pandas", "pandas, pyarrow");
}

#[test]
fn results_open_in_polars() {
    opens_in("polars", "polars");
}

#[test]
fn results_open_in_duckdb() {
    opens_in("duckdb", "duckdb");
}

fn notebook(results: &Path, out: &Path, more: &[&str]) -> support::Ended {
    let mut arguments = vec!["notebook", results.to_str().unwrap(), "--out", out.to_str().unwrap()];
    arguments.extend(more);
    wattrace(arguments)
}

#[test]
fn notebooks_run_and_leave_no_error() {
    let imports = "nbconvert, ipykernel, pandas, polars, duckdb, matplotlib";
    let Some(python) = python_with(imports) else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("notebooks");
    let ended = notebook(&results(folder.path()), &out, &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 3);
    for path in ended.stdout.lines() {
        let output = Command::new(&python)
            .args(["-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", path])
            .env("IPYTHONDIR", folder.path().join("ipython"))
            .env("MPLBACKEND", "agg")
            .current_dir(&out)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{path}: {said}");
        let executed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let cells = executed["cells"].as_array().unwrap();
        let code = cells.iter().filter(|cell| cell["cell_type"] == "code");
        assert!(code.clone().count() >= 3, "{path}");
        for cell in code {
            assert!(cell["execution_count"].is_number(), "{path}: {cell}");
        }
    }
}

#[test]
fn notebooks_of_a_reader_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path());
    let out = folder.path().join("notebooks");
    assert_eq!(notebook(&results, &out, &[]).code, 0);
    let written = files_below(&out);
    assert!(written.contains_key("tables/runs.parquet"));
    assert!(written.contains_key("results.json"));
    std::fs::write(out.join("sql.ipynb"), "mine").unwrap();
    let again = notebook(&results, &out, &[]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains("sql.ipynb\" exists") || again.stderr.contains("exists and may"));
    assert_eq!(std::fs::read(out.join("sql.ipynb")).unwrap(), b"mine");
    assert_eq!(notebook(&results, &out, &["--force"]).code, 0);
    assert_eq!(files_below(&out), written);
}
