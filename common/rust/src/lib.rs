//! The C ABI of baton_text.h. Each function here converts arguments and calls one module; no panic
//! leaves this library. What callers owe (readable slices, live handles) stands in that header.
#![allow(clippy::missing_safety_doc)]

mod added_tokens;
mod chat;
mod ffi;
mod files;
mod guide;
mod guide_ffi;
mod guide_grammar;
mod jinja;
mod jinja_bounds;
mod jinja_formats;
mod jinja_literals;
mod jinja_sizes;
mod prefix_space;
mod python_json;
mod python_search;
mod python_text;
mod special;
mod strftime;
mod token_bytes;
mod token_settings;
mod tokenizer;
mod weights;

use chat::{Chat, Message, Request};
use ffi::{free_handle, guard, guard_value, handle, Owned, Slice, Status};
use special::SpecialTokens;
use tokenizer::TextTokenizer;
use weights::Header;

#[no_mangle]
pub unsafe extern "C" fn baton_buffer_free(buffer: Owned<u8>) {
    buffer.free();
}

#[no_mangle]
pub unsafe extern "C" fn baton_ids_free(ids: Owned<u32>) {
    ids.free();
}

#[no_mangle]
pub unsafe extern "C" fn baton_tokenizer_load(
    path: Slice,
    out: *mut *mut TextTokenizer,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || TextTokenizer::load(&files::path_from(path.bytes())).map(handle))
}

#[no_mangle]
pub unsafe extern "C" fn baton_tokenizer_load_model(
    model_dir: Slice,
    out: *mut *mut TextTokenizer,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || {
        TextTokenizer::load_model(&files::path_from(model_dir.bytes())).map(handle)
    })
}

#[no_mangle]
pub unsafe extern "C" fn baton_tokenizer_changes(
    model_dir: Slice,
    out: *mut Owned<u8>,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || {
        let changes = added_tokens::changes(&files::path_from(model_dir.bytes()))?;
        Ok(Owned::new(changes.into_bytes()))
    })
}

#[no_mangle]
pub unsafe extern "C" fn baton_tokenizer_from_json(
    json: Slice,
    origin: Slice,
    out: *mut *mut TextTokenizer,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || {
        let origin = String::from_utf8_lossy(origin.bytes());
        TextTokenizer::from_json(json.bytes(), &origin).map(handle)
    })
}

#[no_mangle]
pub unsafe extern "C" fn baton_tokenizer_free(tokenizer: *mut TextTokenizer) {
    free_handle(tokenizer);
}

#[no_mangle]
pub unsafe extern "C" fn baton_tokenizer_encode(
    tokenizer: *const TextTokenizer,
    text: Slice,
    add_special_tokens: u8,
    out: *mut Owned<u32>,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || {
        let text = text.text("the text")?;
        (*tokenizer).encode(text, add_special_tokens != 0).map(Owned::new)
    })
}

#[no_mangle]
pub unsafe extern "C" fn baton_tokenizer_size(tokenizer: *const TextTokenizer) -> u32 {
    (*tokenizer).size()
}

#[repr(C)]
pub struct Token {
    text: Slice,
    bytes: Slice,
    valid: u8,
    special: u8,
}

