//! What is typed into forms.

use serde_json::json;

use super::*;

fn form(properties: Value) -> Form {
    Form::new(&json!({"type": "object", "title": "Dough", "additionalProperties": false, "properties": properties}))
}

/// What one text becomes in a field with this schema: JSON, or the misfit.
fn typed(schema: Value, text: &str) -> Result<String, String> {
    let form = form(json!({"f": schema}));
    form.read(&form.fields()[0], text).map(|value| value.to_string()).map_err(|misfit| misfit.to_string())
}

#[test]
fn numbers_are_taken_to_the_digit_and_nothing_else_is() {
    let integer = json!({"type": "integer", "minimum": 1, "maximum": 9, "default": 4});
    assert_eq!(typed(integer.clone(), "7"), Ok("7".into()));
    assert_eq!(typed(integer.clone(), "4.0"), Ok("4".into()));
    for bad in ["", "10", "0", "1e1", "4.5", "NaN", "inf", "42xyz", "four", "1 2", "--1", "true"] {
        let misfit = typed(integer.clone(), bad).unwrap_err();
        assert!(misfit.contains("`f`"), "{bad}: {misfit}");
    }
    let number = json!({"type": "number", "minimum": 0.5});
    assert_eq!(typed(number.clone(), "0.50"), Ok("0.50".into()));
    for bad in ["0.4", "NaN", "inf", "-inf", "1,5", "42xyz"] {
        assert!(typed(number.clone(), bad).is_err(), "{bad}");
    }
    let big = "123456789012345678901234567890";
    assert_eq!(typed(json!({"type": "integer"}), big), Ok(big.into()));
}

#[test]
fn text_keeps_to_its_length_pattern_and_format() {
    let of = |format: &str| json!({"type": "string", "format": format});
    for (format, good, bad) in [
        ("email", "a@b.example", "a@"),
        ("uri", "https://a.example/x?y=1", "no uri"),
        ("date", "2031-02-28", "2031-02-30"),
        ("date-time", "2031-02-28T18:30:00Z", "2031-02-28 18:30"),
    ] {
        assert_eq!(typed(of(format), good), Ok(json!(good).to_string()), "{format}");
        assert!(typed(of(format), bad).unwrap_err().contains("`f`"), "{format}");
    }
    assert!(typed(of("colour"), "any").is_ok(), "nobody knows that format");
    let bound = json!({"type": "string", "minLength": 3, "maxLength": 4, "pattern": "^b", "x-hint": 1});
    assert!(typed(bound.clone(), "bun").is_ok());
    for bad in ["bu", "bunny", "rye"] {
        assert!(typed(bound.clone(), bad).is_err(), "{bad}");
    }
    assert_eq!(typed(json!({"type": "string"}), "true"), Ok("\"true\"".into()));
}

#[test]
fn a_boolean_is_no_maybe() {
    let boolean = json!({"type": "boolean"});
    assert_eq!(typed(boolean.clone(), "true"), Ok("true".into()));
    assert!(typed(boolean, "maybe").unwrap_err().contains("write true or false"));
}

#[test]
fn choices_come_in_all_their_spellings() {
    let kind = |schema: Value| form(json!({"f": schema})).fields()[0].kind.clone();
    let titles = |kind: &FieldKind| match kind {
        FieldKind::Choice(choices) | FieldKind::Choices(choices) => {
            choices.iter().map(|choice| format!("{}={}", choice.title, choice.value)).collect::<Vec<_>>().join(" ")
        }
        other => format!("{other:?}"),
    };
    let plain = json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]});
    assert_eq!(titles(&kind(plain.clone())), r#"A="a" B="b""#);
    let titled = json!({"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "x"}]});
    assert_eq!(titles(&kind(titled.clone())), r##"Red="#f00" x="x""##);
    let several = json!({"type": "array", "minItems": 1, "maxItems": 2,
        "items": {"anyOf": [{"const": "a", "title": "Rye"}, {"const": "b", "title": "Oat"}, {"const": "c", "title": "Bun"}]}});
    assert!(matches!(kind(several.clone()), FieldKind::Choices(_)));
    assert_eq!(typed(titled.clone(), "Red"), Ok("\"#f00\"".into()));
    assert_eq!(typed(titled, "Blue").unwrap_err(), "`f` should be one of \"#f00\", \"x\", not \"Blue\"");
    assert_eq!(typed(plain, "B"), Ok("\"b\"".into()));
    assert_eq!(typed(several.clone(), r#"["Rye","b"]"#), Ok(r#"["a","b"]"#.into()));
    assert!(typed(several.clone(), r#"["a","b","c"]"#).is_err());
    let misfit = typed(several.clone(), r#"["a","d"]"#).unwrap_err();
    assert_eq!(misfit, r#"`f.1` should be one of "a", "b", "c", not "d""#);
    assert!(typed(several, "[]").is_err());
}

#[test]
fn a_form_is_whole_or_says_what_is_missing() {
    let form = Form::new(&json!({
        "type": "object", "title": "x", "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"ok": {"type": "boolean"}, "flour": {"$ref": "#/$defs/flour"}, "n": {"type": "integer", "default": 2}},
        "$defs": {"flour": {"type": "string", "enum": ["rye", "oat"], "title": "Flour"}},
        "required": ["ok", "flour"],
    }));
    assert_eq!(form.field("flour").map(Field::label), Some("Flour"));
    assert!(matches!(form.fields()[1].kind, FieldKind::Choice(_)));
    let item = |typed: &str| Item::parse(typed).unwrap();
    let base = form.defaults();
    let content = form.fill(base.clone(), &[item("ok=true"), item("flour=rye")]).unwrap();
    assert_eq!(Value::Object(form.finish(content).unwrap()), json!({"n": 2, "ok": true, "flour": "rye"}));
    let misfit = form.finish(base).unwrap_err().to_string();
    assert!(misfit.contains("`ok` is missing (boolean)") && misfit.contains("`flour` is missing"), "{misfit}");
    assert_eq!(
        form.fill(Map::new(), &[item("ok=maybe")]).unwrap_err().to_string(),
        "`ok` should be boolean, not `maybe`; write true or false"
    );
}

#[test]
fn an_empty_form_is_an_empty_object() {
    for schema in [json!({"type": "object", "properties": {}}), json!({})] {
        let form = Form::new(&schema);
        assert!(form.fields().is_empty());
        assert!(form.finish(Map::new()).unwrap().is_empty());
    }
}

#[test]
fn bounds_are_told_in_words() {
    let bounds = |schema: Value| form(json!({"f": schema})).fields()[0].bounds.join(", ");
    assert_eq!(bounds(json!({"type": "integer", "minimum": 1, "maximum": 9})), "1 to 9");
    assert_eq!(bounds(json!({"type": "number", "minimum": 0.5, "exclusiveMaximum": 2})), "at least 0.5, less than 2");
    assert_eq!(
        bounds(json!({"type": "string", "format": "email", "maxLength": 9})),
        "an email address, at most 9 characters"
    );
}
