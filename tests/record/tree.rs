//! What the recorder is built from.

use std::process::Command;

#[test]
fn none_of_the_analysis_stack_is_linked() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--package", "wattrace-record", "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"wattrace-trace"), "{text}");
    let is_foreign = |name: &&str| {
        name.starts_with("polars")
            || name.starts_with("plotters")
            || ["wattrace-analysis", "wattrace-report", "wattrace-figures", "nalgebra"]
                .contains(name)
    };
    let foreign: Vec<_> = names.into_iter().filter(is_foreign).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}
