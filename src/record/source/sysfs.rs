//! Small files under `/sys`.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders below `parent` whose names begin with `prefix`, in the order of the number that follows.
pub(super) fn folders(parent: &Path, prefix: &str) -> Result<Vec<PathBuf>, String> {
    let shown = parent.display();
    let entries =
        fs::read_dir(parent).map_err(|error| format!("\"{shown}\" cannot be listed: {error}"))?;
    let mut folders: Vec<(Vec<u64>, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            // `intel-rapl:0` and `intel-rapl:0:1` have one and two numbers.
            let numbers = name.strip_prefix(prefix)?.split(':').filter(|part| !part.is_empty());
            let numbers: Option<Vec<u64>> = numbers.map(|part| part.parse().ok()).collect();
            Some((numbers?, entry.path()))
        })
        .collect();
    folders.sort();
    Ok(folders.into_iter().map(|(_, path)| path).collect())
}

/// The text of a file without the space around it; `None` if there is no such file.
pub(super) fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The number in a file. The message of an error does not change from one read to the next.
pub(super) fn number(path: &Path) -> Result<f64, String> {
    let text = fs::read_to_string(path).map_err(|error| error.kind().to_string())?;
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err("the sensor's file holds no number".to_owned()),
    }
}
