//! Tasks that a call may have started whose answer was never seen.

use std::collections::HashSet;

use super::Context;
use crate::model::{Task, TaskId};

/// How many are offered.
const MOST: usize = 5;

/// Those of a server's tasks that no recorded call accounts for. The ones that have not ended come first, the newest of them
/// in front.
pub(super) fn among(context: &Context, mut tasks: Vec<Task>) -> Vec<Task> {
    let server = context.server_name();
    // Where the record cannot be read, that is told elsewhere.
    let rows = context.with_record(|record| record.all()).unwrap_or_default();
    let of_server = rows.into_iter().filter(|known| Some(&known.server.name) == server.as_ref());
    let accounted: HashSet<TaskId> = of_server.filter_map(|known| known.task).collect();
    tasks.retain(|task| !accounted.contains(&task.id));
    // By the server's own clock alone, whose stamps sort as text where one server wrote them all.
    tasks.sort_by_cached_key(|task| std::cmp::Reverse((!task.status.is_terminal(), task.created_at.clone())));
    tasks.truncate(MOST);
    tasks
}
