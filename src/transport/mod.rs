//! How messages travel: over the pipes of a child process, or over HTTP.
//!
//! A transport serves the ends of a [`Connection`](crate::rpc::Connection). It knows the framing, the headers and which
//! request a fault belongs to; it does not know what the messages mean.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub mod http;
pub mod keeper;
pub mod stdio;

pub use keeper::Keeper;

/// What a transport has to tell beside its messages. All text is the server's own and not yet escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A line on the server's stdout that is no message. Cut to a few hundred characters.
    Noise(String),
    /// A line of the server's stderr. Cut to a few thousand characters.
    Stderr(String),
    /// The stream of an answer broke off and will be taken up again after this pause.
    Resuming(Duration),
}

type NoticeFunction = dyn Fn(Notice) + Send + Sync;

/// Where notices go. The function is called from the reading loop and must not wait.
#[derive(Clone, Default)]
pub struct Notices(Option<Arc<NoticeFunction>>);

impl Notices {
    /// Notices go to `function`.
    pub fn new(function: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(function)))
    }

    pub(crate) fn tell(&self, notice: Notice) {
        if let Some(function) = &self.0 {
            function(notice);
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Notices(on)" } else { "Notices(off)" })
    }
}
