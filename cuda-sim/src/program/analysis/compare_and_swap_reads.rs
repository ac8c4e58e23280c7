//! Finds plain loads whose value a compare-and-swap expects.
//!
//! `old = *p; do { assumed = old; old = atomicCAS(p, assumed, …); } while (old != assumed);` begins
//! with a plain read, as the `atomicAdd` for doubles in the CUDA programming guide does. If the
//! word changes meanwhile, the compare-and-swap fails. Therefore the race check treats that read as
//! relaxed. A load is such a read if its value reaches the compare-and-swap by moves alone, on a
//! path on which the address does not change.

use std::collections::{BTreeSet, HashMap};

use super::basic_blocks::Blocks;
use super::register_flow;
use crate::program::instruction::{Constant, Instruction};
use crate::program::op::{Access, Address, Atomic, IntBinary, MemorySpace, Op, Order, R, Use};

/// Marks these loads. Registers are virtual, branch targets are places in `code`; `constants` is by
/// register.
pub(crate) fn mark(
    code: &mut [Instruction],
    branch_tables: &[Vec<u32>],
    constants: &[Option<Constant>],
) {
    let swaps: Vec<Swap> = code.iter().filter_map(|i| Swap::from_op(&i.op)).collect();
    if swaps.is_empty() {
        return;
    }
    let blocks = Blocks::new(code, branch_tables);
    let mut search = Search {
        swaps: HashMap::new(),
        definitions: definitions(code, &blocks, constants),
        constants,
        blocks,
        code,
        left: MAX_VISITS,
    };
    for swap in swaps {
        let word = (search.place(&swap.address), swap.bytes);
        search
            .swaps
            .entry(word)
            .or_default()
            .push(swap.address.space);
    }
    let found: Vec<usize> = (0..code.len())
        .filter(|&at| search.is_expected(at))
        .collect();
    for at in found {
        if let Op::Load { access, .. } = &mut code[at].op {
            access.order = Order::Expected;
        }
    }
}

/// Instructions that the searches of one kernel may pass. After that, a load of the word of a
/// compare-and-swap counts as one whose value it expects.
const MAX_VISITS: usize = 1 << 24;
/// Operations from which an address may be put together.
const MAX_CHAIN: usize = 64;

/// A compare-and-swap.
struct Swap {
    address: Address,
    bytes: u32,
    expected: R,
}

impl Swap {
    fn from_op(op: &Op) -> Option<Swap> {
        match *op {
            Op::Atomic {
                op: Atomic::CompareSwap,
                access,
                address,
                a,
                ..
            } => Some(Swap {
                address,
                bytes: access.ty.bytes(),
                expected: a[0],
            }),
            _ => None,
        }
    }
}

/// Places where a register is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Definition {
    Nowhere,
    At(usize),
    Several,
}

fn definitions(
    code: &mut [Instruction],
    blocks: &Blocks,
    constants: &[Option<Constant>],
) -> Vec<Definition> {
    let mut definitions = vec![Definition::Nowhere; constants.len()];
    for (at, instruction) in code.iter().enumerate() {
        for r in instruction.op.registers(Use::Write) {
            let definition = &mut definitions[r.0 as usize];
            *definition = match definition {
                Definition::Nowhere => Definition::At(at),
                _ => Definition::Several,
            };
        }
    }
    // A use that may come before the register is set may see what an earlier turn of a loop left in
    // it.
    let is_set = |r: usize| constants[r].is_some() || definitions[r] == Definition::Nowhere;
    let unset = register_flow::read_unset(code, blocks, constants.len(), is_set);
    for (r, definition) in definitions.iter_mut().enumerate() {
        if unset.as_ref().is_none_or(|unset| unset[r]) {
            *definition = Definition::Several;
        }
    }
    definitions
}

/// Base of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Root {
    Zero,
    Variable(usize),
    DynamicShared,
    Register(R),
}

/// Address as a sum: the sum of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    root: Root,
    index: Option<R>,
    offset: i64,
}

impl Place {
    fn changes_with(self, r: R) -> bool {
        self.root == Root::Register(r) || self.index == Some(r)
    }
}

struct Search<'a> {
    /// By place and size of their word: the spaces that they name.
    swaps: HashMap<(Place, u32), Vec<MemorySpace>>,
    code: &'a [Instruction],
    blocks: Blocks,
    definitions: Vec<Definition>,
    constants: &'a [Option<Constant>],
    /// Instructions that may still be passed.
    left: usize,
}

