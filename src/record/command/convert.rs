//! `wattrace-record convert`.

use crate::args::{Convert, Shared};
use crate::exit::Failure;

pub(crate) fn run(args: &Convert, shared: &Shared) -> Result<u8, Failure> {
    let _ = (args, shared);
    Err(anyhow::anyhow!("this build cannot do it yet").into())
}
