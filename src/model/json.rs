//! JSON kept exactly as it was written, so that no digit, key order or unknown field is lost.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

/// The text of one JSON value, byte for byte as its author wrote it. Cheap to clone.
#[derive(Clone)]
pub struct RawJson(Arc<RawValue>);

impl RawJson {
    /// The text itself.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Reads the text into `T`.
    ///
    /// # Errors
    /// Where the text has another shape than `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.text())
    }

    /// The value as a tree; numbers keep their digits (`arbitrary_precision`).
    pub fn value(&self) -> Value {
        // A `RawValue` is valid JSON by construction; nesting beyond serde_json's limit is the one way to fail.
        self.parse().unwrap_or(Value::Null)
    }

    /// Writes `value` as JSON text. A [`RawJson`] within stays as it is.
    pub fn from_value(value: &impl serde::Serialize) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| Self::null(), Self::from)
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self::from(RawValue::from_string("{}".to_owned()).expect("`{}` is JSON"))
    }

    fn null() -> Self {
        Self::from(RawValue::NULL.to_owned())
    }
}

impl From<Box<RawValue>> for RawJson {
    fn from(raw: Box<RawValue>) -> Self {
        Self(Arc::from(raw))
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl serde::Serialize for RawJson {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_survives_the_tree_and_back() {
        for text in ["1.0", "1e400", "-0", "0.10", "12345678901234567890123456789", "1.50e-7", "17.500"] {
            let raw: RawJson = serde_json::from_str::<Box<RawValue>>(text).unwrap().into();
            assert_eq!(raw.value().to_string().to_lowercase().replace("e+", "e"), text);
        }
    }

    #[test]
    fn keys_keep_their_order() {
        let raw: RawJson = serde_json::from_str::<Box<RawValue>>(r#"{"z":1,"a":2}"#).unwrap().into();
        assert_eq!(raw.value().to_string(), r#"{"z":1,"a":2}"#);
    }
}
