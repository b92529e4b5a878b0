//! What the files beside a tokenizer.json say about tokens, merged as transformers merges them:
//! tokenizer_config.json, special_tokens_map.json and added_tokens.json.

use std::path::Path;

use serde_json::{Map, Value};
use tokenizers::AddedToken;

use crate::ffi::{Failure, Outcome};
use crate::files;

pub const CONFIG: &str = "tokenizer_config.json";
const SPECIAL_MAP: &str = "special_tokens_map.json";
const ADDED: &str = "added_tokens.json";

const STANDARD: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// A token as a file writes it: its text alone, or an object with what else is said of it.
#[derive(Clone, PartialEq)]
pub struct TokenSpec {
    pub content: String,
    plain: bool,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: Option<bool>, // the contrary of `special` where it is not said
    special: bool,
}

impl TokenSpec {
    fn plain(text: &str) -> Self {
        TokenSpec {
            content: text.to_string(),
            plain: true,
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: None,
            special: true,
        }
    }

    /// None for what is no token.
    pub fn of(value: &Value) -> Option<Self> {
        let object = match value {
            Value::String(text) => return Some(Self::plain(text)),
            Value::Object(object) => object,
            _ => return None,
        };
        let flag = |name: &str| match object.get(name) {
            None | Some(Value::Null) => Some(None),
            Some(Value::Bool(flag)) => Some(Some(*flag)),
            Some(_) => None,
        };
        Some(TokenSpec {
            content: object.get("content")?.as_str()?.to_string(),
            plain: false,
            single_word: flag("single_word")?.unwrap_or(false),
            lstrip: flag("lstrip")?.unwrap_or(false),
            rstrip: flag("rstrip")?.unwrap_or(false),
            normalized: flag("normalized")?,
            special: flag("special")?.unwrap_or(false),
        })
    }

    pub fn made_special(mut self) -> Self {
        self.special = true;
        self
    }

    pub fn added(&self) -> AddedToken {
        AddedToken::from(self.content.as_str(), self.special)
            .single_word(self.single_word)
            .lstrip(self.lstrip)
            .rstrip(self.rstrip)
            .normalized(self.normalized.unwrap_or(!self.special))
    }
}

/// A token whose id stands beside it.
pub struct NumberedToken {
    pub id: u32,
    pub token: TokenSpec,
    pub file: &'static str,
}

#[derive(Default)]
pub struct TokenSettings {
    pub named: Vec<(String, TokenSpec)>, // the standard names first
    pub extra: Vec<TokenSpec>,
    pub numbered: Vec<NumberedToken>, // by id
}

impl TokenSettings {
    pub fn read(model_dir: &Path) -> Outcome<Self> {
        let mut settings = TokenSettings::default();
        let config = read(model_dir, CONFIG)?;
        within(model_dir, CONFIG, settings.take_config(&config))?;
        match config.get("added_tokens_decoder") {
            // A configuration that numbers its tokens says everything; older files are not read.
            Some(decoder) => within(model_dir, CONFIG, settings.take_decoder(decoder))?,
            None => {
                let map = read(model_dir, SPECIAL_MAP)?;
                let listed = matches!(config.get("extra_special_tokens"), Some(Value::Array(_)))
                    || config.contains_key("additional_special_tokens");
                within(model_dir, SPECIAL_MAP, settings.take_map(&map, listed))?;
                let added = read(model_dir, ADDED)?;
                within(model_dir, ADDED, settings.take_added(&added))?;
            }
        }
        settings.numbered.sort_by_key(|token| token.id);
        let rank = |name: &str| STANDARD.iter().position(|known| *known == name);
        settings.named.sort_by_key(|(name, _)| rank(name).unwrap_or(STANDARD.len()));
        Ok(settings)
    }

    pub fn is_named(&self, content: &str) -> bool {
        self.named.iter().any(|(_, token)| token.content == content)
    }

    fn take_config(&mut self, config: &Map<String, Value>) -> Result<(), String> {
        for (name, value) in config {
            self.take_name(name, value)?;
        }
        let said = |name: &str| config.get(name).filter(|value| !is_empty(value));
        match said("extra_special_tokens") {
            Some(Value::Object(named)) => {
                self.take_model_names(named)?;
                self.take_list(said("additional_special_tokens"))
            }
            Some(list) => self.take_list(Some(list)),
            None => self.take_list(said("additional_special_tokens")),
        }
    }

