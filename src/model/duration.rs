//! Durations as people write and read them.

use std::time::Duration;

/// A duration that could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration; write `90s`, `10m`, `1h30m` or `250ms`")]
pub struct ParseDurationError(String);

/// Reads what [`parse`] reads; a plain number is milliseconds, as a task's `ttl` is on the wire.
///
/// # Errors
/// As [`parse`].
pub fn parse_ttl(text: &str) -> Result<Duration, ParseDurationError> {
    let trimmed = text.trim();
    if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
        return trimmed.parse().map(Duration::from_millis).map_err(|_| ParseDurationError(text.to_owned()));
    }
    parse(text)
}

/// Reads `90s`, `10m`, `1h30m`, `250ms`, `1.5h`, `2d`, and `0`. Another plain number is refused: seconds are as likely
/// meant as milliseconds.
///
/// # Errors
/// Where the text is none of these or is too large for 64 bits of milliseconds.
pub fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    let fail = || ParseDurationError(text.to_owned());
    let text_trimmed = text.trim();
    if text_trimmed == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text_trimmed;
    let mut total = 0f64;
    if rest.is_empty() {
        return Err(fail());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(fail)?;
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| fail())?;
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let millis = match unit.trim() {
            "ms" => 1.0,
            "s" | "sec" => 1_000.0,
            "m" | "min" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return Err(fail()),
        };
        total += number * millis;
        rest = after;
    }
    if total.is_finite() && total < 9.0e18 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded and never negative")]
        Ok(Duration::from_millis(total.round() as u64))
    } else {
        Err(fail())
    }
}

/// Writes a duration for a person: `0.4s`, `12s`, `3m 05s`, `1h 02m`, `2d 03h`.
pub fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.subsec_millis() < 100 => format!("{}ms", duration.subsec_millis()),
        0..=9 => format!("{:.1}s", duration.as_secs_f64()),
        10..=59 => format!("{seconds}s"),
        60..=3_599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..=86_399 => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Whole milliseconds, saturating.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, millis) in [
            ("90s", 90_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("250ms", 250),
            ("1.5h", 5_400_000),
            ("0", 0),
            ("0s", 0),
            ("2d", 172_800_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_ttl("1500"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_ttl("10m"), parse("10m"));
        for text in ["", "30", "abc", "10x", "-5s", "1e3s", "s", "5 m x", "99999999999999999999", "1.2.3s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn writes_what_people_read() {
        let written =
            [0, 20, 400, 9_940, 12_000, 185_000, 3_720_000, 183_600_000].map(|ms| human(Duration::from_millis(ms)));
        assert_eq!(written, ["0ms", "20ms", "0.4s", "9.9s", "12s", "3m 05s", "1h 02m", "2d 03h"]);
    }
}
