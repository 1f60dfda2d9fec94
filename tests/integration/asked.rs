//! A person at a real pseudo-terminal is asked what a server asks.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::questions::{answers, asking, content, flour, question};
use crate::real::{EVERYTHING, SDK_EXAMPLES, serve};
use crate::support::{Bench, until};
use crate::terminal::Terminal;

const ENTER: &[u8] = b"\r";
const DOWN: &[u8] = b"\x1b[B";
const ESCAPE: &[u8] = b"\x1b";

/// Waits for words at the end of the screen, and types keys.
#[track_caller]
fn at(terminal: &mut Terminal, words: &str, keys: &[&[u8]]) {
    let end = Instant::now() + Duration::from_secs(30);
    while !terminal.contents().contains(words) {
        assert!(Instant::now() < end, "no `{words}` on the screen:\n{}", terminal.contents());
        assert!(terminal.poll().is_none(), "the program has ended without `{words}`:\n{}", terminal.contents());
        std::thread::sleep(Duration::from_millis(5));
    }
    keys.iter().for_each(|keys| terminal.type_keys(keys));
}

/// The program, asked by a server over stdio.
fn call(bench: &Bench) -> Terminal {
    Terminal::run(100, &["-s", &bench.stdio(), "call", "bake"], &[])
}

#[track_caller]
fn ends(mut terminal: Terminal, code: u32) -> String {
    assert_eq!(terminal.wait(), code, "{}", terminal.contents());
    terminal.contents()
}

#[test]
fn a_form_is_filled_in_field_by_field() {
    let bench = flour();
    let mut terminal = call(&bench);
    at(&mut terminal, "What do you want to do?", &[]);
    let screen = terminal.contents();
    assert!(screen.contains("asks, for bake, task t-loaf:") && screen.contains("  Which flour?"), "{screen}");
    // The task is looked at while the person thinks.
    let polls = bench.of("tasks/get").len();
    until("more polls", || bench.of("tasks/get").len() > polls + 2);
    terminal.type_keys(ENTER);
    at(&mut terminal, "  Oat", &[DOWN, ENTER]);
    at(&mut terminal, "grams (a whole number, 1 to 999, optional)", &[b"\x7f\x7f\x7f", b"1000", ENTER]);
    at(&mut terminal, "1000 is greater than the maximum of 999", &[b"\x7f\x7f\x7f", b"7", ENTER]);
    at(&mut terminal, "colour (colour, optional)", &[ENTER]);
    at(&mut terminal, "Is that right?", &[]);
    let screen = terminal.contents();
    assert!(screen.contains("Flour: Oat") && screen.contains("grams: 7") && screen.contains("(left out)"), "{screen}");
    terminal.type_keys(ENTER);
    let screen = ends(terminal, 0);
    assert!(screen.contains("a loaf"), "{screen}");
    assert_eq!(content(&bench), json!({"flour": "oat", "grams": 7}));
}

#[test]
fn an_answer_can_be_changed_before_it_is_sent() {
    let bench = flour();
    let mut terminal = call(&bench);
    at(&mut terminal, "What do you want to do?", &[ENTER]);
    at(&mut terminal, "  Oat", &[ENTER]);
    at(&mut terminal, "grams (", &[ENTER]);
    at(&mut terminal, "colour (", &[b"gr\xc3\xbcn", ENTER]);
    at(&mut terminal, "Is that right?", &[DOWN, ENTER]);
    at(&mut terminal, "Which?", &[ENTER]);
    at(&mut terminal, "Flour", &[DOWN, ENTER]);
    at(&mut terminal, "Flour: Oat", &[ENTER]);
    ends(terminal, 0);
    assert_eq!(content(&bench), json!({"flour": "oat", "grams": 500, "colour": "grün"}));
}

