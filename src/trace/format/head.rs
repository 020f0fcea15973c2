//! The first bytes of an input, as detection looks at them.

use std::path::{Path, PathBuf};

/// The first bytes of an input, decompressed.
#[derive(Debug, Clone)]
pub struct Head {
    path: PathBuf,
    bytes: Vec<u8>,
    text: String,
}

/// Deepest objects whose keys are told.
const MAX_DEPTH: usize = 8;

impl Head {
    pub(super) fn new(path: &Path, bytes: Vec<u8>) -> Self {
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
        Self { path: path.to_owned(), bytes, text }
    }

    /// Where the input lies; for the reason.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes as text without a byte-order mark; what is not UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The lines that are not blank. The last may be cut off.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty())
    }

    /// Whether the text begins like a JSON object or list.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.text.trim_start().starts_with(['{', '['])
    }

    /// Paths of the keys in the JSON text, such as `metadata.request_start_ns`; lists are passed through,
    /// so `requests.timestamp` is a key of the objects in the list `requests`. In the order of first
    /// appearance, each once. The text may be cut off anywhere; empty if it is no JSON.
    #[must_use]
    pub fn json_paths(&self) -> Vec<String> {
        if !self.is_json() {
            return Vec::new();
        }
        let mut paths = PathFinder::default();
        paths.walk(&self.text);
        paths.found
    }

    /// Whether every one of `keys` is a path of the JSON text; see [`Head::json_paths`].
    #[must_use]
    pub fn has_json_paths(&self, keys: &[&str]) -> bool {
        let paths = self.json_paths();
        keys.iter().all(|key| paths.iter().any(|path| path == key))
    }
}

/// Collects key paths from text that may stop anywhere.
#[derive(Default)]
struct PathFinder {
    found: Vec<String>,
    seen: std::collections::BTreeSet<String>,
    /// The key that each open object or list hangs on; `None` inside a list or at the top.
    open: Vec<Option<String>>,
    /// The string read last, in case a colon makes it a key.
    last: Option<String>,
    key: Option<String>,
}

impl PathFinder {
    fn walk(&mut self, text: &str) {
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '"' => match string(&mut characters) {
                    Some(string) => self.last = Some(string),
                    None => return,
                },
                ':' => self.name_key(),
                '{' | '[' => {
                    self.open.push(self.key.take());
                    self.last = None;
                }
                '}' | ']' => {
                    self.open.pop();
                    self.key = None;
                }
                ',' => self.key = None,
                _ => {}
            }
        }
    }

    fn name_key(&mut self) {
        let Some(key) = self.last.take() else { return };
        if self.open.len() <= MAX_DEPTH {
            let parents = self.open.iter().flatten().map(String::as_str);
            let path: Vec<&str> = parents.chain([key.as_str()]).collect();
            let path = path.join(".");
            if self.seen.insert(path.clone()) {
                self.found.push(path);
            }
        }
        self.key = Some(key);
    }
}

/// The rest of a string after its opening quote, as it stands; `None` where the text stops inside it.
fn string(characters: &mut std::str::Chars<'_>) -> Option<String> {
    let mut string = String::new();
    loop {
        match characters.next()? {
            '"' => return Some(string),
            '\\' => {
                string.push('\\');
                string.push(characters.next()?);
            }
            character => string.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_paths_pass_through_lists_and_stop_where_the_text_does() {
        let text =
            r#"{"a": {"b": [{"c": 1, "d": "x:{\""}, {"c": 2}]}, "e": [1, {"f": null}], "g": "cut"#;
        let head = Head::new(Path::new("x"), text.as_bytes().to_vec());
        assert_eq!(head.json_paths(), ["a", "a.b", "a.b.c", "a.b.d", "e", "e.f", "g"]);
        assert!(head.has_json_paths(&["a.b.c", "e"]) && !head.has_json_paths(&["c"]));
    }

    #[test]
    fn other_text_has_no_keys() {
        let head = Head::new(Path::new("x"), b"\xef\xbb\xbfa: 1\n\n \xff\n".to_vec());
        assert!(head.json_paths().is_empty());
        assert_eq!(head.lines().collect::<Vec<_>>(), ["a: 1", " \u{fffd}"]);
    }
}
