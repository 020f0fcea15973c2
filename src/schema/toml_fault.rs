//! What is wrong with a TOML file, in the words that all our messages use.

/// An error of the TOML reader: where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TomlFault {
    /// Line, from 1.
    pub line: Option<usize>,
    /// Path of the key.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl TomlFault {
    /// The error of reading `text`. The reader keeps the path of the key to itself but prints it when it
    /// does not have the text.
    #[must_use]
    pub fn new(text: &str, mut error: toml::de::Error) -> Self {
        error.set_input(None);
        let printed = error.to_string();
        let key = printed
            .lines()
            .find_map(|line| line.strip_prefix("in `")?.strip_suffix('`').map(str::to_owned));
        let message = error
            .message()
            .replace("unknown field", "unknown key")
            .replace("missing field", "missing key")
            .replace("duplicate field", "duplicate key")
            .replace('`', "\"");
        let line = error.span().map(|span| line_of(text, span.start));
        Self { line, key, message }
    }
}

/// The line, from 1, of the byte at `offset`.
#[must_use]
pub fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