#[test]
fn saying_no_is_always_on_offer() {
    let action = |keys: &[(&str, &[&[u8]])]| {
        let bench = flour();
        let mut terminal = call(&bench);
        for (words, keys) in keys {
            at(&mut terminal, words, keys);
        }
        ends(terminal, 0);
        answers(&bench, &json!(0))[0]["result"].clone()
    };
    let of = |result: Value| (result["action"].clone(), result["content"].clone());
    let menu = "What do you want to do?";
    assert_eq!(of(action(&[(menu, &[DOWN, ENTER])])), (json!("decline"), Value::Null));
    assert_eq!(of(action(&[(menu, &[DOWN, DOWN, ENTER])])), (json!("cancel"), Value::Null));
    assert_eq!(of(action(&[(menu, &[ESCAPE])])), (json!("cancel"), Value::Null));
    let from_a_field: &[(&str, &[&[u8]])] =
        &[(menu, &[ENTER]), ("  Oat", &[ESCAPE]), ("is not answered", &[DOWN, ENTER])];
    assert_eq!(of(action(from_a_field)), (json!("decline"), Value::Null));
    let from_the_review: &[(&str, &[&[u8]])] = &[
        (menu, &[ENTER]),
        ("  Oat", &[ENTER]),
        ("grams (", &[ENTER]),
        ("colour (", &[ENTER]),
        ("Is that right?", &[DOWN, DOWN, DOWN, ENTER]),
    ];
    assert_eq!(of(action(from_the_review)), (json!("cancel"), Value::Null));
}

#[test]
fn a_withdrawn_question_closes_its_prompt() {
    let never_mind = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}});
    let bench = asking(&[
        json!({"send": question(json!(0), "Which flour?")}),
        json!({"sleep": 700}),
        json!({"send": never_mind}),
        json!({"send": question(json!(1), "And now?")}),
        json!({"await": 1}),
    ]);
    let mut terminal = call(&bench);
    at(&mut terminal, "What do you want to do?", &[ENTER]);
    at(&mut terminal, "  Oat", &[]);
    at(&mut terminal, "  And now?", &[]);
    at(&mut terminal, "Decline: say no", &[DOWN, ENTER]);
    let screen = ends(terminal, 0);
    assert!(screen.contains("the question is no longer asked") && !screen.contains("cancel task"), "{screen}");
    assert!(answers(&bench, &json!(0)).is_empty());
    assert_eq!(answers(&bench, &json!(1))[0]["result"]["action"], "decline");
}

#[test]
fn a_task_that_ends_closes_its_prompt() {
    let bench = asking(&[json!({"send": question(json!(0), "Which flour?")}), json!({"sleep": 700})]);
    let mut terminal = call(&bench);
    at(&mut terminal, "What do you want to do?", &[ENTER]);
    at(&mut terminal, "  Oat", &[ENTER]);
    at(&mut terminal, "grams (", &[b"1"]);
    let screen = ends(terminal, 0);
    assert!(screen.contains("a loaf"), "{screen}");
    assert!(answers(&bench, &json!(0)).is_empty());
}

#[test]
fn control_c_at_a_prompt_leaves_the_question_open() {
    let bench = flour();
    let server = bench.http();
    let folder = bench.path("state").display().to_string();
    let state: &[(&str, &str)] = &[("MCP_TASK_STATE_DIR", &folder)];
    let mut terminal = Terminal::run(100, &["-s", &server.url, "call", "bake"], state);
    at(&mut terminal, "What do you want to do?", &[ENTER]);
    at(&mut terminal, "  Oat", &[ENTER]);
    at(&mut terminal, "grams (", &[b"12", b"\x03"]);
    let screen = ends(terminal, 8);
    assert!(screen.contains("hint: mcp-task watch t-loaf"), "{screen}");
    assert!(answers(&bench, &json!(0)).is_empty() && bench.of("tasks/cancel").is_empty());
    // Whoever watches next is asked what is still open.
    let mut terminal = Terminal::run(100, &["watch", "t-loaf"], state);
    at(&mut terminal, "What do you want to do?", &[DOWN, ENTER]);
    ends(terminal, 0);
    assert_eq!(answers(&bench, &json!(0))[0]["result"]["action"], "decline");
}

