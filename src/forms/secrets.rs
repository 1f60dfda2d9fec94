//! Questions that look as if they asked for a secret, which no server may do in a form.
//! Spec 2025-11-25, client/elicitation, "User Interaction Model".

use super::Form;

/// Words that name secrets, in lower case, and what they name.
const WORDS: [(&str, &str); 29] = [
    ("password", "a password"),
    ("passwort", "a password"),
    ("passwd", "a password"),
    ("passphrase", "a password"),
    ("passcode", "a password"),
    ("contraseña", "a password"),
    ("mot de passe", "a password"),
    ("密码", "a password"),
    ("口令", "a password"),
    ("パスワード", "a password"),
    ("api key", "an API key"),
    ("apikey", "an API key"),
    ("access key", "an API key"),
    ("密钥", "an API key"),
    ("private key", "a private key"),
    ("seed phrase", "a private key"),
    ("token", "a token"),
    ("令牌", "a token"),
    ("secret", "a secret"),
    ("credential", "credentials"),
    ("credit card", "a card number"),
    ("card number", "a card number"),
    ("kreditkarte", "a card number"),
    ("卡号", "a card number"),
    ("cvv", "a card's check number"),
    ("cvc", "a card's check number"),
    ("one time code", "a one-time code"),
    ("otp", "a one-time code"),
    ("验证码", "a one-time code"),
];

/// What a question seems to want that it must not.
pub fn wanted(message: &str, form: &Form) -> Option<&'static str> {
    let fields = form.fields().iter().flat_map(|field| {
        [Some(field.name.as_str()), field.title.as_deref(), field.description.as_deref()].into_iter().flatten()
    });
    std::iter::once(message).chain(fields).find_map(|words| {
        let words = spaced(words);
        WORDS.iter().find(|(word, _)| names(&words, word)).map(|(_, what)| *what)
    })
}

/// `apiKey`, `api_key` and `API-Key` as `api key`.
fn spaced(words: &str) -> String {
    let mut spaced = String::new();
    let mut was_lower = false;
    for character in words.chars() {
        if character.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = character.is_lowercase();
        if matches!(character, '_' | '-' | '.') { spaced.push(' ') } else { spaced.extend(character.to_lowercase()) }
    }
    spaced
}

/// Whether a word is among others, in the plural too. What is not written in Latin letters has no spaces to go by.
fn names(words: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric();
    words.match_indices(word).any(|(at, _)| {
        let rest = &words[at + word.len()..];
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        !words[..at].ends_with(is_part) && !rest.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_seen_whatever_it_is_called() {
        let of =
            |message: &str, name: &str| wanted(message, &Form::new(&json!({"properties": {name: {"type": "string"}}})));
        for (message, name, what) in [
            ("Your password?", "x", "a password"),
            ("Log in", "apiKey", "an API key"),
            ("Log in", "access_tokens", "a token"),
            ("Pay", "cardNumber", "a card number"),
            ("请输入密码", "x", "a password"),
            ("Pay", "CVV", "a card's check number"),
        ] {
            assert_eq!(of(message, name), Some(what), "{message} {name}");
        }
        for (message, name) in [("Which flour?", "flour"), ("The secretary's name?", "name"), ("Tokenize?", "laptop")] {
            assert_eq!(of(message, name), None, "{message} {name}");
        }
    }
}
