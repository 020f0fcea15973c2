//! `wattrace notebook`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;
use wattrace_report::Results;
use wattrace_report::notebook::{NOTEBOOK_REQUIREMENTS, notebooks};

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Write Jupyter notebooks over the result tables, with the tables beside them
#[derive(Debug, Args)]
#[command(after_help = "Example:
  wattrace notebook results --out notebooks-export/sample
  cd notebooks-export/sample
  pip install -r requirements.txt
  jupyter nbconvert --to html --execute *.ipynb

The folder is complete in itself: notebooks in pandas, polars and DuckDB without outputs, the Parquet tables
that they read, and results.json. A notebook that is there already is kept unless --force is given.")]
pub(crate) struct Notebook {
    /// Folder that `wattrace analyze --out` wrote
    pub(crate) results: PathBuf,
    /// Folder that the notebooks are written into
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Overwrite notebooks that are there already
    #[arg(long)]
    pub(crate) force: bool,
}

pub(crate) fn run(args: &Notebook, output: &Output) -> Result<Exit, Failure> {
    let results = Results::open(&args.results).map_err(Failure::no_input)?;
    let notebooks = notebooks(results.manifest());
    for notebook in &notebooks {
        let path = args.out.join(&notebook.file);
        if path.exists() && !args.force {
            return Err(Failure::usage(anyhow::anyhow!(
                "\"{}\" exists and may hold work of yours; give --force or another --out",
                path.display()
            )));
        }
    }
    let tables = args.out.join("tables");
    std::fs::create_dir_all(&tables)
        .with_context(|| format!("cannot make the folder \"{}\"", tables.display()))?;
    for file in results.verified_files("parquet").map_err(Failure::no_input)? {
        copy(&args.results.join(file), &tables.join(file))?;
    }
    copy(&args.results.join("results.json"), &args.out.join("results.json"))?;
    let requirements = ("requirements.txt", NOTEBOOK_REQUIREMENTS);
    let texts = notebooks.iter().map(|notebook| (notebook.file.as_str(), notebook.json.as_str()));
    for (file, text) in texts.chain([requirements]) {
        let path = args.out.join(file);
        std::fs::write(&path, text)
            .with_context(|| format!("cannot write \"{}\"", path.display()))?;
    }
    let paths: Vec<String> = notebooks
        .iter()
        .map(|notebook| args.out.join(&notebook.file).display().to_string())
        .collect();
    if output.json {
        output.data(&format!("{:#}\n", json!({ "notebooks": paths })))?;
    } else {
        output.data(&format!("{}\n", paths.join("\n")))?;
    }
    Ok(Exit::Done)
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::copy(from, to)
        .with_context(|| format!("cannot copy \"{}\" to \"{}\"", from.display(), to.display()))?;
    Ok(())
}
