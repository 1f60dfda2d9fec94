//! The record, on disk.

use serde_json::{Value, json};

use super::*;
use crate::model::ToolResult;

fn server() -> ServerNote {
    ServerNote { name: "http://127.0.0.1:1/mcp".into(), cwd: None }
}

fn call(server: &ServerNote) -> NewCall<'_> {
    NewCall {
        server,
        protocol: "2025-11-25",
        session: None,
        tool: "bake",
        arguments: Some("{\"n\":1.0}"),
        arguments_hash: "00",
    }
}

fn task(id: &str, status: &str) -> Task {
    crate::session::read_task_for_tests(&json!({"taskId": id, "status": status, "statusMessage": "crust", "ttl": null}))
}

#[test]
fn a_task_is_known_from_before_the_call_to_after_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    let row = record.sending(&call(&server())).unwrap();
    // Killed here: the call was sent, its answer never seen.
    let known = &Record::open(folder.path()).unwrap().all().unwrap()[0];
    assert_eq!((known.row, &known.task, &known.status), (row, &None, &None));
    record.created(row, &task("t-loaf", "working"), Some("s1")).unwrap();
    record.seen(row, &task("t-loaf", "working")).unwrap();
    record.seen(row, &task("t-loaf", "completed")).unwrap();
    let result = ToolResult::read(RawJson::from_value(&json!({"content": [], "structuredContent": {"n": 1}})));
    record.ended(row, &TaskStatus::Completed, &TaskOutcome::Result(result)).unwrap();
    record.ended(row, &TaskStatus::Completed, &TaskOutcome::Nothing).unwrap();
    let record = Record::open(folder.path()).unwrap();
    let found = &record.find("t-lo").unwrap()[0];
    assert!(found.has_outcome && found.outcome.is_none());
    let known = &record.whole(found.row).unwrap().unwrap();
    assert_eq!(
        (known.session.as_deref(), known.ttl, known.message.as_deref()),
        (Some("s1"), Ttl::Unlimited, Some("crust"))
    );
    assert_eq!(known.arguments.as_deref(), Some("{\"n\":1.0}"));
    let Some(TaskOutcome::Result(result)) = &known.outcome else { panic!("{known:?}") };
    assert_eq!(result.structured, Some(json!({"n": 1})));
    let kinds: Vec<String> = record.entries(Some(row)).unwrap().into_iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, ["sent", "created", "status", "ended", "ended"]);
}

#[test]
fn a_row_stays_with_its_task() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    let row = record.sending(&call(&server())).unwrap();
    assert!(record.created(row, &task("t-loaf", "working"), Some("s1")).unwrap());
    assert!(!record.created(row, &task("t-bun", "completed"), Some("s2")).unwrap());
    assert!(record.created(row, &task("t-loaf", "working"), Some("s1")).unwrap());
    let known = record.whole(row).unwrap().unwrap();
    assert_eq!(known.task.unwrap().as_str(), "t-loaf");
    assert_eq!((known.session.as_deref(), known.status), (Some("s1"), Some(TaskStatus::Working)));
}

#[test]
fn what_a_result_was_had_of_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    let row = record.sending(&call(&server())).unwrap();
    record.created(row, &task("t-loaf", "working"), None).unwrap();
    let result = ToolResult::read(RawJson::from_value(&json!({"content": []})));
    // A status of the server's own.
    record.ended(row, &TaskStatus::from_wire("baked"), &TaskOutcome::Result(result)).unwrap();
    record.lost(row, "the oven is gone").unwrap();
    assert_eq!(record.whole(row).unwrap().unwrap().lost, None);
}

#[test]
fn a_late_sight_does_not_undo_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    let row = record.sending(&call(&server())).unwrap();
    record.created(row, &task("t-loaf", "working"), None).unwrap();
    record.seen(row, &task("t-loaf", "completed")).unwrap();
    record.seen(row, &task("t-loaf", "working")).unwrap();
    assert_eq!(record.all().unwrap()[0].status, Some(TaskStatus::Completed));
}

