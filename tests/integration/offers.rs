//! What servers may ask for beside a person's answers: words of a language model, and folders.

use serde_json::{Value, json};

use crate::questions::{answers, asking};
use crate::real::{SDK_EXAMPLES, serve};
use crate::support::{Bench, Outcome, run, until};
use crate::terminal::Terminal;

fn haiku(extra: &Value) -> Value {
    let mut asked = json!({"jsonrpc": "2.0", "id": 0, "method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "A haiku on rye"}}],
        "systemPrompt": "You are a baker.", "maxTokens": 50,
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-loaf"}}}});
    for (key, value) in extra.as_object().into_iter().flatten() {
        asked["params"][key] = value.clone();
    }
    asked
}

fn poet(extra: &Value) -> Bench {
    asking(&[json!({"send": haiku(extra)}), json!({"await": 0})])
}

fn call(bench: &Bench, arguments: &[&str]) -> Outcome {
    run(&[&["-s", &bench.stdio(), "call", "bake"], arguments].concat())
}

fn offered(bench: &Bench) -> Value {
    bench.of("initialize")[0]["message"]["params"]["capabilities"].clone()
}

#[test]
fn a_program_speaks_for_a_model() {
    let bench = poet(&json!({}));
    let program = "exec:sh -c 'grep -q \"A haiku on rye\" && printf \"dough\\\\nrises\\\\n\"'";
    call(&bench, &["--sampling", program]).exits(0).prints("a loaf\n");
    assert_eq!(offered(&bench)["sampling"], json!({}));
    let result = &answers(&bench, &json!(0))[0]["result"];
    assert_eq!(result["content"], json!({"type": "text", "text": "dough\nrises"}));
    assert_eq!((&result["role"], &result["model"]), (&json!("assistant"), &json!("sh")));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], "t-loaf");
    let bench = poet(&json!({}));
    let whole = r#"exec:echo '{"content": {"type": "text", "text": "x"}, "model": "m-1", "n": 1.50}'"#;
    call(&bench, &["--sampling", whole]).exits(0);
    let result = &answers(&bench, &json!(0))[0]["result"];
    assert_eq!((&result["model"], result["n"].to_string()), (&json!("m-1"), "1.50".to_owned()));
}

#[test]
fn without_a_program_a_model_is_not_offered() {
    let bench = poet(&json!({}));
    call(&bench, &[]).exits(0).says("which this client did not offer; it was refused");
    assert_eq!(offered(&bench)["sampling"], Value::Null);
    assert_eq!(answers(&bench, &json!(0))[0]["error"]["code"], -32601);
    // Tools for the model were not offered, so they are refused.
    let bench = poet(&json!({"tools": [{"name": "t", "inputSchema": {}}]}));
    call(&bench, &["--sampling", "exec:echo x"]).exits(0);
    assert_eq!(answers(&bench, &json!(0))[0]["error"]["code"], -32602);
    let bench = poet(&json!({}));
    let outcome = call(&bench, &["--sampling", "exec:false"]);
    outcome.exits(9).says("`false`, which was to answer, ended with").says("--sampling exec:COMMAND");
    assert!(!outcome.stderr.contains("--answer"), "{}", outcome.stderr);
    assert!(answers(&bench, &json!(0)).is_empty());
    call(&bench, &["--sampling", "cat"]).exits(2).says("exec:COMMAND");
    call(&bench, &["--sampling-review"]).exits(2).says("--sampling-review needs --sampling");
    call(&bench, &["--sampling", "exec:cat", "--sampling-review"]).exits(2).says("needs a terminal");
}

#[test]
fn a_person_looks_at_both_ways() {
    for sends in [true, false] {
        let bench = poet(&json!({}));
        let server = bench.stdio();
        let arguments = ["-s", &server, "call", "bake", "--sampling", "exec:echo words", "--sampling-review"];
        let mut terminal = Terminal::run(100, &arguments, &[]);
        until("the request", || terminal.contents().contains("Shall it be put to the model?"));
        let screen = terminal.contents();
        assert!(screen.contains("system: You are a baker.") && screen.contains("user: A haiku on rye"), "{screen}");
        terminal.type_keys(b"\r");
        until("the words", || terminal.contents().contains("Shall this be sent"));
        assert!(terminal.contents().contains("assistant: words"), "{}", terminal.contents());
        terminal.type_keys(if sends { b"\r" } else { b"\x1b[B\r" });
        assert_eq!(terminal.wait(), 0, "{}", terminal.contents());
        let answer = answers(&bench, &json!(0))[0].clone();
        if sends {
            assert_eq!(answer["result"]["content"]["text"], "words");
        } else {
            assert_eq!(answer["error"]["code"], -1);
        }
    }
}

#[test]
fn folders_are_told() {
    let list = |id: u32| json!({"send": {"jsonrpc": "2.0", "id": id, "method": "roots/list"}});
    let bench = asking(&[list(0), json!({"await": 0})]);
    call(&bench, &["--root", "src", "--root", "tests"]).exits(0);
    assert_eq!(offered(&bench)["roots"], json!({"listChanged": true}));
    let roots = answers(&bench, &json!(0))[0]["result"]["roots"].clone();
    let uri = roots[0]["uri"].as_str().unwrap();
    assert!(uri.starts_with("file:///") && uri.ends_with("/src"), "{roots}");
    assert_eq!((&roots[1]["name"], roots.as_array().unwrap().len()), (&json!("tests"), 2));
    call(&bench, &["--root", "Cargo.toml"]).exits(2).says("--root Cargo.toml is not a folder");
    call(&bench, &["--root", "nowhere"]).exits(2).says("--root nowhere");
    let bench = asking(&[]);
    call(&bench, &[]).exits(0);
    assert_eq!(offered(&bench)["roots"], Value::Null);
}

#[test]
fn a_real_server_has_a_model_speak() {
    let file = format!("{SDK_EXAMPLES}/simpleTaskInteractive.js");
    let server = serve("node", &[&file], Some("PORT"), "/mcp");
    let haiku = ["-s", &server.url, "call", "write_haiku", "topic=rye"];
    let spoken = run(&[&haiku[..], &["--sampling", "exec:echo dough rises slowly"]].concat());
    assert!(spoken.exits(0).stdout.contains("dough rises slowly"), "{spoken:?}");
}
