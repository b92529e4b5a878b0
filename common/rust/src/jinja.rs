//! minijinja set up as Hugging Face transformers sets up jinja2 for chat templates.
//!
//! What still differs: tuples print as lists, `"…" % values` is refused, and the filters `center`
//! and `lipsum` and the test `callable` do not exist. `~` joins a list or an object as JSON, `%` and
//! `//` by a negative number give another result, a slice that goes backwards to an end has an
//! element more, and `and` of constants gives False where the first is false. Strings that name a
//! character (`\N{BULLET}`) are refused, and the halves of a character are joined (`\ud83d\ude00`).
//!
//! What a filter or a method makes at once is bounded (jinja_sizes.rs), and so is what a template
//! writes. minijinja has no hook for operators, slices, captures and calls. So nothing bounds a text
//! that `~` or `+` doubles in a loop, a list of 10^11 elements that `*` made where `~` joins it, a
//! slice takes it backwards or `f(*list)` hands it on, what `{% set %}` of a block, a macro or
//! `{% call %}` writes, all that a template keeps in variables together, nor how deep it is. A
//! template that does so can still take all memory, and end the process.

use minijinja::machinery::WhitespaceConfig;
use minijinja::value::{from_args, Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Template};

use crate::jinja_bounds::{check_source, BoundedText, MAX_TEXT_BYTES};
use crate::jinja_literals::decode_literals;
use crate::jinja_sizes;
use crate::python_json;
use crate::python_text;
use crate::strftime;

/// The variable that carries the time into strftime_now. No template would use such a name.
pub const TIME_VARIABLE: &str = "baton_unix_time";

/// The most instructions that one render may take. A conversation of a thousand turns needs about a
/// hundred thousand.
const FUEL: u64 = 10_000_000;

const WHITESPACE: WhitespaceConfig =
    WhitespaceConfig { keep_trailing_newline: false, lstrip_blocks: true, trim_blocks: true };

pub fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(WHITESPACE.trim_blocks);
    environment.set_lstrip_blocks(WHITESPACE.lstrip_blocks);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    minijinja_contrib::add_to_environment(&mut environment);
    environment.set_unknown_method_callback(python_text::call_method);
    environment.set_formatter(python_text::print);
    environment.set_fuel(Some(FUEL));
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", tojson);
    environment.add_filter("round", python_text::round);
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    jinja_sizes::bound_filters(&mut environment);
    // jinja2 has no such function. It prints all that there is, whatever its size.
    environment.remove_global("debug");
    environment
}

/// Adds a template of this source, which is bounded.
pub fn add(
    environment: &mut Environment<'static>,
    name: String,
    source: &str,
) -> Result<(), String> {
    let source = adapt(source)?;
    check_source(&source, WHITESPACE)?;
    environment.add_template_owned(name, source).map_err(|error| describe(&error))
}

/// What `template` writes, which is bounded.
pub fn render(template: &Template, context: Value) -> Result<String, String> {
    let mut text = BoundedText::default();
    template.render_captured_to(context, &mut text).map_err(|error| describe(&error))?;
    String::from_utf8(text.bytes).map_err(|error| error.to_string())
}

/// A source that minijinja reads as jinja2 reads the original.
fn adapt(source: &str) -> Result<String, String> {
    // Every kind of line end is a newline to jinja2, in text and in the strings of tags.
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    decode_literals(&without_generation_tags(&source))
}

/// `{% generation %}` marks the assistant's part for training only; minijinja does not know it. An
/// `if true` keeps the whitespace rules of the tags.
fn without_generation_tags(source: &str) -> String {
    let mut adapted = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(begin) = rest.find("{%") {
        let Some(inside) = rest[begin + 2..].find("%}") else { break };
        let size = 2 + inside;
        let tag = &rest[begin..begin + size];
        let name = tag[2..].trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
        let replacement = match name {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        adapted.push_str(&rest[..begin]);
        match replacement {
            Some(statement) => adapted.push_str(&tag.replacen(name, statement, 1)),
            None => adapted.push_str(tag),
        }
        rest = &rest[begin + size..];
    }
    adapted.push_str(rest);
    adapted
}

/// The innermost message of an error: what raise_exception said, or what went wrong and where.
fn describe(error: &Error) -> String {
    if error.kind() == ErrorKind::OutOfFuel {
        return format!("the chat template needs more than {FUEL} steps");
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<Error>() {
        Some(error) if error.kind() == ErrorKind::InvalidOperation => {
            let detail = error.detail().filter(|detail| !detail.is_empty());
            detail.unwrap_or("the chat template failed without saying why").to_string()
        }
        _ => innermost.to_string(),
    }
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

fn strftime_now(state: &State, format: String) -> Result<String, Error> {
    let time = state.lookup(TIME_VARIABLE).and_then(|value| f64::try_from(value).ok());
    strftime::format(&format, time.unwrap_or(0.0))
        .map_err(|what| Error::new(ErrorKind::InvalidOperation, what))
}

/// The filter `tojson` as transformers defines it: json.dumps, not jinja2's HTML-safe filter.
fn tojson(value: Value, arguments: minijinja::value::Rest<Value>) -> Result<Value, Error> {
    let (positional, options): (&[Value], Kwargs) = from_args(&arguments)?;
    let option = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        match positional.get(index) {
            Some(value) => Ok(Some(value.clone())),
            None => options.get::<Option<Value>>(name),
        }
    };
    let is_true = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let style = python_json::Style {
        ensure_ascii: is_true(option(0, "ensure_ascii")?),
        indent: option(1, "indent")?
            .filter(|value| !value.is_none())
            .map(indent_text)
            .transpose()?,
        separators: option(2, "separators")?
            .filter(|value| !value.is_none())
            .map(separator_pair)
            .transpose()?,
        sort_keys: is_true(option(3, "sort_keys")?),
    };
    options.assert_all_used()?;
    jinja_sizes::check_size("tojson", &value)?;
    let json = serde_json::to_value(&value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    let text = python_json::dumps(&json, &style, MAX_TEXT_BYTES);
    text.map(Value::from).ok_or_else(|| jinja_sizes::too_large("tojson"))
}

fn indent_text(value: Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) if text.len() > jinja_sizes::MAX_COUNT => Err(jinja_sizes::refuse(format!(
            "tojson is given an indent of {} bytes; at most {} are taken",
            text.len(),
            jinja_sizes::MAX_COUNT
        ))),
        Some(text) => Ok(text.to_string()),
        None => Ok(" ".repeat(usize::try_from(value)?.min(64))),
    }
}

fn separator_pair(value: Value) -> Result<(String, String), Error> {
    let parts: Vec<String> = value.try_iter()?.map(|part| part.to_string()).collect();
    match <[String; 2]>::try_from(parts) {
        Ok([item, key]) => Ok((item, key)),
        Err(_) => Err(Error::new(ErrorKind::InvalidOperation, "separators must be a pair")),
    }
}

/// What has a length and elements by index or key; for Python strings and objects, too.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined => true,
        ValueKind::Iterable => value.len().is_some(),
        _ => false,
    }
}

fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// The filter `length`. It gives 0 for none and undefined, of which templates take the length when
/// there are no tools.
fn length(value: Value) -> Result<usize, Error> {
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => Ok(0),
        kind => value.len().ok_or_else(|| {
            Error::new(ErrorKind::InvalidOperation, format!("a {kind} has no length"))
        }),
    }
}
