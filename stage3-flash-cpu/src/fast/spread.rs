use std::sync::{Mutex, PoisonError};

/// Does all `tasks` on the threads of rayon's current pool, each thread
/// with its own scratch memory.
///
/// A thread that is free takes the first task that is left. With the long tasks first, all threads
/// end at about the same time.
pub(crate) fn spread<T: Send, S>(
    tasks: Vec<T>,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) + Sync,
) {
    let threads = rayon::current_num_threads().min(tasks.len());
    let queue = Mutex::new(tasks.into_iter());
    // Nothing panics while the lock is held, so the queue is whole whatever a thread has met.
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    rayon::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|_| {
                let mut scratch = scratch();
                while let Some(task) = next() {
                    work(&mut scratch, task);
                }
            });
        }
    });
}
