//! What every exported function shares: borrowed and owned bytes, status codes, and the guard that
//! keeps panics on this side.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok = 0,
    NotFound = 1,
    Invalid = 2,
    Internal = 3,
    Busy = 4,
}

/// Why a call failed, in words for a person.
#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
}

impl Failure {
    pub fn invalid(message: impl Into<String>) -> Self {
        Failure { status: Status::Invalid, message: message.into() }
    }
    /// The machine could not do it now, which says nothing of what was asked.
    pub fn busy(message: impl Into<String>) -> Self {
        Failure { status: Status::Busy, message: message.into() }
    }
    pub fn not_found(message: impl Into<String>) -> Self {
        Failure { status: Status::NotFound, message: message.into() }
    }
}

pub type Outcome<T> = Result<T, Failure>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    data: *const u8,
    size: usize,
}

impl Slice {
    pub const NONE: Slice = Slice { data: std::ptr::null(), size: 0 };

    pub fn new(bytes: &[u8]) -> Self {
        Slice { data: bytes.as_ptr(), size: bytes.len() }
    }

    /// # Safety
    /// `data` must be readable for `size` bytes for as long as the result is used.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(self.data, self.size)
        }
    }

    /// # Safety
    /// The same as for `bytes`.
    pub unsafe fn text<'a>(self, what: &str) -> Outcome<&'a str> {
        std::str::from_utf8(self.bytes()).map_err(|error| {
            Failure::invalid(format!("{what} is not valid UTF-8 at byte {}", error.valid_up_to()))
        })
    }
}

/// Elements handed to the caller, who gives them back to be freed.
#[repr(C)]
pub struct Owned<T> {
    data: *mut T,
    size: usize,
}

impl<T> Owned<T> {
    pub fn new(values: Vec<T>) -> Self {
        let mut values = values.into_boxed_slice();
        let owned = Owned { data: values.as_mut_ptr(), size: values.len() };
        std::mem::forget(values);
        owned
    }

    /// # Safety
    /// `self` must come from `new` and be freed once.
    pub unsafe fn free(self) {
        if !self.data.is_null() {
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.data, self.size)));
        }
    }
}

/// The message of a panic.
pub fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| text.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_string())
}

/// Panics become errors, so the default hook must not write them to stderr as well. Tokenizers must
/// not start a thread per core beside the engine's.
fn prepare_process() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|_| {}));
        tokenizers::utils::parallelism::set_parallelism(false);
    });
}

/// Runs `body` and stores its value in `out`, or its message in `error`.
///
/// # Safety
/// `out` and `error` must be writable.
pub unsafe fn guard<T>(
    out: *mut T,
    error: *mut Owned<u8>,
    body: impl FnOnce() -> Outcome<T>,
) -> Status {
    prepare_process();
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => {
            out.write(value);
            return Status::Ok;
        }
        Ok(Err(failure)) => failure,
        Err(payload) => Failure { status: Status::Internal, message: panic_text(payload) },
    };
    error.write(Owned::new(failure.message.into_bytes()));
    failure.status
}

/// Runs `body` of a function that cannot fail; a panic gives `fallback`.
pub fn guard_value<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// # Safety
/// `handle` must be null or come from `Box::into_raw`, and be freed once.
pub unsafe fn free_handle<T>(handle: *mut T) {
    if !handle.is_null() {
        guard_value((), || drop(Box::from_raw(handle)));
    }
}

pub fn handle<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}
