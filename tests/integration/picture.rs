//! Draws the README's picture from a real run: `cargo test --features fake-server picture -- --ignored`.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::support::root;
use crate::terminal::Terminal;

const COLUMNS: u16 = 92;
const COMMAND: &str = "mcp-task call -s demo hash-files path=src";
/// How long the last frame stays, in seconds.
const REST: f64 = 4.0;

#[test]
#[ignore = "writes docs/demo.svg, which is only wanted when what is drawn has changed"]
fn draw() {
    let words: Vec<&str> = COMMAND.split(' ').skip(1).collect();
    let start = Instant::now();
    let mut terminal = Terminal::run(COLUMNS, &words, &[]);
    let mut frames: Vec<(f64, String)> = vec![(0.0, String::new())];
    let mut code = None;
    while code.is_none() {
        code = terminal.poll();
        std::thread::sleep(Duration::from_millis(100));
        let contents = terminal.contents();
        if frames.last().is_some_and(|(_, last)| *last != contents) {
            frames.push((start.elapsed().as_secs_f64(), contents));
        }
    }
    assert_eq!(code, Some(0));
    std::fs::create_dir_all(root().join("docs")).unwrap();
    std::fs::write(root().join("docs/demo.svg"), svg(&frames)).unwrap();
}

/// Each frame is a group that is visible in its share of one long cycle.
fn svg(frames: &[(f64, String)]) -> String {
    let total = frames.last().map_or(0.0, |(at, _)| *at) + REST;
    let lines = 1 + frames.iter().map(|(_, contents)| contents.lines().count()).max().unwrap_or(0);
    let (width, height) = (u32::from(COLUMNS) * 8 + 32, u32::try_from(lines).unwrap() * 20 + 32);
    let mut style = String::new();
    let mut groups = String::new();
    for (index, (from, contents)) in frames.iter().enumerate() {
        let to = frames.get(index + 1).map_or(total, |(at, _)| *at);
        let (from, to) = (from / total * 100.0, to / total * 100.0);
        writeln!(style, "@keyframes f{index} {{ 0% {{ opacity: {first} }} {from:.2}% {{ opacity: 1 }} {to:.2}% {{ opacity: {last} }} 100% {{ opacity: {last} }} }}",
            first = u8::from(index == 0), last = u8::from(index + 1 == frames.len())).unwrap();
        // Where nothing moves the last frame is what is seen.
        let still = u8::from(index + 1 == frames.len());
        writeln!(style, "#f{index} {{ animation: f{index} {total:.1}s step-end infinite; opacity: {still} }}").unwrap();
        write!(groups, "<g id=\"f{index}\">").unwrap();
        for (row, line) in
            std::iter::once(format!("$ {COMMAND}")).chain(contents.lines().map(str::to_owned)).enumerate()
        {
            let line = line.trim_end().replace('&', "&amp;").replace('<', "&lt;");
            write!(groups, "<text x=\"16\" y=\"{}\" xml:space=\"preserve\">{line}</text>", 34 + row * 20).unwrap();
        }
        groups.push_str("</g>\n");
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n<style>\ntext {{ font: 13.3px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d8dee9 }}\n{style}</style>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1f2430\"/>\n{groups}</svg>\n"
    )
}
