//! The locked spec of a run, or one that lies elsewhere.

use std::fs;
use std::path::Path;

use wattrace_schema::RunManifest;
use wattrace_schema::spec::LockedSpec;

use crate::{RunLocation, TraceError};

/// Reads the spec that `run.json` names; `None` for a run that names none.
///
/// # Errors
/// When the file is missing, leads out of the archive or is not a valid spec.
pub fn read_run_spec(
    location: &RunLocation,
    manifest: &RunManifest,
) -> Result<Option<LockedSpec>, TraceError> {
    manifest.spec.as_deref().map(|name| read_spec(&location.file(name)?)).transpose()
}

/// Reads the spec in a file.
///
/// # Errors
/// When the file cannot be read or is not a valid spec; every mistake is named with its line and field.
pub fn read_spec(path: &Path) -> Result<LockedSpec, TraceError> {
    let text = fs::read_to_string(path).map_err(TraceError::io("read spec", path))?;
    LockedSpec::parse(&text).map_err(|errors| TraceError::Spec { path: path.to_owned(), errors })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestArchive, manifest};

    const SPEC: &str = "
hardware: {accelerator: H200, vendor: nvidia, count: 2, hbm_bandwidth_gb_s: 4800}
engine: {name: vllm}
model: {name: qwen-7b, dtype: bf16}
slo: {ttft_p99_ms: 500, tpot_p99_ms: 60}
workload: {request_rates: [1], warmup_s: 0, window_s: 10}
runs: {repeats: 1}
";

    #[test]
    fn a_run_gives_its_own_spec_or_says_what_is_wrong_with_it() {
        let archive = TestArchive::new();
        let mut named = manifest("named");
        named.spec = Some("spec.yaml".into());
        let location = archive.write(named.clone(), |writer| {
            writer.extra_file("spec.yaml", SPEC.as_bytes()).unwrap();
        });
        let spec = read_run_spec(&location, &named).unwrap().unwrap();
        assert_eq!(spec.hash(), LockedSpec::parse(SPEC).unwrap().hash());
        assert!(read_run_spec(&location, &manifest("none")).unwrap().is_none());

        fs::write(location.folder.join("spec.yaml"), SPEC.replace("500", "fast")).unwrap();
        let error = read_run_spec(&location, &named).unwrap_err();
        insta::assert_snapshot!(archive.shown(&error), @r#""ARCHIVE/named/spec.yaml" is not a valid spec: line 5, field "slo.ttft_p99_ms": found the text "fast"; expected a number above 0"#);
        fs::remove_file(location.folder.join("spec.yaml")).unwrap();
        let error = read_run_spec(&location, &named).unwrap_err();
        assert!(archive.shown(&error).contains("cannot read"), "{error}");
        named.spec = Some("../../outside.yaml".into());
        assert!(read_run_spec(&location, &named).is_err());
    }
}
