//! Breaks lines of notes.

/// Breaks `text` at spaces so that no line is wider than `width` where words allow it; the first line
/// starts with `first`, the others with as many spaces.
pub(super) fn hanging(first: &str, text: &str, width: usize) -> String {
    let indent = first.chars().count();
    let mut lines = vec![first.to_owned()];
    let mut length = indent;
    let mut at_start = true;
    for word in text.split_whitespace().map(printable) {
        let word_length = word.chars().count();
        if !at_start && length + 1 + word_length > width {
            lines.push(" ".repeat(indent));
            length = indent;
            at_start = true;
        }
        if let Some(line) = lines.last_mut() {
            if !at_start {
                line.push(' ');
                length += 1;
            }
            line.push_str(&word);
            length += word_length;
            at_start = false;
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n") + "\n"
}

/// The text without control characters, which could move the cursor or recolour a terminal: names and
/// messages come from files that anyone may have written.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A count and its noun: `1 run`, `2 runs`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// The first few names, and how many more there are.
pub(crate) fn few(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hang_under_the_first() {
        assert_eq!(hanging("  - ", "one two three four", 12), "  - one two\n    three\n    four\n");
        assert_eq!(hanging("  - ", "incomprehensibilities", 8), "  - incomprehensibilities\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(hanging("", "a\u{1b}[31m b\nc", 80), "a\u{fffd}[31m b c\n");
    }

    #[test]
    fn long_lists_are_counted() {
        assert_eq!(few(&["a", "b", "c"]), "a, b, c");
        assert_eq!(few(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }
}
