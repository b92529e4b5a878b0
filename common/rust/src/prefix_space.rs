//! Whether tokenizer_config.json and tokenizer.json agree on a space before the text.
//!
//! Some classes of transformers make their pre-tokenizer anew by add_prefix_space of
//! tokenizer_config.json, others take it from tokenizer.json. Here tokenizer.json decides, so a
//! model is refused where one of the former would put a space where this file has none, or the
//! other way round.

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

const READS_AS_IT_IS: &str = "TokenizersBackend";

/// `json`: the text of the tokenizer.json in `model_dir`.
pub fn check(model_dir: &Path, json: &[u8]) -> Outcome<()> {
    let path = model_dir.join(CONFIG);
    let config = files::read_object_optional(&path)?.unwrap_or_default();
    let Some(wanted) = config.get("add_prefix_space").and_then(Value::as_bool) else {
        return Ok(());
    };
    if !makes_anew(&class_of(model_dir, &config)?, json) {
        return Ok(());
    }
    // What does not parse is refused with better words by whoever makes a tokenizer of it.
    let Ok(tokenizer) = serde_json::from_slice::<Value>(json) else { return Ok(()) };
    match adds_space(&tokenizer["pre_tokenizer"]).or(adds_space(&tokenizer["normalizer"])) {
        Some(found) if found != wanted => Err(Failure::invalid(format!(
            "{}: add_prefix_space is {wanted}, but tokenizer.json {} a space before the text; \
             make them say the same",
            path.display(),
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

fn makes_anew(class: &str, json: &[u8]) -> bool {
    const BYTES: &[u8] = b"\"ByteLevel\"";
    // A tokenizer.json of bytes is none for LlamaTokenizer, and read as it is.
    let of_bytes = || json.windows(BYTES.len()).any(|window| window == BYTES);
    CLASSES.contains(&class) && !(class == "LlamaTokenizer" && of_bytes())
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
