//! Bounds on a chat template and on what it writes. minijinja walks a long chain of operators,
//! filters, attributes or elif by one native frame for each, and would leave the stack.

use std::io;

use minijinja::machinery::{tokenize, Token, WhitespaceConfig};
use minijinja::syntax::SyntaxConfig;

/// The largest template known has some tens of kilobytes.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// Tokens of one tag, and elif in a template. An eighth of what a stack of 8 MiB was seen to take.
const MAX_TAG_TOKENS: usize = 2000;
const MAX_ELIFS: usize = 1000;

/// A prompt of a million tokens has about four megabytes.
pub const MAX_TEXT_BYTES: usize = 64 << 20;

/// Why `source` is refused before it is parsed.
pub fn check_source(source: &str, whitespace: WhitespaceConfig) -> Result<(), String> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err(format!("it has {} bytes; at most {MAX_SOURCE_BYTES} are read", source.len()));
    }
    let mut in_tag = 0;
    let mut elifs = 0;
    // Where the source is wrong, the parser says so.
    let tokens = tokenize(source, false, SyntaxConfig::default(), whitespace).map_while(Result::ok);
    for (token, span) in tokens {
        match token {
            Token::VariableStart | Token::BlockStart => in_tag = 0,
            Token::Ident("elif") if in_tag == 0 => elifs += 1,
            _ => in_tag += 1,
        }
        if in_tag > MAX_TAG_TOKENS {
            let line = span.start_line;
            return Err(format!(
                "the tag at line {line} has more than {MAX_TAG_TOKENS} names, values and operators"
            ));
        }
        if elifs > MAX_ELIFS {
            return Err(format!("it has more than {MAX_ELIFS} elif"));
        }
    }
    Ok(())
}

/// Takes what a template writes.
#[derive(Default)]
pub struct BoundedText {
    pub bytes: Vec<u8>,
}

impl io::Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > MAX_TEXT_BYTES - self.bytes.len() {
            return Err(io::Error::other(format!(
                "the chat template writes more than {MAX_TEXT_BYTES} bytes"
            )));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
