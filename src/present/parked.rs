//! The terminal as bars are drawn on it.

use console::Term;
use indicatif::TermLike;

/// stderr, with the cursor at the beginning of the last line whenever a drawing is done.
///
/// indicatif leaves it behind the last column. What the terminal itself writes there, such as `^C` for a key, would then
/// begin a new line, and the next clearing would miss the bar by one.
#[derive(Debug)]
pub(super) struct Parked(Term);

impl Parked {
    pub(super) fn stderr() -> Self {
        Self(Term::buffered_stderr())
    }
}

impl TermLike for Parked {
    fn width(&self) -> u16 {
        TermLike::width(&self.0)
    }

    fn height(&self) -> u16 {
        TermLike::height(&self.0)
    }

    fn move_cursor_up(&self, lines: usize) -> std::io::Result<()> {
        TermLike::move_cursor_up(&self.0, lines)
    }

    fn move_cursor_down(&self, lines: usize) -> std::io::Result<()> {
        TermLike::move_cursor_down(&self.0, lines)
    }

    fn move_cursor_right(&self, columns: usize) -> std::io::Result<()> {
        TermLike::move_cursor_right(&self.0, columns)
    }

    fn move_cursor_left(&self, columns: usize) -> std::io::Result<()> {
        TermLike::move_cursor_left(&self.0, columns)
    }

    fn write_line(&self, text: &str) -> std::io::Result<()> {
        TermLike::write_line(&self.0, text)
    }

    fn write_str(&self, text: &str) -> std::io::Result<()> {
        TermLike::write_str(&self.0, text)
    }

    fn clear_line(&self) -> std::io::Result<()> {
        TermLike::clear_line(&self.0)
    }

    fn flush(&self) -> std::io::Result<()> {
        TermLike::write_str(&self.0, "\r")?;
        TermLike::flush(&self.0)
    }
}
