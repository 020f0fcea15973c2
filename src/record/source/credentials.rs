//! A user and a password, kept out of everything that is printed or written.

use std::fmt;
use std::path::Path;

/// A user and a password. Neither appears when it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials(***)")
    }
}

/// What a file of credentials should hold.
const EXPECTED: &str = "expected two lines, the user and the password, or one line USER:PASSWORD";

impl Credentials {
    /// Credentials from a file: two lines, the user and the password, or one line `USER:PASSWORD`.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else; the message names the file, never what it holds.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("\"{shown}\" cannot be read: {error}; {EXPECTED}"))?;
        Self::parse(&text).ok_or_else(|| format!("\"{shown}\" holds no credentials; {EXPECTED}"))
    }

    /// Credentials from the variables `{prefix}_USER` and `{prefix}_PASSWORD` of the environment; `None`
    /// where neither is set.
    ///
    /// # Errors
    /// Only one of them is set.
    pub fn from_environment(prefix: &str) -> Result<Option<Self>, String> {
        let names = [format!("{prefix}_USER"), format!("{prefix}_PASSWORD")];
        match names.each_ref().map(|name| std::env::var(name).ok()) {
            [None, None] => Ok(None),
            [Some(user), Some(password)] => Ok(Some(Self { user, password })),
            [None, Some(_)] => {
                Err(format!("{} is set, but not {}; expected both", names[1], names[0]))
            }
            [Some(_), None] => {
                Err(format!("{} is set, but not {}; expected both", names[0], names[1]))
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let first = lines.next()?;
        let (user, password) = match lines.next().filter(|line| !line.is_empty()) {
            Some(second) => (first, second),
            None => first.split_once(':')?,
        };
        let is_rest_empty = lines.all(str::is_empty);
        (is_rest_empty && !user.is_empty())
            .then(|| Self { user: user.to_owned(), password: password.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, String)> {
        Credentials::parse(text).map(|it| (it.user, it.password))
    }

    #[test]
    fn both_shapes_of_a_file_are_read() {
        let both = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(parsed("root\ncal:vin\n"), both("root", "cal:vin"));
        assert_eq!(parsed("root\r\n se cret \r\n\r\n"), both("root", " se cret "));
        assert_eq!(parsed("root:a:b"), both("root", "a:b"));
        assert_eq!(parsed("root:\n"), both("root", ""));
        for text in ["", "\n", "root", "root\n\n", ":a\n", "a\nb\nc\n"] {
            assert_eq!(parsed(text), None, "{text:?}");
        }
    }

    #[test]
    fn messages_name_the_file_and_not_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("login");
        std::fs::write(&path, "hunter2\n").unwrap();
        let message = Credentials::from_file(&path).unwrap_err();
        assert!(message.contains("login\" holds no credentials; expected two lines"), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
        std::fs::write(&path, "root:hunter2\n").unwrap();
        let shown = format!("{:?}", Credentials::from_file(&path).unwrap());
        assert_eq!(shown, "Credentials(***)");
    }
}