#[test]
fn nothing_that_was_typed_before_answers() {
    let bench =
        asking(&[json!({"sleep": 500}), json!({"send": question(json!(0), "Which flour?")}), json!({"await": 0})]);
    let mut terminal = call(&bench);
    until("the question for the result", || !bench.of("tasks/result").is_empty());
    terminal.type_keys(b"\r\r\r\r\r\r\r\r");
    at(&mut terminal, "What do you want to do?", &[]);
    let polls = bench.of("tasks/get").len();
    until("more polls", || bench.of("tasks/get").len() > polls + 2);
    assert!(answers(&bench, &json!(0)).is_empty());
    assert!(!terminal.contents().contains("grams"), "{}", terminal.contents());
    terminal.type_keys(DOWN);
    terminal.type_keys(ENTER);
    ends(terminal, 0);
}

#[test]
fn a_server_cannot_draw_on_the_terminal_and_is_suspected_of_wanting_secrets() {
    let mut asked = question(json!(0), "Your password\u{1b}[2J\u{1b}[1;1H\r\nplease\u{202e}");
    asked["params"]["requestedSchema"] =
        json!({"type": "object", "properties": {"p\u{1b}[1A": {"type": "string", "description": "\u{7}ding"}}});
    let bench = asking(&[json!({"send": asked}), json!({"await": 0})]);
    let mut terminal = call(&bench);
    at(&mut terminal, "What do you want to do?", &[ENTER]);
    at(&mut terminal, "p\\u{1b}[1A (optional)", &[ENTER]);
    at(&mut terminal, "Is that right?", &[ENTER]);
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    let screen = ends(terminal, 0);
    assert!(screen.contains("warning: this seems to ask for a password"), "{screen}");
    assert!(
        screen.contains("password\\u{1b}[2J") && screen.contains("please\\u{202e}") && screen.contains("\\u{7}ding"),
        "{screen}"
    );
    assert!(!bytes.contains("\u{1b}[2J\u{1b}[1;1H") && !bytes.contains('\u{7}') && !bytes.contains('\u{202e}'));
    assert_eq!(content(&bench), json!({}));
}

#[test]
fn every_kind_of_field_can_be_filled_in() {
    let mut asked = question(json!(0), "All of it");
    asked["params"]["requestedSchema"] = json!({"type": "object",
    "required": ["name", "ok", "tags", "big"],
    "$defs": {"tag": {"type": "string", "enum": ["rye", "oat", "bun"]}},
    "properties": {
        "name": {"type": "string", "minLength": 3},
        "day": {"type": "string", "format": "date"},
        "ok": {"type": "boolean", "default": true},
        "tags": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/tag"}, "default": ["rye"]},
        "big": {"type": "integer"},
        "n": {"type": "number", "minimum": 0.5},
    }});
    let bench = asking(&[json!({"send": asked}), json!({"await": 0})]);
    let mut terminal = call(&bench);
    at(&mut terminal, "What do you want to do?", &[ENTER]);
    at(&mut terminal, "name (at least 3 characters)", &[ENTER]);
    at(&mut terminal, "name is not answered", &[ENTER]);
    at(&mut terminal, "name (at least 3 characters)", &[b"Jo", ENTER]);
    at(&mut terminal, "is shorter than 3 characters", &[b"Ada", ENTER]);
    at(&mut terminal, "day (a date", &[b"2031-02-30", ENTER]);
    at(&mut terminal, "should be a date, like 2031-02-28, not \"2031-02-30\"", &[b"2031-02-28", ENTER]);
    at(&mut terminal, "yes", &[DOWN, ENTER]);
    at(&mut terminal, "tags (at least 2 of them, space marks)", &[ENTER]);
    at(&mut terminal, "has less than 2 items", &[DOWN, b" ", ENTER]);
    at(&mut terminal, "big (a whole number)", &[b"42xyz", ENTER]);
    at(&mut terminal, "not `42xyz`", &[b"123456789012345678901", ENTER]);
    at(&mut terminal, "n (a number, at least 0.5, optional)", &[b"0.50", ENTER]);
    at(&mut terminal, "Is that right?", &[]);
    let screen = terminal.contents();
    assert!(screen.contains("tags: rye, oat"), "{screen}");
    terminal.type_keys(ENTER);
    ends(terminal, 0);
    assert_eq!(
        content(&bench).to_string(),
        r#"{"name":"Ada","day":"2031-02-28","ok":false,"tags":["rye","oat"],"big":123456789012345678901,"n":0.50}"#
    );
}

