//! Tables of tools and tasks.

use comfy_table::{Cell, ContentArrangement, Table, presets};

use crate::model::text;

/// The width of a table that goes to no terminal.
const WIDE: u16 = 200;
/// The most columns that a cell takes of a terminal's width, the first of a row aside.
const CELL: usize = 40;
/// What stands between two columns of a table.
const GAP: usize = 2;

/// Rows under headings, as wide as the terminal. Cells are escaped here, and broken where they are too long.
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

/// One line for each row, so that what is in it can be copied: on a terminal that is too narrow cells are cut and the
/// `dispensable` columns left out, in this order. Where stdout is no terminal all is whole.
pub fn fitting(headings: &[&str], dispensable: &[&str], rows: Vec<Vec<String>>) -> String {
    let columns = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    fit(headings, dispensable, rows, columns.filter(|columns| *columns > 0))
}

fn fit(headings: &[&str], dispensable: &[&str], rows: Vec<Vec<String>>, columns: Option<usize>) -> String {
    let head = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let limit = |column: usize| if column == 0 || columns.is_none() { usize::MAX } else { CELL };
    let cut = |row: Vec<String>| -> Vec<String> {
        let cells = row.iter().enumerate();
        cells.map(|(column, cell)| text::truncate(&text::line(cell), limit(column)).into_owned()).collect()
    };
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows.into_iter().map(cut)).collect();
    let width = |column: usize| lines.iter().map(|line| text::width(&line[column])).max().unwrap_or_default();
    let mut shown: Vec<(usize, usize)> = (0..headings.len()).map(|column| (column, width(column))).collect();
    for heading in dispensable {
        let total: usize = shown.iter().map(|(_, width)| width + GAP).sum();
        if columns.is_none_or(|columns| total <= columns + GAP) {
            break;
        }
        shown.retain(|(column, _)| headings[*column] != *heading);
    }
    let line = |cells: &Vec<String>| {
        let padded = shown.iter().map(|(column, width)| {
            let cell = &cells[*column];
            format!("{cell}{}", " ".repeat(width.saturating_sub(text::width(cell)) + GAP))
        });
        padded.collect::<String>().trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The columns of the terminal that stdout or stderr is.
pub(super) fn width() -> Option<u16> {
    size().map(|(width, _)| width.0).filter(|width| *width > 0)
}

/// Its rows.
pub(super) fn height() -> Option<u16> {
    size().map(|(_, height)| height.0).filter(|height| *height > 0)
}

fn size() -> Option<(terminal_size::Width, terminal_size::Height)> {
    let of_stdout = terminal_size::terminal_size_of(std::io::stdout());
    of_stdout.or_else(|| terminal_size::terminal_size_of(std::io::stderr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_whole_and_the_rest_gives_way() {
        let id = "786512e2-9e0d-44bd-8f29-789f320fe840";
        let row = [id, "bake", "working", "x".repeat(90).as_str()].map(str::to_owned).to_vec();
        let fit =
            |columns| fit(&["TASK", "TOOL", "STATUS", "MESSAGE"], &["MESSAGE", "TOOL"], vec![row.clone()], columns);
        assert!(fit(None).ends_with(&format!("{id}  bake  working  {}", "x".repeat(90))));
        assert!(fit(Some(100)).ends_with(&format!("{id}  bake  working  {}…", "x".repeat(39))));
        assert!(fit(Some(60)).ends_with(&format!("{id}  bake  working")));
        assert!(fit(Some(48)).ends_with(&format!("{id}  working")));
        assert!(fit(Some(20)).ends_with(&format!("{id}  working")), "what must be there is never cut");
        assert!(fit(None).lines().count() == 2);
    }
}
