//! Address patterns of earlier launches, for the next launch of the same kernel: it mostly has the
//! same ones, and learning a pattern takes longer than using it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, Weak};

use crate::exec::access::pattern::AccessPattern;
use crate::program::Kernel;
use crate::sync::lock;

/// By the kernel's address, which is nobody else's while the weak pointer is there.
static SPARE: LazyLock<Mutex<HashMap<usize, OfKernel>>> = LazyLock::new(Mutex::default);

struct OfKernel {
    kernel: Weak<Kernel>,
    /// For each host thread that ran it, the patterns of its memory instructions.
    patterns: Vec<Vec<AccessPattern>>,
}

/// Patterns for a host thread that runs blocks of a kernel, in a launch with so many bytes of
/// shared memory.
pub(crate) fn take(kernel: &Arc<Kernel>, shared_bytes: u32) -> Vec<AccessPattern> {
    let address = Arc::as_ptr(kernel) as usize;
    let spare = lock(&SPARE)
        .get_mut(&address)
        .and_then(|of_kernel| of_kernel.patterns.pop());
    let all_shared = (0, u64::from(shared_bytes));
    let arrays = kernel
        .arrays
        .iter()
        .map(|array| array.unwrap_or(all_shared));
    match spare {
        Some(mut patterns) => {
            for (pattern, array) in patterns.iter_mut().zip(arrays) {
                pattern.begin_launch(array);
            }
            patterns
        }
        None => (kernel.leaders.iter().zip(&kernel.joins).zip(arrays))
            .map(|((leader, join), array)| AccessPattern::new(*leader, *join, array))
            .collect(),
    }
}

/// Keeps patterns for a later launch.
pub(crate) fn keep(kernel: &Arc<Kernel>, patterns: Vec<AccessPattern>) {
    let mut spare = lock(&SPARE);
    let address = Arc::as_ptr(kernel) as usize;
    if !spare.contains_key(&address) {
        spare.retain(|_, of_kernel| of_kernel.kernel.strong_count() > 0);
    }
    let of_kernel = spare.entry(address).or_insert_with(|| OfKernel {
        kernel: Arc::downgrade(kernel),
        patterns: Vec::new(),
    });
    of_kernel.patterns.push(patterns);
}
