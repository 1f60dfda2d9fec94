//! A tool's result, for people and for programs.

use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use serde_json::json;

use super::printer::{Output, Printer};
use crate::model::content::{ContentBlock, ResourceBody, ToolResult};
use crate::model::{TaskId, text};

/// Shows the result of a task or, without one, of a plain call. Where the tool says that it failed, text goes to stderr: it
/// is no data for the next in a pipe.
///
/// # Errors
/// Where a file of `save` cannot be written.
pub fn show(printer: &Printer, task: Option<&TaskId>, result: &ToolResult, save: Option<&Path>) -> anyhow::Result<()> {
    // A file that cannot be written must not cost the result, which may be kept nowhere else.
    let (saved, fault) = saved(result, save);
    match printer.output() {
        Output::Json => printer.raw_json(&result.raw),
        Output::Jsonl => {
            let id = task.map(TaskId::as_str);
            printer.json_line(&json!({"event": "result", "taskId": id, "result": result.raw.value()}));
        }
        Output::Text => {
            let is_media = |block: &ContentBlock| matches!(block, ContentBlock::Image(_) | ContentBlock::Audio(_));
            if save.is_none() && result.content.iter().any(is_media) {
                printer.note("--save DIR keeps images and sounds as files");
            }
            for block in blocks(result, &saved) {
                match block {
                    _ if result.is_error => printer.plain_error(&text::block(block.text())),
                    Block::Server(words) => printer.server_text(&words),
                    Block::Ours(line) => printer.data(&line),
                }
            }
        }
    }
    if printer.output() != Output::Text {
        tell_saved(printer, &saved);
    }
    fault.map_or(Ok(()), Err)
}

/// Saves what is no text and tells where, without showing the result.
///
/// # Errors
/// Where a file cannot be written.
pub fn save(printer: &Printer, result: &ToolResult, folder: Option<&Path>) -> anyhow::Result<()> {
    let (saved, fault) = saved(result, folder);
    tell_saved(printer, &saved);
    fault.map_or(Ok(()), Err)
}

fn tell_saved(printer: &Printer, saved: &[Option<PathBuf>]) {
    for file in saved.iter().flatten() {
        printer.note(&format!("saved {}", file.display()));
    }
}

/// The file of each block, and what kept one from being written.
fn saved(result: &ToolResult, folder: Option<&Path>) -> (Vec<Option<PathBuf>>, Option<anyhow::Error>) {
    let none = || vec![None; result.content.len()];
    match folder.map(|folder| save_blocks(result, folder)) {
        Some(Ok(saved)) => (saved, None),
        Some(Err(error)) => (none(), Some(error)),
        None => (none(), None),
    }
}

enum Block {
    /// The server's words, to be escaped for people.
    Server(String),
    /// A line of ours about something that is no text.
    Ours(String),
}

impl Block {
    fn text(&self) -> &str {
        match self {
            Self::Server(text) | Self::Ours(text) => text,
        }
    }
}

fn blocks(result: &ToolResult, saved: &[Option<PathBuf>]) -> Vec<Block> {
    let mut blocks: Vec<Block> =
        result.content.iter().zip(saved).map(|(block, file)| shown(block, file.as_deref())).collect();
    let has_text = result.content.iter().any(|block| matches!(block, ContentBlock::Text(_)));
    if let Some(structured) = result.structured.as_ref().filter(|_| !has_text) {
        blocks.push(Block::Server(serde_json::to_string_pretty(structured).unwrap_or_default()));
    }
    blocks
}

fn shown(block: &ContentBlock, file: Option<&Path>) -> Block {
    let end = file.map_or_else(|| "]".to_owned(), |file| format!("] saved as {}", file.display()));
    let of = |mime: &Option<String>| mime.as_deref().map_or_else(String::new, |mime| format!(", {}", text::line(mime)));
    Block::Ours(match block {
        ContentBlock::Text(words) => return Block::Server(words.clone()),
        ContentBlock::Resource { body: ResourceBody::Text(words), .. } if file.is_none() => {
            return Block::Server(words.clone());
        }
        ContentBlock::Image(media) => format!("[image, {}, {}{end}", text::line(&media.mime_type), size(&media.data)),
        ContentBlock::Audio(media) => format!("[audio, {}, {}{end}", text::line(&media.mime_type), size(&media.data)),
        ContentBlock::Resource { uri, mime_type, body } => {
            let size = match body {
                ResourceBody::Text(text) => text::plural(text.len(), "byte"),
                ResourceBody::Blob(data) => size(data),
            };
            format!("[resource {}{}, {size}{end}", text::line(uri), of(mime_type))
        }
        ContentBlock::ResourceLink { uri, name, mime_type } => {
            let name = name.as_deref().map_or_else(String::new, |name| format!(" ({})", text::line(name)));
            format!("[resource link {}{name}{}]", text::line(uri), of(mime_type))
        }
        ContentBlock::Unknown(kind) => format!("[{}]", text::line(kind)),
    })
}

/// The size of Base64 data once it is decoded.
fn size(data: &str) -> String {
    let digits = data.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count();
    text::plural(digits * 3 / 4, "byte")
}

