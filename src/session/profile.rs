//! What a server said about itself.

/// A family of protocol versions that share their shapes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// Opens with `initialize`: 2024-11-05 to 2025-11-25.
    Legacy,
}

/// What a server is and can do.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The era it speaks.
    pub era: Era,
    /// The protocol version agreed on.
    pub version: String,
    /// Its name; not yet escaped.
    pub server_name: String,
    /// Its version; not yet escaped.
    pub server_version: String,
    /// Whether it has tools at all.
    pub tools: bool,
    /// What it can do about tasks.
    pub tasks: TaskCapability,
}

impl Profile {
    /// What is known of a server whose handshake an earlier process saw: that it runs tasks. The rest is found out by
    /// asking.
    pub(super) fn of_old_session(version: &str) -> Self {
        Self {
            era: Era::Legacy,
            version: version.to_owned(),
            server_name: String::new(),
            server_version: String::new(),
            tools: true,
            tasks: TaskCapability { declared: true, requests: true, calls: true, list: true, cancel: true },
        }
    }
}

/// What a server can do about tasks. Spec 2025-11-25, basic/utilities/tasks, "Server Capabilities".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCapability {
    /// `tasks` is declared.
    pub declared: bool,
    /// `tasks.requests` is declared, so that its silence about a request means no.
    pub requests: bool,
    /// `tasks.requests.tools.call`: tools may be called as tasks.
    pub calls: bool,
    /// `tasks.list`.
    pub list: bool,
    /// `tasks.cancel`.
    pub cancel: bool,
}
