//! Validation of a safetensors header.

use std::collections::HashSet;
use std::fmt;

use safetensors::SafeTensors;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::ffi::{Failure, Outcome};

const LENGTH_BYTES: usize = 8;

pub struct Tensor {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub begin: u64, // from the start of the file
    pub end: u64,
}

pub struct Header {
    pub tensors: Vec<Tensor>, // in the order of their data
}

impl Header {
    pub fn read(file: &[u8]) -> Outcome<Self> {
        let (size, metadata) = SafeTensors::read_metadata(file)
            .map_err(|error| Failure::invalid(explain(file, &error)))?;
        let text = &file[LENGTH_BYTES..LENGTH_BYTES + size];
        if text.first() != Some(&b'{') {
            return Err(Failure::invalid("the header does not begin with '{'"));
        }
        refuse_duplicates(text)?;
        let data_begin = (LENGTH_BYTES + size) as u64;
        let tensors = metadata.offset_keys().into_iter().filter_map(|name| {
            let info = metadata.info(&name)?;
            Some(Tensor {
                dtype: info.dtype.to_string(),
                shape: info.shape.iter().map(|&extent| extent as u64).collect(),
                begin: data_begin + info.data_offsets.0 as u64,
                end: data_begin + info.data_offsets.1 as u64,
                name,
            })
        });
        Ok(Header { tensors: tensors.collect() })
    }
}

/// The crate's message, with the two lengths that a truncated file disagrees on.
fn explain(file: &[u8], error: &safetensors::SafeTensorError) -> String {
    use safetensors::SafeTensorError::{InvalidHeaderLength, MetadataIncompleteBuffer};
    let declared = file
        .get(..LENGTH_BYTES)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes);
    match error {
        InvalidHeaderLength => format!(
            "the header is said to have {declared} bytes, but the file has only {}; it is \
             truncated or not a safetensors file",
            file.len()
        ),
        MetadataIncompleteBuffer => format!(
            "the tensors do not end where the file ends, at byte {}; it is truncated or has \
             bytes that belong to no tensor",
            file.len()
        ),
        other => other.to_string(),
    }
}

/// Refuses equal keys, which the format forbids and of which serde keeps the last.
fn refuse_duplicates(json: &[u8]) -> Outcome<()> {
    struct Names;
    impl<'de> Visitor<'de> for Names {
        type Value = ();
        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            formatter.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            let mut seen = HashSet::new();
            while let Some(name) = map.next_key::<String>()? {
                map.next_value::<IgnoredAny>()?;
                if let Some(twice) = seen.replace(name) {
                    return Err(serde::de::Error::custom(format!("\"{twice}\" occurs twice")));
                }
            }
            Ok(())
        }
    }
    serde_json::Deserializer::from_slice(json)
        .deserialize_map(Names)
        .map_err(|error| Failure::invalid(format!("header: {error}")))
}
