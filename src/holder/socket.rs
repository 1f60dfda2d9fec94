//! The sockets between commands and holders: what differs between systems.

use std::io;
use std::path::Path;

use interprocess::local_socket::tokio::prelude::*;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, Name};

pub(super) use interprocess::local_socket::tokio::{Listener, Stream};

/// One direction of a socket.
pub(super) type Reading = tokio::io::BufReader<tokio::io::ReadHalf<Stream>>;
/// The other direction.
pub(super) type Writing = tokio::io::WriteHalf<Stream>;

/// Both directions.
pub(super) fn split(stream: Stream) -> (Reading, Writing) {
    let (reading, writing) = tokio::io::split(stream);
    (tokio::io::BufReader::new(reading), writing)
}

/// Binds the socket at `path`, for the user alone. One that a dead holder left there is replaced; whoever calls holds the
/// lock and has found nobody listening.
pub(super) fn listen(path: &Path) -> io::Result<Listener> {
    let _ = std::fs::remove_file(path);
    // The name is given back by the holder, at a moment of its choice.
    let listener = ListenerOptions::new().name(name(path)?).reclaim_name(false).create_tokio()?;
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}

/// Connects to the socket at `path`; `None` where nobody listens.
pub(super) async fn connect(path: &Path) -> io::Result<Option<Stream>> {
    loop {
        match Stream::connect(name(path)?).await {
            Ok(stream) => return Ok(Some(stream)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                return Ok(None);
            }
            // So many connect at once that the system's queue is full.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The process at the other end, if it belongs to the same user; where the system does not tell, the folder's rights have
/// to do.
pub(super) fn peer(stream: &Stream) -> io::Result<Option<u32>> {
    let peer = stream.peer_creds()?;
    #[cfg(unix)]
    if peer.euid().is_some_and(|user| user != nix::unistd::geteuid().as_raw()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to somebody else"));
    }
    Ok(peer.pid().and_then(|pid| u32::try_from(pid).ok()))
}

#[cfg(unix)]
fn name(path: &Path) -> io::Result<Name<'_>> {
    path.to_fs_name::<GenericFilePath>()
}

/// Pipes have a name space of their own; the file's name is a digest already.
#[cfg(windows)]
fn name(path: &Path) -> io::Result<Name<'static>> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    format!(r"\\.\pipe\mcp-task-{file}").to_fs_name::<GenericFilePath>()
}
