//! The methods of Python's strings that look for something or ask what there is. Places are counted
//! in characters, as slices and `length` of templates count.

use minijinja::value::{from_args, Value};
use minijinja::{Error, ErrorKind};

/// The method's result, or None if it is none of these.
pub fn call(text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    Some(match method {
        "find" => {
            place_of(text, args, false).map(|place| place.map_or(Value::from(-1), Value::from))
        }
        "rfind" => {
            place_of(text, args, true).map(|place| place.map_or(Value::from(-1), Value::from))
        }
        "index" => place_of(text, args, false).and_then(demanded),
        "rindex" => place_of(text, args, true).and_then(demanded),
        "count" => count(text, args),
        "splitlines" => from_args(args).map(|(keep_ends,): (Option<bool>,)| {
            Value::from(lines(text, keep_ends.unwrap_or(false)))
        }),
        "islower" => from_args(args).map(|()| {
            Value::from(
                text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase),
            )
        }),
        "isupper" => from_args(args).map(|()| {
            Value::from(
                text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase),
            )
        }),
        "isalnum" | "isalpha" | "isdigit" | "isnumeric" | "isspace" if text.is_empty() => {
            from_args(args).map(|()| Value::from(false))
        }
        _ => return None,
    })
}

fn demanded(place: Option<usize>) -> Result<Value, Error> {
    place
        .map(Value::from)
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found".to_string()))
}

/// `text[start:end]` and where it begins; None where that is behind its end, so that not even
/// nothing is found.
fn part(text: &str, start: Option<i64>, end: Option<i64>) -> Option<(usize, &str)> {
    let length = text.chars().count();
    let place = |given: i64| {
        let size = usize::try_from(given.unsigned_abs()).unwrap_or(usize::MAX);
        if given < 0 {
            length.saturating_sub(size)
        } else {
            size
        }
    };
    let begin = place(start.unwrap_or(0));
    let end = place(end.unwrap_or(i64::MAX)).min(length);
    let byte = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    (begin <= end).then(|| (begin, &text[byte(begin)..byte(end)]))
}

fn place_of(text: &str, args: &[Value], last: bool) -> Result<Option<usize>, Error> {
    let (wanted, start, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
    Ok(part(text, start, end).and_then(|(begin, part)| {
        let found = if last { part.rfind(wanted) } else { part.find(wanted) };
        found.map(|at| begin + part[..at].chars().count())
    }))
}

fn count(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (wanted, start, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
    // Nothing is before and behind every character; matches() finds it so, too.
    Ok(Value::from(part(text, start, end).map_or(0, |(_, part)| part.matches(wanted).count())))
}

fn lines(text: &str, keep_ends: bool) -> Vec<String> {
    let ends_line = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some((at, end)) = rest.char_indices().find(|&(_, c)| ends_line(c)) else {
            lines.push(rest.to_string());
            break;
        };
        let next = at + if rest[at..].starts_with("\r\n") { 2 } else { end.len_utf8() };
        lines.push(rest[..if keep_ends { next } else { at }].to_string());
        rest = &rest[next..];
    }
    lines
}
