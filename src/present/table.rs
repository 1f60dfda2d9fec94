//! Tables of tools and tasks.

use comfy_table::{Cell, ContentArrangement, Table, presets};

use crate::model::text;

/// The width of a table that goes to no terminal.
const WIDE: u16 = 200;

/// Rows under headings, as wide as the terminal. Cells are escaped here.
pub fn table(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width().unwrap_or(WIDE));
    table.set_header(headings.iter().map(Cell::new));
    for row in rows {
        table.add_row(row.iter().map(|cell| text::line(cell).into_owned()));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().trim_start_matches(' ').to_owned()).collect();
    lines.join("\n")
}

/// The columns of the terminal that stdout or stderr is.
pub(super) fn width() -> Option<u16> {
    let of = |size: Option<(terminal_size::Width, terminal_size::Height)>| size.map(|(width, _)| width.0);
    of(terminal_size::terminal_size_of(std::io::stdout()))
        .or_else(|| of(terminal_size::terminal_size_of(std::io::stderr())))
        .filter(|width| *width > 0)
}
