//! Points as they are shown and added.

use std::fmt;
use std::iter::Sum;

use crate::criteria::NO_SPEED;
use crate::verdict::{Grade, Kind, TaskGrade};

/// Points in hundredths, rounded down: what is less than full marks never looks full, and a sum is that of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Points(u64);

impl Points {
    /// Rounds down, but for what is below the accuracy of the sum of a few shares. Not a number gives 0.
    pub fn new(points: f64) -> Self {
        Self((100.0 * points + 1e-6).floor().max(0.0) as u64)
    }

    /// The points that a task earned.
    pub fn earned(task: &TaskGrade) -> Self {
        Self::new(task.score)
    }

    /// The points that a task is worth.
    pub fn worth(task: &TaskGrade) -> Self {
        Self::new(task.points)
    }

    /// The points that all tasks earned, bonus included.
    pub fn total(grade: &Grade) -> Self {
        grade.tasks.iter().map(Self::earned).sum()
    }

    /// The points that tasks earned, without bonus tasks, and those of bonus tasks.
    pub fn counted_and_bonus(grade: &Grade) -> [Self; 2] {
        [false, true].map(|bonus| {
            let tasks = grade.tasks.iter().filter(|task| task.bonus == bonus);
            tasks.map(Self::earned).sum()
        })
    }

    /// The points that the tasks are worth, without bonus tasks.
    pub fn full(grade: &Grade) -> Self {
        let counted = grade.tasks.iter().filter(|task| !task.bonus);
        counted.map(Self::worth).sum()
    }

    /// True if a task has full marks.
    pub fn is_full(task: &TaskGrade) -> bool {
        Self::earned(task) >= Self::worth(task)
    }

    /// True if a task lacks nothing, or speed alone. No speed at all is a slow kernel only if it takes that long: it is also what a
    /// call gets that waits for the device, keeps too much memory, or did not come to its end.
    pub fn is_right(task: &TaskGrade) -> bool {
        let mut others = (task.criteria.iter()).filter(|it| it.kind != Kind::Fast);
        let share = |kind| {
            (task.criteria.iter())
                .find(|it| it.kind == kind)
                .map_or(0.0, |it| it.share)
        };
        let work = task.work.as_ref();
        let slow = work
            .is_some_and(|work| share(Kind::Fast) > 0.0 || work.yours >= NO_SPEED * work.reference);
        Self::is_full(task) || (slow && others.all(|criterion| criterion.share >= 1.0))
    }

    /// The share of its points that a task earned: 1 if none is missing, even of no points.
    pub fn share(task: &TaskGrade) -> f64 {
        match Self::is_full(task) {
            true => 1.0,
            false => Self::earned(task).value() / task.points,
        }
    }

    /// As a number.
    pub fn value(self) -> f64 {
        self.0 as f64 / 100.0
    }
}

impl Sum for Points {
    fn sum<I: Iterator<Item = Self>>(points: I) -> Self {
        Self(points.map(|points| points.0).sum())
    }
}

/// With two decimals, `1.85`; in the alternate form, `{:#}`, only those that are needed.
impl fmt::Display for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, hundredths) = (self.0 / 100, self.0 % 100);
        match hundredths {
            0 if f.alternate() => f.pad(&whole.to_string()),
            _ => f.pad(&format!("{whole}.{hundredths:02}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_full_marks_never_looks_full() {
        let shares = 0.50 + 0.15 + 0.15 + 0.20;
        let written = |points: f64| Points::new(points).to_string();
        assert_eq!(written(3.0 * shares), "3.00");
        assert_eq!(written(2.9999), "2.99");
        assert_eq!(written(0.005), "0.00");
        assert_eq!(written(f64::NAN), "0.00");
        assert_eq!(written(-1.0), "0.00");
        assert_eq!(format!("{:#}", Points::new(3.0)), "3");
        assert_eq!(format!("{:#}", Points::new(3.5)), "3.50");
    }
}
