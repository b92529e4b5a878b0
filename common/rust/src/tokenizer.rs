//! A loaded tokenizer: encoding, and the table from id to bytes.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use tokenizers::Tokenizer;

use crate::added_tokens;
use crate::ffi::{panic_text, Failure, Outcome};
use crate::files;
use crate::prefix_space;
use crate::token_bytes::ByteRule;

/// Ids beyond this are refused: the table is dense, and no vocabulary is near it.
const MAX_VOCABULARY: u32 = 1 << 22;

#[derive(Clone, Copy, Default)]
struct Row {
    text: (u32, u32), // begin and end in the arena
    bytes: (u32, u32),
    valid: bool,
    special: bool,
}

pub struct TextTokenizer {
    tokenizer: Tokenizer,
    rows: Vec<Row>, // by id
    arena: Vec<u8>,
    pub drops_leading_space: bool,
}

/// What one id stands for.
pub struct TokenView<'a> {
    pub text: &'a [u8],
    pub bytes: &'a [u8],
    pub valid: bool,
    pub special: bool,
}

fn read(path: &Path) -> Outcome<Vec<u8>> {
    files::read_optional(path)?
        .ok_or_else(|| Failure::not_found(format!("{} does not exist", path.display())))
}

impl TextTokenizer {
    /// The tokenizer of a model's directory: its tokenizer.json, and what the files beside it say.
    pub fn load_model(model_dir: &Path) -> Outcome<Self> {
        let path = model_dir.join("tokenizer.json");
        let json = read(&path)?;
        prefix_space::check(model_dir, &json)?;
        Self::make(&json, &path.display().to_string(), |tokenizer| {
            added_tokens::register(model_dir, tokenizer)
        })
    }

    /// The tokenizer of one file alone.
    pub fn load(path: &Path) -> Outcome<Self> {
        Self::from_json(&read(path)?, &path.display().to_string())
    }

    /// Makes the tokenizer of the text of a tokenizer.json; `origin` is named where it is wrong.
    pub fn from_json(json: &[u8], origin: &str) -> Outcome<Self> {
        Self::make(json, origin, |_| Ok(()))
    }

    fn make(
        json: &[u8],
        origin: &str,
        complete: impl FnOnce(&mut Tokenizer) -> Outcome<()>,
    ) -> Outcome<Self> {
        let refuse = |what: String| Failure::invalid(format!("{origin}: {what}"));
        // The crate panics on some wrong files; that is the file's fault, not ours.
        let mut tokenizer = catch_unwind(|| Tokenizer::from_bytes(json))
            .map_err(panic_text)
            .and_then(|loaded| loaded.map_err(|error| error.to_string()))
            .map_err(|error| refuse(format!("not a tokenizer that can be loaded: {error}")))?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| refuse(error.to_string()))?;
        complete(&mut tokenizer)?;
        Self::from_tokenizer(tokenizer).map_err(|failure| refuse(failure.message))
    }

    fn from_tokenizer(tokenizer: Tokenizer) -> Outcome<Self> {
        let vocabulary = tokenizer.get_vocab(true);
        let Some(&highest) = vocabulary.values().max() else {
            return Err(Failure::invalid("the vocabulary is empty"));
        };
        if highest >= MAX_VOCABULARY {
            return Err(Failure::invalid(format!(
                "token id {highest} is too high; ids up to {} are supported",
                MAX_VOCABULARY - 1
            )));
        }
        let rule = ByteRule::of(&tokenizer);
        let mut table = TextTokenizer {
            drops_leading_space: rule.drops_leading_space(),
            rows: vec![Row::default(); highest as usize + 1],
            arena: Vec::new(),
            tokenizer,
        };
        for id in vocabulary.into_values() {
            table.fill_row(id, &rule)?;
        }
        table.check_post_processor()?;
        Ok(table)
    }

    /// The ids that the file's post-processor adds stand in it beside the vocabulary, so they can
    /// be of no token.
    fn check_post_processor(&self) -> Outcome<()> {
        let added = catch_unwind(AssertUnwindSafe(|| self.encode("", true))).map_err(|panic| {
            Failure::invalid(format!("the post_processor: {}", panic_text(panic)))
        })?;
        for id in added.unwrap_or_default() {
            if self.token(id).is_none() {
                return Err(Failure::invalid(format!(
                    "the post_processor adds id {id}, which is no token of the vocabulary"
                )));
            }
        }
        Ok(())
    }

    fn fill_row(&mut self, id: u32, rule: &ByteRule) -> Outcome<()> {
        let added = self.tokenizer.get_added_vocabulary();
        let is_added = added.get_added_tokens_decoder().contains_key(&id);
        let Some(token) = self.tokenizer.id_to_token(id) else { return Ok(()) };
        let special = added.is_special_token(&token);
        let bytes = rule.bytes(&token, is_added);
        self.rows[id as usize] = Row {
            text: self.store(token.as_bytes())?,
            bytes: self.store(&bytes)?,
            valid: true,
            special,
        };
        Ok(())
    }

    fn store(&mut self, bytes: &[u8]) -> Outcome<(u32, u32)> {
        let begin = self.arena.len();
        self.arena.extend_from_slice(bytes);
        let end = u32::try_from(self.arena.len())
            .map_err(|_| Failure::invalid("the tokens together have more than 4 GiB of text"))?;
        Ok((begin as u32, end))
    }

    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Outcome<Vec<u32>> {
        self.tokenizer
            .encode_fast(text, add_special_tokens)
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|error| Failure::invalid(format!("the text cannot be tokenized: {error}")))
    }

    pub fn size(&self) -> u32 {
        self.rows.len() as u32
    }

    pub fn token(&self, id: u32) -> Option<TokenView<'_>> {
        let row = self.rows.get(id as usize).filter(|row| row.valid)?;
        let view = |(begin, end): (u32, u32)| &self.arena[begin as usize..end as usize];
        Some(TokenView {
            text: view(row.text),
            bytes: view(row.bytes),
            valid: true,
            special: row.special,
        })
    }

    pub fn id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }
}
