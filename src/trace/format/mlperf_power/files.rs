//! Finds the files of each run, in the layout of the published results and in a flat one.

use std::path::{Path, PathBuf};

use super::super::folders::{self, Folder};
use super::super::{file_name, safe_run_id};
use crate::TraceError;

const SPL: &str = "spl.txt";

/// The files of one run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunFiles {
    /// Samples of PTDaemon.
    pub(super) spl: PathBuf,
    pub(super) detail: PathBuf,
    pub(super) summary: Option<PathBuf>,
    /// `client.json` and `server.json`, those that exist.
    pub(super) sessions: Vec<PathBuf>,
    /// Names that lead to the run, outermost first: folders, and what a flat file name adds.
    pub(super) names: Vec<String>,
    /// How many of the last names lie below the input.
    pub(super) below_input: usize,
    /// Number of the run where the name tells.
    pub(super) run: Option<u32>,
}

/// Every run below `input` (or the one whose `spl.txt` it is), and notes on what was passed over.
pub(super) fn find(input: &Path) -> Result<(Vec<RunFiles>, Vec<String>), TraceError> {
    std::fs::metadata(input).map_err(TraceError::io("read", input))?;
    let (root, only) = match input.is_dir() {
        true => (input, None),
        false => (input.parent().unwrap_or(Path::new("")), Some(file_name(input))),
    };
    let root = std::path::absolute(root).map_err(TraceError::io("find", root))?;
    let (mut runs, mut notes) = (Vec::new(), Vec::new());
    let folders = match &only {
        None => folders::walk(&root)?,
        Some(name) => vec![Folder { path: root.clone(), files: vec![name.clone()] }],
    };
    for folder in folders {
        for file in &folder.files {
            let Some(prefix) = file.strip_suffix(SPL) else { continue };
            let folder_name = file_name(&folder.path);
            if prefix.ends_with("ranging_") || prefix.is_empty() && folder_name == "ranging" {
                let path = folder.path.join(file);
                notes.push(format!("\"{}\" passed over: the ranging run", path.display()));
            } else {
                runs.push(RunFiles::new(&root, &folder.path, prefix));
            }
        }
    }
    Ok((runs, notes))
}

impl RunFiles {
    /// The files beside `{prefix}spl.txt` in `folder`. With a prefix all files of the run lie in one
    /// folder, the path below the scenario written with `_`: `run_1_spl.txt`, `power_client.json`.
    fn new(root: &Path, folder: &Path, prefix: &str) -> Self {
        let beside = |name: &str| folder.join(format!("{prefix}{name}"));
        let existing = |path: PathBuf| path.is_file().then_some(path);
        let (scenario, run, power) = if prefix.is_empty() {
            let run = run_number(&file_name(folder));
            let parent = folder.parent().filter(|_| run.is_some());
            let performance = parent.unwrap_or(folder);
            let scenario = match performance.parent() {
                Some(scenario) if file_name(performance) == "performance" => scenario,
                _ => performance,
            };
            (scenario, run, performance.join("power").join(""))
        } else {
            (folder, flat_run_number(prefix), folder.join(format!("{}power_", flat_head(prefix))))
        };
        let session = |name: &str| {
            let mut path = power.clone().into_os_string();
            path.push(name);
            existing(path.into())
        };
        let mut names: Vec<String> = names_of(scenario);
        let mut below_input = names.len().saturating_sub(names_of(root).len());
        let head = flat_head(prefix);
        let head = head.trim_end_matches('_').trim_end_matches("performance").trim_end_matches('_');
        if !head.is_empty() {
            names.push(head.to_owned());
            below_input += 1;
        }
        Self {
            spl: beside(SPL),
            detail: beside("mlperf_log_detail.txt"),
            summary: existing(beside("mlperf_log_summary.txt")),
            sessions: ["client.json", "server.json"].into_iter().filter_map(session).collect(),
            names,
            below_input,
            run,
        }
    }

    /// What the names say of the run, given the scenario that its logs state.
    pub(super) fn place(&self, scenario: &str) -> Place {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let (leaf, above) = names.split_last().unwrap_or((&"", &[]));
        let (benchmark, above) = if leaf.eq_ignore_ascii_case(scenario) {
            match above.split_last() {
                Some((benchmark, above)) => (Some((*benchmark).to_owned()), above),
                None => (None, above),
            }
        } else {
            (before_scenario(leaf, scenario), above)
        };
        let system = benchmark.as_ref().and_then(|_| system(above));
        Place { id: self.run_id(scenario), benchmark, system }
    }

    fn run_id(&self, scenario: &str) -> String {
        let results = self.names.iter().rposition(|name| name == "results");
        let depth = match results {
            Some(results) if results + 1 < self.names.len() => self.names.len() - results - 1,
            // A bare scenario says too little.
            _ if self.names.last().is_some_and(|leaf| leaf.eq_ignore_ascii_case(scenario)) => {
                self.below_input.max(2)
            }
            _ => self.below_input.max(1),
        };
        let mut id = self.names[self.names.len().saturating_sub(depth)..].join("_");
        if let Some(run) = self.run.filter(|run| *run != 1) {
            id.push_str(&format!("_run_{run}"));
        }
        if id.is_empty() { "run".into() } else { safe_run_id(&id) }
    }
}

/// What the names of a run's folders say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Id of the run.
    pub(super) id: String,
    /// Name of the benchmark, such as `llama2-70b-99`.
    pub(super) benchmark: Option<String>,
    /// The system under test.
    pub(super) system: Option<System>,
}

/// A system as MLPerf names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct System {
    pub(super) name: String,
    /// Accelerator and how many, where the name holds them: `H200-SXM-141GBx8_TRT_MaxQ`.
    pub(super) accelerators: Option<(String, u32)>,
}