#[test]
fn errors_and_losses_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    let row = record.sending(&call(&server())).unwrap();
    let error = RpcError { code: -32050, message: "burnt".into(), data: Some(RawJson::from_value(&json!([1]))) };
    record.ended(row, &TaskStatus::Failed, &TaskOutcome::Error(error.clone())).unwrap();
    record.lost(row, "expired").unwrap();
    assert_eq!(record.all().unwrap()[0].lost, None, "a task that has ended stays so");
    let lost = record.sending(&call(&server())).unwrap();
    record.lost(lost, "expired").unwrap();
    let known = &record.whole(row).unwrap().unwrap();
    assert!(matches!(&known.outcome, Some(TaskOutcome::Error(kept)) if *kept == error));
    assert_eq!(record.all().unwrap()[0].lost.as_deref(), Some("expired"));
}

#[test]
fn prefixes_are_taken_to_the_letter() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    for id in ["abcd-1", "abcd-2", "ab%d", "ABCD"] {
        let row = record.sending(&call(&server())).unwrap();
        record.created(row, &task(id, "working"), None).unwrap();
    }
    assert_eq!(record.find("abcd").unwrap().len(), 2);
    assert_eq!(record.find("ab%").unwrap().len(), 1);
    assert_eq!(record.find("").unwrap().len(), 4);
}

#[test]
fn only_what_is_over_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    for (id, status) in [("t-1", "working"), ("t-2", "completed"), ("t-3", "input_required"), ("t-4", "failed")] {
        let row = record.sending(&call(&server())).unwrap();
        record.created(row, &task(id, status), None).unwrap();
    }
    assert_eq!(record.prune(Keep::default()).unwrap(), 0);
    assert_eq!(record.prune(Keep { rows: 0, ..Keep::default() }).unwrap(), 2);
    let left: Vec<String> =
        record.all().unwrap().iter().filter_map(|known| known.task.as_ref().map(ToString::to_string)).collect();
    assert_eq!(left, ["t-3", "t-1"]);
    assert_eq!(record.entries(None).unwrap().len(), 4, "the trail goes with its task");
}

#[test]
fn a_task_long_past_its_ttl_is_forgotten_whatever_was_seen_of_it_last() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    for (id, ttl) in [("t-short", Some(json!(10))), ("t-endless", Some(Value::Null)), ("t-unstated", None)] {
        let row = record.sending(&call(&server())).unwrap();
        let mut sight = json!({"taskId": id, "status": "working"});
        if let Some(ttl) = ttl {
            sight["ttl"] = ttl;
        }
        record.created(row, &crate::session::read_task_for_tests(&sight), None).unwrap();
    }
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(record.prune(Keep { age: Duration::ZERO, rows: 100 }).unwrap(), 1);
    assert_eq!(record.newest(None).unwrap().unwrap().task.unwrap().as_str(), "t-unstated");
    assert!(record.newest(Some("elsewhere")).unwrap().is_none());
}

