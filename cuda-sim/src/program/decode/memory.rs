//! Loads, stores and atomics.

use super::data::memory_space;
use super::operands::{Mods, Operands, given};
use crate::program::instruction::Constant;
use crate::program::lower::{Binding, Lowering, VariableSpace};
use crate::program::op::{ALL_BYTES, Access, Address, Atomic, MemorySpace, Order};
use crate::program::op::{Op, R, Type};
use crate::ptx::Operand;

impl<'a> Lowering<'a> {
    pub(super) fn memory(
        &mut self,
        base: &str,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        // Caches are not simulated; scopes and orders are met by memory that is coherent and in order.
        let order = mods.pick([
            ("volatile", Order::Relaxed),
            ("relaxed", Order::Relaxed),
            ("acquire", Order::Acquire),
            ("release", Order::Release),
            ("acq_rel", Order::AcquireRelease),
        ]);
        for scope in ["cta", "cluster", "gpu", "sys"] {
            mods.take(scope);
        }
        while mods.choose(is_cache_hint).is_some() {}
        match base {
            "ld" | "ldu" => {
                let access = self.access(mods, operands.get(0)?, order)?;
                let address = self.address(mods, operands.get(1)?)?;
                let mut d = [None; 4];
                for (d, item) in d.iter_mut().zip(items(operands.get(0)?)) {
                    *d = given(item.unless_sink(), |item| self.target(item, access.wide))?;
                }
                (operands.count() == 2).then_some(Op::Load { access, address, d })
            }
            "st" => {
                let access = self.access(mods, operands.get(1)?, order)?;
                let address = self.address(mods, operands.get(0)?)?;
                let ty = if access.wide { Type::U64 } else { access.ty };
                let mut a = [R(0); 4];
                for (slot, item) in items(operands.get(1)?).iter().enumerate() {
                    a[slot] = match item {
                        Operand::Literal(literal) if access.ty.is_wide() == access.wide => {
                            self.literal(*literal, access.ty)
                        }
                        item => self.source(item, ty)?,
                    };
                }
                let first = a[0];
                a[items(operands.get(1)?).len()..].fill(first);
                (operands.count() == 2).then_some(Op::Store { access, address, a })
            }
            _ => self.atomic(base, order.unwrap_or(Order::Relaxed), mods, operands),
        }
    }

    fn access(
        &mut self,
        mods: &mut Mods<'a>,
        values: &Operand<'a>,
        order: Option<Order>,
    ) -> Option<Access> {
        let count = if mods.take("v2") {
            2
        } else if mods.take("v4") {
            4
        } else {
            1
        };
        let ty = mods.ty()?;
        if items(values).len() != usize::from(count)
            || matches!(values, Operand::Vector(_)) != (count > 1)
        {
            return None;
        }
        // The registers may be wider than the elements.
        let wide = items(values)
            .iter()
            .find_map(|item| self.target_any(item))
            .map_or(ty.is_wide(), |(_, wide)| wide);
        (wide || !ty.is_wide()).then_some(Access {
            ty,
            count,
            wide,
            order: order.unwrap_or(Order::Weak),
            used: ALL_BYTES,
            row: false,
            site: 0,
        })
    }

    /// The address of a load, store or atomic; takes the state space from the modifiers.
    pub(super) fn address(
        &mut self,
        mods: &mut Mods<'a>,
        operand: &Operand<'a>,
    ) -> Option<Address> {
        let Operand::Address { base, offset } = *operand else {
            return None;
        };
        let named = mods.choose(|p| match p {
            "shared::cta" => Some(MemorySpace::Shared),
            "param::entry" | "param::func" => Some(MemorySpace::Param),
            p => memory_space(p),
        });
        let mut space = named.unwrap_or(MemorySpace::Generic);
        let Some(name) = base else {
            let base = self.constant(Constant::Wide(offset as u64));
            return Some(Address::of(space, base));
        };
        if let Some(Binding::Register { r, wide }) = self.find(name) {
            // In an inlined function it would mean parameters that lie in local memory here.
            if space == MemorySpace::Param && self.is_inlining() {
                return None;
            }
            return Some(Address {
                space,
                base: r,
                wide,
                offset,
            });
        }
        // A parameter of an inlined function lives in local memory.
        if let Some(own) = self.space_of(name) {
            space = match (own, space) {
                (VariableSpace::Shared, MemorySpace::Shared) => MemorySpace::Shared,
                (VariableSpace::Local, MemorySpace::Local | MemorySpace::Param) => {
                    MemorySpace::Local
                }
                (VariableSpace::KernelParam, MemorySpace::Param) => MemorySpace::Param,
                _ => return None,
            };
        }
        Some(Address::of(space, self.address_of(name, offset, true)?))
    }

