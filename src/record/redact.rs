//! What `run.json` keeps of command lines and requests: all but what looks like a secret.

use serde_json::Value;

/// Parts of a name that say that its value is a secret.
const SECRET: [&str; 7] = ["key", "apikey", "token", "secret", "password", "passwd", "credentials"];

/// What stands for a secret.
const HIDDEN: &str = "***";

/// Whether a name holds a word such as `key` or `password`.
fn names_secret(name: &str) -> bool {
    !name.contains(char::is_whitespace)
        && name
            .split(['-', '_', '.'])
            .any(|part| SECRET.iter().any(|secret| part.eq_ignore_ascii_case(secret)))
}

/// The words of a command line in one text. All values of an option, variable, header or query whose name
/// looks like that of a secret, such values in JSON, what follows `Bearer`, and users in addresses, are hidden;
/// secrets of other shapes are not known as such.
#[must_use]
pub fn command_line(words: impl IntoIterator<Item = String>) -> String {
    let mut shown = Vec::new();
    // An option may take several values: they last until the next option.
    let mut is_secret = false;
    for word in words {
        if is_secret && !word.starts_with('-') {
            shown.push(HIDDEN.to_owned());
            continue;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let is_named = names_secret(name);
        is_secret = is_named && value.is_none() && name.starts_with('-');
        shown.push(match value {
            // A word with blanks is a command line of its own, for a shell.
            Some(value) if is_named && !value.contains(char::is_whitespace) => {
                format!("{name}={HIDDEN}")
            }
            Some(value) if name.starts_with("--") && !name.contains(char::is_whitespace) => {
                format!("{name}={}", text(value))
            }
            _ => text(&word),
        });
    }
    shown.join(" ")
}

/// A value of JSON in which every text of a field that looks like a secret is hidden. Numbers are none:
/// `stop_token_ids` are as they were.
#[must_use]
pub(crate) fn json(value: Value) -> Value {
    hide(value, false)
}

fn hide(value: Value, is_secret: bool) -> Value {
    match value {
        Value::String(_) if is_secret => HIDDEN.into(),
        Value::String(text) => in_text(&text).into(),
        Value::Array(values) => values.into_iter().map(|value| hide(value, is_secret)).collect(),
        Value::Object(fields) => {
            let hidden = fields.into_iter().map(|(name, value)| {
                let is_secret = is_secret || names_secret(&name);
                (name, hide(value, is_secret))
            });
            Value::Object(hidden.collect())
        }
        other => other,
    }
}

/// A word as it was, unless it holds a secret.
fn text(word: &str) -> String {
    match serde_json::from_str::<Value>(word) {
        Ok(value @ Value::Object(_)) => {
            let hidden = json(value.clone());
            if hidden == value { word.to_owned() } else { hidden.to_string() }
        }
        _ => in_text(word),
    }
}

/// What is hidden of the words that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hides {
    Nothing,
    /// The next word: the value of an option, or what `Bearer` announces.
    Next,
    /// Everything up to the next quote: the value of a header.
    ToQuote,
}

/// The text without the secrets in it: a command line for a shell, an address, a header.
#[must_use]
pub(crate) fn in_text(text: &str) -> String {
    let mut shown = String::new();
    let mut hides = Hides::Nothing;
    for piece in text.split_inclusive(is_delimiter) {
        let word = piece.trim_end_matches(is_delimiter);
        let delimiter = &piece[word.len()..];
        match hides {
            _ if word.is_empty() => {}
            Hides::Next if !word.starts_with('-') => {
                shown.push_str(HIDDEN);
                hides = Hides::Nothing;
            }
            Hides::ToQuote => {
                if !shown.ends_with(HIDDEN) {
                    shown.push_str(HIDDEN);
                }
                // What is between words of a value would tell how many there are.
                if !delimiter.contains(['"', '\'']) {
                    continue;
                }
            }
            Hides::Next | Hides::Nothing => {
                let (word, next) = in_word(word);
                shown.push_str(&word);
                hides = next;
            }
        }
        if hides == Hides::ToQuote && delimiter.contains(['"', '\'']) {
            hides = Hides::Nothing;
        }
        shown.push_str(delimiter);
    }
    shown
}

