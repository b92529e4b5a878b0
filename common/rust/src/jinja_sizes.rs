//! Bounds on what filters and methods make. One call of them is a step to minijinja, however much
//! memory it takes, and a process that gets no memory aborts.

use std::borrow::Cow;

use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{filters, Environment, Error, ErrorKind, State};

use crate::jinja_bounds::MAX_TEXT_BYTES;
use crate::jinja_formats;
use crate::python_text;

/// Elements of a list that a filter reads. Repeated lists (`[0] * 99999999999`) and slices of them
/// are made as they are read.
const MAX_ITEMS: usize = 1 << 22;

/// A width, a precision or a count that a template names. It is the most that Rust formats by.
pub const MAX_COUNT: usize = u16::MAX as usize;

/// What looks at the arguments of the filter of this name before it is called.
type Check = fn(&str, &[Value]) -> Result<(), Error>;

pub fn bound_filters(environment: &mut Environment<'static>) {
    macro_rules! bound {
        ($check:expr, $($name:literal => $filter:expr),+ $(,)?) => {
            $(bound_filter(environment, $name, Value::from_function($filter), $check);)+
        };
    }
    bound!(check_text,
        "capitalize" => filters::capitalize, "e" => filters::escape, "escape" => filters::escape,
        "lines" => filters::lines, "lower" => filters::lower, "pprint" => filters::pprint,
        "safe" => filters::safe, "split" => filters::split, "string" => python_text::to_text,
        "title" => filters::title, "trim" => filters::trim, "upper" => filters::upper);
    bound!(check_items,
        "chain" => filters::chain, "groupby" => filters::groupby, "last" => filters::last,
        "list" => filters::list, "map" => map, "max" => filters::max, "min" => filters::min,
        "reject" => filters::reject, "rejectattr" => filters::rejectattr,
        "reverse" => filters::reverse, "select" => filters::select,
        "selectattr" => filters::selectattr, "sort" => filters::sort, "sum" => filters::sum,
        "unique" => filters::unique, "zip" => filters::zip);
    bound!(check_count, "batch" => filters::batch, "slice" => filters::slice);
    bound!(check_replace, "replace" => filters::replace);
    bound!(check_join, "join" => filters::join);
    bound!(check_indent, "indent" => python_text::indent);
    bound!(jinja_formats::check_printf, "format" => filters::format);
}

fn bound_filter(
    environment: &mut Environment<'static>,
    name: &'static str,
    filter: Value,
    check: Check,
) {
    environment.add_filter(
        name,
        move |state: &State, arguments: Rest<Value>| -> Result<Value, Error> {
            check(name, &arguments)?;
            filter.call(state, &arguments)
        },
    );
}

/// Checks the method of a string, of which most make no more than they are given.
pub fn check_method(text: &str, method: &str, arguments: &[Value]) -> Result<(), Error> {
    match (method, arguments) {
        ("format", arguments) => jinja_formats::check_braces(text, arguments),
        ("join", [items, ..]) => check_joined(method, items, text.len()),
        ("replace", [old, new, rest @ ..]) => {
            let most = rest.first().and_then(|most| usize::try_from(most.clone()).ok());
            check_replaced(text, &text_of(old)?, &text_of(new)?, most.unwrap_or(usize::MAX))
        }
        _ => Ok(()),
    }
}

/// Refuses a value whose text would be too large. The text that is made of it may be a few times
/// as large as what is counted here, by quotes and escapes.
pub fn check_size(what: &str, value: &Value) -> Result<(), Error> {
    let mut room = MAX_TEXT_BYTES;
    spend(what, value, &mut room)
}

pub fn refuse(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

pub fn too_large(what: &str) -> Error {
    refuse(format!(
        "{what} would make more than {MAX_TEXT_BYTES} bytes, the most that a chat template may \
         make at once"
    ))
}

/// Takes the size of a value from `room`.
pub fn spend(what: &str, value: &Value, room: &mut usize) -> Result<(), Error> {
    let mut take = |bytes: usize| {
        *room = room.checked_sub(bytes).ok_or_else(|| too_large(what))?;
        Ok(())
    };
    match value.kind() {
        ValueKind::String | ValueKind::Bytes => take(value.as_bytes().map_or(0, <[u8]>::len)),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?;
            if items.size_hint().0 > MAX_ITEMS {
                return Err(too_many(what));
            }
            for (index, item) in items.enumerate() {
                if index == MAX_ITEMS {
                    return Err(too_many(what));
                }
                spend(what, &item, room)?;
            }
            Ok(())
        }
        ValueKind::Map => {
            for key in value.try_iter()? {
                spend(what, &key, room)?;
                spend(what, &value.get_item(&key)?, room)?;
            }
            Ok(())
        }
        _ => take(8),
    }
}