impl Token {
    /// # Safety
    /// Its slices must be readable for as long as the result is used.
    unsafe fn view<'a>(&self) -> guide::GuideToken<'a> {
        guide::GuideToken {
            text: self.text.bytes(),
            bytes: self.bytes.bytes(),
            valid: self.valid != 0,
            special: self.special != 0,
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn baton_tokenizer_token(tokenizer: *const TextTokenizer, id: u32) -> Token {
    match (*tokenizer).token(id) {
        Some(token) => Token {
            text: Slice::new(token.text),
            bytes: Slice::new(token.bytes),
            valid: 1,
            special: u8::from(token.special),
        },
        None => Token { text: Slice::NONE, bytes: Slice::NONE, valid: 0, special: 0 },
    }
}

#[no_mangle]
pub unsafe extern "C" fn baton_tokenizer_id(tokenizer: *const TextTokenizer, token: Slice) -> i64 {
    guard_value(-1, || {
        let text = token.text("the token").ok();
        text.and_then(|text| (*tokenizer).id(text)).map_or(-1, i64::from)
    })
}

#[no_mangle]
pub unsafe extern "C" fn baton_tokenizer_drops_leading_space(
    tokenizer: *const TextTokenizer,
) -> u8 {
    u8::from((*tokenizer).drops_leading_space)
}

#[no_mangle]
pub unsafe extern "C" fn baton_special_tokens_load(
    model_dir: Slice,
    out: *mut *mut SpecialTokens,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || SpecialTokens::load(&files::path_from(model_dir.bytes())).map(handle))
}

#[no_mangle]
pub unsafe extern "C" fn baton_special_tokens_free(tokens: *mut SpecialTokens) {
    free_handle(tokens);
}

#[no_mangle]
pub unsafe extern "C" fn baton_special_tokens_get(
    tokens: *const SpecialTokens,
    name: Slice,
) -> Slice {
    guard_value(Slice::NONE, || {
        let name = name.text("the name").ok();
        let found = name.and_then(|name| (*tokens).get(name));
        found.map_or(Slice::NONE, |text| Slice::new(text.as_bytes()))
    })
}

#[repr(C)]
pub struct ChatMessage {
    role: Slice,
    content: Slice,
    fields_json: Slice,
}

#[repr(C)]
pub struct ChatRequest {
    messages: *const ChatMessage,
    message_count: usize,
    add_generation_prompt: u8,
    unix_time: f64,
    variables_json: Slice,
}

#[no_mangle]
pub unsafe extern "C" fn baton_chat_load(
    model_dir: Slice,
    out: *mut *mut Chat,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || Chat::load(&files::path_from(model_dir.bytes())).map(handle))
}

#[no_mangle]
pub unsafe extern "C" fn baton_chat_from_source(
    source: Slice,
    bos_token: Slice,
    eos_token: Slice,
    out: *mut *mut Chat,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || {
        let mut tokens = SpecialTokens::default();
        for (name, token) in [("bos_token", bos_token), ("eos_token", eos_token)] {
            match token.text(name)? {
                "" => {}
                text => tokens.set(name, text),
            }
        }
        Chat::from_source(source.text("the chat template")?, tokens).map(handle)
    })
}

#[no_mangle]
pub unsafe extern "C" fn baton_chat_free(chat: *mut Chat) {
    free_handle(chat);
}

#[no_mangle]
pub unsafe extern "C" fn baton_chat_render(
    chat: *const Chat,
    request: *const ChatRequest,
    out: *mut Owned<u8>,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || {
        let request = &*request;
        let mut messages = Vec::with_capacity(request.message_count);
        for index in 0..request.message_count {
            let message = &*request.messages.add(index);
            messages.push(Message {
                role: message.role.text("the role of a message")?,
                content: message.content.text("the content of a message")?,
                fields_json: message.fields_json.text("the fields of a message")?,
            });
        }
        let request = Request {
            messages,
            add_generation_prompt: request.add_generation_prompt != 0,
            unix_time: request.unix_time,
            variables_json: request.variables_json.text("the template variables")?,
        };
        (*chat).render(&request).map(|text| Owned::new(text.into_bytes()))
    })
}

#[repr(C)]
pub struct Tensor {
    name: Slice,
    dtype: Slice,
    shape: *const u64,
    rank: usize,
    begin: u64,
    end: u64,
}

#[no_mangle]
pub unsafe extern "C" fn baton_safetensors_read(
    file: Slice,
    out: *mut *mut Header,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || Header::read(file.bytes()).map(handle))
}

#[no_mangle]
pub unsafe extern "C" fn baton_safetensors_free(header: *mut Header) {
    free_handle(header);
}

#[no_mangle]
pub unsafe extern "C" fn baton_safetensors_count(header: *const Header) -> usize {
    (&(*header).tensors).len()
}

#[no_mangle]
pub unsafe extern "C" fn baton_safetensors_tensor(header: *const Header, index: usize) -> Tensor {
    let tensors = &(*header).tensors;
    match tensors.get(index) {
        Some(tensor) => Tensor {
            name: Slice::new(tensor.name.as_bytes()),
            dtype: Slice::new(tensor.dtype.as_bytes()),
            shape: tensor.shape.as_ptr(),
            rank: tensor.shape.len(),
            begin: tensor.begin,
            end: tensor.end,
        },
        None => Tensor {
            name: Slice::NONE,
            dtype: Slice::NONE,
            shape: std::ptr::null(),
            rank: 0,
            begin: 0,
            end: 0,
        },
    }
}