impl Search<'_> {
    /// True if the instruction is a plain load of a value that a compare-and-swap of the same word
    /// expects.
    fn is_expected(&mut self, at: usize) -> bool {
        let Op::Load {
            access: access @ Access { count: 1, .. },
            address,
            d: [Some(d), ..],
        } = self.code[at].op
        else {
            return false;
        };
        if access.order != Order::Weak {
            return false;
        }
        let word = (self.place(&address), access.ty.bytes());
        let Some(swaps) = self.swaps.get(&word) else {
            return false;
        };
        if !swaps.iter().any(|&space| may_be_one(space, address.space)) {
            return false;
        }
        let block = self.blocks.ranges.partition_point(|range| range.end <= at);
        // The registers that may hold the value, at the start of each block, and the blocks to go
        // through.
        let mut at_start: HashMap<usize, BTreeSet<R>> = HashMap::new();
        let mut left = vec![(block, at + 1, BTreeSet::from([d]))];
        while let Some((block, start, mut holders)) = left.pop() {
            for at in start..self.blocks.ranges[block].end {
                let instruction = &self.code[at];
                let swap = Swap::from_op(&instruction.op).filter(|swap| {
                    (self.place(&swap.address), swap.bytes) == word
                        && may_be_one(swap.address.space, address.space)
                });
                if self.left == 0 || swap.is_some_and(|swap| holders.contains(&swap.expected)) {
                    return true;
                }
                self.left -= 1;
                pass(instruction, word.1, word.0, &mut holders);
            }
            if holders.is_empty() {
                continue;
            }
            for &next in &self.blocks.next[block] {
                let there = at_start.entry(next).or_default();
                let known = there.len();
                there.extend(&holders);
                if there.len() > known {
                    left.push((next, self.blocks.ranges[next].start, there.clone()));
                }
            }
        }
        false
    }

    /// The place of an address: the same for sums of the same two registers, or of a register and a
    /// variable, plus a constant.
    fn place(&self, address: &Address) -> Place {
        let (root, offset) = self.root(address.base, i64::from(address.offset));
        let plain = Place {
            root,
            index: None,
            offset,
        };
        let Root::Register(r) = root else {
            return plain;
        };
        let Definition::At(at) = self.definitions[r.0 as usize] else {
            return plain;
        };
        let Op::IntBinary {
            op: IntBinary::Add,
            a,
            b,
            ..
        } = self.code[at].op
        else {
            return plain;
        };
        let ((first, more), (second, rest)) = (self.root(a, 0), self.root(b, 0));
        let (root, index) = match (first, second) {
            (Root::Register(a), Root::Register(b)) => (Root::Register(a.min(b)), a.max(b)),
            (root, Root::Register(index)) | (Root::Register(index), root) => (root, index),
            _ => return plain,
        };
        // What is written several times may have changed since.
        let changes = |r: R| self.definitions[r.0 as usize] == Definition::Several;
        if changes(index) || matches!(root, Root::Register(r) if changes(r)) {
            return plain;
        }
        Place {
            root,
            index: Some(index),
            offset: offset.wrapping_add(more).wrapping_add(rest),
        }
    }

    /// Base of a register plus a constant: the same for registers of which one is a copy of the
    /// other, plus a constant.
    fn root(&self, mut r: R, mut offset: i64) -> (Root, i64) {
        for _ in 0..MAX_CHAIN {
            match self.constants[r.0 as usize] {
                Some(Constant::Narrow(value)) => {
                    return (Root::Zero, offset.wrapping_add(i64::from(value)));
                }
                Some(Constant::Wide(value)) => {
                    return (Root::Zero, offset.wrapping_add(value as i64));
                }
                Some(Constant::Variable {
                    index, offset: at, ..
                }) => return (Root::Variable(index), offset.wrapping_add(at)),
                Some(Constant::StaticShared {
                    start, offset: at, ..
                }) => {
                    let address = (start as i64).wrapping_add(at);
                    return (Root::Zero, offset.wrapping_add(address));
                }
                Some(Constant::DynamicShared { offset: at, .. }) => {
                    return (Root::DynamicShared, offset.wrapping_add(at));
                }
                None => {}
            }
            let Definition::At(at) = self.definitions[r.0 as usize] else {
                return (Root::Register(r), offset);
            };
            let (from, more) = match self.code[at].op {
                // The window of a space changes the number, not the place.
                Op::Move { a, .. } | Op::Cvta { a, .. } => (a, 0),
                Op::IntBinary {
                    op: IntBinary::Add,
                    a,
                    b,
                    ..
                } => match self.constants[b.0 as usize].map(Constant::number) {
                    Some(Some(value)) => (a, value as i64),
                    _ => return (Root::Register(r), offset),
                },
                _ => return (Root::Register(r), offset),
            };
            // What is written several times may have changed since.
            if self.definitions[from.0 as usize] == Definition::Several {
                return (Root::Register(r), offset);
            }
            (r, offset) = (from, offset.wrapping_add(more));
        }
        (Root::Register(r), offset)
    }
}

