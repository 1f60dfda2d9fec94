//! What people type, and what is sent for it.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn schema() -> Schema {
    Schema::new(&json!({
        "type": "object",
        "properties": {
            "lot": {"type": "string"},
            "ts": {"type": "string"},
            "n": {"type": "integer", "minimum": 1},
            "x": {"type": "number"},
            "hot": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "counts": {"type": "array", "items": {"type": "integer"}},
            "cells": {"type": "array", "items": {"$ref": "#/$defs/cell"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "either": {"anyOf": [{"type": "string"}, {"type": "array"}]},
            "crust": {"enum": ["thin", "thick"]},
            "level": {"enum": [1, 2]},
            "oven": {"type": "object", "properties": {"heat": {"type": "integer"}}},
            "a.b": {"type": "integer"},
            "maybe": {"type": ["integer", "null"]}
        },
        "required": ["lot"],
        "additionalProperties": false,
        "$defs": {"cell": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    }))
}

fn built(items: &[&str]) -> Result<String, String> {
    let items: Result<Vec<Item>, ArgumentError> = items.iter().map(|item| Item::parse(item)).collect();
    items
        .and_then(|items| build(Map::new(), &items, &schema()))
        .map(|arguments| Value::Object(arguments).to_string())
        .map_err(|error| error.to_string())
}

#[test]
fn text_becomes_what_the_schema_asks_for() {
    for (typed, sent) in [
        ("lot=000123", r#"{"lot":"000123"}"#),
        ("ts=17.50", r#"{"ts":"17.50"}"#),
        ("n=5", r#"{"n":5}"#),
        ("n=12345678901234567890123", r#"{"n":12345678901234567890123}"#),
        ("x=1.50", r#"{"x":1.50}"#),
        ("hot=true", r#"{"hot":true}"#),
        (r#"tags=["a,b"]"#, r#"{"tags":["a,b"]}"#),
        ("tags=a,b", r#"{"tags":["a,b"]}"#),
        (r#"cells=[{"x":1,"y":2}]"#, r#"{"cells":[{"x":1,"y":2}]}"#),
        ("note=null", r#"{"note":"null"}"#),
        ("either=[1]", r#"{"either":[1]}"#),
        ("either=5", r#"{"either":"5"}"#),
        ("crust=thin", r#"{"crust":"thin"}"#),
        ("level=2", r#"{"level":2}"#),
        ("oven.heat=220", r#"{"oven":{"heat":220}}"#),
        ("a.b=7", r#"{"a.b":7}"#),
        ("maybe=null", r#"{"maybe":null}"#),
        ("unknown=5", r#"{"unknown":"5"}"#),
        ("lot=", r#"{"lot":""}"#),
        ("lot=a=b", r#"{"lot":"a=b"}"#),
        ("lot:=7", r#"{"lot":7}"#),
    ] {
        assert_eq!(built(&[typed]).as_deref(), Ok(sent), "{typed}");
    }
}

#[test]
fn a_repeated_key_fills_a_list_and_nothing_else() {
    assert_eq!(built(&["tags=a", "tags=b"]).as_deref(), Ok(r#"{"tags":["a","b"]}"#));
    assert_eq!(built(&["counts=1", "counts=[2,3]"]).as_deref(), Ok(r#"{"counts":[1,2,3]}"#));
    assert_eq!(built(&["lot=a", "lot=b"]).unwrap_err(), "`lot` is given twice");
}

#[test]
fn text_that_does_not_fit_is_named() {
    for (typed, words) in [
        ("n=abc", "`n` should be integer, not `abc`"),
        ("n=007", "`n` should be integer, not `007`"),
        ("n=", "`n` should be integer, not ``"),
        ("hot=yes", "write true or false"),
        ("counts=a", "should be integer"),
        ("oven=5", "write it as JSON: {"),
        ("n:=five", "the value of `n` is not JSON"),
        ("novalue", "is not an argument"),
        ("=x", "is not an argument"),
        ("lot=@/no/such/file", "cannot read the file `/no/such/file` for `lot`"),
        ("a\u{1b}[2J", "a\\u{1b}[2J"),
    ] {
        let error = built(&[typed]).unwrap_err();
        assert!(error.contains(words), "{typed}: {error}");
    }
    assert!(built(&["lot=a", "lot.b=c"]).unwrap_err().contains("`lot` is not an object"));
}

#[test]
fn a_file_may_hold_the_value() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a b.json");
    std::fs::write(&file, "[{\"x\":1.0}]").unwrap();
    let name = file.display();
    assert_eq!(built(&[&format!("cells:=@{name}")]).as_deref(), Ok(r#"{"cells":[{"x":1.0}]}"#));
    assert_eq!(built(&[&format!("lot=@{name}")]).as_deref(), Ok(r#"{"lot":"[{\"x\":1.0}]"}"#));
}

#[test]
fn input_is_kept_to_the_last_digit_and_items_go_on_top() {
    let base = parse_input(r#"{"z":1.0,"n":1,"cells":[{"y":2e400}]}"#).unwrap();
    let built = build(base, &[Item::parse("n=2").unwrap()], &schema()).unwrap();
    let sent = Value::Object(built).to_string();
    assert!(sent.starts_with(r#"{"z":1.0,"n":2,"#) && sent.to_lowercase().contains("2e+400"), "{sent}");
    assert_eq!(parse_input("[1]").unwrap_err().to_string(), "--input must be a JSON object, it is a list");
}

fn checked(arguments: Value) -> Result<Vec<String>, String> {
    check(arguments.as_object().unwrap(), &schema()).map_err(|error| error.to_string())
}

#[test]
fn misfits_are_told_with_what_was_meant() {
    assert_eq!(checked(json!({"lot": "a"})), Ok(vec![]));
    assert_eq!(checked(json!({})).unwrap_err(), "`lot` is missing (string)");
    assert_eq!(checked(json!({"lot": "a", "tag": 1})).unwrap_err(), "there is no argument `tag`; did you mean `tags`?");
    assert!(checked(json!({"lot": "a", "zzz": 1})).unwrap_err().contains("the tool takes `lot`, `ts`"));
    assert_eq!(checked(json!({"lot": "a", "n": "x"})).unwrap_err(), "`n` should be integer, not \"x\"");
    assert!(checked(json!({"lot": "a", "n": 0})).unwrap_err().contains("`n`: 0 is less than the minimum of 1"));
    assert_eq!(
        checked(json!({"lot": "a", "crust": "thik"})).unwrap_err(),
        "`crust` should be one of \"thin\", \"thick\", not \"thik\"; did you mean `thick` or `thin`?"
    );
    assert!(checked(json!({"lot": "a", "cells": [{"x": "y"}]})).unwrap_err().contains("`cells.0.x` should be integer"));
    let both = checked(json!({"lott": "a"})).unwrap_err();
    assert!(both.contains("`lot` is missing (string); is `lott` meant for it?"), "{both}");
}

#[test]
fn a_schema_of_no_use_does_not_stop_a_call() {
    let odd = Schema::new(&json!({"type": "a cake"}));
    let notes = check(&Map::new(), &odd).unwrap();
    assert!(notes[0].contains("go unchecked"), "{notes:?}");
    let open = Schema::new(&json!({"type": "object", "properties": {"topic": {"type": "string"}}}));
    let given = json!({"topik": "x"});
    let notes = check(given.as_object().unwrap(), &open).unwrap();
    assert_eq!(notes, ["the tool does not list `topik` as an argument; did you mean `topic`?"]);
    let circle = Schema::new(&json!({"properties": {"a": {"$ref": "#/properties/a"}}}));
    assert_eq!(circle.describe("a"), "any value");
}

proptest! {
    #[test]
    fn text_for_a_string_is_that_string(text in "[^@].*") {
        let item = Item::parse(&format!("lot={text}")).unwrap();
        let built = build(Map::new(), &[item], &schema()).unwrap();
        prop_assert_eq!(&built["lot"], &Value::String(text));
    }

    #[test]
    fn typing_never_panics(key in "[a-z.:]{0,6}", text: String) {
        let _ = Item::parse(&format!("{key}={}", text.trim_start_matches('@'))).and_then(|item| build(Map::new(), &[item], &schema()));
    }
}
