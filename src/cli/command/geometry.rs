//! `wattrace geometry`.

use wattrace_trace::geometry::{ConfigOptions, read_config};

use crate::args::Geometry;
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(crate) fn run(args: &Geometry, output: &Output) -> Result<Exit, Failure> {
    let geometry =
        read_config(&args.config, ConfigOptions::default()).map_err(Failure::no_input)?;
    if output.json {
        output.data(&format!("{:#}\n", geometry.to_json()))?;
    } else {
        output.data(&geometry.to_text())?;
    }
    Ok(Exit::Done)
}
