//! One escaper for everything a server wrote and a person will read.
//!
//! A terminal obeys control characters, so a server's words could move the cursor, rewrite lines, fill the clipboard
//! or, with bidirectional controls, show a text in another order than it is. JSON output needs none of this: there the
//! encoder escapes.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Makes `text` fit for one line: control characters become `\u{1b}` and the like, line breaks and tabs a space.
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, |character| matches!(character, '\n' | '\t').then_some(' '))
}

/// Makes `text` fit for a block: as [`line()`], but line breaks and tabs stay, and CRLF becomes LF.
pub fn block(text: &str) -> Cow<'_, str> {
    let text: Cow<'_, str> =
        if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) };
    match text {
        Cow::Borrowed(text) => escape(text, keep_layout),
        Cow::Owned(text) => Cow::Owned(escape(&text, keep_layout).into_owned()),
    }
}

fn keep_layout(character: char) -> Option<char> {
    matches!(character, '\n' | '\t').then_some(character)
}

fn escape(text: &str, layout: impl Fn(char) -> Option<char>) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match layout(character) {
            Some(kept) => safe.push(kept),
            None if is_unsafe(character) => {
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
            }
            None => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

/// C0, DEL and C1, the bidirectional controls, line and paragraph separator, and the byte-order mark.
fn is_unsafe(character: char) -> bool {
    matches!(character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// The number of terminal columns of `text`, which must hold no control characters.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Cuts `text` to at most `columns` terminal columns, with `…` as the last where something was cut.
pub fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    if columns == 0 {
        return Cow::Borrowed("");
    }
    let mut cut = String::new();
    let mut used = 0;
    for character in text.chars() {
        let columns_of_character = character.width().unwrap_or(0);
        if used + columns_of_character > columns - 1 {
            break;
        }
        used += columns_of_character;
        cut.push(character);
    }
    // An emoji joined from several characters may be wider alone than together; the sum above is the safe side.
    cut.push('…');
    Cow::Owned(cut)
}

/// `1 task`, `2 tasks`.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The names in `known` that a person may have meant by `wanted`, nearest first, three at most.
pub fn near_misses<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|name| {
            let lower = name.to_lowercase();
            let contained = wanted.len() >= 3 && (lower.contains(&wanted) || wanted.contains(&lower));
            (strsim::jaro_winkler(&wanted, &lower).max(if contained { 0.85 } else { 0.0 }), name)
        })
        .filter(|(score, _)| *score >= 0.8)
        .collect();
    scored.sort_by(|left, right| right.0.total_cmp(&left.0));
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terminal_escapes_become_visible() {
        assert_eq!(
            line("no yeast\u{1b}[1A\u{1b}[2K\u{1b}]52;c;aGk=\u{7}"),
            "no yeast\\u{1b}[1A\\u{1b}[2K\\u{1b}]52;c;aGk=\\u{7}"
        );
        assert_eq!(line("a\nb\tc\rd"), "a b c\\u{d}d");
        assert_eq!(block("a\r\nb\tc"), "a\nb\tc");
        assert_eq!(line("gnp.\u{202e}exe"), "gnp.\\u{202e}exe");
        assert_eq!(line("\u{9b}31m"), "\\u{9b}31m");
    }

    #[test]
    fn widths_count_columns() {
        assert_eq!(truncate("面包很好", 5), "面包…");
        assert_eq!(truncate("🍞🍞🍞", 4), "🍞…");
        assert_eq!(truncate("bread", 5), "bread");
        assert_eq!(truncate("bread", 0), "");
    }

    #[test]
    fn near_names_are_found() {
        assert_eq!(near_misses("ehco", ["echo", "add", "get-env"]), ["echo"]);
        assert_eq!(near_misses("research", ["simulate-research-query", "echo"]), ["simulate-research-query"]);
        assert!(near_misses("zzz", ["echo"]).is_empty());
    }

    proptest! {
        #[test]
        fn a_line_never_holds_a_control_character(text: String) {
            prop_assert!(!line(&text).chars().any(is_unsafe));
        }

        #[test]
        fn a_cut_text_fits(text in "\\PC{0,40}", columns in 0usize..30) {
            prop_assert!(width(&truncate(&text, columns)) <= columns);
        }
    }
}