/// True if addresses that name these spaces may be of one space.
fn may_be_one(a: MemorySpace, b: MemorySpace) -> bool {
    a == b || a == MemorySpace::Generic || b == MemorySpace::Generic
}

/// Steps over an instruction: which registers may hold the value behind it. None do if the address
/// changes.
fn pass(instruction: &Instruction, bytes: u32, place: Place, holders: &mut BTreeSet<R>) {
    let moved = match instruction.op {
        Op::Move { d, a, .. } if holders.contains(&a) => Some(d),
        Op::Convert { how, d, a, .. }
            if how.is_bits()
                && how.to.bytes().min(how.from.bytes()) >= bytes
                && holders.contains(&a) =>
        {
            Some(d)
        }
        _ => None,
    };
    for r in instruction.op.registers(Use::Write) {
        if place.changes_with(r) {
            holders.clear();
            return;
        }
        if instruction.guard.is_none() {
            holders.remove(&r);
        }
    }
    holders.extend(moved);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Module;

    /// Of the loads of a kernel with this body, in its order: which are marked.
    fn marked(body: &str) -> Vec<bool> {
        let ptx = format!(
            ".version 8.4\n.target sm_75\n.address_size 64\n.global .align 8 .u64 total;\n\
             .visible .entry k(.param .u64 p, .param .u64 q) {{\n\
             .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %d<16>; .reg .f64 %x<4>;\n\
             .shared .align 8 .b8 s[16];\n{body}\nret;\n}}\n"
        );
        let module = Module::load(&ptx).expect("PTX");
        let kernel = module.kernel("k").expect("the kernel");
        let loads = kernel.code.iter().filter_map(|i| match i.op {
            Op::Load {
                access, address, ..
            } if address.space != MemorySpace::Param => Some(access.order == Order::Expected),
            _ => None,
        });
        loads.collect()
    }

    /// The loop of the programming guide: the first value in `%d2`, the address `[%d1]`.
    const LOOP: &str = "again: mov.b64 %x1, %d2; add.f64 %x1, %x1, 0d3FF0000000000000; mov.b64 %d3, %x1;
        atom.global.cas.b64 %d4, [%d1], %d2, %d3; setp.ne.s64 %p1, %d2, %d4; mov.u64 %d2, %d4; @%p1 bra again;";

    #[test]
    fn the_first_read_of_the_guides_loop_is_marked() {
        let body = format!("ld.param.u64 %d1, [p]; ld.global.u64 %d2, [%d1]; {LOOP}");
        assert_eq!(marked(&body), [true]);
        // Read as a double, and through another name of the address.
        let body = format!(
            "ld.param.u64 %d5, [p]; add.s64 %d6, %d5, 8; cvta.to.global.u64 %d1, %d6;
             ld.f64 %x0, [%d5+8]; mov.b64 %d2, %x0; {LOOP}"
        );
        assert_eq!(marked(&body), [true]);
    }

    #[test]
    fn words_of_all_sizes_and_spaces_are_marked() {
        let body =
            "ld.param.u64 %d1, [p]; ld.u16 %h1, [%d1]; cvt.u32.u16 %r1, %h1; cvt.u16.u32 %h2, %r1;
            atom.cas.b16 %h3, [%d1], %h2, 1;";
        assert_eq!(marked(body), [true]);
        let body = "mov.u64 %d1, s; ld.shared.f32 %f1, [s+4]; mov.b32 %r1, %f1;
            atom.shared.cas.b32 %r2, [%d1+4], %r1, 1;";
        assert_eq!(marked(body), [true]);
        let body = "mov.u64 %d1, s; cvta.shared.u64 %d2, %d1; ld.shared.u32 %r1, [s];
            atom.cas.b32 %r2, [%d2], %r1, 1;";
        assert_eq!(marked(body), [true]);
        let body = "mov.u64 %d1, total; ld.global.u64 %d2, [total];
            atom.global.cas.b64 %d3, [%d1], %d2, 1;";
        assert_eq!(marked(body), [true]);
    }

    #[test]
    fn elements_of_an_array_are_marked() {
        // As NVRTC writes it if the load is an asm statement: the sum is made twice, once of the
        // generic pointer.
        let sums = |index: &str, swap: &str| {
            format!(
                "ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;
                 mul.wide.u32 %d4, %r1, 8; add.s64 %d5, %d1, %d3; ld.global.cg.u32 %r2, [%d5+4]; {index}
                 add.s64 %d6, {swap}; atom.global.cas.b32 %r3, [%d6+4], %r2, 7;"
            )
        };
        assert_eq!(marked(&sums("", "%d2, %d3")), [true]);
        assert_eq!(marked(&sums("", "%d3, %d2")), [true]);
        assert_eq!(marked(&sums("", "%d2, %d4")), [false]);
        assert_eq!(marked(&sums("add.s64 %d3, %d3, 4;", "%d2, %d3")), [false]);
        let body = "mov.u64 %d1, total; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d1, %d3;
            ld.global.u32 %r2, [%d4]; add.s64 %d5, %d3, %d1; atom.global.cas.b32 %r3, [%d5], %r2, 7;";
        assert_eq!(marked(body), [true]);
    }

    #[test]
    fn sums_of_an_earlier_turn_of_a_loop_are_other_elements() {
        let start = "ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
            setp.gt.u32 %p1, %r1, 100;";
        let end = "add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 9; @%p2 bra next;";
        // The address of the load is made at the end of the turn before.
        let behind = format!(
            "{start} next: mul.wide.u32 %d3, %r1, 4; @%p1 ld.global.u32 %r2, [%d5]; add.s64 %d6, %d2, %d3;
             atom.global.cas.b32 %r3, [%d6], %r2, 7; add.s64 %d5, %d1, %d3; setp.gt.u32 %p1, %r1, 0; {end}"
        );
        assert_eq!(marked(&behind), [false]);
        // The value that is expected is that of the turn before.
        let before = format!(
            "{start} next: mul.wide.u32 %d3, %r1, 4; add.s64 %d5, %d1, %d3; add.s64 %d6, %d2, %d3;
             atom.global.cas.b32 %r3, [%d6], %r2, 7; ld.global.u32 %r2, [%d5]; {end}"
        );
        assert_eq!(marked(&before), [false]);
    }

    #[test]
    fn values_that_are_not_what_is_expected_stay_plain() {
        // Computed with, or read behind.
        let body = "ld.param.u64 %d1, [p]; ld.global.u32 %r1, [%d1]; add.s32 %r2, %r1, 1;
            atom.global.cas.b32 %r3, [%d1], %r2, 7; ld.global.u32 %r4, [%d1];";
        assert_eq!(marked(body), [false, false]);
        // The value that is put in, not the one that is compared with.
        let body = "ld.param.u64 %d1, [p]; ld.global.u32 %r1, [%d1]; atom.global.cas.b32 %r3, [%d1], 7, %r1;";
        assert_eq!(marked(body), [false]);
        // Overwritten on the only way.
        let body = "ld.param.u64 %d1, [p]; ld.global.u32 %r1, [%d1]; mov.u32 %r1, 3;
            atom.global.cas.b32 %r3, [%d1], %r1, 7;";
        assert_eq!(marked(body), [false]);
        // Half of it.
        let body = "ld.param.u64 %d1, [p]; ld.global.u32 %r1, [%d1]; cvt.u16.u32 %h1, %r1; cvt.u32.u16 %r2, %h1;
            atom.global.cas.b32 %r3, [%d1], %r2, 7;";
        assert_eq!(marked(body), [false]);
    }

    #[test]
    fn other_words_stay_plain() {
        for load in ["[%d1+4]", "[%d2]"] {
            let body = format!(
                "ld.param.u64 %d1, [p]; ld.param.u64 %d2, [q]; ld.global.u32 %r1, {load};
                 atom.global.cas.b32 %r3, [%d1], %r1, 7;"
            );
            assert_eq!(marked(&body), [false], "{load}");
        }
        let body = "ld.param.u64 %d1, [p]; ld.global.u32 %r1, [%d1]; cvt.u64.u32 %d2, %r1;
            atom.global.cas.b64 %d3, [%d1], %d2, 7;";
        assert_eq!(marked(body), [false]);
        // The pointer moves on between the two.
        let body = "ld.param.u64 %d1, [p]; ld.global.u32 %r1, [%d1]; add.s64 %d1, %d1, 4;
            atom.global.cas.b32 %r3, [%d1], %r1, 7;";
        assert_eq!(marked(body), [false]);
    }

    #[test]
    fn a_pointer_may_move_on_behind_the_loop() {
        let body = format!(
            "ld.param.u64 %d1, [p]; mov.u32 %r1, 0;
             next: ld.global.u64 %d2, [%d1]; {LOOP}
             add.s64 %d1, %d1, 8; add.s32 %r1, %r1, 1; setp.lt.s32 %p2, %r1, 4; @%p2 bra next;"
        );
        assert_eq!(marked(&body), [true]);
    }
}
