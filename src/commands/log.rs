//! `mcp-task log [ID]`: the recorded life of one or all tasks.

use std::collections::HashMap;

use serde_json::json;

use super::Context;
use super::list::stamp;
use super::lookup::{Found, LookupError};
use crate::present::{Exit, Output, table};
use crate::record::{Known, RowId};

/// Runs the command.
///
/// # Errors
/// Where the record cannot be read.
pub fn run(context: &Context, found: Option<&Found>) -> anyhow::Result<Exit> {
    let row = found.map(|found| found.row().ok_or_else(|| LookupError::Unknown(found.id.as_str().to_owned())));
    let row = row.transpose()?;
    let (rows, entries) = context.with_record(|record| Ok((record.all()?, record.entries(row)?)))?;
    let rows: HashMap<RowId, Known> = rows.into_iter().map(|known| (known.row, known)).collect();
    let printer = &context.printer;
    let id = |row: &RowId| rows.get(row).and_then(|known| known.task.as_ref());
    let value = |entry: &crate::record::Entry| {
        json!({
            "at": stamp(entry.at),
            "taskId": id(&entry.row).map(|id| id.as_str()),
            "server": rows.get(&entry.row).map(|known| known.server.name.as_str()),
            "tool": rows.get(&entry.row).map(|known| known.tool.as_str()),
            "event": entry.kind,
            "detail": entry.detail,
        })
    };
    match printer.output() {
        Output::Json => printer.json(&entries.iter().map(value).collect()),
        Output::Jsonl => entries.iter().for_each(|entry| printer.json_line(&value(entry))),
        Output::Text if entries.is_empty() => printer.note("nothing is recorded"),
        Output::Text => {
            let lines = entries.iter().map(|entry| {
                let tool = rows.get(&entry.row).map(|known| known.tool.clone()).unwrap_or_default();
                let detail = entry.detail.as_deref().unwrap_or_default();
                vec![
                    stamp(entry.at),
                    id(&entry.row).map_or_else(|| "-".to_owned(), ToString::to_string),
                    tool,
                    entry.kind.clone(),
                    detail.to_owned(),
                ]
            });
            let headings = ["TIME", "TASK", "TOOL", "EVENT", "DETAIL"];
            printer.data(&table::fitting(&headings, &["TOOL", "DETAIL", "TIME"], lines.collect()));
        }
    }
    Ok(Exit::Done)
}
