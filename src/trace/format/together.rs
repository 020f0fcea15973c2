//! Files of one folder that are one run: one gives its requests, another its power or the engine's metrics.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Head, Input, Join, JoinInput, Role};

/// What a file gives to the run of its folder, told by its keys; nothing where it is not one of the files
/// that belong together.
pub(super) type Gives = fn(&Head) -> &'static [Role];

/// Formats whose files belong together, by name.
const FORMATS: &[(&str, Gives)] =
    &[("aiperf", super::aiperf::gives), ("mlenergy-raw", super::mlenergy_raw::gives)];

/// One run of a folder that is searched.
#[derive(Debug)]
pub(super) enum RunInputs {
    /// A file of its own.
    One(PathBuf),
    /// Several files, with the name of the run.
    Several { name: String, join: Join },
}

/// The runs among `files`, which are sorted and of one format. Files of a folder are joined if no two of
/// them give the same.
pub(super) fn runs(format: &str, files: Vec<PathBuf>) -> Vec<RunInputs> {
    let Some((_, gives)) = FORMATS.iter().find(|(name, _)| *name == format) else {
        return files.into_iter().map(RunInputs::One).collect();
    };
    let mut folders: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        folders.entry(folder).or_default().push(file);
    }
    folders.into_values().flat_map(|files| folder_runs(format, *gives, files)).collect()
}

fn folder_runs(format: &str, gives: Gives, files: Vec<PathBuf>) -> Vec<RunInputs> {
    let roles: Vec<&[Role]> = files.iter().map(|file| gives(&Input::new(file).head())).collect();
    let mut all: Vec<Role> = roles.iter().flat_map(|roles| roles.iter().copied()).collect();
    all.sort_unstable();
    let distinct = all.windows(2).all(|pair| pair[0] != pair[1]);
    if files.len() < 2 || !distinct {
        return files.into_iter().map(RunInputs::One).collect();
    }
    let inputs = files.iter().zip(&roles).flat_map(|(path, roles)| {
        roles.iter().map(|role| JoinInput {
            role: *role,
            format: Some(format.to_owned()),
            path: path.clone(),
        })
    });
    let join = Join { inputs: inputs.collect(), ..Join::default() };
    // The file of the requests names the run, as it does where it stands alone.
    let main = roles.iter().position(|roles| roles.contains(&Role::Requests)).unwrap_or(0);
    vec![RunInputs::Several { name: Input::new(&files[main]).stem(), join }]
}
