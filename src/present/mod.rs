//! What people and programs see: results on stdout, all else on stderr.
//!
//! Nothing outside this floor writes to either. Everything that a server wrote is escaped here before a person sees it;
//! JSON needs no escaping of ours and is left exact.

use crate::lifecycle::{Event, Reporter};

pub mod ask;
pub mod bar;
pub mod dialogue;
pub mod exit;
pub mod jsonl;
pub mod lines;
mod parked;
pub mod printer;
pub mod result;
pub mod table;
pub mod trouble;
mod writer;

pub use exit::Exit;
pub use printer::{Output, Printer, Progress};
pub use trouble::Trouble;

/// Shows events in the way that was asked for.
#[derive(Clone, Debug)]
pub struct Stage {
    printer: Printer,
    progress: Progress,
    foot: Option<bar::Foot>,
}

impl Stage {
    /// One for all calls that are under way at a time.
    pub fn new(printer: &Printer, progress: Progress) -> Self {
        let foot = (progress == Progress::Bar).then(|| bar::Foot::new(printer.clone()));
        Self { printer: printer.clone(), progress, foot }
    }

    /// Shows the events of one call, under a name where it is one of several; the name is escaped.
    pub fn reporter(&self, name: Option<String>) -> Box<dyn Reporter> {
        let show: Box<dyn Reporter> = match (&self.foot, self.progress) {
            (Some(foot), _) => Box::new(foot.bar(name)),
            (None, Progress::Lines) => Box::new(lines::Lines::new(self.printer.clone(), name)),
            (None, Progress::Bar | Progress::None) => Box::new(()),
        };
        if self.printer.output() == Output::Jsonl {
            Box::new(Both(show, Box::new(jsonl::Jsonl::new(self.printer.clone()))))
        } else {
            show
        }
    }
}

struct Both(Box<dyn Reporter>, Box<dyn Reporter>);

impl Reporter for Both {
    fn report(&mut self, event: &Event) {
        self.0.report(event);
        self.1.report(event);
    }
}
