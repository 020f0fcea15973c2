//! A user and a password, kept out of everything that is printed or written.

use std::fmt;
use std::path::Path;

use super::secrets::Secrets;

/// A user and a password. Neither appears when it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials(***)")
    }
}

const KEYS: [&str; 2] = ["user", "password"];

impl Credentials {
    /// Credentials from a file of lines `key = value`: `user` and `password`.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else; the message names the file, never what it holds.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let secrets = Secrets::from_file(path, &KEYS)?;
        Self::from_secrets(&secrets).map_err(|problem| format!("\"{}\", {problem}", path.display()))
    }

    /// Credentials from the variables `{prefix}_USER` and `{prefix}_PASSWORD` of the environment; `None`
    /// where neither is set.
    ///
    /// # Errors
    /// Only one of them is set.
    pub fn from_environment(prefix: &str) -> Result<Option<Self>, String> {
        let secrets = Secrets::from_environment(prefix, &KEYS)?;
        if secrets.is_empty() {
            return Ok(None);
        }
        let named = |problem| format!("{prefix}_USER and {prefix}_PASSWORD: {problem}");
        Self::from_secrets(&secrets).map(Some).map_err(named)
    }

    fn from_secrets(secrets: &Secrets) -> Result<Self, String> {
        match KEYS.map(|key| secrets.get(key).map(str::to_owned)) {
            [Some(user), Some(password)] => Ok(Self { user, password }),
            [None, _] => Err("user is missing".to_owned()),
            [_, None] => Err("password is missing".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_file_and_not_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("login");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Credentials::from_file(&path)
        };
        let message = read("password = hunter2\n").unwrap_err();
        assert!(message.ends_with("login\", user is missing"), "{message}");
        let message = read("hunter2\n").unwrap_err();
        assert!(message.ends_with("login\", line 1: there is no \"=\"; expected key = value"));
        let both = read("user = root\npassword = hunter2\n").unwrap();
        assert_eq!((both.user.as_str(), both.password.as_str()), ("root", "hunter2"));
        assert_eq!(format!("{both:?}"), "Credentials(***)");
    }
}