fn is_delimiter(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '"' | '\'' | '?' | '&' | ';')
}

/// A word of such a text, and what it says of those after it.
fn in_word(word: &str) -> (String, Hides) {
    if word == "Bearer" {
        return (word.to_owned(), Hides::Next);
    }
    if let Some(header) = word.strip_suffix(':')
        && names_secret(header)
    {
        return (word.to_owned(), Hides::ToQuote);
    }
    match word.split_once('=') {
        Some((name, _)) if names_secret(name) => {
            return (format!("{name}={HIDDEN}"), Hides::Nothing);
        }
        None if word.starts_with('-') && names_secret(word) => {
            return (word.to_owned(), Hides::Next);
        }
        _ => {}
    }
    let with_user = word.split_once("://").and_then(|(before, after)| {
        let host = after.find('/').unwrap_or(after.len());
        let at = after[..host].rfind('@')?;
        Some(format!("{before}://{HIDDEN}{}", &after[at..]))
    });
    (with_user.unwrap_or_else(|| word.to_owned()), Hides::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> String {
        command_line(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn secrets_are_hidden_and_nothing_else() {
        let words = [
            "run",
            "--out",
            "a/b",
            "--formal",
            "curl -H 'Authorization: Bearer abc' http://x",
            "--",
            "HF_TOKEN=abc",
            "vllm",
            "serve",
            "--api-key",
            "abc",
            "--max-tokens",
            "100",
            "--tokenizer",
            "t",
            "--password=abc",
            "--token",
            "--port",
            "1",
        ];
        assert_eq!(
            shown(&words),
            "run --out a/b --formal curl -H 'Authorization: Bearer ***' http://x -- HF_TOKEN=*** vllm serve \
             --api-key *** --max-tokens 100 --tokenizer t --password=*** --token --port 1"
        );
    }

    #[test]
    fn secrets_within_a_word_are_hidden_too() {
        for (word, hidden) in [
            ("bench --api-key abc --port 1", "bench --api-key *** --port 1"),
            ("curl -H \"x-api-key: a b\" http://x", "curl -H \"x-api-key: ***\" http://x"),
            ("curl http://me:abc@host/v1?key=abc&n=1", "curl http://***@host/v1?key=***&n=1"),
            ("VLLM_API_KEY=abc vllm serve", "VLLM_API_KEY=*** vllm serve"),
            (
                "redfish=https://bmc/redfish/v1?token=abc",
                "redfish=https://bmc/redfish/v1?token=***",
            ),
            ("a 'quoted; text' -- stays = as it is?", "a 'quoted; text' -- stays = as it is?"),
        ] {
            assert_eq!(shown(&[word]), hidden);
        }
    }

    #[test]
    fn every_value_of_an_option_is_hidden() {
        assert_eq!(
            shown(&["serve", "--api-key", "abc", "def", "--port", "1"]),
            "serve --api-key *** *** --port 1"
        );
    }

    #[test]
    fn in_json_texts_of_secret_fields_are_hidden() {
        let body = r#"{"top_k": 1, "stop_token_ids": [1, 2], "a": [{"api_key": ["abc", "def"]}]}"#;
        let hidden = r#"{"top_k":1,"stop_token_ids":[1,2],"a":[{"api_key":["***","***"]}]}"#;
        let hidden: Value = serde_json::from_str(hidden).unwrap();
        let text = shown(&["--body", body]);
        assert_eq!(serde_json::from_str::<Value>(&text[7..]).unwrap(), hidden);
        let text = shown(&[&format!("--body={body}")]);
        assert_eq!(serde_json::from_str::<Value>(&text[7..]).unwrap(), hidden);
        // Without one it stays as it was written.
        assert_eq!(shown(&["--body", r#"{"top_k":  1}"#]), r#"--body {"top_k":  1}"#);
    }
}
