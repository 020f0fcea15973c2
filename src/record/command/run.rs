//! `wattrace-record run`.

use crate::args::{Run, Shared};
use crate::exit::Failure;

pub(crate) fn run(args: &Run, shared: &Shared) -> Result<u8, Failure> {
    let _ = (args, shared);
    Err(anyhow::anyhow!("this build cannot do it yet").into())
}
