//! Lines of strace: joined if they were interrupted, and parsed.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) arguments: Vec<Argument>,
    pub(super) outcome: Outcome,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// A text in quotes.
    Text(Vec<u8>),
    /// A descriptor and the path of its file, as `3</tmp/x>` or `AT_FDCWD</tmp>`.
    Descriptor(String, Vec<u8>),
    /// Any other argument, as it was printed.
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A number, and the path of the file if the number is a descriptor.
    Done(i64, Option<Vec<u8>>),
    /// The name of an error, such as ENOENT.
    Failed(String),
}

/// Joins the parts of calls that were interrupted by others.
#[derive(Default)]
pub(super) struct Lines {
    begun: BTreeMap<u32, String>,
}

impl Lines {
    /// The call that ends on this line, if any.
    pub(super) fn read(&mut self, line: &str) -> Option<Call> {
        let (pid, rest) = line.split_once(' ')?;
        let (pid, rest) = (pid.parse().ok()?, rest.trim_start());
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            self.begun.insert(pid, begun.trim_end().to_string());
            return None;
        }
        if rest.starts_with("<... ") {
            let (_, end) = rest.split_once(" resumed>")?;
            let whole = self.begun.remove(&pid)? + end;
            return call(pid, &whole);
        }
        call(pid, rest)
    }

    /// The last process that has begun, but not ended, one of these calls.
    pub(super) fn beginner(&self, names: &[&str]) -> Option<u32> {
        let mut begun = self.begun.iter().rev();
        begun.find(|(_, text)| names.iter().any(|name| text.starts_with(name))).map(|(pid, _)| *pid)
    }
}

fn call(pid: u32, text: &str) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let (arguments, rest) = arguments(rest)?;
    let outcome = outcome(rest.trim_start().strip_prefix('=')?.trim_start())?;
    Some(Call { pid, name: name.to_string(), arguments, outcome })
}

/// The arguments up to the closing bracket, and the text after it.
fn arguments(text: &str) -> Option<(Vec<Argument>, &str)> {
    let (mut found, mut begin, mut depth) = (Vec::new(), 0, 0u32);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_quotes(bytes, at)?,
            // The path of a descriptor has no > of its own: strace writes \76.
            b'<' if at > begin => at += text[at..].find('>')?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                if at > begin {
                    found.push(argument(&text[begin..at]));
                }
                return Some((found, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(argument(&text[begin..at]));
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

fn end_of_quotes(bytes: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin + 1;
    while *bytes.get(at)? != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some(at)
}

fn argument(text: &str) -> Argument {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('"') {
        let inner = inner.trim_end_matches("...").strip_suffix('"').unwrap_or(inner);
        return Argument::Text(unescape(inner));
    }
    match text.split_once('<') {
        Some((descriptor, path)) if path.ends_with('>') && !descriptor.contains(' ') => {
            Argument::Descriptor(descriptor.to_string(), unescape(&path[..path.len() - 1]))
        }
        _ => Argument::Other(text.to_string()),
    }
}

fn outcome(text: &str) -> Option<Outcome> {
    let first = text.split_whitespace().next()?;
    if let Some((number, path)) = text.split_once('<').filter(|(number, _)| number.parse::<i64>().is_ok()) {
        let path = path.split_once('>')?.0;
        return Some(Outcome::Done(number.parse().ok()?, Some(unescape(path))));
    }
    if first == "-1" {
        return Some(Outcome::Failed(text.split_whitespace().nth(1)?.to_string()));
    }
    let number = match first.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => first.parse().ok()?,
    };
    Some(Outcome::Done(number, None))
}

/// Decodes the escapes of C.
fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let (byte, used) = match (bytes[at], bytes.get(at + 1)) {
            (b'\\', Some(b'n')) => (b'\n', 2),
            (b'\\', Some(b't')) => (b'\t', 2),
            (b'\\', Some(b'r')) => (b'\r', 2),
            (b'\\', Some(b'v')) => (0x0b, 2),
            (b'\\', Some(b'f')) => (0x0c, 2),
            (b'\\', Some(b'0'..=b'7')) => octal(&bytes[at + 1..]),
            (b'\\', Some(other)) => (*other, 2),
            (byte, _) => (byte, 1),
        };
        out.push(byte);
        at += used;
    }
    out
}

/// The byte of up to three octal digits, and the length of its escape with the backslash.
fn octal(digits: &[u8]) -> (u8, usize) {
    let digits = digits.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7'));
    digits.fold((0u8, 1), |(byte, used), digit| (byte.wrapping_mul(8).wrapping_add(digit - b'0'), used + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_taken_apart() {
        let line = r#"7 openat(AT_FDCWD</tmp/d>, "x y>\"z,\n", O_WRONLY|O_CREAT, 0666) = 3</tmp/d/x y\76z>"#;
        let call = Lines::default().read(line).unwrap();
        assert_eq!((call.pid, call.name.as_str()), (7, "openat"));
        assert_eq!(
            call.arguments,
            [
                Argument::Descriptor("AT_FDCWD".into(), b"/tmp/d".to_vec()),
                Argument::Text(b"x y>\"z,\n".to_vec()),
                Argument::Other("O_WRONLY|O_CREAT".into()),
                Argument::Other("0666".into())
            ]
        );
        assert_eq!(call.outcome, Outcome::Done(3, Some(b"/tmp/d/x y>z".to_vec())));
        let line = r#"7 newfstatat(3</d>, "a", {st_mode=S_IFDIR|0755, ...}, 0) = -1 ENOENT (No such file)"#;
        assert_eq!(Lines::default().read(line).unwrap().outcome, Outcome::Failed("ENOENT".into()));
        for other in ["7 +++ exited with 0 +++", "7 --- SIGCHLD {si_signo=SIGCHLD} ---", "", "7", "7 a(b"] {
            assert_eq!(Lines::default().read(other), None, "{other}");
        }
    }

    #[test]
    fn a_call_that_others_interrupted_is_one() {
        let mut lines = Lines::default();
        assert_eq!(lines.read("7 clone(child_stack=NULL <unfinished ...>"), None);
        assert_eq!(lines.beginner(&["clone", "vfork"]), Some(7));
        assert_eq!(lines.read("8 mkdir(\"d\", 0777 <unfinished ...>"), None);
        let clone = lines.read("7 <... clone resumed>, flags=SIGCHLD) = 8").unwrap();
        assert_eq!((clone.name.as_str(), clone.outcome), ("clone", Outcome::Done(8, None)));
        let mkdir = lines.read("8 <... mkdir resumed>) = 0").unwrap();
        assert_eq!(mkdir.arguments[0], Argument::Text(b"d".to_vec()));
    }
}
