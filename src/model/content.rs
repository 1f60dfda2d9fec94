//! What a tool answers. Spec 2025-11-25, server/tools, "Tool Result".
//!
//! Reading is lenient by design: one odd block must not cost the rest of a result, so a block of an unknown type, or of
//! a known type with a field missing, is kept by name and stays whole in [`ToolResult::raw`].

use serde_json::Value;

use super::json::RawJson;

/// A tool's result.
#[derive(Clone, Debug)]
pub struct ToolResult {
    /// `content`, in order.
    pub content: Vec<ContentBlock>,
    /// `structuredContent`.
    pub structured: Option<Value>,
    /// `isError`: the tool itself says that it failed.
    pub is_error: bool,
    /// The object that the server sent.
    pub raw: RawJson,
}

/// One block of a result's content.
#[derive(Clone, Debug, PartialEq)]
pub enum ContentBlock {
    /// Text.
    Text(String),
    /// An image, Base64.
    Image(Media),
    /// A sound, Base64.
    Audio(Media),
    /// A resource whose contents come along.
    Resource {
        /// Its address.
        uri: String,
        /// Its media type, if given.
        mime_type: Option<String>,
        /// Its contents.
        body: ResourceBody,
    },
    /// A resource to be read by its address.
    ResourceLink {
        /// Its address.
        uri: String,
        /// Its name, if given.
        name: Option<String>,
        /// Its media type, if given.
        mime_type: Option<String>,
    },
    /// Anything else: the `type` the server gave.
    Unknown(String),
}

/// Base64 data of a media type.
#[derive(Clone, Debug, PartialEq)]
pub struct Media {
    /// The media type, or `application/octet-stream`.
    pub mime_type: String,
    /// Base64, not yet decoded.
    pub data: String,
}

/// The contents of an embedded resource.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Base64, not yet decoded.
    Blob(String),
}

impl ToolResult {
    /// Reads a result object. Whether the object *is* a tool result is for the caller to know.
    pub fn read(raw: RawJson) -> Self {
        let value = raw.value();
        let content = value
            .get("content")
            .and_then(Value::as_array)
            .map(|blocks| blocks.iter().map(ContentBlock::read).collect())
            .unwrap_or_default();
        Self {
            content,
            structured: value.get("structuredContent").filter(|structured| !structured.is_null()).cloned(),
            is_error: value.get("isError").and_then(Value::as_bool).unwrap_or(false),
            raw,
        }
    }

    /// Whether there is anything to show.
    pub fn is_empty(&self) -> bool {
        self.content.is_empty() && self.structured.is_none()
    }
}

impl ContentBlock {
    fn read(block: &Value) -> Self {
        let text = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
        let kind = text("type").unwrap_or_else(|| "untyped".to_owned());
        let known = match kind.as_str() {
            "text" => text("text").map(Self::Text),
            "image" => media(block).map(Self::Image),
            "audio" => media(block).map(Self::Audio),
            "resource" => block.get("resource").and_then(embedded),
            "resource_link" => {
                text("uri").map(|uri| Self::ResourceLink { uri, name: text("name"), mime_type: text("mimeType") })
            }
            _ => None,
        };
        known.unwrap_or(Self::Unknown(kind))
    }
}

fn media(block: &Value) -> Option<Media> {
    Some(Media {
        data: block.get("data")?.as_str()?.to_owned(),
        mime_type: block.get("mimeType").and_then(Value::as_str).unwrap_or("application/octet-stream").to_owned(),
    })
}

fn embedded(resource: &Value) -> Option<ContentBlock> {
    let text = |key: &str| resource.get(key).and_then(Value::as_str).map(str::to_owned);
    let body = text("text").map(ResourceBody::Text).or_else(|| text("blob").map(ResourceBody::Blob))?;
    Some(ContentBlock::Resource { uri: text("uri").unwrap_or_default(), mime_type: text("mimeType"), body })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn odd_blocks_do_not_cost_the_rest() {
        let result = ToolResult::read(RawJson::from_value(&json!({
            "content": [
                {"type": "text", "text": "dough", "annotations": {"x": 1}},
                {"type": "resource_link", "uri": "file:///a"},
                {"type": "hologram", "layers": [{"z": 1}]},
                {"type": "image", "mimeType": "image/png"},
                7,
            ],
            "structuredContent": {"n": 3},
            "_meta": {"y": 2}
        })));
        assert_eq!(
            result.content,
            [
                ContentBlock::Text("dough".into()),
                ContentBlock::ResourceLink { uri: "file:///a".into(), name: None, mime_type: None },
                ContentBlock::Unknown("hologram".into()),
                ContentBlock::Unknown("image".into()),
                ContentBlock::Unknown("untyped".into()),
            ]
        );
        assert_eq!(result.structured, Some(json!({"n": 3})));
        assert!(!result.is_error);
    }
}
