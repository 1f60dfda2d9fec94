//! Where holders are found: a socket, a lock and notes, in a folder that is the user's alone.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How long the note of a holder that has ended is kept: it says what became of a task's server.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How long a socket's path may be; the least that any system allows is 104 bytes.
const LONGEST_PATH: usize = 100;

/// Names a server among the held ones. The same server, started in the same way in the same folder, has the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key(String);

impl Key {
    /// The key of a server: its command line, its variables, its working directory, the user's own name for it, and what it is
    /// offered in the handshake.
    pub fn of(words: &[String], env: &[(String, String)], cwd: &Path, session: Option<&str>, offers: &[&str]) -> Self {
        Self(digest(&serde_json::json!([words, env, cwd, session, offers]).to_string()))
    }

    /// Its text: hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Names one holder: a key may have had others before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HolderId {
    /// The server.
    pub key: Key,
    /// This start of it.
    pub instance: String,
}

impl HolderId {
    /// A new start of a server.
    pub(super) fn new(key: Key) -> Self {
        let random = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
        Self { key, instance: format!("{random:016x}") }
    }

    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (key, instance) = text.split_once('-')?;
        // Whatever the record holds, it names a file here and nowhere else.
        let is_plain = |part: &str| !part.is_empty() && part.chars().all(|digit| digit.is_ascii_hexdigit());
        (is_plain(key) && is_plain(instance)).then(|| Self { key: Key(key.to_owned()), instance: instance.to_owned() })
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.key.0, self.instance)
    }
}

/// What is known of a holder, alive or ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Names it.
    pub id: HolderId,
    /// The server as the user named it; not yet escaped.
    pub server: String,
    /// The user's name for the session.
    pub session: Option<String>,
    /// Where the server was started.
    pub cwd: PathBuf,
    /// The holder's process.
    pub pid: u32,
    /// When it was started, in milliseconds since 1970.
    pub started_at: i64,
    /// Why it has ended, once it has.
    pub ended: Option<String>,
}

/// The folder of holders.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The one in the state folder.
    pub fn within(state: &Path) -> Self {
        Self(state.join("holders"))
    }

    /// The one at `path`.
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where a holder listens. A path that is too long for a socket is replaced by a short one.
    pub(super) fn socket(&self, key: &Key) -> PathBuf {
        let path = self.0.join(format!("{}.sock", key.0));
        if path.as_os_str().len() <= LONGEST_PATH {
            return path;
        }
        short_folder().join(format!("{}.sock", digest(&path.to_string_lossy())))
    }

    /// Makes the folder for the user alone, or sees that it is.
    pub(super) fn make(&self, key: &Key) -> std::io::Result<()> {
        private(&self.0)?;
        self.socket(key).parent().map_or(Ok(()), private)
    }

    /// The file that whoever starts a holder locks meanwhile.
    pub(super) fn lock_file(&self, key: &Key) -> std::io::Result<File> {
        File::options().create(true).append(true).open(self.0.join(format!("{}.lock", key.0)))
    }

    fn note_file(&self, id: &HolderId) -> PathBuf {
        self.0.join(format!("{id}.json"))
    }

    /// What is known of a holder, alive or ended.
    pub fn note(&self, id: &HolderId) -> Option<Note> {
        read_note(&self.note_file(id))
    }

    /// What is known of all, the newest first.
    pub fn notes(&self) -> Vec<Note> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
        let mut notes: Vec<Note> = files.filter_map(|file| read_note(&file)).collect();
        notes.sort_by_key(|note| std::cmp::Reverse(note.started_at));
        notes
    }

    /// Writes a note, whole or not at all.
    pub(super) fn write_note(&self, note: &Note) -> std::io::Result<()> {
        let text = serde_json::to_string(note).unwrap_or_default();
        let draft = self.0.join(format!("{}.draft", note.id));
        std::fs::write(&draft, text)?;
        std::fs::rename(draft, self.note_file(&note.id))
    }

    /// Why a holder that cannot be reached is gone.
    pub fn fate(&self, id: &HolderId) -> String {
        let killed = || "the process that held it was killed".to_owned();
        match self.note(id) {
            Some(note) => note.ended.unwrap_or_else(killed),
            None => "nothing is known of its end".to_owned(),
        }
    }

    /// Forgets holders that ended long ago.
    pub(super) fn prune(&self) {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let age = path.metadata().and_then(|data| data.modified()).ok();
            let is_old = age.and_then(|at| SystemTime::now().duration_since(at).ok()).is_some_and(|age| age > KEPT);
            // A lock that is held would be missed; one file a server is little.
            let is_note = path.extension().is_some_and(|end| end == "json" || end == "draft");
            if is_old && is_note && read_note(&path).is_none_or(|note| note.ended.is_some()) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn read_note(file: &Path) -> Option<Note> {
    std::fs::read_to_string(file).ok().and_then(|text| serde_json::from_str(&text).ok())
}

/// The first half of a SHA-256's half, in hexadecimal digits: enough to tell one user's servers apart.
fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(unix)]
fn short_folder() -> PathBuf {
    PathBuf::from(format!("/tmp/mcp-task-{}", nix::unistd::getuid()))
}