    /// `atom.global.add.v2.f32`: PTX promises atomicity for each element only, so it is one addition after the other.
    fn vector_addition(
        &mut self,
        op: Atomic,
        order: Order,
        count: usize,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let first = operands.count().checked_sub(2)?;
        let address = self.address(mods, operands.get(first)?)?;
        if op != Atomic::Add
            || mods.ty()? != Type::F32
            || address.space != MemorySpace::Global
            || first > 1
        {
            return None;
        }
        let Operand::Vector(values) = operands.get(first + 1)? else {
            return None;
        };
        let old = match operands.get(0)? {
            Operand::Vector(old) if first == 1 => old.as_slice(),
            _ => &[],
        };
        if values.len() != count || (first == 1 && old.len() != count) {
            return None;
        }
        let mut additions = Vec::new();
        for (at, value) in values.iter().enumerate() {
            let address = Address {
                offset: address.offset.wrapping_add(4 * at as i64),
                ..address
            };
            let old = old.get(at).and_then(Operand::unless_sink);
            let d = given(old, |old| self.target(old, false))?;
            let b = self.source(value, Type::F32)?;
            additions.push(Op::Atomic {
                op,
                access: Access::of_one(Type::F32, order),
                address,
                d,
                b,
                c: b,
            });
        }
        let last = additions.pop()?;
        additions
            .into_iter()
            .for_each(|addition| self.emit_before(addition));
        Some(last)
    }

    fn atomic(
        &mut self,
        base: &str,
        order: Order,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        mods.take("noftz");
        let op = mods.pick([
            ("add", Atomic::Add),
            ("min", Atomic::Min),
            ("max", Atomic::Max),
            ("and", Atomic::And),
            ("or", Atomic::Or),
            ("xor", Atomic::Xor),
            ("exch", Atomic::Exchange),
            ("cas", Atomic::CompareSwap),
            ("inc", Atomic::Increment),
            ("dec", Atomic::Decrement),
        ])?;
        if let Some(count) = mods.pick([("v2", 2), ("v4", 4)]) {
            return self.vector_addition(op, order, count, mods, operands);
        }
        let ty = mods.ty()?;
        let allowed = match op {
            Atomic::Add => matches!(
                ty,
                Type::U32 | Type::S32 | Type::U64 | Type::S64 | Type::F32 | Type::F64
            ),
            Atomic::Increment | Atomic::Decrement => ty == Type::U32,
            Atomic::CompareSwap => matches!(ty, Type::U16 | Type::U32 | Type::U64),
            _ => matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64),
        };
        if !allowed {
            return None;
        }
        let first = usize::from(base == "atom");
        let d = if base == "atom" {
            given(operands.get(0)?.unless_sink(), |target| {
                self.target(target, ty.is_wide())
            })?
        } else {
            None
        };
        let address = self.address(mods, operands.get(first)?)?;
        let b = self.source(operands.get(first + 1)?, ty)?;
        let values = if op == Atomic::CompareSwap { 2 } else { 1 };
        let c = if values == 2 {
            self.source(operands.get(first + 2)?, ty)?
        } else {
            b
        };
        let known_space = matches!(
            address.space,
            MemorySpace::Generic | MemorySpace::Global | MemorySpace::Shared
        );
        (known_space && operands.count() == first + 1 + values).then_some(Op::Atomic {
            op,
            access: Access::of_one(ty, order),
            address,
            d,
            b,
            c,
        })
    }
}

/// The load `op`, of which only some bytes are used: elements of which none is are not loaded.
pub(super) fn with_used_bytes(mut op: Op, mask: u32) -> Op {
    let Op::Load { access, d, .. } = &mut op else {
        return op;
    };
    let all = ALL_BYTES >> (32 - access.bytes());
    match mask & all {
        0 => return Op::Nothing,
        used if used == all => return op,
        used => access.used = used,
    }
    for (element, d) in d.iter_mut().take(usize::from(access.count)).enumerate() {
        if access.used_of(element) == 0 {
            *d = None;
        }
    }
    op
}

/// The elements of a vector operand, or the operand itself.
fn items<'o, 'a>(operand: &'o Operand<'a>) -> &'o [Operand<'a>] {
    match operand {
        Operand::Vector(items) => items,
        single => std::slice::from_ref(single),
    }
}

fn is_cache_hint(name: &str) -> Option<()> {
    let known = matches!(
        name,
        "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" | "nc" | "weak" | "unified" | "mmio"
    ) || name.starts_with("L1::")
        || name.starts_with("L2::64B")
        || name.starts_with("L2::128B")
        || name.starts_with("L2::256B");
    known.then_some(())
}
