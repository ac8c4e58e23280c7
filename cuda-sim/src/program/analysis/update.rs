//! Updates: `sum += x` loads a place, changes the value and stores it there. If two threads do so
//! at once, a change is lost.

use super::barrier_paths::BarrierPaths;
use crate::program::op::{Address, MemorySpace, Op, R, Use};
use crate::program::{Instruction, Kernel};

/// An access of a race, by its place in the code.
#[derive(Clone, Copy)]
pub(crate) struct Accessor {
    pub pc: u32,
    /// Several threads have read the place, and `pc` is where the last of them did.
    pub is_one_of_many_reads: bool,
}

/// True if an access at `pc` and another are parts of one update, in two threads: its load and its
/// store, or both its store.
pub(crate) fn is_one(kernel: &Kernel, pc: u32, other: Accessor) -> bool {
    let (first, store) = (pc.min(other.pc), pc.max(other.pc));
    let Some(load) = load_of(&kernel.code, store) else {
        return false;
    };
    (first == load || first == store)
        && (!other.is_one_of_many_reads || reads_alone(kernel, load, store))
}

/// The load of the update whose store is at `store`: it has the same address, and the stored value
/// is made of what it loads. No barrier is between.
fn load_of(code: &[Instruction], store: u32) -> Option<u32> {
    let store = store as usize;
    let instruction = *code.get(store)?;
    let Op::Store { address: place, .. } = instruction.op else {
        return None;
    };
    let mut makers = instruction.op.registers(Use::Read);
    for (at, &instruction) in code[..store].iter().enumerate().rev() {
        if matches!(instruction.op, Op::Barrier { .. }) {
            return None;
        }
        let written = instruction.op.registers(Use::Write);
        if written.contains(&place.base) {
            return None;
        }
        if !written.iter().any(|register| makers.contains(register)) {
            continue;
        }
        if matches!(instruction.op, Op::Load { address, .. } if address == place) {
            return Some(at as u32);
        }
        go_back(instruction, &mut makers);
    }
    None
}

/// True if no other load before the store, as far as the last barrier, may be of the same array.
fn reads_alone(kernel: &Kernel, load: u32, store: u32) -> bool {
    let Some(paths) = BarrierPaths::new(kernel) else {
        return false;
    };
    let mut before = paths.since_barrier(store).into_iter();
    before.all(|at| at == load || are_of_two_arrays(kernel, at, load))
}

fn are_of_two_arrays(kernel: &Kernel, one: u32, other: u32) -> bool {
    let [(one, array), (other, other_array)] =
        [one, other].map(|at| match kernel.code[at as usize].op {
            Op::Load {
                access, address, ..
            } => (Some((at, address)), kernel.arrays[access.site as usize]),
            _ => (None, None),
        });
    let (Some(one), Some(other)) = (one, other) else {
        return true; // no load
    };
    match (one.1.space, other.1.space) {
        (MemorySpace::Shared, MemorySpace::Shared) => array
            .zip(other_array)
            .is_some_and(|(array, other)| array.0 != other.0),
        (MemorySpace::Global, MemorySpace::Global) => {
            let [one, other] =
                [one, other].map(|(at, address)| parameters_of(&kernel.code, at, address));
            !one.is_empty()
                && !other.is_empty()
                && !one.iter().any(|parameter| other.contains(parameter))
        }
        (MemorySpace::Generic, _) | (_, MemorySpace::Generic) => false,
        _ => true,
    }
}

/// Places of the kernel's parameters from which an address is made.
fn parameters_of(code: &[Instruction], at: u32, address: Address) -> Vec<Address> {
    let mut parameters = Vec::new();
    let mut makers = vec![address.base];
    for &instruction in code[..at as usize].iter().rev() {
        let written = instruction.op.registers(Use::Write);
        if !written.iter().any(|register| makers.contains(register)) {
            continue;
        }
        match instruction.op {
            Op::Load { address, .. } => {
                if address.space == MemorySpace::Param {
                    parameters.push(address);
                }
                makers.retain(|register| !written.contains(register));
            }
            _ => go_back(instruction, &mut makers),
        }
    }
    parameters
}

