//! Whether tokenizer_config.json and tokenizer.json agree on a space before the text.
//!
//! Some classes of transformers make their pre-tokenizer anew by add_prefix_space of
//! tokenizer_config.json, others take it from tokenizer.json. Here tokenizer.json decides, so a
//! model is refused where one of the former would put a space where this file has none, or the
//! other way round. The classes of Llama make one out of nothing but that setting, which is true
//! where it is absent: for them a tokenizer.json that says nothing of a space puts none.

use std::path::Path;

use serde_json::{Map, Value};

use crate::ffi::{Failure, Outcome};
use crate::files;
use crate::token_settings::CONFIG;

/// The classes that make it anew, without "Fast" at the end.
const CLASSES: [&str; 6] = [
    "CodeLlamaTokenizer",
    "CohereTokenizer",
    "GPT2Tokenizer",
    "GPTNeoXTokenizer",
    "LlamaTokenizer",
    "Qwen2Tokenizer",
];

/// Those of them that put a space unless the setting is false, whatever tokenizer.json has.
const PUTS_ONE: [&str; 2] = ["CodeLlamaTokenizer", "LlamaTokenizer"];

const READS_AS_IT_IS: &str = "TokenizersBackend";

/// `json`: the text of the tokenizer.json in `model_dir`.
pub fn check(model_dir: &Path, json: &[u8]) -> Outcome<()> {
    let path = model_dir.join(CONFIG);
    let config = files::read_object_optional(&path)?.unwrap_or_default();
    let class = class_of(model_dir, &config)?;
    if !CLASSES.contains(&class.as_str()) {
        return Ok(());
    }
    // A tokenizer.json of bytes is none for LlamaTokenizer, and read as it is.
    let of_bytes = contains(json, b"\"ByteLevel\"");
    if class == "LlamaTokenizer" && of_bytes {
        return Ok(());
    }
    let puts_one = PUTS_ONE.contains(&class.as_str()) && !of_bytes;
    let said = config.get("add_prefix_space").and_then(Value::as_bool);
    let Some(wanted) = said.or(puts_one.then_some(true)) else { return Ok(()) };
    // What does not parse is refused with better words by whoever makes a tokenizer of it.
    let Ok(tokenizer) = serde_json::from_slice::<Value>(json) else { return Ok(()) };
    let found = adds_space(&tokenizer["pre_tokenizer"]).or(adds_space(&tokenizer["normalizer"]));
    match found.or(puts_one.then_some(false)) {
        Some(found) if found != wanted => Err(Failure::invalid(format!(
            "{}: add_prefix_space is {}, but tokenizer.json {} a space before the text; make them \
             say the same, as with \"add_prefix_space\": {found} where tokenizer.json is right",
            path.display(),
            said.map_or(format!("absent, which is true to {class}"), |said| said.to_string()),
            if found { "puts" } else { "does not put" }
        ))),
        _ => Ok(()),
    }
}

/// The class, without "Fast" at its end, that transformers takes for a model.
fn class_of(model_dir: &Path, config: &Map<String, Value>) -> Outcome<String> {
    let model = files::read_object_optional(&model_dir.join("config.json"))?.unwrap_or_default();
    let text = |from: &Map<String, Value>, key: &str| {
        from.get(key).and_then(Value::as_str).map(str::to_string)
    };
    let class = text(config, "tokenizer_class").or(text(&model, "tokenizer_class"));
    let class = match (text(&model, "model_type").as_deref(), class) {
        (Some("mistral"), _) => READS_AS_IT_IS.to_string(),
        (Some("qwen2"), _) | (Some("qwen3"), None) => "Qwen2Tokenizer".to_string(),
        (_, class) => class.unwrap_or(READS_AS_IT_IS.to_string()),
    };
    Ok(class.strip_suffix("Fast").unwrap_or(&class).to_string())
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// None for a part that has nothing to do with it.
fn adds_space(part: &Value) -> Option<bool> {
    let any = |parts: &Value| {
        let found: Vec<bool> = parts.as_array()?.iter().filter_map(adds_space).collect();
        (!found.is_empty()).then(|| found.contains(&true))
    };
    match part["type"].as_str()? {
        "Sequence" => any(&part["pretokenizers"]).or(any(&part["normalizers"])),
        "ByteLevel" => part["add_prefix_space"].as_bool(),
        "Metaspace" => match part["prepend_scheme"].as_str() {
            Some(scheme) => Some(scheme != "never"),
            None => part["add_prefix_space"].as_bool(),
        },
        "Prepend" => Some(true),
        _ => None,
    }
}