#[cfg(not(unix))]
fn short_folder() -> PathBuf {
    std::env::temp_dir().join("mcp-task")
}

/// Makes a folder for the user alone. One that is there must be the user's own, as anybody may make one in `/tmp`.
#[cfg(unix)]
fn private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = std::fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != nix::unistd::getuid().as_raw() {
        return Err(std::io::Error::other(format!("{} belongs to somebody else", folder.display())));
    }
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Elsewhere a user's folders are the user's own by themselves.
#[cfg(not(unix))]
fn private(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(session: Option<&str>) -> Key {
        Key::of(&["npx".to_owned(), "a server".to_owned()], &[], Path::new("/x"), session, &[])
    }

    #[test]
    fn a_holders_name_is_read_back_and_names_no_other_file() {
        let id = HolderId::new(key(None));
        assert_eq!(HolderId::parse(&id.to_string()), Some(id));
        for bad in ["", "a", "-", "../x-1", "a-../b", "a-b/c"] {
            assert_eq!(HolderId::parse(bad), None, "{bad}");
        }
        assert_ne!(key(None), key(Some("mine")));
        assert_eq!(key(None).as_str().len(), 16);
    }

    #[test]
    fn a_folder_of_any_depth_has_a_socket() {
        let short = Folder::at(Path::new("/x"));
        assert!(short.socket(&key(None)).starts_with("/x"));
        let deep = Folder::at(Path::new(&format!("/{}", "x".repeat(200))));
        assert!(deep.socket(&key(None)).as_os_str().len() <= LONGEST_PATH);
        assert_ne!(deep.socket(&key(None)), deep.socket(&key(Some("mine"))));
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_is_the_users_alone() {
        use std::os::unix::fs::PermissionsExt;
        let state = tempfile::tempdir().unwrap();
        let folder = Folder::within(state.path());
        std::fs::create_dir(folder.path()).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        folder.make(&key(None)).unwrap();
        assert_eq!(folder.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_holder_that_left_no_word_was_killed() {
        let state = tempfile::tempdir().unwrap();
        let folder = Folder::at(state.path());
        let id = HolderId::new(key(None));
        assert!(folder.fate(&id).contains("nothing is known"));
        let note = Note {
            id: id.clone(),
            server: "npx".to_owned(),
            session: None,
            cwd: PathBuf::new(),
            pid: 1,
            started_at: 5,
            ended: None,
        };
        folder.write_note(&note).unwrap();
        assert!(folder.fate(&id).contains("killed"));
        folder.write_note(&Note { ended: Some("it was tired".to_owned()), ..note }).unwrap();
        assert_eq!(folder.fate(&id), "it was tired");
        assert_eq!(folder.notes().len(), 1);
    }
}
