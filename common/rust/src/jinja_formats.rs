//! Bounds on what the filter `format` and the method of that name make: on the widths and
//! precisions in a format, and on all that its fields make together.

use minijinja::value::Value;
use minijinja::Error;

use crate::jinja_bounds::MAX_TEXT_BYTES;
use crate::jinja_sizes::{refuse, spend, MAX_COUNT};

/// The bytes of a number that no width fills up.
const NUMBER_BYTES: usize = 64;

/// What the fields of a format ask for.
#[derive(Default)]
struct Fields {
    count: usize,
    padding: usize, // the sum of widths and precisions
}

impl Fields {
    /// Reads the digits at the front of `rest` as a width or a precision.
    fn read_size<'a>(&mut self, rest: &'a str) -> Result<&'a str, Error> {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, rest) = rest.split_at(end);
        let size = if digits.is_empty() { Some(0) } else { digits.parse::<usize>().ok() };
        match size {
            Some(size) if size <= MAX_COUNT => {
                self.padding = self.padding.saturating_add(size);
                Ok(rest)
            }
            _ => {
                let shown = &digits[..digits.len().min(20)];
                let cut = if shown.len() < digits.len() { "…" } else { "" };
                Err(refuse(format!(
                    "the format has a width or precision of {shown}{cut}; at most {MAX_COUNT} are \
                     taken"
                )))
            }
        }
    }

    fn read_precision<'a>(&mut self, rest: &'a str) -> Result<&'a str, Error> {
        rest.strip_prefix('.').map_or(Ok(rest), |digits| self.read_size(digits))
    }

    /// `largest`: the bytes of the largest argument, of which any field may be.
    fn check(&self, format: &str, largest: usize) -> Result<(), Error> {
        // The character that fills up has at most four bytes.
        let padding = self.padding.saturating_mul(4);
        let values = self.count.saturating_mul(largest.saturating_add(NUMBER_BYTES));
        match format.len().saturating_add(padding).saturating_add(values) {
            bytes if bytes > MAX_TEXT_BYTES => Err(refuse(format!(
                "the format may make more than {MAX_TEXT_BYTES} bytes, the most that a chat \
                 template may make at once"
            ))),
            _ => Ok(()),
        }
    }
}

/// The filter `format`, which is given the format and then its arguments.
pub fn check_printf(name: &str, arguments: &[Value]) -> Result<(), Error> {
    let Some((format, arguments)) = arguments.split_first() else { return Ok(()) };
    let Some(format) = format.as_str() else { return Ok(()) };
    printf_fields(format)?.check(format, largest(name, arguments)?)
}

/// The method `format` of a string.
pub fn check_braces(format: &str, arguments: &[Value]) -> Result<(), Error> {
    brace_fields(format)?.check(format, largest("format", arguments)?)
}

fn largest(name: &str, arguments: &[Value]) -> Result<usize, Error> {
    let mut largest = 0;
    for argument in arguments {
        let mut room = MAX_TEXT_BYTES;
        spend(name, argument, &mut room)?;
        largest = largest.max(MAX_TEXT_BYTES - room);
    }
    Ok(largest)
}

/// Fields as in `%(key)-08.3f`.
fn printf_fields(format: &str) -> Result<Fields, Error> {
    let mut fields = Fields::default();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            rest = behind;
            continue;
        }
        fields.count += 1;
        if rest.starts_with('(') {
            rest = rest.split_once(')').map_or("", |(_, behind)| behind);
        }
        rest = rest.trim_start_matches(['#', '0', '-', ' ', '+']);
        rest = fields.read_size(rest)?;
        rest = fields.read_precision(rest)?;
    }
    Ok(fields)
}

/// Fields as in `{name[key]:*<+#08,.3f}`.
fn brace_fields(format: &str) -> Result<Fields, Error> {
    let mut fields = Fields::default();
    let mut rest = format;
    while let Some(at) = rest.find('{') {
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('{') {
            rest = behind;
            continue;
        }
        fields.count += 1;
        while let Some(end) = rest.find(['[', ':', '}']) {
            let found = rest.as_bytes()[end];
            rest = &rest[end + 1..];
            match found {
                b'[' => rest = rest.split_once(']').map_or("", |(_, behind)| behind),
                b':' => {
                    rest = without_fill(rest).trim_start_matches(['+', '-', ' ', '#']);
                    rest = fields.read_size(rest)?.trim_start_matches([',', '_']);
                    rest = fields.read_precision(rest)?;
                    break;
                }
                _ => break,
            }
        }
    }
    Ok(fields)
}

/// A specification without the character that fills up and the one that says on which side.
fn without_fill(specification: &str) -> &str {
    const SIDES: [char; 3] = ['<', '>', '^'];
    let mut characters = specification.chars();
    characters.next();
    let rest = characters.as_str();
    rest.strip_prefix(SIDES)
        .unwrap_or_else(|| specification.strip_prefix(SIDES).unwrap_or(specification))
}
