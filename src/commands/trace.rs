//! `--trace FILE`: every message of both directions, one JSON object a line, secrets masked.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::troubles::UsageError;
use crate::model::secret::mask;
use crate::model::{RawJson, Secret};
use crate::rpc::{Direction, Tap};

/// A tap that writes to `path`, which is made anew and readable by the user alone.
///
/// # Errors
/// Where the file cannot be made.
pub fn open(path: &Path, secrets: Vec<Secret>) -> anyhow::Result<Tap> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    if path.as_os_str() == "-" {
        let message = "--trace writes to a file; stdout and stderr have other things to carry";
        return Err(UsageError::hinting(message, "--trace /dev/stderr writes it there all the same").into());
    }
    let fail = |error| UsageError::new(format!("cannot write the trace to {}: {error}", path.display()));
    let file = options.open(path).map_err(fail)?;
    let file = Mutex::new(file);
    Ok(Tap::new(move |direction, text| {
        let masked = mask(text, &secrets);
        let line = line(direction, &masked);
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not end a task that goes well.
        let _ = file.write_all(line.as_bytes());
    }))
}

fn line(direction: Direction, text: &str) -> String {
    let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    let direction = match direction {
        Direction::Sent => "sent",
        Direction::Received => "received",
    };
    // To the letter where it is JSON, as text where it is not (the body of an HTTP error).
    let message = match serde_json::from_str::<Box<RawValue>>(text.trim()) {
        Ok(raw) if !raw.get().contains('\n') => RawJson::from(raw).text().to_owned(),
        Ok(raw) => RawJson::from(raw).value().to_string(),
        Err(_) => Value::String(text.to_owned()).to_string(),
    };
    let head = json!({"at": at, "direction": direction}).to_string();
    format!("{},\"message\":{message}}}\n", head.trim_end_matches('}'))
}
