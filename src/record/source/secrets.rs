//! What a source logs in with, from a file of `key = value` lines or from the environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Values by key. They do not appear when this is shown, and no message holds one.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Secrets(BTreeMap<&'static str, String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl Secrets {
    /// Reads a file of lines `key = value`. A value may stand in double quotes; empty lines and lines that
    /// begin with `#` say nothing.
    pub(super) fn from_file(path: &Path, keys: &[&'static str]) -> Result<Self, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!(
                "\"{shown}\" cannot be read: {error}; expected lines such as {} = VALUE",
                keys[0]
            )
        })?;
        Self::parse(&text, keys).map_err(|problem| format!("\"{shown}\", {problem}"))
    }

    /// Takes every key from the variable `{prefix}_{KEY}`, if it is set and not empty.
    pub(super) fn from_environment(prefix: &str, keys: &[&'static str]) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for key in keys {
            let name = format!("{prefix}_{}", key.to_ascii_uppercase());
            match std::env::var(&name) {
                Ok(value) if !value.is_empty() => {
                    values.insert(*key, value);
                }
                Ok(_) | Err(std::env::VarError::NotPresent) => {}
                Err(std::env::VarError::NotUnicode(_)) => {
                    return Err(format!("{name} is not UTF-8"));
                }
            }
        }
        Ok(Self(values))
    }

    fn parse(text: &str, keys: &[&'static str]) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let error = |problem: &str| format!("line {}: {problem}", number + 1);
            let (name, value) = line
                .split_once('=')
                .ok_or_else(|| error("there is no \"=\"; expected key = value"))?;
            // A line in a wrong order would show the secret as its key, so the key is not shown.
            let Some(key) = keys.iter().find(|key| **key == name.trim()) else {
                return Err(error(&format!("unknown key; expected one of {}", keys.join(", "))));
            };
            let value = value.trim();
            let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            let value = quoted.unwrap_or(value);
            if value.is_empty() {
                return Err(error(&format!("{key} is empty; leave the line out")));
            }
            if values.insert(*key, value.to_owned()).is_some() {
                return Err(error(&format!("{key} is given twice")));
            }
        }
        Ok(Self(values))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The entry of `choices` that `key` names, whatever its case and dashes; `None` without the key.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, String> {
        let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
        let Some(value) = self.get(key) else { return Ok(None) };
        match choices.iter().find(|(name, _)| plain(name) == plain(value)) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
                Err(format!("{key} is none of those known; expected {}", names.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 2] = ["user", "password"];

    #[test]
    fn lines_are_read_and_never_shown() {
        let text = "# the meter\nuser = meter\n\n password = \"a = b # c\" \n";
        let secrets = Secrets::parse(text, &KEYS).unwrap();
        assert_eq!(
            (secrets.get("user"), secrets.get("password")),
            (Some("meter"), Some("a = b # c"))
        );
        assert_eq!(format!("{secrets:?}"), r#"{"password", "user"}"#);
        assert_eq!(secrets.choice("user", &[("Me-ter", 1)]), Ok(Some(1)));
        assert_eq!(secrets.choice("none", &[("x", 1)]), Ok(None));
        let message = secrets.choice("password", &[("md5", 1), ("sha", 2)]).unwrap_err();
        assert_eq!(message, "password is none of those known; expected md5, sha");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_value() {
        let messages = ["hunter2", "hunter2 = password", "user =", "user = a\nuser = hunter2"]
            .map(|text| Secrets::parse(text, &KEYS).unwrap_err());
        assert!(messages.iter().all(|message| !message.contains("hunter2")));
        insta::assert_snapshot!(messages.join("\n"), @r#"
        line 1: there is no "="; expected key = value
        line 1: unknown key; expected one of user, password
        line 1: user is empty; leave the line out
        line 2: user is given twice
        "#);
    }
}