/// Writes images, sounds and embedded resources to files; the file of each block.
fn save_blocks(result: &ToolResult, folder: &Path) -> anyhow::Result<Vec<Option<PathBuf>>> {
    let mut files = Vec::new();
    for (index, block) in result.content.iter().enumerate() {
        let (name, bytes) = match block {
            ContentBlock::Image(media) => (file_name("image", index, &media.mime_type), decode(&media.data)),
            ContentBlock::Audio(media) => (file_name("audio", index, &media.mime_type), decode(&media.data)),
            ContentBlock::Resource { uri, mime_type, body } => {
                let bytes = match body {
                    ResourceBody::Text(text) => Ok(text.clone().into_bytes()),
                    ResourceBody::Blob(data) => decode(data),
                };
                (resource_name(uri, index, mime_type.as_deref()), bytes)
            }
            _ => {
                files.push(None);
                continue;
            }
        };
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let bytes = bytes.with_context(|| format!("block {} of the result is not Base64", index + 1))?;
        files.push(Some(write_new(folder, &name, &bytes)?));
    }
    Ok(files)
}

/// Writes a file that was not there: what is there is never overwritten.
fn write_new(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<PathBuf> {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "bin"));
    for attempt in 1..10_000 {
        let file = match attempt {
            1 => folder.join(format!("{stem}.{extension}")),
            _ => folder.join(format!("{stem}-{attempt}.{extension}")),
        };
        match std::fs::File::create_new(&file) {
            Ok(mut handle) => {
                std::io::Write::write_all(&mut handle, bytes)
                    .with_context(|| format!("cannot write {}", file.display()))?;
                return Ok(file);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot write {}", file.display())),
        }
    }
    anyhow::bail!("{} is full of files called {stem}", folder.display())
}

fn decode(data: &str) -> Result<Vec<u8>, base64::DecodeError> {
    let data: String = data.chars().filter(|character| !character.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::STANDARD
        .decode(&data)
        .or_else(|_| base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(data.trim_end_matches('=')))
}

fn file_name(kind: &str, index: usize, mime_type: &str) -> String {
    format!("{kind}-{}.{}", index + 1, extension(mime_type))
}

/// The last part of the address, without anything that a file system takes for more than a name.
fn resource_name(uri: &str, index: usize, mime_type: Option<&str>) -> String {
    let last = uri.split(['?', '#']).next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let safe: String =
        last.chars().filter(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_')).collect();
    let safe = safe.trim_matches('.');
    match safe {
        "" => file_name("resource", index, mime_type.unwrap_or("application/octet-stream")),
        name if name.contains('.') => name.to_owned(),
        name => format!("{name}.{}", extension(mime_type.unwrap_or("application/octet-stream"))),
    }
}

fn extension(mime_type: &str) -> String {
    let kind = mime_type.split(';').next().unwrap_or_default().trim();
    match kind {
        "image/jpeg" => "jpg".to_owned(),
        "image/svg+xml" => "svg".to_owned(),
        "audio/mpeg" => "mp3".to_owned(),
        "audio/wav" | "audio/x-wav" => "wav".to_owned(),
        "text/plain" => "txt".to_owned(),
        "text/markdown" => "md".to_owned(),
        "application/octet-stream" => "bin".to_owned(),
        other => {
            let subtype = other.rsplit('/').next().unwrap_or_default();
            let safe: String = subtype.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
            if safe.is_empty() { "bin".to_owned() } else { safe.to_lowercase() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RawJson;

    fn result(value: serde_json::Value) -> ToolResult {
        ToolResult::read(RawJson::from_value(&value))
    }

    fn text_of(value: serde_json::Value) -> Vec<String> {
        let result = result(value);
        blocks(&result, &vec![None; result.content.len()]).iter().map(|block| block.text().to_owned()).collect()
    }

    #[test]
    fn what_is_no_text_is_named() {
        let shown = text_of(json!({"content": [
            {"type": "text", "text": "dough"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGVsbG8=", "mimeType": "x/y"}},
            {"type": "resource_link", "uri": "file:///c", "name": "c\u{1b}"},
            {"type": "hologram"},
        ], "structuredContent": {"n": 1}}));
        assert_eq!(
            shown,
            [
                "dough",
                "[image, image/png, 5 bytes]",
                "[audio, audio/wav, 5 bytes]",
                "inside",
                "[resource file:///b, x/y, 5 bytes]",
                "[resource link file:///c (c\\u{1b})]",
                "[hologram]",
            ]
        );
    }

    #[test]
    fn structured_content_stands_in_for_text() {
        assert_eq!(text_of(json!({"content": [], "structuredContent": {"n": 1.50}})), ["{\n  \"n\": 1.5\n}"]);
    }

    #[test]
    fn files_are_saved_under_safe_names_and_never_over_others() {
        let folder = tempfile::tempdir().unwrap();
        let result = result(json!({"content": [
            {"type": "image", "data": "aGVs\nbG8=", "mimeType": "image/jpeg"},
            {"type": "resource", "resource": {"uri": "file:///../../etc/passwd", "text": "x"}},
            {"type": "resource", "resource": {"uri": "..", "blob": "aGVsbG8"}},
            {"type": "text", "text": "no file"},
        ]}));
        let names = |files: Vec<Option<PathBuf>>| -> Vec<String> {
            files
                .into_iter()
                .flatten()
                .map(|file| file.strip_prefix(folder.path()).unwrap().display().to_string())
                .collect()
        };
        assert_eq!(
            names(save_blocks(&result, folder.path()).unwrap()),
            ["image-1.jpg", "passwd.bin", "resource-3.bin"]
        );
        assert_eq!(names(save_blocks(&result, folder.path()).unwrap())[0], "image-1-2.jpg");
        assert_eq!(std::fs::read(folder.path().join("image-1.jpg")).unwrap(), b"hello");
    }
}
