//! The transport of 2024-11-05: one stream of events for everything the server says, whose first event names the address
//! that takes messages. Spec 2025-11-25, basic/transports, "Backwards Compatibility".

use std::sync::Arc;
use std::time::Duration;

use super::answer::take;
use super::events::{Events, EventsError};
use super::hand_over;
use super::link::Link;
use super::request::is_event_stream;
use crate::rpc::{ConnectionError, Inbound};

/// How long the first event may take.
const FIRST_EVENT: Duration = Duration::from_secs(10);

/// Opens the stream; whether this server speaks so. From then on messages go to the address it named.
pub(super) async fn connect(link: &Arc<Link>) -> bool {
    let first = tokio::time::timeout(FIRST_EVENT, async {
        let response = link.open_stream(None).await.ok().filter(is_event_stream)?;
        let mut events = Events::of(response, link.settings.max_message);
        let event = events.next().await?.ok().filter(|event| event.name == "endpoint")?;
        let endpoint = link.settings.url.join(event.data.trim()).ok()?;
        // The address comes from the stream's text; elsewhere it would take our token to a stranger.
        (endpoint.origin() == link.settings.url.origin()).then_some((endpoint, events))
    });
    let Ok(Some((endpoint, events))) = first.await else {
        return false;
    };
    link.use_old_endpoint(endpoint);
    link.keep_reader(tokio::spawn(read(Arc::clone(link), events)).abort_handle());
    true
}

/// Without its stream the connection is of no more use.
async fn read(link: Arc<Link>, mut events: Events) {
    let reason = loop {
        match events.next().await {
            Some(Ok(event)) => _ = take(&link, event, None).await,
            Some(Err(EventsError::TooLarge(limit))) => break ConnectionError::MessageTooLarge { limit },
            Some(Err(EventsError::Source(reason))) => break ConnectionError::StreamLost { reason },
            None => break ConnectionError::StreamLost { reason: "the server closed it".to_owned() },
        }
    };
    hand_over(&link.inbound, Inbound::Closed(Arc::new(reason))).await;
}
