//! Registers the tokens that the files beside a tokenizer.json name, in the order and with the ids
//! that transformers gives them: a token of the vocabulary keeps its id, any other gets the next.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use tokenizers::{AddedToken, Tokenizer};

use crate::ffi::{Failure, Outcome};
use crate::files;
use crate::token_settings::{NumberedToken, TokenSettings, TokenSpec};

const TOKENIZER: &str = "tokenizer.json";

/// Makes `tokenizer`, that of the tokenizer.json in `model_dir`, know what the files beside it say.
pub fn register(model_dir: &Path, tokenizer: &mut Tokenizer) -> Outcome<()> {
    let settings = TokenSettings::read(model_dir)?;
    let present = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
    let present = present.values().map(|token| (token.content.clone(), token.clone())).collect();
    let tokens = missing(&settings, &present);
    tokenizer.add_tokens(tokens).map_err(|error| {
        Failure::invalid(format!(
            "{}: the tokens that the files beside {TOKENIZER} name: {error}",
            model_dir.display()
        ))
    })?;
    settings.numbered.iter().try_for_each(|numbered| check_id(model_dir, numbered, tokenizer))
}

/// What `register` would change, as text that is equal where it would change the same. Empty where
/// tokenizer.json says all itself.
pub fn changes(model_dir: &Path) -> Outcome<String> {
    let Some(json) = files::read_optional(&model_dir.join(TOKENIZER))? else {
        return Ok(String::new());
    };
    let present = added_of(&json).map_err(|error| {
        Failure::invalid(format!("{}: {error}", model_dir.join(TOKENIZER).display()))
    })?;
    let tokens = missing(&TokenSettings::read(model_dir)?, &present);
    Ok(tokens.iter().map(|token| format!("{token:?}\n")).collect())
}

/// The tokens to add, in order: those with an id that `present` lacks or has otherwise, then those
/// with a name, then the others.
fn missing(settings: &TokenSettings, present: &HashMap<String, AddedToken>) -> Vec<AddedToken> {
    let mut tokens: Vec<AddedToken> = Vec::new();
    for NumberedToken { token, .. } in &settings.numbered {
        if present.get(&token.content) != Some(&token.added()) {
            let named = settings.is_named(&token.content);
            let token = if named { token.clone().made_special() } else { token.clone() };
            tokens.push(token.added());
        }
    }
    let numbered = tokens.len();
    let named = settings.named.iter().map(|(_, token)| token);
    for token in named.chain(&settings.extra) {
        let known = present.contains_key(&token.content)
            || tokens[..numbered].iter().any(|other| other.content == token.content);
        if !known && !tokens.contains(&token.added()) {
            tokens.push(token.added());
        }
    }
    tokens
}

/// Ids of a file that says something else than the vocabulary would mean another model's tokens.
fn check_id(model_dir: &Path, numbered: &NumberedToken, tokenizer: &Tokenizer) -> Outcome<()> {
    let NumberedToken { id, token, file } = numbered;
    let found = tokenizer.token_to_id(&token.content);
    if found == Some(*id) || token.content.is_empty() {
        return Ok(());
    }
    let found = found.map_or("none".to_string(), |found| found.to_string());
    Err(Failure::invalid(format!(
        "{}: the token \"{}\" has id {id} there, but by {TOKENIZER}, which decides, its id is \
         {found}; correct the file that is wrong",
        model_dir.join(file).display(),
        token.content
    )))
}

/// The added tokens of the text of a tokenizer.json, of which nothing else is kept in memory.
fn added_of(json: &[u8]) -> serde_json::Result<HashMap<String, AddedToken>> {
    struct Added;
    impl<'de> Visitor<'de> for Added {
        type Value = Vec<Value>;
        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            formatter.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut tokens = Vec::new();
            while let Some(name) = map.next_key::<String>()? {
                match name.as_str() {
                    "added_tokens" => tokens = map.next_value()?,
                    _ => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(tokens)
        }
    }
    let tokens = serde_json::Deserializer::from_slice(json).deserialize_map(Added)?;
    let tokens = tokens.iter().filter_map(TokenSpec::of);
    Ok(tokens.map(|token| (token.content.clone(), token.added())).collect())
}
