//! Lists that come in pages. Spec 2025-11-25, server/utilities/pagination.

use std::collections::HashSet;

use serde_json::{Value, json, value::RawValue};

use super::error::SessionError;
use crate::model::RawJson;

/// More pages than this are taken for a server that goes round in circles.
const MOST_PAGES: usize = 10_000;

/// Collects the items of a list, page after page, and ends where a server repeats itself.
pub(super) struct Pages<T> {
    method: &'static str,
    items: Vec<T>,
    next: Option<Value>,
    cursors: HashSet<String>,
    last_page: Option<String>,
    count: usize,
}

impl<T> Pages<T> {
    pub(super) fn new(method: &'static str) -> Self {
        Self { method, items: Vec::new(), next: Some(json!({})), cursors: HashSet::new(), last_page: None, count: 0 }
    }

    /// The parameters of the next page; `None` after the last.
    pub(super) fn next(&mut self) -> Option<Value> {
        self.next.take()
    }

    /// Takes a page. Members that `read` refuses are left out: one odd tool must not cost the others.
    pub(super) fn take(&mut self, page: &RawJson, read: impl Fn(&RawJson) -> Option<T>) -> Result<(), SessionError> {
        let shape = |what: &str| SessionError::protocol(self.method, what);
        let object: std::collections::BTreeMap<String, Box<RawValue>> =
            page.parse().map_err(|_| shape("it is not an object"))?;
        let key = if self.method == "tasks/list" { "tasks" } else { "tools" };
        let list = object.get(key).ok_or_else(|| shape(&format!("it has no `{key}`")))?;
        let members: Vec<Box<RawValue>> =
            serde_json::from_str(list.get()).map_err(|_| shape(&format!("`{key}` is not a list")))?;
        let repeated = self.last_page.as_deref() == Some(list.get());
        self.last_page = Some(list.get().to_owned());
        self.count += 1;
        if repeated && !members.is_empty() {
            // The same page again: a server that takes an empty or unknown cursor for none.
            return Ok(());
        }
        self.items.extend(members.into_iter().filter_map(|member| read(&RawJson::from(member))));
        let cursor = object.get("nextCursor").and_then(|cursor| serde_json::from_str::<Value>(cursor.get()).ok());
        if let Some(Value::String(cursor)) = cursor
            && self.cursors.insert(cursor.clone())
            && self.count < MOST_PAGES
        {
            self.next = Some(json!({"cursor": cursor}));
        }
        Ok(())
    }

    /// What was collected, each name once.
    pub(super) fn into_items(self, name: impl Fn(&T) -> String) -> Vec<T> {
        let mut seen = HashSet::new();
        self.items.into_iter().filter(|item| seen.insert(name(item))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(pages: &[Value]) -> (Vec<String>, usize) {
        let mut collected = Pages::new("tools/list");
        let mut asked = 0;
        while collected.next().is_some() {
            let page = RawJson::from_value(&pages[asked.min(pages.len() - 1)]);
            collected.take(&page, |member| member.value().as_str().map(str::to_owned)).unwrap();
            asked += 1;
        }
        (collected.into_items(Clone::clone), asked)
    }

    #[test]
    fn every_page_is_read() {
        let pages = [json!({"tools": ["a"], "nextCursor": "x"}), json!({"tools": ["b"]})];
        assert_eq!(collect(&pages), (vec!["a".to_owned(), "b".to_owned()], 2));
    }

    #[test]
    fn an_empty_cursor_for_ever_ends_after_the_repeat() {
        assert_eq!(collect(&[json!({"tools": ["a"], "nextCursor": ""})]), (vec!["a".to_owned()], 2));
    }

    #[test]
    fn an_empty_cursor_may_be_a_real_one() {
        let pages = [json!({"tools": ["a"], "nextCursor": ""}), json!({"tools": ["b"]})];
        assert_eq!(collect(&pages), (vec!["a".to_owned(), "b".to_owned()], 2));
    }

    #[test]
    fn null_ends_the_list_and_a_circle_is_left() {
        assert_eq!(collect(&[json!({"tools": ["a"], "nextCursor": null})]).1, 1);
        let circle = [
            json!({"tools": ["a"], "nextCursor": "1"}),
            json!({"tools": ["b"], "nextCursor": "2"}),
            json!({"tools": ["c"], "nextCursor": "1"}),
        ];
        assert_eq!(collect(&circle).1, 3);
    }

    #[test]
    fn odd_members_do_not_cost_the_others() {
        assert_eq!(collect(&[json!({"tools": [7, "a"]})]).0, ["a"]);
    }
}
