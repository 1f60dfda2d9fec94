//! An address that a server wants opened: where it really leads, and what is odd about it.
//! Spec 2025-11-25, client/elicitation, "Safe URL Handling".

use url::{Host, Url};

use crate::model::text;

/// An address that may be opened.
#[derive(Clone, Debug)]
pub struct Address {
    /// What a browser is given.
    pub url: Url,
    /// The whole of it, as it is shown; escaped.
    pub shown: String,
    /// Where it leads, in plain words; escaped.
    pub host: String,
    /// What to beware of; escaped.
    pub warnings: Vec<String>,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// Where it is none, or none for a browser; escaped.
    pub fn read(written: &str) -> Result<Self, String> {
        let shown = text::line(written).into_owned();
        let url = Url::parse(written.trim()).map_err(|error| format!("`{shown}` is not an address: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{shown}` is not opened: only http and https addresses are"));
        }
        let host = url.host().map(|host| host.to_owned()).ok_or_else(|| format!("`{shown}` has no host"))?;
        let mut warnings = Vec::new();
        let name = match &host {
            Host::Domain(domain) => {
                let read_as = unicode(domain);
                if let Some(read_as) = &read_as {
                    warnings.push(format!(
                        "the host is written in foreign letters ({read_as}), which may look like another"
                    ));
                }
                read_as.map_or_else(|| domain.clone(), |read_as| format!("{domain} ({read_as})"))
            }
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => format!("[{address}]"),
        };
        let is_here = match &host {
            Host::Domain(domain) => domain == "localhost" || domain.ends_with(".localhost"),
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        if url.scheme() == "http" && !is_here {
            warnings.push("the address is not encrypted (http), so others may read what you enter".to_owned());
        }
        if !matches!(host, Host::Domain(_)) && !is_here {
            warnings.push("the host is a bare number, not a name".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            warnings.push("what stands before the @ is not the host".to_owned());
        }
        if shown != written {
            warnings.push("the address has invisible or turned-around characters, shown here as \\u{…}".to_owned());
        }
        let port = url.port().map_or_else(String::new, |port| format!(", port {port}"));
        Ok(Self { shown, host: format!("{name}{port}"), warnings, url })
    }
}

/// How a name in punycode reads, escaped; `None` for one that is not.
fn unicode(domain: &str) -> Option<String> {
    let is_punycode = domain.split('.').any(|label| label.starts_with("xn--"));
    is_punycode.then(|| text::line(&idna::domain_to_unicode(domain).0).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &str) -> (String, String) {
        let address = Address::read(written).unwrap();
        (address.host, address.warnings.join("; "))
    }

    #[test]
    fn an_address_tells_where_it_leads() {
        assert_eq!(read("https://bread.example/pay?x=1"), ("bread.example".into(), String::new()));
        assert_eq!(read("http://127.0.0.1:8080/x"), ("127.0.0.1, port 8080".into(), String::new()));
        let (host, warnings) = read("https://xn--80ak6aa92e.com/login");
        assert!(host.starts_with("xn--80ak6aa92e.com (") && warnings.contains("foreign letters"), "{host}");
        // Typed in letters it is the same.
        assert_eq!(read("https://\u{430}\u{440}\u{440}\u{4cf}\u{435}.com/login").0, host);
        assert!(read("http://bread.example/").1.contains("not encrypted"));
        assert!(read("https://203.0.113.7/").1.contains("bare number"));
        let (host, warnings) = read("https://bread.example@evil.example/");
        assert_eq!(host, "evil.example");
        assert!(warnings.contains("before the @"));
        let address = Address::read("https://bread.example/\u{202e}gnp.exe").unwrap();
        assert!(address.shown.contains("\\u{202e}") && address.warnings[0].contains("turned-around"));
    }

    #[test]
    fn other_schemes_are_not_opened() {
        for written in ["file:///etc/passwd", "javascript:alert(1)", "ftp://a.example/", "data:text/html,x"] {
            assert!(Address::read(written).unwrap_err().contains("only http and https"), "{written}");
        }
        assert!(Address::read("bread").unwrap_err().contains("is not an address"));
        assert!(Address::read("https://").is_err());
    }
}
