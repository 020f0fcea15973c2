//! The command line, as results record it.

/// The command line as given, less the options called `left_out` with their values: those that change
/// no result.
pub(crate) fn command_line(left_out: &[&str]) -> Vec<String> {
    let mut line = vec!["wattrace".to_owned()];
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let name = argument.split('=').next().unwrap_or_default();
        if !left_out.contains(&name) {
            line.push(argument);
        } else if name == argument {
            arguments.next();
        }
    }
    line
}