#[test]
fn a_narrow_terminal_has_room_for_every_prompt() {
    let mut asked = question(json!(0), "Tell all there is to tell about the loaf");
    asked["params"]["requestedSchema"] = json!({"type": "object", "required": ["a", "b"], "properties": {
        "a": {"type": "string", "title": "The flour that shall go into the loaf", "enum": ["rye", "oat", "bun"]},
        "b": {"type": "integer", "title": "Grams of it", "minimum": 1, "maximum": 999_999}}});
    let bench = asking(&[json!({"send": asked}), json!({"await": 0})]);
    let mut terminal = Terminal::run(40, &["-s", &bench.stdio(), "call", "bake"], &[]);
    at(&mut terminal, "What do you want to do?", &[ENTER]);
    at(&mut terminal, "❯ rye", &[DOWN]);
    at(&mut terminal, "❯ oat", &[DOWN]);
    at(&mut terminal, "❯ bun", &[]);
    let screen = terminal.contents();
    assert_eq!(screen.matches("The flour that").count(), 1, "one heading, whatever was pressed:\n{screen}");
    terminal.type_keys(ENTER);
    at(&mut terminal, "(a whole number, 1 to 999999)", &[]);
    at(&mut terminal, "Grams of it", &[b"7", ENTER]);
    at(&mut terminal, "Is that right?", &[ENTER]);
    ends(terminal, 0);
    assert_eq!(content(&bench), json!({"a": "bun", "b": 7}));
}

