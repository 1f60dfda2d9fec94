//! Whose the token and the headers are. They are given for one server, and the record leads to many.

use std::collections::HashSet;

use url::Origin;

use super::{Context, ServerTarget};

impl Context {
    /// Where it leads, if that is an HTTP server.
    fn origin(&self) -> Option<Origin> {
        self.server.as_ref().and_then(|(_, target)| origin(target))
    }

    /// Leaves the credentials out if they were given for another server than this one leads to.
    pub(super) fn with_credentials_of(mut self, named: Option<&(String, ServerTarget)>) -> Self {
        if named.is_some_and(|(_, target)| origin(target) != self.origin()) {
            self.drop_credentials();
        }
        self
    }

    fn has_credentials(&self) -> bool {
        self.connection.bearer.is_some() || !self.connection.headers.is_empty()
    }

    fn drop_credentials(&mut self) {
        self.connection.bearer = None;
        self.connection.headers.clear();
    }
}

fn origin(target: &ServerTarget) -> Option<Origin> {
    match target {
        ServerTarget::Http(url) => Some(url.origin()),
        ServerTarget::Demo | ServerTarget::Command(_) => None,
    }
}

/// Leaves the credentials out everywhere if no server is named and the ways lead to more than one: nobody can tell whose they
/// are. That is said.
pub(super) fn keep_for_one<'a>(given: &Context, ways: impl IntoIterator<Item = &'a mut Context>) {
    if given.server.is_some() || !given.has_credentials() {
        return;
    }
    let ways: Vec<&mut Context> = ways.into_iter().filter(|way| way.origin().is_some()).collect();
    let origins: HashSet<Origin> = ways.iter().filter_map(|way| way.origin()).collect();
    if origins.len() > 1 {
        let count = origins.len();
        given.printer.warn(&format!("the token or header is sent to none of {count} servers; name its own with -s"));
        ways.into_iter().for_each(Context::drop_credentials);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let at = |named| origin(&ServerTarget::parse(named).unwrap());
        assert_eq!(at("https://a.test/mcp"), at("https://A.test:443/other?x=1"));
        assert_ne!(at("https://a.test/mcp"), at("http://a.test/mcp"));
        assert_ne!(at("http://a.test/mcp"), at("http://a.test:8080/mcp"));
        assert_eq!(at("demo"), None);
    }
}
