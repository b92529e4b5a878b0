//! What the text of a guide means: the grammar that the library compiles, or why there is none.

use llguidance::api::TopLevelGrammar;
use serde_json::{json, Map, Value};

use crate::ffi::{Failure, Outcome};

/// What an answer may follow.
#[derive(Clone, Copy)]
pub enum Kind {
    JsonSchema,
    JsonObject,
    Regex,
    Choice,
    Grammar,
}

impl Kind {
    pub fn from_number(number: u32) -> Outcome<Self> {
        match number {
            1 => Ok(Kind::JsonSchema),
            2 => Ok(Kind::JsonObject),
            3 => Ok(Kind::Regex),
            4 => Ok(Kind::Choice),
            5 => Ok(Kind::Grammar),
            _ => Err(Failure::invalid(format!("{number} is no kind of guide; expected 1 to 5"))),
        }
    }
}

/// Brackets within brackets that a guide may have. The library's parsers call themselves for each.
const MAX_NESTING: usize = 64;

/// A blank, or a line break with indentation: enough to write JSON as people do, and too little for a
/// model to write blanks for ever.
const WHITESPACE: &str = r"( |\n {0,32})?";

pub fn grammar_of(kind: Kind, text: &str) -> Outcome<TopLevelGrammar> {
    Ok(match kind {
        Kind::JsonSchema => TopLevelGrammar::from_json_schema(schema_of(text)?),
        Kind::JsonObject => {
            TopLevelGrammar::from_json_schema(with_whitespace(json!({"type": "object"})))
        }
        Kind::Regex => {
            check_nesting(text)?;
            TopLevelGrammar::from_regex(text)
        }
        Kind::Choice => TopLevelGrammar::from_lark(choice_grammar(text)?),
        Kind::Grammar => {
            check_nesting(text)?;
            TopLevelGrammar::from_lark(text.to_string())
        }
    })
}

/// The schema with our whitespace, unless it says what it wants.
fn schema_of(text: &str) -> Outcome<Value> {
    let schema: Value = serde_json::from_str(text)
        .map_err(|error| Failure::invalid(format!("it is not JSON: {error}")))?;
    match schema {
        Value::Object(_) => Ok(with_whitespace(schema)),
        Value::Bool(true) => Ok(with_whitespace(Value::Object(Map::new()))),
        _ => Err(Failure::invalid("a JSON schema is an object, or true")),
    }
}

fn with_whitespace(mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.entry("x-guidance").or_insert_with(|| json!({"whitespace_pattern": WHITESPACE}));
    }
    schema
}

fn choice_grammar(text: &str) -> Outcome<String> {
    let wrong = || Failure::invalid("choices are a JSON list of strings that are not empty");
    let choices: Vec<String> = serde_json::from_str(text).map_err(|_| wrong())?;
    if choices.is_empty() || choices.iter().any(String::is_empty) {
        return Err(wrong());
    }
    // JSON's way to write a string is that of the grammar.
    let quoted: Vec<String> = choices.iter().map(|choice| json!(choice).to_string()).collect();
    Ok(format!("start: {}", quoted.join(" | ")))
}

fn check_nesting(text: &str) -> Outcome<()> {
    let mut depth = 0usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(Failure::invalid(format!(
                "its brackets stand within each other more than {MAX_NESTING} deep"
            )));
        }
    }
    Ok(())
}
