//! Strings that others wrote, as they may be shown: a name or a value could command a terminal, or forge a line of a log.

use std::borrow::Cow;

/// The string with its control characters escaped; line feeds and tabs stay where they are allowed.
pub fn visible(text: &str, lines: bool) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() && !(lines && matches!(c, '\n' | '\t'));
    if !text.contains(hidden) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match hidden(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert!(matches!(visible("plain \u{e9}\u{202f}", false), Cow::Borrowed(_)));
        assert_eq!(visible("a\n\tb\u{1b}[31m\u{9b}1m\u{7f}", true), "a\n\tb\\u{1b}[31m\\u{9b}1m\\u{7f}");
        assert_eq!(visible("a\nb\tc\r", false), "a\\nb\\tc\\r");
    }
}
