//! How long to wait between two polls of one task.
//! Spec 2025-11-25, basic/utilities/tasks, "Task Polling".

use std::time::Duration;

/// Never faster than this, whatever a server asks for.
pub(super) const FLOOR: Duration = Duration::from_millis(100);
/// Never slower than this, whatever a server asks for.
const CEILING: Duration = Duration::from_secs(3_600);
/// The first pause where a server asks for none.
const FIRST: Duration = Duration::from_millis(500);
/// The pause that it eases to.
const EASED: Duration = Duration::from_secs(5);

/// The pace of polling one task.
#[derive(Clone, Debug)]
pub struct Pace {
    /// What the server asks for, within reason.
    asked: Option<Duration>,
    /// Our own pace, where it asks for nothing.
    own: Duration,
    /// The server's last word was silence, or nonsense.
    silent: bool,
    /// The user may slow polling down, never speed it up.
    user: Duration,
}

impl Pace {
    /// A pace; `user` is the least pause that the user wants.
    pub fn new(user: Option<Duration>) -> Self {
        Self { asked: None, own: FIRST, silent: true, user: user.unwrap_or_default() }
    }

    /// Takes the newest `pollInterval`, in milliseconds. Zero, less and no number are taken as no wish; silence leaves an
    /// earlier wish standing.
    pub fn hear(&mut self, poll_interval: Option<f64>) {
        match poll_interval {
            Some(millis) if millis > 0.0 && millis.is_finite() => {
                let asked = Duration::try_from_secs_f64(millis / 1_000.0).unwrap_or(CEILING);
                self.asked = Some(asked.clamp(FLOOR, CEILING));
                self.silent = false;
            }
            // An infinite or unreadably large number asks for the longest pause there is.
            Some(millis) if millis > 0.0 => {
                self.asked = Some(CEILING);
                self.silent = false;
            }
            Some(_) => {
                self.asked = None;
                self.silent = true;
            }
            None => self.silent = true,
        }
    }

    /// The pause before the next poll.
    pub fn next_pause(&mut self) -> Duration {
        let asked = self.asked.unwrap_or_default();
        if !self.silent {
            return asked.max(self.user);
        }
        let own = self.own;
        self.own = own.mul_f64(1.5).min(EASED);
        own.max(asked).max(self.user)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pauses(user: Option<u64>, heard: &[Option<f64>]) -> Vec<u128> {
        let mut pace = Pace::new(user.map(Duration::from_millis));
        heard
            .iter()
            .map(|interval| {
                pace.hear(*interval);
                pace.next_pause().as_millis()
            })
            .collect()
    }

    #[test]
    fn the_newest_wish_counts_and_nonsense_does_not() {
        let heard = [Some(3000.0), Some(500.0), Some(0.0), Some(-1.0), Some(1e18), Some(2.5), None, Some(f64::NAN)];
        assert_eq!(pauses(None, &heard), [3000, 500, 500, 750, 3_600_000, 100, 1125, 1687]);
    }

    #[test]
    fn without_a_wish_it_eases() {
        assert_eq!(pauses(None, &[None; 9]), [500, 750, 1125, 1687, 2531, 3796, 5000, 5000, 5000]);
    }

    #[test]
    fn silence_leaves_a_wish_standing() {
        assert_eq!(pauses(None, &[Some(3000.0), None, None]), [3000, 3000, 3000]);
    }

    #[test]
    fn the_user_only_slows() {
        assert_eq!(pauses(Some(1000), &[Some(3000.0), Some(200.0), Some(0.0)]), [3000, 1000, 1000]);
    }

    proptest! {
        #[test]
        fn it_is_always_sane(heard: Vec<Option<f64>>) {
            let mut pace = Pace::new(None);
            for interval in heard {
                pace.hear(interval);
                let pause = pace.next_pause();
                prop_assert!((FLOOR..=CEILING).contains(&pause));
                if let Some(asked) = interval.filter(|asked| (100.0..3.6e6).contains(asked)) {
                    prop_assert!(pause.as_secs_f64() * 1_000.0 >= asked - 0.001);
                }
            }
        }
    }
}
