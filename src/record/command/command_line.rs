//! The command line as `run.json` keeps it: without what looks like a secret.

/// Parts of an option's name that say that its value is a secret.
const SECRET: [&str; 7] = ["key", "apikey", "token", "secret", "password", "passwd", "credentials"];

/// What stands for a secret.
const HIDDEN: &str = "***";

/// The words of a command line in one text. The value of an option whose name holds a word such as `key`
/// or `password`, and what follows `Bearer`, is hidden; secrets of other shapes are not known as such.
pub(super) fn without_secrets(words: impl IntoIterator<Item = String>) -> String {
    let mut shown = Vec::new();
    let mut is_secret = false;
    for word in words {
        if std::mem::take(&mut is_secret) && !word.starts_with('-') {
            shown.push(HIDDEN.to_owned());
            continue;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let names_secret = !name.contains(char::is_whitespace)
            && name
                .split(['-', '_', '.'])
                .any(|part| SECRET.iter().any(|secret| part.eq_ignore_ascii_case(secret)));
        match value {
            Some(_) if names_secret => shown.push(format!("{name}={HIDDEN}")),
            None if names_secret && name.starts_with('-') => {
                is_secret = true;
                shown.push(word);
            }
            _ => shown.push(without_bearer(&word)),
        }
    }
    shown.join(" ")
}

/// The text without what follows the word `Bearer`.
fn without_bearer(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("Bearer ") {
        let (before, after) = rest.split_at(at + "Bearer ".len());
        shown.push_str(before);
        shown.push_str(HIDDEN);
        let end = after.find(|c: char| c.is_whitespace() || c == '"' || c == '\'');
        rest = &after[end.unwrap_or(after.len())..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

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
            without_secrets(words.map(str::to_owned)),
            "run --out a/b --formal curl -H 'Authorization: Bearer ***' http://x -- HF_TOKEN=*** vllm serve \
             --api-key *** --max-tokens 100 --tokenizer t --password=*** --token --port 1"
        );
    }
}
