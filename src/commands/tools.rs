//! `mcp-task tools [NAME]`: the server's tools, or one of them in full.

use serde_json::Value;

use super::held::Need;
use super::{Context, server};
use crate::arguments::Schema;
use crate::model::{Tool, text};
use crate::present::{Exit, Output, table};
use crate::session::{Session, SessionError};

/// A tool that the server does not have.
#[derive(Debug, thiserror::Error)]
#[error("the server has no tool `{}`{}", text::line(name), near(near_misses))]
pub struct UnknownTool {
    /// As typed.
    pub name: String,
    /// What may have been meant.
    pub near_misses: Vec<String>,
}

fn near(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", text::line(name))).collect();
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(" or ")) }
}

impl UnknownTool {
    pub(super) fn hint(&self, context: &Context) -> String {
        let server =
            context.server_name().map_or_else(String::new, |name| format!("-s {} ", shell_words::quote(&name)));
        format!("`mcp-task {server}tools` lists them")
    }
}

/// Finds a tool. `None` where the server has no list of tools, so that nothing is known.
pub(super) async fn find(session: &Session, name: &str) -> anyhow::Result<Option<Tool>> {
    let tools = match session.tools().await {
        Ok(tools) => tools,
        Err(error) if error.is_method_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    match tools.into_iter().find(|tool| tool.name == name) {
        Some(tool) => Ok(Some(tool)),
        None => {
            let near_misses = text::near_misses(name, names.iter().map(String::as_str));
            let near_misses = near_misses.into_iter().map(str::to_owned).collect();
            Err(UnknownTool { name: name.to_owned(), near_misses }.into())
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Where the tools cannot be had or the named one is not among them.
pub async fn run(context: &Context, name: Option<&str>) -> anyhow::Result<Exit> {
    let session = server::connect(context, Need::Look).await?;
    match name {
        Some(name) => {
            let tool = find(&session, name)
                .await?
                .ok_or_else(|| UnknownTool { name: name.to_owned(), near_misses: Vec::new() })?;
            show_one(context, &tool);
        }
        None => {
            let tools = match session.tools().await {
                Err(error) if error.is_method_not_found() => Vec::new(),
                tools => tools.map_err(|error: SessionError| anyhow::Error::new(error))?,
            };
            show_all(context, &tools);
        }
    }
    session.close(false).await;
    Ok(Exit::Done)
}

fn show_all(context: &Context, tools: &[Tool]) {
    let printer = &context.printer;
    match printer.output() {
        Output::Json => printer.json(&Value::Array(tools.iter().map(|tool| tool.raw.value()).collect())),
        Output::Jsonl => tools.iter().for_each(|tool| printer.json_line(&tool.raw.value())),
        Output::Text if tools.is_empty() => printer.note("the server has no tools"),
        Output::Text => {
            let rows = tools.iter().map(|tool| {
                let about = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
                let first = about.trim().lines().next().unwrap_or_default();
                vec![tool.name.clone(), tool.task_support.as_str().to_owned(), text::truncate(first, 100).into_owned()]
            });
            printer.data(&table::table(&["TOOL", "TASK", "ABOUT"], rows));
        }
    }
}

fn show_one(context: &Context, tool: &Tool) {
    let printer = &context.printer;
    match printer.output() {
        Output::Json => return printer.raw_json(&tool.raw),
        Output::Jsonl => return printer.json_line(&tool.raw.value()),
        Output::Text => {}
    }
    let schema = Schema::new(&tool.input_schema);
    let mut lines = vec![text::line(&tool.name).into_owned()];
    lines.extend(tool.title.iter().map(|title| format!("  {}", text::line(title))));
    if let Some(about) = &tool.description {
        lines.push(String::new());
        lines.extend(text::block(about.trim()).lines().map(|line| format!("  {line}")));
    }
    lines.push(String::new());
    lines.push(format!("  as a task: {}", tool.task_support.as_str()));
    let required = schema.required();
    let names = schema.names();
    lines.push(String::new());
    lines.push(if names.is_empty() { "Arguments: none" } else { "Arguments:" }.to_owned());
    for name in &names {
        let mut line = format!("  {}: {}", text::line(name), text::line(&schema.describe(name)));
        if required.contains(name) {
            line.push_str(", required");
        }
        if let Some(default) = schema.default(name) {
            line.push_str(&format!(", default {}", text::line(&default.to_string())));
        }
        lines.push(line);
        lines.extend(schema.description(name).map(|about| format!("      {}", text::line(about))));
    }
    lines.push(String::new());
    lines.push("Example:".to_owned());
    lines.push(format!("  {}", example(context, tool, &schema)));
    printer.data(&lines.join("\n"));
}

/// A call that could be typed, with every argument that must be there.
fn example(context: &Context, tool: &Tool, schema: &Schema) -> String {
    let mut words = vec!["mcp-task".to_owned()];
    if let Some(server) = context.server_name() {
        words.extend(["-s".to_owned(), server]);
    }
    words.extend(["call".to_owned(), tool.name.clone()]);
    for name in schema.required() {
        words.push(schema.sample(name).map_or_else(|| format!("{name}=…"), |sample| format!("{name}={sample}")));
    }
    let quoted: Vec<String> = words.iter().map(|word| shell_word(&text::line(word))).collect();
    quoted.join(" ")
}

/// A word as one would type it: quoted only where a shell would take it for something else.
fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_=./:@%+,…".contains(letter);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { shell_words::quote(word).into_owned() }
}
