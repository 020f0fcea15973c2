//! `wattrace plot`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;
use wattrace_figures::{FIGURES, FigureError, FigureKind};
use wattrace_report::figure_data::{FigureDataError, FigureSet, NamedFigure, figures};
use wattrace_report::{Results, write_file};

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Draw the figures of a results folder
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wattrace plot results                                      every figure that the results can feed
  wattrace plot results --figure power-timeline --run serving-1 --out figures
  wattrace plot --list

Figures are one column of a paper (85 mm) wide. Those of a single run are drawn of the first run of each
kind (model, engine, task, setting, ...) unless --run names others. Figures of simulated runs are stamped
\"synthetic data\". Exit code 1 when a figure that --figure names cannot be drawn.")]
pub(crate) struct Plot {
    /// Results: the folder that `wattrace analyze --out` wrote
    #[arg(required_unless_present = "list")]
    results: Option<PathBuf>,
    /// Folder for the figures (default: figures within the results)
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only this figure (see --list); may be given more than once
    #[arg(long = "figure", value_name = "NAME", value_parser = kind)]
    figures: Vec<&'static FigureKind>,
    /// Only this run, in figures of a single run; may be given more than once
    #[arg(long = "run", value_name = "ID")]
    runs: Vec<String>,
    /// File formats
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "svg,png",
        value_name = "FORMAT,..."
    )]
    format: Vec<Format>,
    /// Name every figure and what it needs
    #[arg(long, conflicts_with_all = ["results", "out", "figures", "runs"])]
    list: bool,
}

/// A file format of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Scalable, texts stay texts
    Svg,
    /// 508 dpi
    Png,
}

fn kind(name: &str) -> Result<&'static FigureKind, String> {
    let names: Vec<&str> = FIGURES.iter().map(|kind| kind.name).collect();
    FIGURES
        .iter()
        .find(|kind| kind.name == name)
        .ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

/// A file that was written.
#[derive(Debug, Serialize)]
struct DrawnFile {
    figure: &'static str,
    file: String,
    sha256: String,
}

/// The files of one figure, or why it cannot be drawn.
type Drawn = Result<Vec<DrawnFile>, FigureError>;

/// A figure that was not drawn, and why.
#[derive(Debug, Serialize)]
struct NotDrawn {
    figure: &'static str,
    reason: String,
}

pub(crate) fn run(args: &Plot, output: &Output) -> Result<Exit, Failure> {
    let Some(results) = &args.results else { return list(output) };
    let opened = Results::open(results).map_err(Failure::no_input)?;
    let out = args.out.clone().unwrap_or_else(|| results.join("figures"));
    let kinds: Vec<&'static FigureKind> =
        if args.figures.is_empty() { FIGURES.iter().collect() } else { args.figures.clone() };

    let mut not_drawn = Vec::new();
    let mut sets: Vec<FigureSet> = Vec::new();
    for kind in kinds {
        match figures(&opened, kind, &args.runs) {
            Ok(set) => sets.push(set),
            Err(FigureDataError::Lacking(reason)) => {
                not_drawn.push(NotDrawn { figure: kind.name, reason });
            }
            Err(FigureDataError::Table(error)) => return Err(Failure::no_input(error)),
        }
    }
    std::fs::create_dir_all(&out)
        .with_context(|| format!("cannot make the folder \"{}\"", out.display()))?;
    let files = draw(&sets, &out, &args.format, &mut not_drawn, output)?;

    for set in &sets {
        if let Some(note) = &set.note {
            output.warn(&format!("{}: {note}", set.kind.name));
        }
    }
    report(&files, &not_drawn, &out, output)?;
    if files.is_empty() {
        return Ok(Exit::NoInput);
    }
    Ok(Exit::findings_if(!args.figures.is_empty() && !not_drawn.is_empty()))
}

/// Draws and writes every figure, all cores at work; gives the files in the order of figures.
fn draw(
    sets: &[FigureSet],
    out: &Path,
    formats: &[Format],
    not_drawn: &mut Vec<NotDrawn>,
    output: &Output,
) -> Result<Vec<DrawnFile>, Failure> {
    let all: Vec<(&'static FigureKind, &NamedFigure)> = sets
        .iter()
        .flat_map(|set| set.figures.iter().map(move |figure| (set.kind, figure)))
        .collect();
    let progress = output.progress(all.len(), "drawing");
    let drawn: Vec<Result<Drawn, Failure>> = all
        .par_iter()
        .map(|(kind, named)| {
            let files = draw_one(kind, named, out, formats);
            progress.inc(1);
            files
        })
        .collect();
    progress.finish_and_clear();
    let mut files = Vec::new();
    for ((kind, _), drawn) in all.iter().zip(drawn) {
        match drawn? {
            Ok(drawn) => files.extend(drawn),
            Err(error) => {
                not_drawn.push(NotDrawn { figure: kind.name, reason: error.to_string() });
            }
        }
    }
    Ok(files)
}

fn draw_one(
    kind: &'static FigureKind,
    named: &NamedFigure,
    out: &Path,
    formats: &[Format],
) -> Result<Drawn, Failure> {
    let drawing = match named.figure.draw() {
        Ok(drawing) => drawing,
        Err(error) => return Ok(Err(error)),
    };
    let mut files = Vec::new();
    for (format, extension) in [(Format::Svg, "svg"), (Format::Png, "png")] {
        if !formats.contains(&format) {
            continue;
        }
        let bytes = match format {
            Format::Svg => drawing.to_svg().into_bytes(),
            Format::Png => drawing.to_png(),
        };
        let written = write_file(out, &named.stem, extension, &bytes)?;
        files.push(DrawnFile { figure: kind.name, file: written.file, sha256: written.sha256 });
    }
    Ok(Ok(files))
}

fn report(
    files: &[DrawnFile],
    not_drawn: &[NotDrawn],
    out: &Path,
    output: &Output,
) -> Result<(), Failure> {
    if output.json {
        let report = json!({ "folder": out, "files": files, "not_drawn": not_drawn });
        output.data(&format!("{report:#}\n"))?;
        return Ok(());
    }
    let mut text = String::new();
    for file in files {
        let _ = writeln!(text, "{}", out.join(&file.file).display());
    }
    output.data(&text)?;
    for figure in not_drawn {
        output.warn(&format!("{} not drawn: {}", figure.figure, figure.reason));
    }
    if files.is_empty() {
        output.error("no figure could be drawn");
    }
    Ok(())
}

fn list(output: &Output) -> Result<Exit, Failure> {
    if output.json {
        let kinds: Vec<_> = FIGURES
            .iter()
            .map(|kind| json!({ "figure": kind.name, "title": kind.title, "needs": kind.needs }))
            .collect();
        output.data(&format!("{:#}\n", json!({ "figures": kinds })))?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    for kind in FIGURES {
        let _ = writeln!(text, "{}\n    {}\n    needs {}", kind.name, kind.title, kind.needs);
    }
    output.data(&text)?;
    Ok(Exit::Done)
}
