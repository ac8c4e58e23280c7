//! Paths past a barrier: the `__syncthreads()` that explains a fault, because not all threads of
//! the block come to it.
//!
//! An access that a barrier should have ordered looks like one without a barrier, if some threads
//! do not take the barrier: `if (t < 16) __syncthreads()`, or a barrier behind a `return`. For the
//! report of such a fault, the paths of the kernel say more. Two threads have made unordered
//! accesses, so no barrier has come between. If the next barrier of one of them is none of the next
//! barriers of the other, and the other may end without it, then not all threads come to it.

use super::basic_blocks::successors;
use crate::program::op::{MemorySpace, Op, Route};
use crate::program::{Instruction, Kernel};

/// The paths of a kernel that has faulted, by instruction.
pub(crate) struct BarrierPaths<'a> {
    code: &'a [Instruction],
    next: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
}

impl<'a> BarrierPaths<'a> {
    /// `None` for a kernel with barriers that count threads: there warps have barriers of their
    /// own.
    pub(crate) fn new(kernel: &'a Kernel) -> Option<BarrierPaths<'a>> {
        let code = &kernel.code[..];
        let counts = |i: &Instruction| matches!(i.op, Op::Barrier { count: Some(_), .. });
        if code.iter().any(counts) {
            return None;
        }
        let next = successors(code, &kernel.branch_tables);
        let mut before = vec![Vec::new(); code.len()];
        for (at, next) in next.iter().enumerate() {
            next.iter()
                .for_each(|&n| before[n as usize].push(at as u32));
        }
        Some(BarrierPaths { code, next, before })
    }

    /// True if a thread at `at` comes to another barrier than `barrier` for certain, before it
    /// ends.
    pub(crate) fn misses(&self, at: u32, barrier: u32) -> bool {
        let ahead = self.spread(&self.next, &[at], |pc| self.is_barrier(pc));
        let is_ahead = |found: &dyn Fn(u32) -> bool| self.places(&ahead).any(found);
        let never = !self.spread(&self.next, &[at], |_| false)[barrier as usize];
        never && is_ahead(&|pc| self.is_barrier(pc)) && !is_ahead(&|pc| self.is_end(pc))
    }

    /// The barrier that not all threads come to, if that explains why nothing orders two accesses.
    pub(crate) fn past(&self, one: u32, other: u32) -> Option<u32> {
        let only_of = |one, other| self.only_next_of(&[one], other);
        // Warps with a barrier each may be in step.
        only_of(one, other).xor(only_of(other, one))
    }

    /// The barrier that not all threads come to, if that may explain why the shared memory read at
    /// `read` was not written.
    pub(crate) fn past_before(&self, read: u32) -> Option<u32> {
        // Stores that a thread may make while another reads: no barrier is between a common start
        // and either.
        let starts: Vec<u32> = self
            .since_barrier(read)
            .into_iter()
            .filter(|&pc| pc == 0 || self.is_barrier(pc))
            .collect();
        let mut along = self.spread(&self.next, &starts, |pc| self.is_barrier(pc));
        along[0] |= starts.contains(&0);
        let stores: Vec<u32> = self
            .places(&along)
            .filter(|&pc| self.is_store(pc))
            .collect();
        let back = stores
            .iter()
            .find_map(|&store| self.only_next_of(&[read], store));
        self.only_next_of(&stores, read).filter(|_| back.is_none())
    }

    /// The instructions on the paths from the last barrier to `at`.
    pub(crate) fn since_barrier(&self, at: u32) -> Vec<u32> {
        let paths = self.spread(&self.before, &[at], |pc| self.is_barrier(pc));
        self.places(&paths).collect()
    }

    /// The first barrier that comes next for a thread at one of `places` and not for one at
    /// `other`, which may end without it.
    fn only_next_of(&self, places: &[u32], other: u32) -> Option<u32> {
        let next = |places| self.spread(&self.next, places, |pc| self.is_barrier(pc));
        let (here, there) = (next(places), next(&[other]));
        let ends_without = |barrier| {
            let reached = self.spread(&self.next, &[other], |pc| pc == barrier);
            self.places(&reached).any(|pc| self.is_end(pc))
        };
        self.places(&here)
            .find(|&pc| self.is_barrier(pc) && !there[pc as usize] && ends_without(pc))
    }

    /// The instructions on the paths that begin behind `places`, along `edges`. No path goes on
    /// behind one that `ends` it, unless only threads whose guard is true run that.
    fn spread(&self, edges: &[Vec<u32>], places: &[u32], ends: impl Fn(u32) -> bool) -> Vec<bool> {
        let mut reached = vec![false; self.code.len()];
        let mut left: Vec<u32> = places.to_vec();
        while let Some(at) = left.pop() {
            for &next in &edges[at as usize] {
                if !std::mem::replace(&mut reached[next as usize], true)
                    && (!ends(next) || self.code[next as usize].guard.is_some())
                {
                    left.push(next);
                }
            }
        }
        reached
    }

    fn places(&self, set: &[bool]) -> impl Iterator<Item = u32> {
        let places = set.iter().enumerate().filter(|(_, is_in)| **is_in);
        places.map(|(pc, _)| pc as u32)
    }

    fn is_barrier(&self, pc: u32) -> bool {
        matches!(self.code[pc as usize].op, Op::Barrier { .. })
    }

    fn is_end(&self, pc: u32) -> bool {
        matches!(self.code[pc as usize].op, Op::Exit)
    }

    fn is_store(&self, pc: u32) -> bool {
        match self.code[pc as usize].op {
            Op::Store { address, .. } | Op::Atomic { address, .. } => {
                matches!(address.space, MemorySpace::Shared | MemorySpace::Generic)
            }
            Op::CopyAsync(_) => true,
            Op::BulkCopy(copy) => matches!(copy.route, Route::Load | Route::Within),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Kernel, Module};
    use std::sync::Arc;

    /// A kernel with this body. `W` is a store to shared memory, `R` a load, `P` a barrier; `?X` is
    /// a branch to label X that some threads take, `!X` one that all take, `X:` the label.
    fn kernel(body: &str) -> Arc<Kernel> {
        let line = |word: &str| match (word, word.strip_prefix('?'), word.strip_prefix('!')) {
            ("W", ..) => "st.shared.u32 [s], %r1;".to_owned(),
            ("R", ..) => "ld.shared.u32 %r2, [s];".to_owned(),
            ("P", ..) => "bar.sync 0;".to_owned(),
            (_, Some(label), _) => format!("@%p1 bra {label};"),
            (_, _, Some(label)) => format!("bra {label};"),
            _ => word.to_owned(),
        };
        let body: Vec<String> = body.split_whitespace().map(line).collect();
        let ptx = format!(
            ".version 8.4\n.target sm_75\n.address_size 64\n.visible .entry t()\n{{\n.reg .pred %p<2>;\n\
             .reg .b32 %r<3>;\n.shared .align 4 .b8 s[256];\nmov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 9;\n{}\nret;\n}}",
            body.join("\n")
        );
        Module::load(&ptx).unwrap().kernel("t").unwrap()
    }

    fn all(kernel: &Kernel, found: impl Fn(&Op) -> bool) -> Vec<u32> {
        let code = kernel.code.iter().enumerate();
        code.filter(|(_, i)| found(&i.op))
            .map(|(pc, _)| pc as u32)
            .collect()
    }

    fn is_barrier(op: &Op) -> bool {
        matches!(op, Op::Barrier { .. })
    }

    /// The number of the barrier that explains a race of the store and the load, and that of an
    /// unset load.
    fn past(body: &str) -> (Option<usize>, Option<usize>) {
        let kernel = kernel(body);
        let paths = BarrierPaths::new(&kernel).unwrap();
        let write = all(&kernel, |op| matches!(op, Op::Store { .. }))[0];
        let read = all(&kernel, |op| matches!(op, Op::Load { .. }))[0];
        let barriers = all(&kernel, is_barrier);
        let number = |pc: Option<u32>| pc.and_then(|pc| barriers.iter().position(|&b| b == pc));
        assert_eq!(paths.past(write, read), paths.past(read, write), "{body}");
        (
            number(paths.past(write, read)),
            number(paths.past_before(read)),
        )
    }

    #[test]
    fn a_barrier_that_a_branch_leads_past_is_named() {
        assert_eq!(past("W ?E P E: R"), (Some(0), Some(0)));
        assert_eq!(past("P W ?E P E: R P"), (Some(1), Some(1)));
        assert_eq!(past("R ?E P E: W").0, Some(0));
        // Whoever writes waits, whoever reads does not.
        assert_eq!(past("?E W P !J E: R J:").0, Some(0));
        assert_eq!(past("?E W P E: R").0, Some(0));
        // In a loop with a barrier for all.
        assert_eq!(past("L: ?E W P !J E: R J: P ?L").0, Some(0));
        assert_eq!(past("L: W ?E P E: R P ?L"), (Some(0), Some(0)));
        // A loop that may end before it begins.
        assert_eq!(past("W ?E L: P ?L E: R"), (Some(0), Some(0)));
    }

    #[test]
    fn where_a_barrier_is_missing_none_is_named() {
        assert_eq!(past("W R"), (None, None));
        assert_eq!(past("P W R P"), (None, None));
        // Between the load and the store of the next round.
        assert_eq!(past("L: W P R ?L"), (None, None));
        assert_eq!(past("L: P R W ?L"), (None, None));
        // Behind both.
        assert_eq!(past("W R ?E P E:"), (None, None));
        assert_eq!(past("?E W E: R ?F P F:"), (None, None));
        // A barrier is between on every path, so the two never race; the rest of the tile is not
        // filled.
        assert_eq!(past("W ?E P E: P R").1, None);
        assert_eq!(past("L: ?E W E: P M: R ?M P ?L").1, None);
        // Each branch has its barrier: they may be one.
        assert_eq!(past("?E W P !J E: R P J:"), (None, None));
    }

    #[test]
    fn threads_miss_a_barrier_if_only_another_is_ahead() {
        let misses = |body: &str| {
            let kernel = kernel(body);
            let read = all(&kernel, |op| matches!(op, Op::Load { .. }))[0];
            let barrier = all(&kernel, is_barrier)[0];
            BarrierPaths::new(&kernel).unwrap().misses(read, barrier)
        };
        assert!(misses("?E P E: R P"));
        assert!(misses("?E P !J E: R J: P"));
        // They may end first, or come to it.
        assert!(!misses("?E P E: R"));
        assert!(!misses("?E P E: R ?F P F:"));
        assert!(!misses("L: ?E P E: R P ?L"));
    }

    #[test]
    fn barriers_that_count_threads_say_nothing() {
        let kernel = kernel("W P R");
        assert!(BarrierPaths::new(&kernel).is_some());
        let ptx = ".version 8.4\n.target sm_75\n.address_size 64\n.visible .entry t()\n{\nbar.sync 1, 64;\nret;\n}";
        let counting = Module::load(ptx).unwrap().kernel("t").unwrap();
        assert!(BarrierPaths::new(&counting).is_none());
    }
}
