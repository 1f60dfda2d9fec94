//! A string that must not be printed by accident.

use std::fmt;

/// A token, a header value or another secret. `Debug` shows that there is one, not what it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The secret itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// Replaces each of `secrets` in `text` by `***`. Secrets shorter than four characters are not searched for:
/// they would mask half of every message.
pub fn mask(text: &str, secrets: &[Secret]) -> String {
    let mut masked = text.to_owned();
    for secret in secrets {
        if secret.expose().len() >= 4 {
            masked = masked.replace(secret.expose(), "***");
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_a_trace_shows_it() {
        let secret = Secret::new("hush-hush");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_eq!(mask("Bearer hush-hush!", &[secret]), "Bearer ***!");
    }
}
