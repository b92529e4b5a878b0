//! The C ABI of baton_guide.h, by the rules of lib.rs.

use crate::ffi::{free_handle, guard, guard_value, handle, Owned, Slice, Status};
use crate::guide::{Guide, GuideToken, State, Vocabulary};
use crate::guide_grammar::Kind;
use crate::Token;

#[no_mangle]
pub unsafe extern "C" fn baton_guide_vocabulary_new(
    tokens: *const Token,
    count: usize,
    eos: *const u32,
    eos_count: usize,
    out: *mut *mut Vocabulary,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || {
        let tokens: Vec<GuideToken> = (0..count).map(|index| (*tokens.add(index)).view()).collect();
        Vocabulary::new(&tokens, slice_of(eos, eos_count)).map(handle)
    })
}

#[no_mangle]
pub unsafe extern "C" fn baton_guide_vocabulary_free(vocabulary: *mut Vocabulary) {
    free_handle(vocabulary);
}

#[no_mangle]
pub unsafe extern "C" fn baton_guide_compile(
    vocabulary: *const Vocabulary,
    kind: u32,
    text: Slice,
    out: *mut *mut Guide,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || {
        let text = text.text("the guide")?;
        (*vocabulary).compile(Kind::from_number(kind)?, text).map(handle)
    })
}

#[no_mangle]
pub unsafe extern "C" fn baton_guide_free(guide: *mut Guide) {
    free_handle(guide);
}

#[no_mangle]
pub unsafe extern "C" fn baton_guide_start(
    guide: *const Guide,
    out: *mut *mut State,
    error: *mut Owned<u8>,
) -> Status {
    guard(out, error, || Ok(handle((*guide).start())))
}

#[no_mangle]
pub unsafe extern "C" fn baton_guide_state_free(state: *mut State) {
    free_handle(state);
}

#[no_mangle]
pub unsafe extern "C" fn baton_guide_mask(
    state: *const State,
    words: *mut u32,
    count: usize,
    only_end: *mut u8,
    error: *mut Owned<u8>,
) -> Status {
    guard(only_end, error, || {
        (*state).mask(std::slice::from_raw_parts_mut(words, count)).map(u8::from)
    })
}

#[no_mangle]
pub unsafe extern "C" fn baton_guide_forced(
    state: *const State,
    bytes: *mut u8,
    capacity: usize,
    count: *mut usize,
    error: *mut Owned<u8>,
) -> Status {
    guard(count, error, || {
        let forced = (*state).forced()?;
        let count = forced.len().min(capacity);
        std::slice::from_raw_parts_mut(bytes, capacity)[..count].copy_from_slice(&forced[..count]);
        Ok(count)
    })
}

#[no_mangle]
pub unsafe extern "C" fn baton_guide_take(
    state: *const State,
    ids: *const u32,
    count: usize,
    error: *mut Owned<u8>,
) -> Status {
    let mut done = ();
    guard(&mut done, error, || (*state).take(slice_of(ids, count)))
}

#[no_mangle]
pub unsafe extern "C" fn baton_guide_cancel(state: *const State) {
    guard_value((), || (*state).cancel());
}

unsafe fn slice_of<'a>(data: *const u32, count: usize) -> &'a [u32] {
    if count == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, count)
    }
}