/// Goes back over an instruction that writes one of `makers`: what it reads takes the place of what
/// it writes.
fn go_back(instruction: Instruction, makers: &mut Vec<R>) {
    if instruction.guard.is_none() {
        let written = instruction.op.registers(Use::Write);
        makers.retain(|register| !written.contains(register));
    }
    makers.extend(instruction.op.registers(Use::Read));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Module;

    /// True if the last load and the last store of a kernel with this body are called one update.
    #[derive(Debug, PartialEq)]
    struct Found {
        by_one: bool,
        /// If the load is the last of several threads' reads.
        by_many: bool,
    }

    /// In the kernel, `a` and `b` are addresses in shared memory, `x` and `y` registers, `d0` and
    /// `d1` the parameters.
    fn found(body: &str) -> Found {
        let ptx = format!(
            ".version 8.4\n.target sm_75\n.address_size 64\n.visible .entry t(.param .u64 p0, .param .u64 p1)\n{{\n.reg .pred %p;\n\
             .reg .b32 %a, %b, %x, %y; .reg .b64 %d<3>;\n.shared .align 4 .b8 s[256]; .shared .align 4 .b8 o[256];\n\
             ld.param.u64 %d0, [p0]; ld.param.u64 %d1, [p1];\nmov.u32 %x, %tid.x;\nsetp.lt.u32 %p, %x, 9;\nshl.b32 %a, %x, 2;\nxor.b32 %b, %a, 8;\n\
             mov.u32 %y, 1;\n{body}\nret;\n}}"
        );
        let kernel = Module::load(&ptx).unwrap().kernel("t").unwrap();
        let last = |is: fn(&Op) -> bool| {
            let at = kernel.code.iter().rposition(|i| is(&i.op));
            at.unwrap() as u32
        };
        let load = last(|op| matches!(op, Op::Load { .. }));
        let store = last(|op| matches!(op, Op::Store { .. }));
        let one = |pc, other| {
            let other = Accessor {
                pc: other,
                is_one_of_many_reads: false,
            };
            is_one(&kernel, pc, other)
        };
        let both = one(load, store);
        assert_eq!(both, one(store, load), "{body}");
        assert_eq!(both, one(store, store), "{body}");
        assert!(!one(load, load) && !one(load, u32::MAX), "{body}");
        let many = Accessor {
            pc: load,
            is_one_of_many_reads: true,
        };
        Found {
            by_one: both,
            by_many: is_one(&kernel, store, many),
        }
    }

    fn is_update(body: &str) -> bool {
        found(body).by_one
    }

    #[test]
    fn what_is_stored_is_made_of_what_was_loaded() {
        assert!(is_update(
            "ld.shared.u32 %x, [%a+4];\nadd.u32 %y, %x, 1;\nst.shared.u32 [%a+4], %y;"
        ));
        assert!(is_update(
            "ld.shared.u32 %x, [%a];\n@%p add.u32 %x, %x, 1;\nst.shared.u32 [%a], %x;"
        ));
        assert!(is_update(
            "ld.shared.u32 %x, [%a];\nsub.u32 %x, %y, %x;\nmul.lo.u32 %x, %x, %x;\nst.shared.u32 [%a], %x;"
        ));
    }

    #[test]
    fn other_accesses_are_no_update() {
        // Of two places: `s[t] += s[t ^ 2]`, and its relatives.
        assert!(!is_update(
            "ld.shared.u32 %x, [%b];\nadd.u32 %y, %x, 1;\nst.shared.u32 [%a], %y;"
        ));
        assert!(!is_update(
            "ld.shared.u32 %x, [%a];\nst.shared.u32 [%a+4], %x;"
        ));
        assert!(!is_update(
            "ld.shared.u32 %x, [%a];\nxor.b32 %a, %a, 4;\nst.shared.u32 [%a], %x;"
        ));
        // What is stored is another value.
        assert!(!is_update(
            "ld.shared.u32 %x, [%a];\nst.shared.u32 [%a], %y;"
        ));
        assert!(!is_update(
            "ld.shared.u32 %x, [%a];\nmov.u32 %x, 3;\nst.shared.u32 [%a], %x;"
        ));
        // A barrier divides the two.
        assert!(!is_update(
            "ld.shared.u32 %x, [%a];\nbar.sync 0;\nst.shared.u32 [%a], %x;"
        ));
        assert!(!is_update(
            "st.shared.u32 [%a], %y;\nld.shared.u32 %x, [%a];"
        ));
    }

    #[test]
    fn what_several_threads_read_must_be_read_nowhere_else() {
        let by_many = |before: &str| {
            let update = "ld.shared.u32 %x, [%a];\nadd.u32 %x, %x, 1;\nst.shared.u32 [%a], %x;";
            let found = found(&format!("{before}\n{update}"));
            assert!(found.by_one);
            found.by_many
        };
        assert!(by_many(""));
        // `s[t] += s[t ^ 2]`.
        assert!(!by_many("ld.shared.u32 %y, [%b];"));
        // Before a barrier, or of another space.
        assert!(by_many("ld.shared.u32 %y, [%b];\nbar.sync 0;"));
        assert!(by_many("ld.global.u32 %y, [%d0];"));
        let of_global = |before: &str| {
            let update = "ld.global.u32 %x, [%d0];\nadd.u32 %x, %x, %y;\nst.global.u32 [%d0], %x;";
            let found = found(&format!("{before}\n{update}"));
            assert!(found.by_one);
            found.by_many
        };
        assert!(of_global(""));
        assert!(of_global("add.u64 %d2, %d1, 8;\nld.global.u32 %y, [%d2];"));
        assert!(!of_global("add.u64 %d2, %d0, 8;\nld.global.u32 %y, [%d2];"));
        assert!(!of_global("mov.u64 %d2, 4096;\nld.global.u32 %y, [%d2];"));
    }
}
