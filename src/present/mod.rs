//! What people and programs see: results on stdout, all else on stderr.
//!
//! Nothing outside this floor writes to either. Everything that a server wrote is escaped here before a person sees it;
//! JSON needs no escaping of ours and is left exact.

use crate::lifecycle::{Event, Reporter};

pub mod bar;
pub mod exit;
pub mod jsonl;
pub mod lines;
pub mod printer;
pub mod result;
pub mod table;
pub mod trouble;
mod writer;

pub use exit::Exit;
pub use printer::{Output, Printer, Progress};
pub use trouble::Trouble;

/// Shows events in the way that was asked for.
pub fn reporter(printer: &Printer, progress: Progress) -> Box<dyn Reporter> {
    let show: Box<dyn Reporter> = match progress {
        Progress::Bar => Box::new(bar::Bar::new(printer.clone())),
        Progress::Lines => Box::new(lines::Lines::new(printer.clone())),
        Progress::None => Box::new(()),
    };
    if printer.output() == Output::Jsonl {
        Box::new(Both(show, Box::new(jsonl::Jsonl::new(printer.clone()))))
    } else {
        show
    }
}

struct Both(Box<dyn Reporter>, Box<dyn Reporter>);

impl Reporter for Both {
    fn report(&mut self, event: &Event) {
        self.0.report(event);
        self.1.report(event);
    }
}
