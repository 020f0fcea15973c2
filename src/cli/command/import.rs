//! `wattrace import`.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;
use wattrace_trace::format::{FORMATS, ImportOptions, ImportSummary, detect, find, import};

use crate::args::Import;
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(crate) fn run(args: &Import, output: &Output) -> Result<Exit, Failure> {
    if args.list {
        output.data(&list(output.json))?;
        return Ok(Exit::Done);
    }
    if let Some(input) = &args.detect {
        return guess(input, output);
    }
    let (Some(format), Some(archive)) = (&args.format, &args.out) else {
        return Err(Failure::usage(anyhow::anyhow!("import needs a format, inputs and --out")));
    };
    if find(format).is_none() {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        let names = names.join(", ");
        return Err(Failure::usage(anyhow::anyhow!(
            "no format is called \"{format}\"; expected one of {names}"
        )));
    }
    let options = ImportOptions {
        strict: args.strict,
        time_zone: args.tz.clone(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
    };
    let summary = import(format, &args.inputs, archive, &options)?;
    for note in &summary.notes {
        output.warn(note);
    }
    for failed in &summary.failed {
        output.error(failed);
    }
    output.data(&done(&summary, output.json))?;
    if summary.runs.is_empty() {
        return Ok(Exit::NoInput);
    }
    Ok(Exit::findings_if(!summary.failed.is_empty()))
}

fn done(summary: &ImportSummary, as_json: bool) -> String {
    if as_json {
        let runs: Vec<String> = summary.runs.iter().map(|run| run.display().to_string()).collect();
        let done = json!({"runs": runs, "notes": summary.notes, "failed": summary.failed});
        return format!("{done:#}\n");
    }
    let mut text = String::new();
    for run in &summary.runs {
        let _ = writeln!(text, "{}", run.display());
    }
    let _ = writeln!(text, "{} imported, {} failed", summary.runs.len(), summary.failed.len());
    text
}

fn list(as_json: bool) -> String {
    if as_json {
        let formats: Vec<_> = FORMATS
            .iter()
            .map(|format| {
                json!({
                    "name": format.name,
                    "title": format.title,
                    "recovers": format.recovers,
                    "lacks": format.lacks,
                })
            })
            .collect();
        return format!("{:#}\n", json!(formats));
    }
    let mut text = String::new();
    for format in FORMATS {
        let _ = writeln!(
            text,
            "{}\n    {}\n    gives:  {}\n    cannot: {}",
            format.name, format.title, format.recovers, format.lacks
        );
    }
    text
}

fn guess(input: &Path, output: &Output) -> Result<Exit, Failure> {
    let guesses = detect(input);
    if output.json {
        let guesses: Vec<_> = guesses
            .iter()
            .map(|guess| json!({"format": guess.format.name, "reason": guess.reason}))
            .collect();
        output.data(&format!("{:#}\n", json!(guesses)))?;
    } else {
        let mut text = String::new();
        for guess in &guesses {
            let _ = writeln!(text, "{}: {}", guess.format.name, guess.reason);
        }
        output.data(&text)?;
    }
    if guesses.is_empty() {
        let input = input.display();
        return Err(Failure::no_input(anyhow::anyhow!(
            "nothing in \"{input}\" looks like a format that can be imported; see wattrace import --list"
        )));
    }
    Ok(Exit::Done)
}
