//! Cuts bytes into lines, whatever the borders of the chunks, within a bound.
//!
//! Shared by stdio (one message a line) and server-sent events (one field a line).

use std::collections::VecDeque;

/// What ends a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnding {
    /// LF, with a CR before it dropped: stdio.
    Lf,
    /// CR, LF or CRLF: server-sent events.
    Any,
}

/// A line was longer than the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line is longer than the limit of {limit} bytes")]
pub struct LineTooLong {
    /// The bound, in bytes.
    pub limit: usize,
}

/// Bytes in, lines out. Lines come without their ending; a byte-order mark before the first is dropped.
#[derive(Debug)]
pub struct LineFramer {
    ending: LineEnding,
    limit: usize,
    partial: Vec<u8>,
    lines: VecDeque<Vec<u8>>,
    at_start: bool,
    /// The last line ended with a CR, so that an LF next belongs to it.
    after_cr: bool,
}

impl LineFramer {
    /// A framer that holds at most `limit` bytes of one line.
    pub fn new(ending: LineEnding, limit: usize) -> Self {
        Self { ending, limit, partial: Vec::new(), lines: VecDeque::new(), at_start: true, after_cr: false }
    }

    /// Takes the next bytes. Complete lines are then to be had from [`next_line`](Self::next_line).
    ///
    /// # Errors
    /// Where a line outgrows the bound; the framer is of no more use then.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), LineTooLong> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            if bytes[0] == b'\n' {
                bytes = &bytes[1..];
            }
        }
        while let Some(end) = bytes.iter().position(|byte| self.ends_line(*byte)) {
            self.extend(&bytes[..end])?;
            let is_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_cr {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.finish_line();
        }
        self.extend(bytes)
    }

    /// The next complete line.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        self.lines.pop_front()
    }

    /// What stands behind the last line ending, once the bytes have ended.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        if self.partial.is_empty() {
            return None;
        }
        self.finish_line();
        self.lines.pop_back()
    }

    fn ends_line(&self, byte: u8) -> bool {
        byte == b'\n' || (byte == b'\r' && self.ending == LineEnding::Any)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), LineTooLong> {
        if self.partial.len() + bytes.len() > self.limit {
            self.partial = Vec::new();
            return Err(LineTooLong { limit: self.limit });
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn finish_line(&mut self) {
        let mut line = std::mem::take(&mut self.partial);
        if std::mem::take(&mut self.at_start) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if self.ending == LineEnding::Lf && line.last() == Some(&b'\r') {
            line.pop();
        }
        self.lines.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(ending: LineEnding, chunks: &[&[u8]]) -> Vec<String> {
        let mut framer = LineFramer::new(ending, 1_000);
        let mut lines = Vec::new();
        for chunk in chunks {
            framer.push(chunk).unwrap();
            while let Some(line) = framer.next_line() {
                lines.push(String::from_utf8(line).unwrap());
            }
        }
        lines.extend(framer.finish().map(|line| String::from_utf8(line).unwrap()));
        lines
    }

    #[test]
    fn stdio_lines() {
        assert_eq!(
            lines(LineEnding::Lf, &[b"\xef\xbb", b"\xbf{\"a\":1}\r", b"\n\nx\ry\nlast"]),
            ["{\"a\":1}", "", "x\ry", "last"]
        );
    }

    #[test]
    fn event_stream_lines() {
        assert_eq!(
            lines(LineEnding::Any, &[b"\xef\xbb\xbfid: 1\r", b"\ndata: a\rdata: b\n\n"]),
            ["id: 1", "data: a", "data: b", ""]
        );
    }

    #[test]
    fn a_lone_carriage_return_does_not_hold_its_line_back() {
        let mut framer = LineFramer::new(LineEnding::Any, 100);
        framer.push(b"data: x\r").unwrap();
        assert_eq!(framer.next_line().as_deref(), Some(&b"data: x"[..]));
        framer.push(b"\r").unwrap();
        assert_eq!(framer.next_line().as_deref(), Some(&b""[..]));
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut framer = LineFramer::new(LineEnding::Lf, 10);
        framer.push(b"12345\n1234567890").unwrap();
        assert_eq!(framer.push(b"1"), Err(LineTooLong { limit: 10 }));
    }

    proptest! {
        #[test]
        fn chunk_borders_do_not_matter(text in "[a-c\r\n面]{0,60}", cuts in proptest::collection::vec(0usize..60, 0..6)) {
            for ending in [LineEnding::Lf, LineEnding::Any] {
                let bytes = text.as_bytes();
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| (*cut).min(bytes.len())).collect();
                cuts.extend([0, bytes.len()]);
                cuts.sort_unstable();
                let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
                prop_assert_eq!(lines(ending, &chunks), lines(ending, &[bytes]));
            }
        }
    }
}
