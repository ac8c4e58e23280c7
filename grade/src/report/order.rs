//! Which task comes next.

/// The first of some tasks that is to be worked at, in the order in which they are done: the first without full marks. If that lacks
/// speed alone, a later step of the same task goes before it that lacks more.
pub fn first_open<T: Copy>(
    tasks: impl IntoIterator<Item = T>,
    is_full: impl Fn(T) -> bool,
    is_right: impl Fn(T) -> bool,
    are_steps: impl Fn(T, T) -> bool,
) -> Option<T> {
    let mut open = tasks.into_iter().filter(|&task| !is_full(task));
    let first = open.next()?;
    let step = is_right(first)
        .then(|| open.find(|&later| are_steps(first, later) && !is_right(later)))
        .flatten();
    step.or(Some(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_step_leads_to_the_next() {
        // Task, full, right.
        let first = |tasks: &[(u8, bool, bool)]| {
            let places = 0..tasks.len();
            first_open(
                places,
                |i| tasks[i].1,
                |i| tasks[i].2,
                |i, j| tasks[i].0 == tasks[j].0,
            )
        };
        let (full, slow, wrong) = ((true, true), (false, true), (false, false));
        let of = |task: u8, (is_full, is_right)| (task, is_full, is_right);
        assert_eq!(first(&[of(1, slow), of(1, wrong)]), Some(1));
        assert_eq!(first(&[of(1, slow), of(1, full), of(1, wrong)]), Some(2));
        assert_eq!(first(&[of(1, full), of(1, slow), of(1, slow)]), Some(1));
        assert_eq!(first(&[of(1, wrong), of(1, slow)]), Some(0));
        assert_eq!(first(&[of(1, slow), of(2, wrong)]), Some(0), "another task");
        assert_eq!(first(&[of(1, full), of(2, full)]), None);
    }
}
