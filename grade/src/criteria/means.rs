//! Means: what a task is about, counted where its time is taken. Values that are right by other means solve another task.

use exercise_kit::message::Launch;
use gpu::profile::LaunchProfile;

use super::fast::{LEAST, sum_of};

/// Wavefronts of shared memory for each without bank conflicts: more than a few stores have.
const MOST_WAVEFRONTS: f64 = 1.5;

/// The share of products of warpgroups among those on tensor cores.
const LEAST_OF_WARPGROUPS: f64 = 0.95;

/// Operations with a causal mask for each without one: of 512 queries and keys, 256 queries of a block need three quarters, and
/// fewer need less.
const MOST_WITH_MASK: f64 = 0.85;

/// A means that a task asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Tiles of keys that no query sees, skipped: counted without the mask, and compared with the timed problem.
    SkippedTiles,
    /// The same of two calls, with the mask and without it.
    SkippedTilesOfBoth,
    /// Nothing but what is judged of every call: see [`Exam::writes_once`](crate::exams::Exam::writes_once).
    Stores,
    /// Both products on tensor cores.
    TensorCores,
    /// Both products by warpgroups.
    Warpgroups,
    /// Fragments that `ldmatrix` loads.
    MatrixLoads,
    /// Shared memory without bank conflicts.
    NoConflicts,
    /// Asynchronous copies that are under way while tensor cores work, of the tiles and not of a few bytes.
    Overlap,
    /// More blocks than there are queries in the problem that is timed.
    Split {
        /// Its queries, of all heads.
        queries: u64,
    },
}

impl Means {
    /// What the launches lack of it, as a sentence; beside them are those of the timed problem.
    pub(super) fn lacking(
        self,
        launches: &[&Launch],
        solution: &[LaunchProfile],
        timed: &[&Launch],
    ) -> Option<String> {
        let sum = |count: fn(&Launch) -> u64| sum_of(launches, count);
        let tensor = sum(|launch| launch.means.tensor_flops);
        match self {
            Means::Stores => None,
            Means::SkippedTiles | Means::SkippedTilesOfBoth => {
                let all = sum(|launch| launch.flops);
                let masked = sum_of(timed, |launch| launch.flops);
                (masked as f64 > MOST_WITH_MASK * all as f64).then(|| {
                    format!(
                        "The kernels do {all} floating-point operations, and {masked} with a causal mask: the task is to skip the \
                         tiles of keys that no query of a block sees."
                    )
                })
            }
            Means::TensorCores => {
                let needed = solution
                    .iter()
                    .map(|launch| launch.total.flops_tensor)
                    .sum();
                let others = sum(|launch| launch.flops.saturating_sub(launch.means.tensor_flops));
                let both = "the task is to compute both products there";
                if is_less(tensor, needed) {
                    return Some(format!(
                        "The kernels do operations on tensor cores: {tensor}, the solution's {needed}: {both}."
                    ));
                }
                // One of the products is half of all, the softmax a fiftieth. Small tiles have less to do than the solution's.
                (!is_less(others, needed.min(tensor))).then(|| {
                    format!(
                        "The kernels do {others} floating-point operations besides those on tensor cores, where they do {tensor} and \
                         the solution {needed}: {both}."
                    )
                })
            }
            Means::Warpgroups => {
                let counted = sum(|launch| launch.means.wgmma_flops);
                ((counted as f64) < LEAST_OF_WARPGROUPS * tensor as f64).then(|| {
                    format!(
                        "Of {tensor} operations on tensor cores {counted} are those of wgmma: the task is to compute both \
                         products by it."
                    )
                })
            }
            Means::MatrixLoads => {
                let counted = sum(|launch| launch.means.matrix_loads);
                let needed = solution
                    .iter()
                    .map(|launch| launch.total.matrix_loads)
                    .sum();
                is_less(counted, needed).then(|| {
                    format!(
                        "The kernels run ldmatrix {counted} times, the solution's {needed}: the task is to load fragments from tiles \
                         in shared memory by it."
                    )
                })
            }
            Means::NoConflicts => {
                let ideal = sum(|launch| launch.means.shared[0]);
                let taken = sum(|launch| launch.means.shared[1]);
                (taken as f64 > MOST_WAVEFRONTS * ideal as f64).then(|| {
                    format!(
                        "Shared memory takes {taken} wavefronts, and {ideal} without bank conflicts: what a warp reads at once must \
                         lie in different banks."
                    )
                })
            }
            Means::Overlap => {
                let task = "the task is to copy tiles while others are multiplied";
                let all = sum(|launch| launch.means.tensor_instructions);
                let during = sum(|launch| launch.means.tensor_during_copies);
                if is_less(during, all) {
                    return Some(format!(
                        "Of {all} instructions of tensor cores {during} run while asynchronous copies are under way: {task}."
                    ));
                }
                // Without a mask, tiles of k alone are a third of what a block of all queries loads.
                let loaded = sum(|launch| launch.means.loaded[0]);
                let copied = sum(|launch| launch.means.loaded[1]);
                is_less(copied, loaded).then(|| {
                    format!(
                        "Of {loaded} bytes that the kernels load from global memory {copied} are copied asynchronously: {task}."
                    )
                })
            }
            Means::Split { queries } => {
                let blocks = launches.iter().map(|launch| launch.means.blocks).max();
                let blocks = blocks.unwrap_or(0);
                (blocks <= queries).then(|| {
                    format!(
                        "The largest launch has {blocks} blocks for {queries} queries: the task is to split the keys of a query over \
                         blocks."
                    )
                })
            }
        }
    }
}

/// True if a count is below [`LEAST`] of what is needed.
fn is_less(counted: u64, needed: u64) -> bool {
    (counted as f64) < LEAST * needed as f64
}
