//! The bytes that a token adds to a text.
//!
//! Three kinds of decoder exist. ByteLevel spells each byte as one printable character; ByteFallback
//! has tokens `<0xNN>` for single bytes; everything else works on text, and a token's bytes are the
//! text that the decoder makes of it between two neighbours.

use std::collections::HashMap;

use serde_json::Value;
use tokenizers::{Decoder, DecoderWrapper, Tokenizer};

pub struct ByteRule {
    decoder: Option<DecoderWrapper>,
    alphabet: Option<HashMap<char, u8>>, // of ByteLevel
    byte_fallback: bool,
    neighbours: Vec<Neighbours>,
}

/// Two tokens to stand around another one, and what the decoder makes of them.
struct Neighbours {
    tokens: [&'static str; 2],
    text: Option<[String; 2]>, // None when the decoder mixes them
}

impl ByteRule {
    pub fn of(tokenizer: &Tokenizer) -> Self {
        let decoder = tokenizer.get_decoder().cloned();
        let mut kinds = Vec::new();
        if let Some(decoder) = &decoder {
            collect_kinds(&serde_json::to_value(decoder).unwrap_or(Value::Null), &mut kinds);
        }
        let has = |kind: &str| kinds.iter().any(|found| found == kind);
        let mut rule = ByteRule {
            alphabet: has("ByteLevel").then(byte_level_alphabet),
            byte_fallback: has("ByteFallback"),
            decoder,
            neighbours: Vec::new(),
        };
        // Neighbours must differ from the token, since CTC drops repetitions.
        for tokens in [["a", "b"], ["c", "b"], ["a", "c"]] {
            let first = rule.decode(&tokens[..1]);
            let both = rule.decode(&tokens);
            let second = both.strip_prefix(&first).map(str::to_string);
            let text = second.map(|second| [first, second]);
            rule.neighbours.push(Neighbours { tokens, text });
        }
        rule
    }

    /// `is_added`: an added token stands for its own text, whatever alphabet the others use.
    pub fn bytes(&self, token: &str, is_added: bool) -> Vec<u8> {
        if let Some(alphabet) = &self.alphabet {
            if is_added {
                return token.as_bytes().to_vec();
            }
            let mapped: Option<Vec<u8>> =
                token.chars().map(|character| alphabet.get(&character).copied()).collect();
            return mapped.unwrap_or_else(|| token.as_bytes().to_vec());
        }
        if self.byte_fallback {
            if let Some(byte) = fallback_byte(token) {
                return vec![byte];
            }
        }
        self.between_neighbours(token).into_bytes()
    }

    /// Whether decoding a whole text loses the space in front of its first word.
    pub fn drops_leading_space(&self) -> bool {
        if self.alphabet.is_some() {
            return false;
        }
        ["\u{2581}a", "a"]
            .iter()
            .any(|probe| self.between_neighbours(probe) == format!(" {}", self.decode(&[probe])))
    }

    fn decode(&self, tokens: &[&str]) -> String {
        match &self.decoder {
            None => tokens.join(" "),
            Some(decoder) => {
                let owned = tokens.iter().map(|token| token.to_string()).collect();
                decoder.decode_chain(owned).map(|parts| parts.concat()).unwrap_or_default()
            }
        }
    }

    fn between_neighbours(&self, token: &str) -> String {
        for around in &self.neighbours {
            if around.tokens.contains(&token) {
                continue;
            }
            let all = self.decode(&[around.tokens[0], token, around.tokens[1]]);
            let inner = around
                .text
                .as_ref()
                .and_then(|[before, after]| all.strip_prefix(before)?.strip_suffix(after.as_str()));
            if let Some(text) = inner {
                return text.to_string();
            }
        }
        self.decode(&[token])
    }
}

fn collect_kinds(decoder: &Value, kinds: &mut Vec<String>) {
    if let Some(kind) = decoder.get("type").and_then(Value::as_str) {
        kinds.push(kind.to_string());
    }
    for inner in decoder.get("decoders").and_then(Value::as_array).into_iter().flatten() {
        collect_kinds(inner, kinds);
    }
}

/// The byte that a token `<0xNN>` stands for.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        u8::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

/// GPT-2's alphabet: printable Latin-1 characters stand for themselves, the other bytes for the
/// characters from U+0100 on, in order.
fn byte_level_alphabet() -> HashMap<char, u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut next = 0x100u32;
    let mut alphabet = HashMap::new();
    for byte in 0..=255u8 {
        let code = if printable(byte) {
            u32::from(byte)
        } else {
            next += 1;
            next - 1
        };
        alphabet.extend(char::from_u32(code).map(|character| (character, byte)));
    }
    alphabet
}
