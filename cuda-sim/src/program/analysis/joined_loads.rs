//! Loads of shared memory that the assembler joins: neighbouring words, provably aligned together,
//! within a basic block and without a store or barrier between them.
//!
//! NVIDIA's assembler makes one load of 8 or 16 bytes of them, whose wavefronts are others than
//! those of the single loads. The alignment of an address is the number of low bits of its base
//! register that are zero wherever the register is written.

use std::collections::HashMap;

use super::basic_blocks::Blocks;
use crate::program::instruction::{Constant, Instruction};
use crate::program::op::{Bits, IntBinary, IntTernary, MemorySpace, Op, Order, R, Use};

/// A memory access among those that the assembler joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Join {
    /// It stays as it is.
    #[default]
    Alone,
    /// It becomes a load of so many bytes.
    Wider(u32),
    /// Another load has its bytes.
    Gone,
}

/// Bytes of the widest load.
const WIDEST: i32 = 16;
/// Low bits of the address of dynamic shared memory that are zero.
const DYNAMIC_ALIGNMENT: u32 = 4;
/// All bits of a value are zero.
const ZERO: u32 = 64;
/// Passes over the code after which nothing is said of it.
const MAX_PASSES: usize = 64;

/// What becomes of each of the `sites` memory accesses, by number. `constants` has what registers
/// hold that no instruction writes. Registers are virtual.
pub(crate) fn joined_loads(
    code: &[Instruction],
    branch_tables: &[Vec<u32>],
    constants: &[Option<Constant>],
    sites: u32,
) -> Vec<Join> {
    let mut joins = vec![Join::Alone; sites as usize];
    let Some(zeros) = low_zeros(code, constants) else {
        return joins;
    };
    for block in Blocks::new(code, branch_tables).ranges {
        // By base register: offset, bytes and number of each load since the last store.
        let mut loads: HashMap<R, Vec<(i32, i32, u32)>> = HashMap::new();
        let mut flush = |base: R, loads: Vec<(i32, i32, u32)>| {
            join(loads, 1 << zeros[base.0 as usize].min(4), &mut joins);
        };
        for Instruction { op, guard, .. } in &code[block] {
            if changes_shared(op) {
                loads.drain().for_each(|(base, loads)| flush(base, loads));
            }
            if let Op::Load {
                access, address, ..
            } = op
                && address.space == MemorySpace::Shared
                && guard.is_none()
                && access.order == Order::Weak
                && !access.is_partial()
                && [4, 8].contains(&access.bytes())
            {
                let load = (address.offset, access.bytes() as i32, access.site);
                loads.entry(address.base).or_default().push(load);
            }
            for r in op.registers(Use::Write) {
                if let Some(loads) = loads.remove(&r) {
                    flush(r, loads);
                }
            }
        }
        loads.drain().for_each(|(base, loads)| flush(base, loads));
    }
    joins
}

/// True if a load behind the operation may find another value than one before it.
fn changes_shared(op: &Op) -> bool {
    let stores = |space| matches!(space, MemorySpace::Shared | MemorySpace::Generic);
    match op {
        Op::Store { address, .. } | Op::Atomic { address, .. } => stores(address.space),
        Op::Barrier { .. }
        | Op::WarpBarrier { .. }
        | Op::Fence(_)
        | Op::ClusterBarrier { .. }
        | Op::SetMaxRegisters { .. }
        | Op::CopyAsync(_)
        | Op::CopyWait { .. }
        | Op::Mbarrier(_)
        | Op::MatrixStore(_) => true,
        _ => false,
    }
}

/// Joins loads through one base register that is aligned to so many bytes.
fn join(mut loads: Vec<(i32, i32, u32)>, alignment: i32, joins: &mut [Join]) {
    loads.sort_unstable();
    loads.dedup_by_key(|load| load.0);
    let mut rest = &loads[..];
    while let &[(start, _, site), ..] = rest {
        let mut taken = 1;
        for bytes in [WIDEST, WIDEST / 2] {
            let mut end = start;
            let parts = rest.iter().take_while(|load| {
                let next = load.0 == end && end < start + bytes;
                end += if next { load.1 } else { 0 };
                next
            });
            let parts = parts.count();
            if parts > 1 && bytes <= alignment && start % bytes == 0 && end == start + bytes {
                joins[site as usize] = Join::Wider(bytes as u32);
                for load in &rest[1..parts] {
                    joins[load.2 as usize] = Join::Gone;
                }
                taken = parts;
                break;
            }
        }
        rest = &rest[taken..];
    }
}