fn too_many(what: &str) -> Error {
    refuse(format!("{what} is given a list of more than {MAX_ITEMS} elements, the most it takes"))
}

/// The text of a value, which is bounded.
fn text_of(value: &Value) -> Result<Cow<'_, str>, Error> {
    match value.as_str() {
        Some(text) => Ok(Cow::Borrowed(text)),
        None => {
            check_size("a text", value)?;
            Ok(Cow::Owned(value.to_string()))
        }
    }
}

fn check_text(name: &str, arguments: &[Value]) -> Result<(), Error> {
    arguments.first().map_or(Ok(()), |value| check_size(name, value))
}

/// Lists are read to see their end: what they tell of their length need not be true, since that of
/// a repeated list wraps around.
fn check_items(name: &str, arguments: &[Value]) -> Result<(), Error> {
    for value in arguments {
        if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
            let mut items = value.try_iter()?;
            if items.size_hint().0 > MAX_ITEMS || items.nth(MAX_ITEMS).is_some() {
                return Err(too_many(name));
            }
        }
    }
    Ok(())
}

fn check_count(name: &str, arguments: &[Value]) -> Result<(), Error> {
    check_items(name, arguments)?;
    match arguments.get(1).and_then(|count| u64::try_from(count.clone()).ok()) {
        Some(count) if count > MAX_COUNT as u64 => Err(refuse(format!(
            "{name} is given a count of {count}; at most {MAX_COUNT} are taken"
        ))),
        _ => Ok(()),
    }
}

fn check_replace(name: &str, arguments: &[Value]) -> Result<(), Error> {
    let [value, old, new, ..] = arguments else { return check_text(name, arguments) };
    check_replaced(&text_of(value)?, &text_of(old)?, &text_of(new)?, usize::MAX)
}

fn check_replaced(text: &str, old: &str, new: &str, most: usize) -> Result<(), Error> {
    if new.len() <= old.len() {
        return Ok(());
    }
    let found = text.matches(old).take(most).count();
    match found.saturating_mul(new.len() - old.len()).saturating_add(text.len()) {
        bytes if bytes > MAX_TEXT_BYTES => Err(too_large("replace")),
        _ => Ok(()),
    }
}

fn check_join(name: &str, arguments: &[Value]) -> Result<(), Error> {
    let Some(items) = arguments.first() else { return Ok(()) };
    let between = arguments.get(1).map_or(Ok(0), |text| text_of(text).map(|text| text.len()))?;
    check_joined(name, items, between)
}

fn check_joined(name: &str, items: &Value, between: usize) -> Result<(), Error> {
    // What cannot be joined is refused with better words by whoever joins it.
    let Ok(iterator) = items.try_iter() else { return Ok(()) };
    let mut room = MAX_TEXT_BYTES;
    for (index, item) in iterator.enumerate() {
        if index == MAX_ITEMS && items.kind() != ValueKind::String {
            return Err(too_many(name));
        }
        spend(name, &item, &mut room)?;
        room = room.checked_sub(between).ok_or_else(|| too_large(name))?;
    }
    Ok(())
}

fn check_indent(name: &str, arguments: &[Value]) -> Result<(), Error> {
    let Some(value) = arguments.first() else { return Ok(()) };
    let text = text_of(value)?;
    let width = arguments.get(1).and_then(|width| usize::try_from(width.clone()).ok());
    let width = python_text::indent_width(width);
    let lines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
    match text.len().saturating_add(lines * width) {
        bytes if bytes > MAX_TEXT_BYTES => Err(too_large(name)),
        _ => Ok(()),
    }
}

/// The filter `map`, which bounds all that the filter makes that it calls for each element.
fn map(state: &State, value: Value, arguments: Rest<Value>) -> Result<Vec<Value>, Error> {
    let Some((name, rest)) =
        arguments.split_first().and_then(|(name, rest)| Some((name.as_str()?, rest)))
    else {
        return filters::map(state, value, arguments);
    };
    let mut room = MAX_TEXT_BYTES;
    let mut made = Vec::new();
    for item in value.try_iter()? {
        let given: Vec<Value> = std::iter::once(item).chain(rest.iter().cloned()).collect();
        let result = state.apply_filter(name, &given)?;
        spend("map", &result, &mut room)?;
        made.push(result);
    }
    Ok(made)
}
