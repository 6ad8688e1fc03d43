//! Words of a statement of SQL.

use crate::trace::build::Key;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword as written, and whether it was in quotes.
    Word(String, bool),
    Constant(Key),
    /// The parameter with this number, counted from 0.
    Parameter(usize),
    Sign(&'static str),
}

/// The signs of the language. Longer ones come first, since the first match is taken.
const SIGNS: [&str; 20] = [
    "<=>", "<=", ">=", "<>", "!=", "::", "=", "<", ">", "(", ")", ",", ".", ";", "*", "+", "-", "/", "%", "|",
];

/// The tokens of a statement. Text in double quotes is a name, or a constant if `quoted_texts` is set.
pub(super) fn tokens(text: &str, quoted_texts: bool) -> Vec<Token> {
    let (mut found, mut rest, mut parameters) = (Vec::new(), text, 0);
    while let Some(first) = rest.chars().next() {
        let (token, used) = match first {
            _ if first.is_whitespace() => (None, first.len_utf8()),
            '-' if rest.starts_with("--") => (None, rest.find('\n').unwrap_or(rest.len())),
            '#' if quoted_texts => (None, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => (None, rest.find("*/").map_or(rest.len(), |end| end + 2)),
            '\'' => quoted(rest, ('\'', quoted_texts), |text| Token::Constant(Key::of_word(&text))),
            '"' if quoted_texts => quoted(rest, ('"', true), |text| Token::Constant(Key::of_word(&text))),
            '"' | '`' => quoted(rest, (first, false), |text| Token::Word(text, true)),
            '$' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                let number = rest[1..=digits].parse::<usize>().unwrap_or(0).saturating_sub(1);
                (Some(Token::Parameter(number)), digits + 1)
            }
            '?' => {
                parameters += 1;
                (Some(Token::Parameter(parameters - 1)), 1)
            }
            '0'..='9' => number(rest),
            _ if first.is_alphabetic() || matches!(first, '_' | '@') => {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '@' | '$')));
                let word = &rest[..end.unwrap_or(rest.len())];
                (Some(Token::Word(word.to_string(), false)), word.len())
            }
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Some(Token::Sign(sign)), sign.len()),
                None => (None, first.len_utf8()),
            },
        };
        found.extend(token);
        rest = &rest[used..];
    }
    found
}

fn number(text: &str) -> (Option<Token>, usize) {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(text.len());
    (Some(Token::Constant(Key::of_word(&text[..end]))), end)
}

/// Reads a text in quotes and returns it with its length in the statement. A doubled quote stands for one
/// quote; so does one behind a backslash if the quotes have escapes.
fn quoted(
    text: &str,
    (quote, escapes): (char, bool),
    make: impl Fn(String) -> Token,
) -> (Option<Token>, usize) {
    let mut inner = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && escapes {
            inner.extend(chars.next().map(|(_, escaped)| escaped));
        } else if c == quote {
            if chars.peek().is_none_or(|(_, next)| *next != quote) {
                return (Some(make(inner)), at + quote.len_utf8());
            }
            chars.next();
            inner.push(c);
        } else {
            inner.push(c);
        }
    }
    (Some(make(inner)), text.len())
}
