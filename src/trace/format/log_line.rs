//! What log lines of engines have in common: colours, container names, and `key: value` lists.

use std::borrow::Cow;

/// A line as a terminal would leave it: without colour codes, and only what follows the last carriage
/// return, since a progress bar writes over itself.
pub(super) fn plain(line: &str) -> Cow<'_, str> {
    let line = line.trim_end_matches(['\r', '\n']);
    let line = line.rsplit_once('\r').map_or(line, |(_, last)| last);
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            text.push(character);
            continue;
        }
        // A control sequence runs to its first letter.
        for skipped in characters.by_ref() {
            if skipped.is_ascii_alphabetic() {
                break;
            }
        }
    }
    Cow::Owned(text)
}

/// Splits `a: 1, b: 2, 3, c: 4` into keys and values. A piece without a colon belongs to the value before
/// it, and a comma at the end is allowed.
pub(super) fn pairs(text: &str) -> Vec<(&str, Cow<'_, str>)> {
    let mut pairs: Vec<(&str, Cow<'_, str>)> = Vec::new();
    for piece in text.split(", ") {
        let piece = piece.trim().trim_end_matches(',');
        match piece.split_once(':') {
            Some((key, value)) => pairs.push((key.trim(), Cow::Borrowed(value.trim()))),
            None if piece.is_empty() => {}
            None => {
                if let Some((_, value)) = pairs.last_mut() {
                    let joined = format!("{value}, {piece}");
                    *value = Cow::Owned(joined);
                }
            }
        }
    }
    pairs
}

/// A name in the style of our columns: lower case, `_` between words.
pub(super) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for character in text.chars() {
        if character.is_ascii_alphanumeric() {
            slug.push(character.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('_') {
            slug.push('_');
        }
    }
    slug.trim_end_matches('_').to_owned()
}

/// `value` in Python's spelling.
pub(super) fn truth(value: &str) -> Option<bool> {
    match value {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}

/// The value after `name=` in text such as `a=1, name='x', b=2`, without its quotes.
pub(super) fn assigned<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = text;
    loop {
        let at = rest.find(name)?;
        let (before, from) = rest.split_at(at);
        let after = &from[name.len()..];
        let starts_word = !before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        if let Some(value) = after.strip_prefix('=').filter(|_| starts_word) {
            let value = value.trim_start();
            return Some(match value.chars().next()? {
                quote @ ('\'' | '"') => value[1..].split(quote).next()?,
                _ => value.split([',', ' ', ')']).next()?,
            });
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_overwritten_text_go_away() {
        assert_eq!(
            plain("\u{1b}[36m(APIServer pid=1)\u{1b}[0m INFO\r\n"),
            "(APIServer pid=1) INFO"
        );
        assert_eq!(plain("10%|█\r100%|██\rdone"), "done");
        assert_eq!(plain("cut \u{1b}["), "cut ");
    }

    #[test]
    fn values_may_hold_commas() {
        let text = "a: 1, rates: 0.8, 0.6, b: 2 tokens/s, ";
        let pairs = pairs(text);
        let shown: Vec<String> =
            pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(shown, ["a=1", "rates=0.8, 0.6", "b=2 tokens/s"]);
        assert!(super::pairs("x").is_empty());
    }

    #[test]
    fn names_become_ours_and_assignments_are_found() {
        assert_eq!(slug("Avg prompt throughput"), "avg_prompt_throughput");
        assert_eq!(slug("gen throughput (token/s)"), "gen_throughput_token_s");
        assert_eq!(slug("#running-req"), "running_req");
        let text = "config: model='a, b', max_model=3, tp_size=2, dtype=torch.bfloat16)";
        assert_eq!(assigned(text, "model"), Some("a, b"));
        assert_eq!(assigned(text, "tp_size"), Some("2"));
        assert_eq!(assigned(text, "dtype"), Some("torch.bfloat16"));
        assert_eq!(assigned(text, "size"), None);
    }
}
