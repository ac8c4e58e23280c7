//! Loads, stores and atomics.

use super::modifiers::memory_space;
use super::operands::{Mods, Operands, given, items, unpacked};
use crate::program::instruction::Constant;
use crate::program::lower::{Binding, Lowering, VariableSpace};
use crate::program::op::{ALL_BYTES, Access, Address, Atomic, HalfAtomic, MemorySpace, Order};
use crate::program::op::{Op, R, Type};
use crate::ptx::Operand;

impl<'a> Lowering<'a> {
    pub(super) fn memory(
        &mut self,
        base: &str,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        // Caches are not simulated; scopes and orders are met by memory that is coherent and in
        // order.
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
        let operands = match mods.take("L2::cache_hint") {
            true => operands.without_last()?,
            false => operands,
        };
        match base {
            "ld" | "ldu" => {
                let mut d = [None; 4];
                let access = if mods.take("b128") {
                    let [low, high] = self.halves(operands.get(0)?)?;
                    (d[0], d[1]) = (Some(low), Some(high));
                    b128(order)
                } else {
                    let access = self.access(mods, operands.get(0)?, order)?;
                    for (d, item) in d.iter_mut().zip(items(operands.get(0)?)) {
                        *d = given(item.unless_sink(), |item| self.target(item, access.wide))?;
                    }
                    access
                };
                let address = self.address(mods, operands.get(1)?)?;
                (operands.count() == 2).then_some(Op::Load { access, address, d })
            }
            "st" if mods.take("b128") => {
                let [low, high] = self.halves(operands.get(1)?)?;
                Some(Op::Store {
                    access: b128(order),
                    address: self.address(mods, operands.get(0)?)?,
                    a: [low, high, low, low],
                })
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
            return Some(Address::in_register(space, base));
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
                offset: match wide {
                    true => i32::try_from(offset).ok()?,
                    // Narrow addresses are modulo 2³².
                    false => offset as i32,
                },
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
        Some(Address::in_register(
            space,
            self.address_of(name, offset, true)?,
        ))
    }

    /// An address that may be one of shared memory: named so, or generic.
    pub(super) fn shared_address(
        &mut self,
        mods: &mut Mods<'a>,
        operand: &Operand<'a>,
    ) -> Option<Address> {
        let address = self.address(mods, operand)?;
        let fits = matches!(address.space, MemorySpace::Shared | MemorySpace::Generic);
        fits.then_some(address)
    }

    fn atomic(
        &mut self,
        base: &str,
        order: Order,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let keeps_subnormals = mods.take("noftz");
        let mut op = mods.pick([
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
        let vector: Option<usize> = mods.pick([("v2", 2), ("v4", 4), ("v8", 8)]);
        let half = mods.half();
        if keeps_subnormals != half.is_some() {
            return None;
        }
        let mut ty = match half {
            Some((_, true)) => Type::U32,
            Some((_, false)) => Type::U16,
            None => mods.ty()?,
        };
        let allowed = match (op, half, vector) {
            (Atomic::Add, Some(_), None) => true,
            (Atomic::Add | Atomic::Min | Atomic::Max, Some((_, pair)), Some(count)) => {
                !pair || count <= 4
            }
            (_, Some(_), _) => false,
            (Atomic::Add, None, Some(count)) => ty == Type::F32 && count <= 4,
            (_, None, Some(_)) => false,
            (Atomic::Add, None, None) => matches!(
                ty,
                Type::U32 | Type::S32 | Type::U64 | Type::S64 | Type::F32 | Type::F64
            ),
            (Atomic::Increment | Atomic::Decrement, ..) => ty == Type::U32,
            (Atomic::CompareSwap, ..) => matches!(ty, Type::U16 | Type::U32 | Type::U64),
            _ => matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64),
        };
        if !allowed {
            return None;
        }
        if let Some((half, _)) = half {
            let bf16 = half == Type::Bf16;
            op = match op {
                Atomic::Min => Atomic::Half {
                    op: HalfAtomic::Min,
                    bf16,
                },
                Atomic::Max => Atomic::Half {
                    op: HalfAtomic::Max,
                    bf16,
                },
                _ => Atomic::Half {
                    op: HalfAtomic::Add,
                    bf16,
                },
            };
        }
        let first = usize::from(base == "atom");
        let address = self.address(mods, operands.get(first)?)?;
        let swaps = op == Atomic::CompareSwap;
        let known_space = match address.space {
            MemorySpace::Generic | MemorySpace::Global => true,
            MemorySpace::Shared => vector.is_none(),
            MemorySpace::Local | MemorySpace::Param => false,
        };
        if !known_space || operands.count() != first + 2 + usize::from(swaps) {
            return None;
        }
        let values = vector_of(operands.get(first + 1)?, vector)?;
        let targets = match first {
            1 if *operands.get(0)? == Operand::Sink => &[],
            1 => vector_of(operands.get(0)?, vector)?,
            _ => &[],
        };
        // Vectors of halves are vectors of pairs: either way each half is atomic on its own.
        let in_pairs = vector.is_some() && ty == Type::U16;
        let mut a = Vec::with_capacity(4);
        for value in values {
            a.push(self.source(value, ty)?);
        }
        if swaps {
            a.push(self.source(operands.get(first + 2)?, ty)?);
        }
        let mut d = Vec::with_capacity(4);
        for target in targets {
            d.push(self.target(target, ty.is_wide())?);
        }
        let returns = !d.is_empty();
        let mut halves = Vec::new();
        if in_pairs {
            ty = Type::U32;
            a = a.chunks(2).map(|pair| self.packed(pair)).collect();
            halves = std::mem::take(&mut d);
            d = halves.chunks(2).map(|_| self.scratch(false)).collect();
        }
        let count = if swaps { 1 } else { a.len() };
        let atomic = Op::Atomic {
            op,
            access: Access::vector(ty, count, order),
            address,
            returns,
            d: four(&d),
            a: four(&a),
        };
        // The results come apart behind the operation.
        let Some(last) = halves.len().checked_sub(2) else {
            return Some(atomic);
        };
        self.emit_before(atomic);
        let unpack = |at: usize| unpacked([halves[at], halves[at + 1]], 16, d[at / 2]);
        for at in (0..last).step_by(2) {
            self.emit_before(unpack(at));
        }
        Some(unpack(last))
    }

    /// A register with two halves, the first one below.
    fn packed(&mut self, pair: &[R]) -> R {
        let d = self.scratch(false);
        self.emit_before(Op::Pack {
            bits: 16,
            count: 2,
            d,
            parts: [pair[0], pair[1], pair[0], pair[0]],
        });
        d
    }
}

/// The elements of an operand that is a vector of `count` elements, or one value.
fn vector_of<'o, 'a>(operand: &'o Operand<'a>, count: Option<usize>) -> Option<&'o [Operand<'a>]> {
    let is_vector = matches!(operand, Operand::Vector(_));
    let items = items(operand);
    (is_vector == count.is_some() && items.len() == count.unwrap_or(1)).then_some(items)
}

/// An access of 128 bits: both halves of a register.
fn b128(order: Option<Order>) -> Access {
    Access::vector(Type::U64, 2, order.unwrap_or(Order::Weak))
}

/// Up to four registers; the rest is never looked at.
fn four(registers: &[R]) -> [R; 4] {
    std::array::from_fn(|i| registers.get(i).copied().unwrap_or(R(0)))
}

/// The load `op`, of which only some bytes are used: elements of which none is are not loaded.
/// Parameters are loaded whole: they are there, and NVRTC 12.4 leaves bytes out of masks of
/// parameters that it does use.
pub(super) fn with_used_bytes(mut op: Op, mask: u32) -> Op {
    let Op::Load { access, address, d } = &mut op else {
        return op;
    };
    if address.space == MemorySpace::Param {
        return op;
    }
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
