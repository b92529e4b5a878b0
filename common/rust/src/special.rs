//! Special tokens as tokenizer_config.json and special_tokens_map.json name them.

use std::path::Path;

use serde_json::{Map, Value};

use crate::ffi::{Failure, Outcome};
use crate::files;

const NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

#[derive(Default)]
pub struct SpecialTokens {
    texts: Vec<(String, String)>, // name, text
}

impl SpecialTokens {
    pub fn load(model_dir: &Path) -> Outcome<Self> {
        let mut tokens = SpecialTokens::default();
        for file in ["tokenizer_config.json", "special_tokens_map.json"] {
            let path = model_dir.join(file);
            let Some(object) = files::read_object_optional(&path)? else { continue };
            tokens.merge(&object).map_err(|failure| {
                Failure::invalid(format!("{}: {}", path.display(), failure.message))
            })?;
        }
        Ok(tokens)
    }

    /// Adds what a file says; what an earlier file said stays.
    fn merge(&mut self, object: &Map<String, Value>) -> Outcome<()> {
        for name in NAMES {
            if self.get(name).is_none() {
                if let Some(text) = token_text(name, object.get(name))? {
                    self.set(name, text);
                }
            }
        }
        // Newer configurations name further tokens, such as image_token, in an object of their own.
        if let Some(Value::Object(extra)) = object.get("extra_special_tokens") {
            for (name, value) in extra {
                if self.get(name).is_none() {
                    if let Some(text) = token_text(name, Some(value))? {
                        self.set(name, text);
                    }
                }
            }
        }
        Ok(())
    }

    pub fn set(&mut self, name: &str, text: &str) {
        self.texts.push((name.to_string(), text.to_string()));
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    pub fn all(&self) -> &[(String, String)] {
        &self.texts
    }
}

/// A token is a string, an object with "content", or null.
fn token_text<'a>(name: &str, value: Option<&'a Value>) -> Outcome<Option<&'a str>> {
    let wrong = || {
        Failure::invalid(format!("{name} must be a string or an object with a string \"content\""))
    };
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Object(object)) => {
            object.get("content").and_then(Value::as_str).map(Some).ok_or_else(wrong)
        }
        Some(_) => Err(wrong()),
    }
}