fn names_of(folder: &Path) -> Vec<String> {
    folder
        .components()
        .filter_map(|part| match part {
            std::path::Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect()
}

fn run_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("run_")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The number in a prefix such as `performance_run_1_`.
fn flat_run_number(prefix: &str) -> Option<u32> {
    run_number(&prefix.strip_suffix('_')?[flat_head(prefix).len()..])
}

/// What stands before `run_1_` in a prefix.
fn flat_head(prefix: &str) -> &str {
    let run = prefix.strip_suffix('_').and_then(|rest| rest.rfind("run_"));
    run.map_or(prefix, |start| &prefix[..start])
}

/// `llama2-70b-99` of `llama2-70b-99_Server`.
fn before_scenario(name: &str, scenario: &str) -> Option<String> {
    let start = name.len().checked_sub(scenario.len() + 1)?;
    let (benchmark, rest) = name.split_at_checked(start)?;
    let rest = rest.strip_prefix(['_', '-'])?;
    (rest.eq_ignore_ascii_case(scenario) && !benchmark.is_empty()).then(|| benchmark.to_owned())
}

/// The system above a benchmark's folder: below `results`, or named with a count of accelerators.
fn system(above: &[&str]) -> Option<System> {
    let (name, above) = above.split_last()?;
    let accelerators = accelerators(name);
    (above.last() == Some(&"results") || accelerators.is_some())
        .then(|| System { name: (*name).to_owned(), accelerators })
}

/// Accelerator and count of a name such as `H200-SXM-141GBx8_TRT`. Submitters name systems as they like,
/// so only the memory size before the count says that this is an accelerator.
fn accelerators(name: &str) -> Option<(String, u32)> {
    let (accelerator, count) = name.split('_').next()?.rsplit_once('x')?;
    let count = count.parse().ok().filter(|count| *count > 0)?;
    let memory = accelerator.strip_suffix("GB")?;
    memory.ends_with(|last: char| last.is_ascii_digit()).then(|| (accelerator.to_owned(), count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(names: &[&str], below_input: usize, run: Option<u32>) -> RunFiles {
        RunFiles {
            spl: PathBuf::new(),
            detail: PathBuf::new(),
            summary: None,
            sessions: Vec::new(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            below_input,
            run,
        }
    }

    #[test]
    fn published_folders_name_system_and_benchmark() {
        let names =
            ["closed", "NVIDIA", "results", "H200-SXM-141GBx8_TRT_MaxQ", "llama2-70b-99", "Server"];
        let place = run(&names, 0, Some(1)).place("Server");
        assert_eq!(place.id, "H200-SXM-141GBx8_TRT_MaxQ_llama2-70b-99_Server");
        assert_eq!(place.benchmark.unwrap(), "llama2-70b-99");
        assert_eq!(place.system.unwrap().accelerators.unwrap(), ("H200-SXM-141GB".to_owned(), 8));
        let place =
            run(&["results", "ThatServer", "gptj-99", "offline"], 0, Some(2)).place("Offline");
        assert_eq!(place.id, "ThatServer_gptj-99_offline_run_2");
        assert_eq!(place.system.unwrap().accelerators, None);
        // Without "results" above it, a folder is a system only if it names accelerators.
        let system =
            |name| run(&["any", name, "gptj-99", "Offline"], 0, None).place("Offline").system;
        assert_eq!(system("L40S-PCIe-48GBx4").unwrap().accelerators.unwrap().1, 4);
        for name in ["tmpx5", "GBx8", "H100-80GBx0", "H100-80GBx", "x", ""] {
            assert_eq!(system(name), None, "{name}");
        }
    }

    #[test]
    fn flat_folders_name_the_benchmark() {
        let place = run(&["data", "power", "llama2-70b-99_Server"], 1, Some(1)).place("Server");
        assert_eq!(place.id, "llama2-70b-99_Server");
        assert_eq!(place.benchmark.unwrap(), "llama2-70b-99");
        assert_eq!(place.system, None);
        let place = run(&["tmp", "x", "Server"], 0, None).place("Server");
        assert_eq!((place.id.as_str(), place.benchmark.as_deref()), ("x_Server", Some("x")));
        let place = run(&["tmp", "some run"], 1, None).place("Server");
        assert_eq!((place.id.as_str(), place.benchmark), ("some_run", None));
        let place = run(&["a", "b", ".c"], 3, None).place("Server");
        assert_eq!(place.id, "a_b_.c");
        assert_eq!(run(&[], 0, None).place("Server").id, "run");
    }

    #[test]
    fn both_layouts_are_found_and_ranging_runs_are_not() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "flat/run_1_spl.txt",
            "flat/run_1_mlperf_log_summary.txt",
            "flat/power_server.json",
            "flat/ranging_spl.txt",
            "m/Server/performance/run_1/spl.txt",
            "m/Server/performance/power/client.json",
            "m/Server/performance/ranging/spl.txt",
            "one/b_Offline_performance_run_2_spl.txt",
            "one/b_Offline_performance_power_client.json",
        ] {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let (runs, notes) = find(root.path()).unwrap();
        let shown: Vec<_> = runs
            .iter()
            .map(|run| {
                let names = &run.names[run.names.len() - run.below_input..];
                (names.join("/"), run.run, run.summary.is_some(), run.sessions.len())
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("flat".to_owned(), Some(1), true, 1),
                ("m/Server".to_owned(), Some(1), false, 1),
                ("one/b_Offline".to_owned(), Some(2), false, 1),
            ]
        );
        assert_eq!(notes.len(), 2);
        let (runs, _) = find(&root.path().join("flat/run_1_spl.txt")).unwrap();
        assert_eq!((runs.len(), runs[0].below_input), (1, 0));
    }
}
