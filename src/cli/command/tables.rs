//! `wattrace tables`.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use serde_json::json;
use wattrace_report::Results;
use wattrace_report::paper::{
    BUILT_IN, BuiltIn, Comparison, Counts, Document, Format, Made, NotMade, Paper, Part, Published,
    compare_claims, compare_with_published, make, origin,
};

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Make a paper's tables from results, or check them against what was published
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wattrace tables results --paper lifecycle
  wattrace tables results --paper decode-energy --table ablations --format latex --out ablations.tex
  wattrace tables results --paper paper.toml --format csv
  wattrace tables results --paper paper.toml --against published.csv
  wattrace tables results --paper claims
  wattrace tables --paper lifecycle --declaration > paper.toml     a start for your own

The papers lifecycle, decode-energy and goodput are built in; any other is declared in a TOML file (see
schemas/paper.schema.json). \"claims\" checks the published values that came with the data.

A published value holds when the recomputed one lies within half a unit of its last printed digit, and
--tolerance on top. The CSV names the row keys and columns as --format csv prints them; a line
\"# table: NAME\" says which table follows. Exit code 1 when a value is off or cannot be had, or a table
could not be made.")]
pub(crate) struct Tables {
    /// Results folder, as `wattrace analyze --out` wrote it
    #[arg(required_unless_present = "declaration")]
    results: Option<PathBuf>,
    /// lifecycle, decode-energy, goodput, claims, or a declaration in TOML
    #[arg(long, value_name = "NAME|FILE.toml")]
    paper: String,
    /// Only this table of the paper
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// How the tables are printed
    #[arg(long, value_enum, default_value_t = TableFormat::Markdown)]
    format: TableFormat,
    /// File for the tables, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Published values to check the tables against, as CSV
    #[arg(long, value_name = "FILE.csv")]
    against: Option<PathBuf>,
    /// Percent of a published value that is tolerated on top of its rounding
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    tolerance: Option<f64>,
    /// Print the paper's declaration, as a start for another
    #[arg(long, conflicts_with_all = ["results", "table", "out", "against", "tolerance"])]
    declaration: bool,
}

/// How tables are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TableFormat {
    /// GitHub's Markdown
    Markdown,
    /// The printed digits as CSV; captions and notes are lines that begin with #
    Csv,
    /// LaTeX with booktabs
    Latex,
}

impl From<TableFormat> for Format {
    fn from(format: TableFormat) -> Self {
        match format {
            TableFormat::Markdown => Self::Markdown,
            TableFormat::Csv => Self::Csv,
            TableFormat::Latex => Self::Latex,
        }
    }
}

/// The paper that is made of the claims of the runs.
const CLAIMS: &str = "claims";

pub(crate) fn run(args: &Tables, output: &Output) -> Result<Exit, Failure> {
    if args.declaration {
        output.data(&declaration(&args.paper)?)?;
        return Ok(Exit::Done);
    }
    // clap asks for it.
    let Some(folder) = &args.results else {
        return Err(Failure::usage(anyhow!("expected a results folder")));
    };
    let results = Results::open(folder).map_err(Failure::no_input)?;
    if args.paper == CLAIMS {
        return claims(args, &results, output);
    }
    let paper = paper(args)?;
    if args.against.is_none() && args.tolerance.is_some() {
        return Err(Failure::usage(anyhow!(
            "--tolerance needs published values; give --against or --paper claims"
        )));
    }
    let made = make(&paper, &results).map_err(Failure::no_input)?;
    for made in &made {
        if let Err(why) = &made.table {
            output.error(&format!("table \"{}\" was not made: {why}", made.name));
        }
    }
    match &args.against {
        None => print(args, &paper, &made, &results, output),
        Some(path) => check(args, &made, path, &results, output),
    }
}

/// The text of a paper's declaration.
fn declaration(name: &str) -> Result<String, Failure> {
    match BuiltIn::named(name) {
        Some(paper) => Ok(paper.text()),
        None => Err(unknown_paper(name)),
    }
}

fn unknown_paper(name: &str) -> Failure {
    let names: Vec<&str> = BUILT_IN.iter().map(|paper| paper.name).collect();
    Failure::usage(anyhow!(
        "there is no paper \"{name}\"; expected {}, {CLAIMS} or a file that ends in .toml",
        names.join(", ")
    ))
}

