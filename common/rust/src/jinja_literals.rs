//! The escapes in the string literals of a template. jinja2 reads them as Python reads its own;
//! minijinja knows those of JSON and a few more.

const RAW: &str = "raw";
const END_RAW: &str = "endraw";

/// A source whose literals have no escapes but those of a backslash and a quote, which both read
/// alike.
pub fn decode_literals(source: &str) -> Result<String, String> {
    let mut scanner = Scanner { rest: source, decoded: String::with_capacity(source.len()) };
    while let Some(begin) = next_tag(scanner.rest) {
        scanner.copy(begin);
        if scanner.rest.starts_with("{#") {
            scanner.copy(scanner.rest.find("#}").map_or(scanner.rest.len(), |end| end + 2));
        } else if let Some(size) = word_tag_size(scanner.rest, RAW) {
            scanner.copy(size + raw_text_size(&scanner.rest[size..]));
        } else {
            scanner.tag()?;
        }
    }
    scanner.copy(scanner.rest.len());
    Ok(scanner.decoded)
}

fn next_tag(source: &str) -> Option<usize> {
    source
        .match_indices('{')
        .map(|(at, _)| at)
        .find(|at| matches!(source.as_bytes().get(at + 1), Some(b'{' | b'%' | b'#')))
}

/// How many bytes a tag at the beginning of `source` has that consists of this word alone.
fn word_tag_size(source: &str, word: &str) -> Option<usize> {
    let inside = source.strip_prefix("{%")?;
    let inside = inside.strip_prefix(['-', '+']).unwrap_or(inside).trim_start();
    let after = inside.strip_prefix(word)?.trim_start();
    let after = after.strip_prefix(['-', '+']).unwrap_or(after).strip_prefix("%}")?;
    Some(source.len() - after.len())
}

/// How many bytes there are up to the end of a part that is no template.
fn raw_text_size(source: &str) -> usize {
    source
        .match_indices("{%")
        .map(|(at, _)| at)
        .find(|at| word_tag_size(&source[*at..], END_RAW).is_some())
        .unwrap_or(source.len())
}

struct Scanner<'a> {
    rest: &'a str,
    decoded: String,
}

impl Scanner<'_> {
    fn copy(&mut self, bytes: usize) {
        let (copied, rest) = self.rest.split_at(bytes);
        self.decoded.push_str(copied);
        self.rest = rest;
    }

    /// Takes a tag, at whose beginning it stands.
    fn tag(&mut self) -> Result<(), String> {
        let close = if self.rest.starts_with("{{") { "}}" } else { "%}" };
        self.copy(2);
        let mut open_brackets = 0usize;
        while let Some(next) = self.rest.chars().next() {
            if open_brackets == 0 && self.rest.starts_with(close) {
                self.copy(close.len());
                return Ok(());
            }
            match next {
                '\'' | '"' => self.literal(next)?,
                _ => self.copy(next.len_utf8()),
            }
            match next {
                '(' | '[' | '{' => open_brackets += 1,
                ')' | ']' | '}' => open_brackets = open_brackets.saturating_sub(1),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes a literal, at whose first quote it stands. Of one without an end the parser says so.
    fn literal(&mut self, quote: char) -> Result<(), String> {
        let Some(size) = literal_size(&self.rest[1..], quote) else {
            self.copy(self.rest.len());
            return Ok(());
        };
        let text = &self.rest[1..=size];
        if !text.contains('\\') {
            self.copy(size + 2);
            return Ok(());
        }
        self.decoded.push(quote);
        for c in decode(text)?.chars() {
            if c == '\\' || c == quote {
                self.decoded.push('\\');
            }
            self.decoded.push(c);
        }
        self.decoded.push(quote);
        self.rest = &self.rest[size + 2..];
        Ok(())
    }
}

/// How many bytes come before the quote that ends a literal.
fn literal_size(source: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in source.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(at),
            _ => {}
        }
    }
    None
}

/// Python's codec unicode-escape.
fn decode(literal: &str) -> Result<String, String> {
    let mut decoded = String::with_capacity(literal.len());
    let mut rest = literal.chars();
    while let Some(c) = rest.next() {
        match (c, if c == '\\' { rest.next() } else { None }) {
            (_, Some(escape)) => push_escape(escape, &mut rest, &mut decoded)?,
            _ => decoded.push(c),
        }
    }
    Ok(decoded)
}

fn push_escape(
    escape: char,
    rest: &mut std::str::Chars,
    decoded: &mut String,
) -> Result<(), String> {
    match escape {
        '\n' => {}
        '\\' | '\'' | '"' => decoded.push(escape),
        'a' => decoded.push('\x07'),
        'b' => decoded.push('\x08'),
        'f' => decoded.push('\x0c'),
        'n' => decoded.push('\n'),
        'r' => decoded.push('\r'),
        't' => decoded.push('\t'),
        'v' => decoded.push('\x0b'),
        '0'..='7' => decoded.push(octal(escape, rest)),
        'x' => decoded.push(character(hexadecimal(escape, 2, rest)?)?),
        'u' => decoded.push(utf16_character(rest)?),
        'U' => decoded.push(character(hexadecimal(escape, 8, rest)?)?),
        'N' => return Err(
            "a string in the chat template names a character by \\N{...}, which is not supported: \
                        write the character itself"
                .to_string(),
        ),
        _ if escape.is_ascii() => decoded.extend(['\\', escape]),
        // jinja2 has written it as an escape by now, whose backslash is the one that is escaped.
        _ => decoded.push_str(&match escape as u32 {
            code @ ..=0xff => format!("\\x{code:02x}"),
            code @ ..=0xffff => format!("\\u{code:04x}"),
            code => format!("\\U{code:08x}"),
        }),
    }
    Ok(())
}

/// The character of up to three octal digits, of which `first` is one.
fn octal(first: char, rest: &mut std::str::Chars) -> char {
    let mut code = first as u32 - '0' as u32;
    for _ in 0..2 {
        let Some(digit) = rest.as_str().chars().next().and_then(|c| c.to_digit(8)) else { break };
        rest.next();
        code = code * 8 + digit;
    }
    char::from_u32(code).unwrap_or_default() // at most 0o777
}

fn hexadecimal(escape: char, count: usize, rest: &mut std::str::Chars) -> Result<u32, String> {
    let digits: String = rest.take(count).collect();
    if digits.len() == count && digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return u32::from_str_radix(&digits, 16).map_err(|error| error.to_string());
    }
    Err(format!(
        "a string in the chat template has \\{escape}{digits}; expected {count} hexadecimal digits"
    ))
}

fn character(code: u32) -> Result<char, String> {
    char::from_u32(code).ok_or_else(|| {
        format!("a string in the chat template has an escape of the number {code:x}, which is no character")
    })
}

/// Two escapes may be the halves of a character. Python would leave them apart, and no text could
/// be made of that.
fn utf16_character(rest: &mut std::str::Chars) -> Result<char, String> {
    let high = hexadecimal('u', 4, rest)?;
    if (0xd800..0xdc00).contains(&high) && rest.as_str().starts_with("\\u") {
        rest.nth(1);
        let low = hexadecimal('u', 4, rest)?;
        if (0xdc00..0xe000).contains(&low) {
            return character(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        }
    }
    character(high)
}