#[test]
fn an_address_is_shown_and_opened_with_consent_alone() {
    let asked = json!({"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {
        "mode": "url", "elicitationId": "e-1", "message": "Please pay", "url": "http://127.0.0.1:9/pay?loaf=1",
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-loaf"}}}});
    for opens in [true, false] {
        let bench = asking(&[json!({"send": asked}), json!({"await": 0})]);
        let (script, opened) = (bench.path("browser"), bench.path("opened"));
        std::fs::write(&script, format!("#!/bin/sh\necho \"$1\" >{}\n", opened.display())).unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let browser = script.display().to_string();
        let mut terminal = Terminal::run(100, &["-s", &bench.stdio(), "call", "bake"], &[("BROWSER", &browser)]);
        at(&mut terminal, "Do you want to go there?", &[]);
        let screen = terminal.contents();
        assert!(
            screen.contains("http://127.0.0.1:9/pay?loaf=1") && screen.contains("leads to 127.0.0.1, port 9"),
            "{screen}"
        );
        assert!(!opened.exists());
        let keys: &[&[u8]] = if opens { &[ENTER] } else { &[DOWN, ENTER] };
        keys.iter().for_each(|keys| terminal.type_keys(keys));
        ends(terminal, 0);
        let result = &answers(&bench, &json!(0))[0]["result"];
        assert_eq!((&result["action"], &result["content"]), (&json!("accept"), &Value::Null));
        if opens {
            until("the browser", || std::fs::read_to_string(&opened).is_ok_and(|url| url.ends_with('\n')));
            assert_eq!(std::fs::read_to_string(&opened).unwrap(), "http://127.0.0.1:9/pay?loaf=1\n");
        } else {
            assert!(!opened.exists());
        }
    }
}

#[test]
fn real_servers_ask_a_person() {
    let research = ["call", "simulate-research-query", "topic=python", "ambiguous=true"];
    let over_stdio = format!("node {EVERYTHING} stdio");
    let over_http = serve("node", &[EVERYTHING, "streamableHttp"], Some("PORT"), "/mcp");
    for server in [&over_stdio, &over_http.url] {
        let mut terminal = Terminal::run(110, &[&["-s", server], &research[..]].concat(), &[]);
        at(&mut terminal, "What do you want to do?", &[ENTER]);
        at(&mut terminal, "Which interpretation of the topic do you mean?", &[DOWN, ENTER]);
        at(&mut terminal, "Is that right?", &[ENTER]);
        let mut terminal = terminal;
        assert_eq!(terminal.wait(), 0, "{}", terminal.contents());
        assert!(terminal.saw("clarification (\"snake\")"), "{}", terminal.contents());
    }
    let file = format!("{SDK_EXAMPLES}/simpleTaskInteractive.js");
    let interactive = serve("node", &[&file], Some("PORT"), "/mcp");
    let mut terminal = Terminal::run(100, &["-s", &interactive.url, "call", "confirm_delete", "filename=x"], &[]);
    at(&mut terminal, "What do you want to do?", &[ENTER]);
    at(&mut terminal, "yes", &[ENTER]);
    at(&mut terminal, "Is that right?", &[ENTER]);
    let screen = ends(terminal, 0);
    assert!(screen.contains("Deleted 'x'"), "{screen}");
}

/// A server that refuses its tool until a person has been somewhere.
fn needing(after: &[Value]) -> Bench {
    let visit = json!({"mode": "url", "elicitationId": "e-1", "url": "https://bread.example/connect", "message": "Connect your bakery"});
    let refused = json!({"error": {"code": -32042, "message": "first connect", "data": {"elicitations": [visit]}}});
    let steps = [&[refused], after].concat();
    Bench::new(&json!({"rules": [
        {"method": "tools/call", "nth": 1, "steps": steps},
        {"method": "tools/call", "steps": [{"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
    ]}))
}

#[test]
fn a_call_that_needs_a_visit_first_is_made_again_on_a_persons_word() {
    let bench = needing(&[]);
    let mut terminal = Terminal::run(100, &["-s", &bench.stdio(), "call", "plain"], &[]);
    at(&mut terminal, "Do you want to go there?", &[]);
    let screen = terminal.contents();
    assert!(screen.contains("Connect your bakery") && screen.contains("https://bread.example/connect"), "{screen}");
    terminal.type_keys(DOWN);
    terminal.type_keys(ENTER);
    at(&mut terminal, "Are you done there?", &[]);
    assert_eq!(bench.of("tools/call").len(), 1);
    terminal.type_keys(ENTER);
    let screen = ends(terminal, 0);
    assert!(screen.contains("a loaf"), "{screen}");
    assert_eq!(bench.of("tools/call").len(), 2);
    // And not where the person does not want to.
    let bench = needing(&[]);
    let mut terminal = Terminal::run(100, &["-s", &bench.stdio(), "call", "plain"], &[]);
    at(&mut terminal, "Do you want to go there?", &[ESCAPE]);
    ends(terminal, 9);
    assert_eq!(bench.of("tools/call").len(), 1);
}

#[test]
fn a_visit_is_done_when_the_server_says_so() {
    let complete = |id: &str| json!({"send": {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": id}}});
    let bench = needing(&[complete("unknown"), json!({"sleep": 300}), complete("e-1"), complete("e-1")]);
    let accept = "exec:echo '{\"action\": \"accept\"}'";
    let outcome = crate::support::run(&["-s", &bench.stdio(), "call", "plain", "--on-input", accept]);
    outcome.exits(0).prints("a loaf\n");
    assert_eq!(outcome.stderr.matches("what was asked at the address is done").count(), 1, "{outcome:?}");
    let bench = needing(&[]);
    let outcome = crate::support::run(&["-s", &bench.stdio(), "call", "plain", "--json"]);
    let error = &outcome.exits(9).says("Connect your bakery (at https://bread.example/connect)").json()["error"];
    assert_eq!((&error["kind"], &error["code"]), (&json!("input_required"), &json!(-32042)));
    assert_eq!(bench.of("tools/call").len(), 1);
}
