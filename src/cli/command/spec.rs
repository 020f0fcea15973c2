//! `wattrace spec`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use serde_json::json;
use wattrace_schema::spec::LockedSpec;

use crate::args::{Spec, SpecCommand};
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(crate) fn run(args: &Spec, output: &Output) -> Result<Exit, Failure> {
    match &args.command {
        SpecCommand::Hash { spec } => {
            let hash = read(spec)?.hash().to_string();
            output.data(&if output.json {
                format!("{:#}\n", json!({"spec_hash": hash}))
            } else {
                format!("{hash}\n")
            })?;
            Ok(Exit::Done)
        }
        SpecCommand::Diff { first, second } => diff(&read(first)?, &read(second)?, output),
    }
}

fn read(path: &Path) -> Result<LockedSpec, Failure> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read spec \"{}\"", path.display()))
        .map_err(Failure::no_input)?;
    LockedSpec::parse(&text)
        .with_context(|| format!("\"{}\" is not a valid spec", path.display()))
        .map_err(Failure::usage)
}

fn diff(first: &LockedSpec, second: &LockedSpec, output: &Output) -> Result<Exit, Failure> {
    let changes = first.changes_to(second);
    let same = changes.is_empty();
    if output.json {
        let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
        output.data(&format!("{:#}\n", json!({"same_report": same, "changes": changes})))?;
    } else {
        let mut text = String::new();
        for change in &changes {
            let _ = writeln!(text, "{change}");
        }
        text.push_str(if same {
            "one report: the specs have one hash\n"
        } else {
            "two reports: their values must not be put side by side as if measured alike\n"
        });
        output.data(&text)?;
    }
    Ok(Exit::findings_if(!same))
}