fn paper(args: &Tables) -> Result<Paper, Failure> {
    let mut paper = match BuiltIn::named(&args.paper) {
        Some(built_in) => built_in.paper().map_err(Failure::usage)?,
        None if args.paper.ends_with(".toml") => {
            let path = Path::new(&args.paper);
            let text = read(path, "declaration")?;
            Paper::parse(text, path).map_err(Failure::usage)?
        }
        None => return Err(unknown_paper(&args.paper)),
    };
    if let Some(name) = &args.table
        && !paper.keep_only(name)
    {
        let names: Vec<&str> = paper.table_names().collect();
        let names = names.join(", ");
        return Err(Failure::usage(anyhow!(
            "paper \"{}\" has no table \"{name}\"; expected one of {names}",
            args.paper
        )));
    }
    Ok(paper)
}

fn read(path: &Path, what: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {what} \"{}\"", path.display()))
        .map_err(Failure::no_input)
}

fn print(
    args: &Tables,
    paper: &Paper,
    made: &[Made],
    results: &Results,
    output: &Output,
) -> Result<Exit, Failure> {
    let parts = made.iter().map(|made| match &made.table {
        Ok(table) => Part::Table(table.clone()),
        Err(why) => Part::Missing { name: made.name.clone(), why: why.to_string() },
    });
    let document = Document {
        title: paper.title().map(str::to_owned),
        parts: parts.collect(),
        summary: None,
        origin: origin(results.manifest()),
    };
    let text = if output.json {
        format!("{:#}\n", document.to_json())
    } else {
        document.render(args.format.into())
    };
    write(args, &text, output)?;
    let faulty = |made: &Made| matches!(made.table, Err(NotMade::Declaration(_)));
    Ok(if made.iter().any(faulty) {
        Exit::Usage
    } else if made.iter().all(|made| made.table.is_err()) {
        Exit::NoInput
    } else {
        Exit::findings_if(made.iter().any(|made| made.table.is_err()))
    })
}

fn check(
    args: &Tables,
    made: &[Made],
    path: &Path,
    results: &Results,
    output: &Output,
) -> Result<Exit, Failure> {
    let text = read(path, "published values")?;
    let published = Published::parse(&text, path).map_err(Failure::usage)?;
    let percent = args.tolerance.unwrap_or(0.0);
    let comparisons = compare_with_published(made, &published, percent).map_err(Failure::usage)?;
    let exit = verdict(args, &comparisons, results, output)?;
    let faulty = |made: &Made| matches!(made.table, Err(NotMade::Declaration(_)));
    Ok(if made.iter().any(faulty) { Exit::Usage } else { exit })
}

fn claims(args: &Tables, results: &Results, output: &Output) -> Result<Exit, Failure> {
    if args.against.is_some() || args.table.is_some() {
        return Err(Failure::usage(anyhow!(
            "--paper claims checks what came with the data; expected neither --against nor --table"
        )));
    }
    let percent = args.tolerance.unwrap_or(0.0);
    let comparison = compare_claims(results, percent).map_err(Failure::no_input)?;
    verdict(args, &[comparison], results, output)
}

/// Prints what became of every published value.
fn verdict(
    args: &Tables,
    comparisons: &[Comparison],
    results: &Results,
    output: &Output,
) -> Result<Exit, Failure> {
    let counts = Counts::of(comparisons);
    if counts.published() == 0 {
        return Err(Failure::no_input(anyhow!("there is no published value to compare with")));
    }
    let document = Document {
        title: None,
        parts: comparisons.iter().map(|comparison| Part::Table(comparison.as_table())).collect(),
        summary: Some(counts.to_string()),
        origin: origin(results.manifest()),
    };
    let text = if output.json {
        let tables: Vec<_> = comparisons.iter().map(Comparison::to_json).collect();
        let json = json!({"counts": counts.to_json(), "tables": tables, "origin": document.origin});
        format!("{json:#}\n")
    } else {
        document.render(args.format.into())
    };
    write(args, &text, output)?;
    if args.out.is_some() && !output.json {
        output.data(&format!("{counts}\n"))?;
    }
    Ok(Exit::findings_if(!counts.all_hold()))
}

/// Writes the text to the file that was named, whole or not at all, or else to standard output.
fn write(args: &Tables, text: &str, output: &Output) -> Result<(), Failure> {
    let Some(path) = &args.out else { return Ok(output.data(text)?) };
    let Some(name) = path.file_name() else {
        let path = path.display();
        return Err(Failure::usage(anyhow!(
            "\"{path}\" is no file name; expected one after --out"
        )));
    };
    let partial = path.with_file_name(format!(".{}.partial", name.to_string_lossy()));
    std::fs::write(&partial, text)
        .and_then(|()| std::fs::rename(&partial, path))
        .with_context(|| format!("cannot write \"{}\"", path.display()))?;
    Ok(())
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("expected a percentage, zero or more".into()),
    }
}
