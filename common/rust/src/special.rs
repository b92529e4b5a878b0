//! Special tokens by the names that chat templates know.

use std::path::Path;

use crate::ffi::Outcome;
use crate::token_settings::TokenSettings;

#[derive(Default)]
pub struct SpecialTokens {
    texts: Vec<(String, String)>, // name, text
}

impl SpecialTokens {
    pub fn load(model_dir: &Path) -> Outcome<Self> {
        let named = TokenSettings::read(model_dir)?.named;
        let texts = named.into_iter().map(|(name, token)| (name, token.content));
        Ok(SpecialTokens { texts: texts.collect() })
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
