//! A task's life as a client sees it: launched, followed, cancelled, ended.
//!
//! What happens next is decided in `course`, plain functions from an observation to events and a next step; [`follow()`]
//! and [`call()`] do the asking and the waiting around it. Whatever shows or records hears of it through [`Event`] alone.

mod answering;
pub mod call;
mod course;
pub mod event;
pub mod follow;
mod input;
mod limits;
pub mod pace;

pub use answering::{Answerer, Reply, Unanswered};
pub use call::{CallEnding, call};
pub use event::{Event, Reporter};
pub use follow::{Attendance, Command, Ending, FollowOptions, Leaving, follow};
pub use limits::INPUT_PATIENCE;
pub use pace::Pace;
