//! `wattrace-record convert`.

use wattrace_record::store::{RunPath, StoreError, convert};

use super::{exit_code, report};
use crate::args::{Convert, Shared};
use crate::exit::Failure;

pub(crate) fn run(args: &Convert, shared: &Shared) -> Result<u8, Failure> {
    let joined =
        RunPath::new(&args.run).and_then(|path| convert(&path)).map_err(|error| match error {
            StoreError::NoRecording { .. }
            | StoreError::Finished { .. }
            | StoreError::Empty { .. } => Failure::no_input(error),
            other => other.into(),
        })?;
    report(&joined, &[], shared)?;
    Ok(exit_code(&joined, false, false).code())
}
