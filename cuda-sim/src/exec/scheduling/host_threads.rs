//! Pool of host threads that run blocks.
//!
//! They are our own, and wait on nothing but their queue. A pool that is shared with the host
//! program would not do: a launch holds its stream while it waits for helpers, and a waiting thread
//! of such a pool takes up other work, which may want the same stream.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use crate::exec::scheduling::parallel::ParallelLaunch;
use crate::settings::settings;
use crate::sync::{lock, wait_while};

/// Runs all blocks of `grid`, in this thread and in as many others as there are cores and blocks.
pub(crate) fn run(grid: &Arc<ParallelLaunch>) {
    let pool = Pool::get();
    let helpers = (pool.threads as u64).min(grid.blocks() - 1);
    if helpers > 0 {
        lock(&pool.queue).extend((0..helpers).map(|_| Arc::clone(grid)));
        (0..helpers).for_each(|_| pool.wake.notify_one());
    }
    grid.work();
    grid.wait_for_helpers();
}

struct Pool {
    /// Launches that want help, once for each helper that they can use.
    queue: Mutex<VecDeque<Arc<ParallelLaunch>>>,
    wake: Condvar,
    /// Threads besides the one that launches.
    threads: usize,
}

impl Pool {
    fn get() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| {
            let pool: &'static Pool = Box::leak(Box::new(Pool {
                queue: Mutex::default(),
                wake: Condvar::new(),
                threads: threads() - 1,
            }));
            for n in 1..=pool.threads {
                // With fewer threads than wanted, launches take longer and nothing else changes.
                let _ = std::thread::Builder::new()
                    .name(format!("cuda-sim-{n}"))
                    .spawn(|| pool.help());
            }
            pool
        })
    }

    fn help(&self) {
        loop {
            let mut queue = wait_while(&self.wake, lock(&self.queue), |queue| queue.is_empty());
            let grid = queue.pop_front();
            drop(queue);
            if let Some(grid) = grid {
                grid.help();
            }
        }
    }
}

/// Threads that work on a launch: `CUDA_SIM_THREADS`, or as many as there are cores.
fn threads() -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    settings().threads.unwrap_or_else(cores)
}
