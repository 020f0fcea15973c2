//! `wattrace report`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;
use wattrace_analysis::metrics::DEFINITIONS_VERSION;
use wattrace_report::page::results_page;
use wattrace_report::{Provenance, Results, ServiceReport, SyntheticShare};
use wattrace_schema::spec::LockedSpec;
use wattrace_trace::archive_digest;

use super::service::{Asked, Loaded, ServiceInput, USUAL_CARDS, given_spec, load};
use crate::command_line::command_line;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Write one self-contained page: of all results, or of one spec
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wattrace report results --out report.html
  wattrace report archive --spec spec.yaml --out report
  wattrace report results --spec spec.yaml --out report/index.html --cards 1000

Without --spec the page holds every table of the results (sorted and searched in the browser), the figures,
and behind every number how it came about. With --spec it is the report of that spec: its hash, tables,
exact commands and versions, and what is not covered, with the same as JSON beside it. Either page needs no
network. Equal inputs give equal bytes.")]
pub(crate) struct Report {
    #[command(flatten)]
    input: ServiceInput,
    /// The spec (spec.yaml); runs of an archive that name none are measured by it and labelled so
    #[arg(long, value_name = "SPEC")]
    spec: Option<PathBuf>,
    /// Folder, or a file that ends in .html
    #[arg(long, short, value_name = "FOLDER|FILE.html")]
    out: PathBuf,
    /// Configuration that the others are held against (default: what the spec names, else production)
    #[arg(long, value_name = "CONFIGURATION", requires = "spec")]
    reference: Option<String>,
    /// Cards of the fleet whose capacity is reckoned
    #[arg(long, value_name = "N", default_value_t = USUAL_CARDS, value_parser = clap::value_parser!(u64).range(1..))]
    cards: u64,
}

pub(crate) fn run(args: &Report, output: &Output) -> Result<Exit, Failure> {
    match &args.spec {
        Some(spec) => of_spec(args, spec, output),
        None => of_results(args, output),
    }
}

/// The page of a whole results folder.
fn of_results(args: &Report, output: &Output) -> Result<Exit, Failure> {
    let results = Results::open(&args.input.input).map_err(Failure::no_input)?;
    let (page, _) = files(&args.out);
    make_folder(&page)?;
    write(&page, &results_page(&results).map_err(Failure::no_input)?)?;
    if output.json {
        output.data(&format!("{:#}\n", json!({ "page": page })))?;
    } else {
        output.data(&format!("{}\n", page.display()))?;
    }
    Ok(Exit::Done)
}

fn make_folder(file: &Path) -> Result<(), Failure> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder \"{}\"", folder.display()))?;
    }
    Ok(())
}

fn of_spec(args: &Report, path: &Path, output: &Output) -> Result<Exit, Failure> {
    let spec = given_spec(path)?;
    let reference = args.reference.as_deref();
    let asked = Asked { cards: args.cards, reference, ..Asked::spec(Some(path)) };
    let loaded = load(&args.input, &asked, output)?;
    loaded.needs_archive(reference.is_some(), "--reference")?;
    let report = report(args, path, spec, &loaded)?;
    let (page, raw) = files(&args.out);
    make_folder(&page)?;
    let json = report.to_json();
    write(&raw, &format!("{json:#}\n"))?;
    write(&page, &report.to_page())?;
    report.warnings.iter().for_each(|warning| output.warn(warning));
    if output.json {
        output.data(&format!("{json:#}\n"))?;
    } else {
        output.data(&format!("{}\n{}\n", page.display(), raw.display()))?;
    }
    Ok(Exit::findings_if(!report.warnings.is_empty()))
}

/// The page and the raw report.
fn files(out: &Path) -> (PathBuf, PathBuf) {
    if out.extension().is_some_and(|extension| extension == "html") {
        (out.to_owned(), out.with_extension("json"))
    } else {
        (out.join("report.html"), out.join("report.json"))
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).with_context(|| format!("cannot write \"{}\"", path.display()))?;
    Ok(())
}

fn report(
    args: &Report,
    path: &Path,
    spec: LockedSpec,
    loaded: &Loaded,
) -> Result<ServiceReport, Failure> {
    let hash = spec.hash();
    let found = loaded.tables.spec_hashes();
    if !found.iter().any(|known| known == hash) {
        let others = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
        return Err(Failure::no_input(anyhow::anyhow!(
            "\"{}\" holds no run under the spec \"{}\" ({hash}); the specs of its runs: {others}",
            args.input.input.display(),
            path.display()
        )));
    }
    let all_runs = |tables: &wattrace_report::ServiceTables| {
        tables.table("service_runs").map_or(0, |table| table.rows)
    };
    let mut tables = loaded.tables.of_spec(hash);
    let other_runs = all_runs(&loaded.tables) - all_runs(&tables);
    if loaded.results.is_some() {
        tables = tables.with_fleet(args.cards, None);
    }
    let provenance = provenance(args, loaded);
    Ok(ServiceReport {
        spec,
        tables,
        provenance,
        // Neither the number of jobs nor the place of the report changes it.
        command_line: command_line(&["--jobs", "--out", "-o"]),
        other_runs,
        warnings: loaded.warnings.clone(),
    })
}

fn provenance(args: &Report, loaded: &Loaded) -> Provenance {
    let options = json!({
        "seed": args.input.seed,
        "cards": args.cards,
        "reference": args.reference,
    });
    match &loaded.results {
        Some(manifest) => Provenance {
            tool_version: manifest.tool_version.clone(),
            metric_definitions_version: manifest.metric_definitions_version,
            options: json!({
                "report": options,
                "results": manifest.options,
                "results_command_line": manifest.command_line,
            }),
            archive_sha256: manifest.archive_sha256.clone(),
            synthetic: manifest.synthetic,
        },
        None => Provenance {
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            metric_definitions_version: DEFINITIONS_VERSION,
            options: json!({ "report": options }),
            archive_sha256: Some(archive_digest(&loaded.locations)),
            synthetic: SyntheticShare::of(
                loaded.analysis.iter().flat_map(|all| &all.runs).map(|run| run.synthetic),
            ),
        },
    }
}
