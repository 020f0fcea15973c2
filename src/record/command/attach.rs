//! `wattrace-record attach`.

use crate::args::{Attach, Shared};
use crate::exit::Failure;

pub(crate) fn run(args: &Attach, shared: &Shared) -> Result<u8, Failure> {
    let _ = (args, shared);
    Err(anyhow::anyhow!("this build cannot do it yet").into())
}
