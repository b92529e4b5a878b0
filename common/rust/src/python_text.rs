//! How Python prints values, and the string methods that minijinja-contrib's pycompat lacks.

use minijinja::value::{from_args, Kwargs, Rest, Value, ValueKind};
use minijinja::{Error, ErrorKind, Output, State};

use crate::jinja_sizes;
use crate::python_json::float_text;
use crate::python_search;

/// What `{{ value }}` prints: str(value), where strings inside containers are quoted as repr does.
pub fn print(out: &mut Output, state: &State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            jinja_sizes::check_size("a list or an object", value)?;
            out.write_str(&repr(value)?)?;
            Ok(())
        }
        ValueKind::Number if !value.is_integer() => {
            out.write_str(&repr(value)?)?;
            Ok(())
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// The filter `string`.
pub fn to_text(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map | ValueKind::Number => {
            repr(&value).map(Value::from)
        }
        _ => Ok(Value::from(value.to_string())),
    }
}

fn repr(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String => Ok(quote(value.as_str().unwrap_or_default())),
        ValueKind::Number if !value.is_integer() => {
            Ok(f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float_text))
        }
        // Joined lists and slices are made as they are read.
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Result<Vec<String>, Error> =
                value.try_iter()?.map(|item| repr(&item)).collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        ValueKind::Map => {
            let mut entries = Vec::new();
            for key in value.try_iter()? {
                entries.push(format!("{}: {}", repr(&key)?, repr(&value.get_item(&key)?)?));
            }
            Ok(format!("{{{}}}", entries.join(", ")))
        }
        _ => Ok(value.to_string()),
    }
}

/// A string as repr(str) writes it: in single quotes, unless it has those and no double ones.
fn quote(text: &str) -> String {
    let delimiter = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(delimiter);
    for character in text.chars() {
        match character {
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            same if same == delimiter => {
                quoted.push('\\');
                quoted.push(same);
            }
            '\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' => {
                quoted.push_str(&format!("\\x{:02x}", character as u32));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push(delimiter);
    quoted
}

/// Calls a method that minijinja does not know; ours come first, then pycompat's.
pub fn call_method(
    state: &State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args);
    };
    jinja_sizes::check_method(text, method, args)?;
    let triple = |left: &str, middle: &str, right: &str| {
        Value::from([left, middle, right].map(str::to_string).to_vec())
    };
    match method {
        "rsplit" => {
            let (separator, limit): (Option<String>, Option<i64>) = from_args(args)?;
            Ok(Value::from(rsplit(text, separator.as_deref(), limit.unwrap_or(-1))))
        }
        "partition" => {
            let (separator,): (String,) = from_args(args)?;
            let found = text.split_once(separator.as_str());
            Ok(found.map_or(triple(text, "", ""), |(left, right)| triple(left, &separator, right)))
        }
        "rpartition" => {
            let (separator,): (String,) = from_args(args)?;
            let found = text.rsplit_once(separator.as_str());
            Ok(found.map_or(triple("", "", text), |(left, right)| triple(left, &separator, right)))
        }
        "removeprefix" => {
            let (prefix,): (String,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix.as_str()).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (String,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix.as_str()).unwrap_or(text)))
        }
        _ => python_search::call(text, method, args).unwrap_or_else(|| {
            minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
        }),
    }
}

/// Splits as str.rsplit does: at most `limit` times, from the right; without bound when negative.
fn rsplit(text: &str, separator: Option<&str>, limit: i64) -> Vec<String> {
    let pieces = usize::try_from(limit).map_or(usize::MAX, |limit| limit.saturating_add(1));
    let mut parts: Vec<String> = match separator {
        Some(separator) => text.rsplitn(pieces, separator).map(str::to_string).collect(),
        None => rsplit_whitespace(text, pieces),
    };
    parts.reverse();
    parts
}

fn rsplit_whitespace(text: &str, pieces: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let word = match rest.rfind(char::is_whitespace) {
            Some(at) if parts.len() + 1 < pieces => {
                let begin = at + rest[at..].chars().next().map_or(1, char::len_utf8);
                &rest[begin..]
            }
            _ => rest,
        };
        parts.push(word.to_string());
        rest = rest[..rest.len() - word.len()].trim_end();
    }
    parts
}

/// The filter `indent` of jinja2, which also keeps an empty last line; minijinja's drops it.
pub fn indent(
    text: String,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
) -> String {
    let indention = " ".repeat(indent_width(width));
    let mut lines = text.split('\n');
    let mut indented = if first.unwrap_or(false) { indention.clone() } else { String::new() };
    indented.push_str(lines.next().unwrap_or_default());
    for line in lines {
        indented.push('\n');
        if !line.is_empty() || blank.unwrap_or(false) {
            indented.push_str(&indention);
        }
        indented.push_str(line);
    }
    indented
}

pub fn indent_width(given: Option<usize>) -> usize {
    given.unwrap_or(4).min(256)
}

/// The filter `round` of jinja2: halves go to the even neighbour, integers stay integers.
pub fn round(value: Value, arguments: Rest<Value>) -> Result<Value, Error> {
    let (positional, options): (&[Value], Kwargs) = from_args(&arguments)?;
    let precision: Option<i32> = match positional.first() {
        Some(precision) => Some(precision.clone().try_into()?),
        None => options.get("precision")?,
    };
    let method: Option<String> = match positional.get(1) {
        Some(method) => Some(method.to_string()),
        None => options.get("method")?,
    };
    options.assert_all_used()?;
    let refuse = |what: String| Error::new(ErrorKind::InvalidOperation, what);
    let number = f64::try_from(value.clone())
        .map_err(|_| refuse(format!("cannot round value ({})", value.kind())))?;
    let precision = precision.unwrap_or(0).clamp(-300, 300);
    let scale = 10f64.powi(precision);
    match method.as_deref().unwrap_or("common") {
        "common" if value.is_integer() && precision >= 0 => Ok(value),
        "common" => Ok(round_half_even(number, precision, value.is_integer())),
        "ceil" => Ok(Value::from((number * scale).ceil() / scale)),
        "floor" => Ok(Value::from((number * scale).floor() / scale)),
        other => Err(refuse(format!("round knows common, ceil and floor, but not {other}"))),
    }
}

fn round_half_even(number: f64, precision: i32, to_integer: bool) -> Value {
    if precision >= 0 {
        // Of the decimal digits that the number really has, as Python does.
        let rounded = format!("{number:.*}", precision as usize);
        return Value::from(rounded.parse::<f64>().unwrap_or(number));
    }
    let unit = 10f64.powi(-precision);
    let rounded = (number / unit).round_ties_even() * unit;
    match to_integer {
        true => Value::from(rounded as i64),
        false => Value::from(rounded),
    }
}
