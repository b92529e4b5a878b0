//! Writes JSON as json.dumps of Python does, which chat templates were written against.

use serde_json::{Number, Value};

#[derive(Default)]
pub struct Style {
    pub ensure_ascii: bool,
    pub indent: Option<String>,
    pub separators: Option<(String, String)>, // between items, between key and value
    pub sort_keys: bool,
}

/// None where the text would have many more than `most` bytes.
pub fn dumps(value: &Value, style: &Style, most: usize) -> Option<String> {
    let separators = style.separators.clone().unwrap_or_else(|| {
        let item = if style.indent.is_some() { "," } else { ", " };
        (item.to_string(), ": ".to_string())
    });
    let (item, key) = separators;
    let mut writer = Writer { style, item, key, most, out: String::new() };
    writer.value(value, 0);
    (writer.out.len() <= most).then_some(writer.out)
}

struct Writer<'a> {
    style: &'a Style,
    item: String,
    key: String,
    most: usize, // bytes of `out`, after which no more elements are written
    out: String,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(flag) => self.out.push_str(if *flag { "true" } else { "false" }),
            Value::Number(number) => self.out.push_str(&number_text(number)),
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                self.list('[', ']', items.len(), depth, |writer, index| {
                    writer.value(&items[index], depth + 1);
                });
            }
            Value::Object(object) => {
                let mut entries: Vec<(&String, &Value)> = object.iter().collect();
                if self.style.sort_keys {
                    entries.sort_by_key(|(key, _)| *key);
                }
                self.list('{', '}', entries.len(), depth, |writer, index| {
                    writer.string(entries[index].0);
                    let key = writer.key.clone();
                    writer.out.push_str(&key);
                    writer.value(entries[index].1, depth + 1);
                });
            }
        }
    }

    fn list(
        &mut self,
        open: char,
        close: char,
        count: usize,
        depth: usize,
        mut element: impl FnMut(&mut Self, usize),
    ) {
        self.out.push(open);
        for index in 0..count {
            if self.out.len() > self.most {
                return;
            }
            if index > 0 {
                let item = self.item.clone();
                self.out.push_str(&item);
            }
            self.newline(depth + 1);
            element(self, index);
        }
        if count > 0 {
            self.newline(depth);
        }
        self.out.push(close);
    }

    fn newline(&mut self, depth: usize) {
        if let Some(indent) = &self.style.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            match character {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                control if control < ' ' => self.escape(control),
                other if self.style.ensure_ascii && other >= '\u{7f}' => self.escape(other),
                plain => self.out.push(plain),
            }
        }
        self.out.push('"');
    }

    fn escape(&mut self, character: char) {
        for unit in character.encode_utf16(&mut [0; 2]) {
            self.out.push_str(&format!("\\u{unit:04x}"));
        }
    }
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => float_text(value),
        _ => number.to_string(),
    }
}

/// A number as repr(float) writes it: 1.0, not 1; with an exponent from 1e16 on and below 1e-4,
/// which has a sign and two digits.
pub fn float_text(value: f64) -> String {
    let shortest = format!("{value:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else { return value.to_string() };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = value.to_string();
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}