#[test]
#[cfg(unix)]
fn it_is_the_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("a/b");
    let mut record = Record::open(&state).unwrap();
    record.sending(&call(&server())).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    for entry in std::fs::read_dir(&state).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn many_write_at_once_and_none_is_turned_away() {
    let folder = tempfile::tempdir().unwrap();
    let writers: Vec<_> = (0..24)
        .map(|writer| {
            let folder = folder.path().to_owned();
            std::thread::spawn(move || {
                let mut record = Record::open(&folder).unwrap();
                for nth in 0..10 {
                    let row = record.sending(&call(&server())).unwrap();
                    record.created(row, &task(&format!("t-{writer}-{nth}"), "working"), None).unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(Record::open(folder.path()).unwrap().all().unwrap().len(), 240);
}

#[test]
fn a_record_of_a_newer_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(Record::open(folder.path()).unwrap());
    let connection = Connection::open(folder.path().join(FILE)).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    let error = Record::open(folder.path()).unwrap_err();
    assert!(matches!(error, RecordError::Newer { found: 99, .. }), "{error}");
}

/// Written by the version that had version 1 of the tables; every later version must read it.
#[test]
fn a_record_of_version_1_still_loads() {
    let folder = tempfile::tempdir().unwrap();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/record-v1.sqlite3");
    std::fs::copy(sample, folder.path().join(FILE)).unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    let all = record.all().unwrap();
    let known: Vec<(&str, Option<&str>)> =
        all.iter().map(|known| (known.tool.as_str(), known.status.as_ref().map(TaskStatus::as_str))).collect();
    assert_eq!(known, [("burn-toast", Some("failed")), ("check-json", Some("completed"))]);
    let Some(TaskOutcome::Error(error)) = record.whole(all[0].row).unwrap().unwrap().outcome else {
        panic!("no error")
    };
    assert_eq!((error.code, error.message.as_str()), (-32050, "The toast is burnt"));
    let whole = record.whole(all[1].row).unwrap().unwrap();
    assert_eq!(whole.arguments.as_deref(), Some(r#"{"text":"{\"a\":1.0}"}"#));
    assert_eq!(record.entries(Some(all[1].row)).unwrap()[0].kind, "sent");
    record.sending(&call(&server())).unwrap();
}

#[test]
fn a_call_without_an_answer_gets_the_first_task_that_is_taken_for_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    let server = server();
    let row = record.sending(&call(&server)).unwrap();
    let ids = ["t-loaf", "t-bun"].map(TaskId::new);
    record.add_candidates(row, &ids).unwrap();
    record.add_candidates(row, &ids).unwrap();
    assert_eq!(record.entries(Some(row)).unwrap().len(), 3);
    let found = record.find_candidates("t-l").unwrap();
    assert_eq!((found.len(), &found[0].0, found[0].1.row), (1, &ids[0], row));
    assert!(found[0].1.is_unanswered());
    record.created(row, &task("t-loaf", "working"), None).unwrap();
    record.created(row, &task("t-bun", "working"), None).unwrap();
    assert_eq!(record.all().unwrap()[0].task, Some(ids[0].clone()));
    assert!(record.find_candidates("t-").unwrap().is_empty());
}

#[test]
fn a_task_that_is_seen_again_was_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    let server = server();
    let row = record.sending(&call(&server)).unwrap();
    record.created(row, &task("t-loaf", "working"), None).unwrap();
    record.lost(row, "its server is gone").unwrap();
    assert!(!record.all().unwrap()[0].is_live());
    record.seen(row, &task("t-loaf", "working")).unwrap();
    assert!(record.all().unwrap()[0].is_live());
}

#[test]
fn a_question_is_settled_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::open(folder.path()).unwrap();
    let row = record.sending(&call(&server())).unwrap();
    record.created(row, &task("t-loaf", "input_required"), None).unwrap();
    let asked = |message: &str| RawJson::from_value(&json!({"message": message}));
    let ask = |record: &mut Record, id: Value, message: &str| {
        record.asked(row, &id, "elicitation/create", &asked(message)).unwrap();
    };
    ask(&mut record, json!(0), "Flour?");
    ask(&mut record, json!(0), "Flour?");
    record
        .asked_for(&server().name, &TaskId::new("t-loaf"), &json!("x"), "elicitation/create", &asked("Salt?"))
        .unwrap();
    record.asked_for(&server().name, &TaskId::new("t-none"), &json!(1), "elicitation/create", &asked("?")).unwrap();
    let open = record.open_questions(row).unwrap();
    assert_eq!(open.iter().map(|one| one.id.clone()).collect::<Vec<_>>(), [json!(0), json!("x")]);
    assert_eq!(open[0].params, asked("Flour?"));
    assert!(record.all().unwrap()[0].is_waiting());
    assert!(record.settle(row, &json!(0), "accept").unwrap());
    assert!(!record.settle(row, &json!(0), "decline").unwrap());
    assert!(record.is_settled(row, &json!(0)).unwrap());
    // A stream that was taken up again repeats it; another question may come under its id.
    ask(&mut record, json!(0), "Flour?");
    assert_eq!(record.open_questions(row).unwrap().len(), 1);
    ask(&mut record, json!(0), "Water?");
    assert_eq!(record.open_questions(row).unwrap().len(), 2);
    assert!(record.settle(row, &json!(0), "accept").unwrap());
    record.reopen(row, &json!(0), "out of reach").unwrap();
    assert!(!record.is_settled(row, &json!(0)).unwrap());
    let trail: Vec<String> = record.entries(Some(row)).unwrap().into_iter().map(|entry| entry.kind).collect();
    let of_questions = ["asked", "asked", "answered", "asked", "answered", "answer not delivered"];
    assert_eq!(trail[2..], of_questions);
}