    /// `listed`: tokenizer_config.json has a list of further tokens, beside which an
    /// "additional_special_tokens" of this file is not read.
    fn take_map(&mut self, map: &Map<String, Value>, listed: bool) -> Result<(), String> {
        let from_config = self.extra.clone();
        for (name, value) in map {
            self.take_name(name, value)?;
        }
        match map.get("extra_special_tokens") {
            Some(Value::Object(named)) => self.take_model_names(named)?,
            list => self.take_list(list)?,
        }
        if !listed && !map.contains_key("extra_special_tokens") {
            self.take_list(map.get("additional_special_tokens"))?;
        }
        // Objects of this file say nothing of it, for all its tokens are special.
        self.extra = std::mem::take(&mut self.extra)
            .into_iter()
            .map(|token| if from_config.contains(&token) { token } else { token.made_special() })
            .collect();
        Ok(())
    }

    /// A later file overrules an earlier one, by null, too.
    fn take_name(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let standard = STANDARD.contains(&name);
        let token = TokenSpec::of(value);
        // A token under a name such as image_token is one of the model; add_bos_token, a boolean,
        // is none.
        if !standard && (!name.ends_with("_token") || token.is_none()) {
            return Ok(());
        }
        self.named.retain(|(known, _)| known != name);
        match token {
            Some(token) => self.named.push((name.to_string(), token.made_special())),
            None if value.is_null() => {}
            None => return Err(no_token(name)),
        }
        Ok(())
    }

    fn take_model_names(&mut self, named: &Map<String, Value>) -> Result<(), String> {
        for (name, value) in named {
            let token = TokenSpec::of(value).ok_or_else(|| no_token(name))?;
            self.named.retain(|(known, _)| known != name);
            self.named.push((name.clone(), token.made_special()));
        }
        Ok(())
    }

    fn take_list(&mut self, list: Option<&Value>) -> Result<(), String> {
        let wrong = || no_token("an entry of extra_special_tokens or additional_special_tokens");
        let entries = match list {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err("the list of further special tokens is no list".to_string()),
        };
        for entry in entries {
            let token = TokenSpec::of(entry).ok_or_else(wrong)?;
            if !self.extra.contains(&token) {
                self.extra.push(token);
            }
        }
        Ok(())
    }

    fn take_decoder(&mut self, decoder: &Value) -> Result<(), String> {
        let Value::Object(entries) = decoder else {
            return Err("added_tokens_decoder is not an object".to_string());
        };
        for (id, value) in entries {
            let token = TokenSpec::of(value).filter(|token| !token.plain);
            let token = token.ok_or_else(|| no_token(&format!("added_tokens_decoder {id}")))?;
            let id = id.parse().map_err(|_| {
                format!("the key \"{id}\" of added_tokens_decoder is not the id of a token")
            })?;
            self.numbered.push(NumberedToken { id, token, file: CONFIG });
        }
        Ok(())
    }

    /// added_tokens.json has only ids; what is named elsewhere is special.
    fn take_added(&mut self, added: &Map<String, Value>) -> Result<(), String> {
        for (content, id) in added {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
            let id = id.ok_or_else(|| format!("the token \"{content}\" has no id of a token"))?;
            let special = self.extra.iter().any(|token| token.content == *content)
                || self.named.iter().any(|(name, token)| {
                    token.content == *content && STANDARD.contains(&name.as_str())
                });
            let token = TokenSpec { plain: false, special, ..TokenSpec::plain(content) };
            self.numbered.push(NumberedToken { id, token, file: ADDED });
        }
        Ok(())
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(entries) => entries.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

fn no_token(what: &str) -> String {
    format!("{what} must be a string, or an object with a string \"content\" and booleans")
}

fn read(model_dir: &Path, file: &str) -> Outcome<Map<String, Value>> {
    Ok(files::read_object_optional(&model_dir.join(file))?.unwrap_or_default())
}

fn within(model_dir: &Path, file: &str, taken: Result<(), String>) -> Outcome<()> {
    taken.map_err(|what| Failure::invalid(format!("{}: {what}", model_dir.join(file).display())))
}
