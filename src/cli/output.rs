//! Standard output carries data; standard error carries progress, warnings and errors.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use wattrace_report::text::TextStyle;

use crate::args::{Colour, Shared};

/// How a command talks.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    quiet: bool,
    verbose: bool,
    /// Machine-readable output was asked for.
    pub(crate) json: bool,
    colour: bool,
    width: usize,
}

/// Width of text that does not go to a terminal.
const DEFAULT_WIDTH: usize = 120;

impl Output {
    pub(crate) fn new(shared: &Shared) -> Self {
        let terminal = io::stdout().is_terminal();
        let colour = match shared.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => terminal && std::env::var_os("NO_COLOR").is_none(),
        };
        let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        Self {
            quiet: shared.quiet,
            verbose: shared.verbose,
            json: shared.json,
            colour,
            width: width.unwrap_or(DEFAULT_WIDTH),
        }
    }

    /// How tables on standard output may look.
    pub(crate) fn style(&self) -> TextStyle {
        TextStyle { width: self.width, colour: self.colour, ..TextStyle::default() }
    }

    /// Writes data. A reader that has gone away has seen what it wanted.
    pub(crate) fn data(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let result = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Says something that the user should know.
    pub(crate) fn warn(&self, text: &str) {
        if !self.quiet {
            to_stderr(&format!("warning: {text}"));
        }
    }

    /// Says what could not be done; never kept quiet.
    pub(crate) fn error(&self, text: &str) {
        to_stderr(&format!("error: {text}"));
    }

    /// Says what was done, for those who asked.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose {
            to_stderr(text);
        }
    }

    /// A progress bar over bytes read, drawn on a terminal only.
    pub(crate) fn bytes_progress(&self, length: u64, what: &str) -> ProgressBar {
        let bar = self.progress(0, what);
        bar.set_length(length);
        bar.with_style(
            ProgressStyle::with_template(BYTES_TEMPLATE)
                .expect("the template is a constant that a test draws"),
        )
    }

    /// A progress bar over `length` steps, drawn on a terminal only.
    pub(crate) fn progress(&self, length: usize, what: &str) -> ProgressBar {
        if self.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {eta}")
            .expect("the template is a constant that a test draws");
        ProgressBar::with_draw_target(Some(length as u64), ProgressDrawTarget::stderr())
            .with_style(style)
            .with_prefix(what.to_owned())
    }
}

const BYTES_TEMPLATE: &str = "{prefix} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";

/// Writes a line to standard error; when even that fails there is nobody left to tell.
pub(crate) fn to_stderr(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_templates_are_valid() {
        assert!(ProgressStyle::with_template(BYTES_TEMPLATE).is_ok());
        assert!(ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {eta}").is_ok());
    }
}
