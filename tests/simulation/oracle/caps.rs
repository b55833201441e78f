//! G2: the server's maximum pause takes effect neither early nor late.
use super::State;
use super::questions::{ENDS_WITHIN, NOTICED_WITHIN};
use crate::run::TICK;

impl State {
    /// The server reports that the pause has reached its maximum.
    pub(super) fn closed_at_the_cap(&mut self, thread: &str, number: usize) {
        let lasted = self.threads.get(thread).and_then(|books| books.last_pause(self.now())).unwrap_or_default();
        self.course.count("elicitations that the maximum pause ended");
        if self.is_awaited(thread) {
            self.course.count("elicitations of an awaited thread that the maximum pause ended");
        }
        if self.max_pause.is_none_or(|max_pause| lasted + 2 * TICK < max_pause) {
            let what = format!("the maximum {:?} closes question-{number} after {lasted:?}", self.max_pause);
            self.violation("G1", what);
        }
    }

    /// Checks that each pause that has reached the maximum has ended.
    pub(super) fn look_at_caps(&mut self) {
        let (now, Some(max_pause)) = (self.now(), self.max_pause) else { return };
        let rests = [
            self.server_started,
            self.last_sleep.map(|at| at + NOTICED_WITHIN),
            self.outage_ended.map(|at| at + NOTICED_WITHIN),
        ];
        let rest = rests.into_iter().flatten().max().unwrap_or_default();
        let late = ENDS_WITHIN + 2 * self.latency;
        if !self.reach.server_up || !self.store_takes_changes || now <= rest + late {
            return;
        }
        let over = self.threads.iter().filter_map(|(name, books)| Some((name, books.open_pause(now)?)));
        let over = over.filter(|(_, lasted)| *lasted > max_pause + late);
        let problems: Vec<_> =
            over.map(|(name, lasted)| format!("{name} is paused for {lasted:?} of {max_pause:?}")).collect();
        problems.into_iter().for_each(|problem| self.violation("G2", problem));
    }
}