/// By register: low bits that are zero in all values that it gets.
fn low_zeros(code: &[Instruction], constants: &[Option<Constant>]) -> Option<Vec<u32>> {
    let number = |r: R| constants[r.0 as usize].and_then(Constant::number);
    let held = |constant: &Option<Constant>| match constant {
        Some(Constant::DynamicShared { offset, .. }) => {
            offset.trailing_zeros().min(DYNAMIC_ALIGNMENT)
        }
        Some(constant) => constant.number().map_or(0, u64::trailing_zeros),
        None => 0,
    };
    let mut zeros: Vec<u32> = constants.iter().map(held).collect();
    for Instruction { op, .. } in code {
        for r in op.registers(Use::Write) {
            zeros[r.0 as usize] = ZERO;
        }
    }
    for _ in 0..MAX_PASSES {
        let mut changed = false;
        for Instruction { op, .. } in code {
            let result = zeros_of_result(op, |r| zeros[r.0 as usize], number);
            for r in op.registers(Use::Write) {
                let zeros = &mut zeros[r.0 as usize];
                changed |= result < *zeros;
                *zeros = result.min(*zeros);
            }
        }
        if !changed {
            return Some(zeros);
        }
    }
    None
}

/// Low bits that are zero in what an operation writes.
fn zeros_of_result(op: &Op, of: impl Fn(R) -> u32, number: impl Fn(R) -> Option<u64>) -> u32 {
    let product = |a, b| (of(a) + of(b)).min(ZERO);
    let shift = |b| number(b).map(|by| by.min(ZERO.into()) as u32);
    match *op {
        Op::Move { a, .. } | Op::Convert { a, .. } | Op::Cvta { a, .. } => of(a),
        Op::Select { a, b, .. } => of(a).min(of(b)),
        Op::IntBinary { op, a, b, .. } => match op {
            IntBinary::Add | IntBinary::Sub | IntBinary::Or | IntBinary::Xor => of(a).min(of(b)),
            IntBinary::And => of(a).max(of(b)),
            IntBinary::MulLow => product(a, b),
            IntBinary::ShiftLeft => (of(a) + shift(b).unwrap_or(0)).min(ZERO),
            IntBinary::ShiftRight => shift(b).map_or(0, |by| of(a).saturating_sub(by)),
            _ => 0,
        },
        Op::IntTernary {
            op: IntTernary::MadLow,
            a,
            b,
            c,
            ..
        }
        | Op::MadWide { a, b, c, .. } => product(a, b).min(of(c)),
        Op::Bits {
            op: Bits::Lop3(table),
            a,
            b,
            c,
            ..
        } if table & 1 == 0 => of(a).min(of(b)).min(of(c)),
        Op::BitInsert { a, b, start, .. } => {
            shift(start).map_or(0, |by| of(b).min((of(a) + by).min(ZERO)))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::Join::{self, Alone, Gone, Wider};
    use crate::program::Module;

    fn joins(body: &str) -> Vec<Join> {
        let ptx = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u32 p) {{\n\
             .reg .f32 %f<9>; .reg .b32 %r<9>; .shared .align 4 .b8 s[4096];\n\
             mov.u32 %r1, %tid.x; mov.u32 %r2, s;\n{body}\nret;\n}}"
        );
        let module = Module::load(&ptx).expect("valid PTX");
        module.kernel("k").expect("the kernel").joins.clone()
    }

    const ROW: &str = "shl.b32 %r3, %r1, 7; add.s32 %r4, %r2, %r3;";

    fn load(d: usize, offset: usize) -> String {
        format!("ld.shared.f32 %f{d}, [%r4+{offset}];")
    }

    #[test]
    fn four_neighbouring_words_become_one_load_in_any_order() {
        let four = [3, 1, 0, 2].map(|i| load(i, 4 * i)).concat();
        assert_eq!(
            joins(&format!("{ROW}{four}")),
            [Gone, Gone, Wider(16), Gone]
        );
        let later = [1, 2, 3, 4, 5].map(|i| load(i, 4 * i)).concat();
        assert_eq!(
            joins(&format!("{ROW}{later}")),
            [Alone, Wider(8), Gone, Wider(8), Gone]
        );
    }

    #[test]
    fn rows_that_are_not_aligned_stay_single_words() {
        let words = [0, 1, 2, 3].map(|i| load(i, 4 * i)).concat();
        let padded = "mul.lo.s32 %r3, %r1, 132; add.s32 %r4, %r2, %r3;";
        assert_eq!(joins(&format!("{padded}{words}")), [Alone; 4]);
        let by_two = "shl.b32 %r3, %r1, 3; add.s32 %r4, %r2, %r3;";
        assert_eq!(
            joins(&format!("{by_two}{words}")),
            [Wider(8), Gone, Wider(8), Gone]
        );
        let unknown = "ld.param.u32 %r3, [p]; add.s32 %r4, %r2, %r3;";
        let (parameter, words) = (Alone, joins(&format!("{unknown}{words}")));
        assert_eq!(words, [parameter, Alone, Alone, Alone, Alone]);
    }

    #[test]
    fn stores_barriers_and_new_addresses_end_what_is_joined() {
        let [a, b] = [load(0, 0), load(1, 4)];
        for between in [
            "st.shared.f32 [s], %f5;",
            "bar.sync 0;",
            "add.s32 %r4, %r4, 16;",
        ] {
            let found = joins(&format!("{ROW}{a}{between}{b}"));
            assert!(found.iter().all(|join| *join == Alone), "{between}");
        }
        assert_eq!(
            joins(&format!("{ROW}{a} add.f32 %f5, %f0, %f0; {b}")),
            [Wider(8), Gone]
        );
    }
}
