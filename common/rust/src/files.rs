//! Reading the small files of a model directory.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::ffi::{Failure, Outcome};

/// Larger files are refused before they are read. The largest tokenizer.json known is 34 MB.
const MAX_FILE_BYTES: u64 = 512 << 20;

pub fn path_from(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Reads a whole file; None when there is no such file.
pub fn read_optional(path: &Path) -> Outcome<Option<Vec<u8>>> {
    let describe = |error: std::io::Error| {
        Failure::invalid(format!("cannot read {}: {error}", path.display()))
    };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(describe(error)),
    };
    if !metadata.is_file() {
        return Err(Failure::invalid(format!("{} is not a file", path.display())));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(Failure::invalid(format!(
            "{} has {} bytes; at most {MAX_FILE_BYTES} are read",
            path.display(),
            metadata.len()
        )));
    }
    fs::read(path).map(Some).map_err(describe)
}

pub fn read_text_optional(path: &Path) -> Outcome<Option<String>> {
    let Some(bytes) = read_optional(path)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let position = error.utf8_error().valid_up_to();
        Failure::invalid(format!("{} is not valid UTF-8 at byte {position}", path.display()))
    })
}

/// None when there is no such file.
pub fn read_object_optional(path: &Path) -> Outcome<Option<Map<String, Value>>> {
    let Some(bytes) = read_optional(path)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(Failure::invalid(format!("{} is not a JSON object", path.display()))),
        Err(error) => {
            Err(Failure::invalid(format!("{} is not valid JSON: {error}", path.display())))
        }
    }
}
