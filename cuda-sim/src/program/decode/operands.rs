//! Modifiers and operands of an instruction.

use std::cell::Cell;

use crate::program::instruction::Constant;
use crate::program::lower::{Binding, FALSE, Lowering, TRUE, VariableSpace};
use crate::program::op::{Condition, FloatMode, Op, P, R, Rounding, Special, Type};
use crate::program::variables::{literal_bits, scalar};
use crate::ptx::{Literal, Operand};

impl<'a> Lowering<'a> {
    /// The register or constant that `operand` reads as a value of `ty`.
    pub(super) fn source(&mut self, operand: &Operand<'a>, ty: Type) -> Option<R> {
        let wide = ty.is_wide();
        let (r, is_wide) = self.source_any(operand, ty)?;
        (is_wide == wide).then_some(r)
    }

    /// As [`Lowering::source`], but the register may be wider or narrower than the type. True if it
    /// is 64-bit.
    pub(in crate::program) fn source_any(
        &mut self,
        operand: &Operand<'a>,
        ty: Type,
    ) -> Option<(R, bool)> {
        let wide = ty.is_wide();
        match *operand {
            Operand::Name(name) => match self.find(name) {
                Some(Binding::Register { r, wide }) => Some((r, wide)),
                Some(_) => Some((self.address_of(name, 0, wide)?, wide)),
                None => Some((self.special_register(name)?, false)),
            },
            Operand::Offset(name, offset) => Some((self.address_of(name, offset, wide)?, wide)),
            Operand::Literal(literal) => Some((self.literal(literal, ty), wide)),
            _ => None,
        }
    }

    /// A constant register with `literal` as a value of `ty`.
    pub(super) fn literal(&mut self, literal: Literal, ty: Type) -> R {
        let bits = literal_bits(literal, type_name(ty));
        self.constant(match ty.bytes() {
            8 => Constant::Wide(bits),
            4 => Constant::Narrow(bits as u32),
            2 => Constant::Narrow(u32::from(bits as u16)),
            _ => Constant::Narrow(u32::from(bits as u8)),
        })
    }

    pub(super) fn number(&mut self, value: u32) -> R {
        self.constant(Constant::Narrow(value))
    }

    /// The address of a variable within its own state space, plus `offset`.
    pub(super) fn address_of(&mut self, name: &str, offset: i64, wide: bool) -> Option<R> {
        let constant = match self.find(name)? {
            Binding::Variable(index) => Constant::Variable {
                index,
                offset,
                wide,
            },
            Binding::DynamicShared => Constant::DynamicShared { offset, wide },
            Binding::Memory(VariableSpace::Shared, start) => Constant::StaticShared {
                start,
                offset,
                wide,
            },
            Binding::Memory(_, at) => Constant::address(at.wrapping_add_signed(offset), wide),
            Binding::Function(address) => {
                Constant::address(address.wrapping_add_signed(offset), wide)
            }
            Binding::Register { .. }
            | Binding::B128 { .. }
            | Binding::Predicate(_)
            | Binding::Label(_)
            | Binding::Opaque => return None,
        };
        Some(self.constant(constant))
    }

    fn special_register(&mut self, name: &str) -> Option<R> {
        let special = match name.strip_prefix('%')? {
            "laneid" => Special::LaneId,
            "warpid" => Special::WarpId,
            "nwarpid" => Special::WarpCount,
            "smid" => Special::SmId,
            "nsmid" => Special::SmCount,
            "gridid" => Special::GridId,
            "lanemask_eq" => Special::LaneMaskEq,
            "lanemask_le" => Special::LaneMaskLe,
            "lanemask_lt" => Special::LaneMaskLt,
            "lanemask_ge" => Special::LaneMaskGe,
            "lanemask_gt" => Special::LaneMaskGt,
            "dynamic_smem_size" => Special::DynamicSharedSize,
            "total_smem_size" => Special::TotalSharedSize,
            "cluster_ctarank" => Special::ClusterCtaRank,
            "cluster_nctarank" => Special::ClusterNctaRank,
            other => {
                let (register, axis) = other.split_once('.').unwrap_or((other, ""));
                let axis = match axis {
                    "x" => 0,
                    "y" => 1,
                    "z" => 2,
                    "" => {
                        let number = register.strip_prefix("envreg")?.parse().ok()?;
                        return (number < 32).then(|| self.special(Special::EnvReg(number)));
                    }
                    _ => return None,
                };
                match register {
                    "tid" => Special::Tid(axis),
                    "ntid" => Special::Ntid(axis),
                    "ctaid" => Special::Ctaid(axis),
                    "nctaid" => Special::Nctaid(axis),
                    "cluster_ctaid" => Special::ClusterCtaid(axis),
                    "cluster_nctaid" => Special::ClusterNctaid(axis),
                    "clusterid" => Special::ClusterId(axis),
                    "nclusterid" => Special::NclusterId(axis),
                    _ => return None,
                }
            }
        };
        Some(self.special(special))
    }

    /// The operands behind the first one, with a type each.
    pub(super) fn sources<const N: usize>(
        &mut self,
        operands: Operands<'_, 'a>,
        types: [Type; N],
    ) -> Option<[R; N]> {
        let mut sources = [R(0); N];
        for (i, (source, ty)) in sources.iter_mut().zip(types).enumerate() {
            *source = self.source(operands.get(i + 1)?, ty)?;
        }
        Some(sources)
    }

    /// The register that `operand` writes; `_` is a register nobody reads.
    pub(super) fn target(&mut self, operand: &Operand<'a>, wide: bool) -> Option<R> {
        match *operand {
            Operand::Sink => Some(self.scratch(wide)),
            Operand::Name(name) => match self.find(name)? {
                Binding::Register { r, wide: w } if w == wide => Some(r),
                _ => None,
            },
            _ => None,
        }
    }

    /// The register that `operand` writes, and whether it is 64-bit.
    pub(super) fn target_any(&mut self, operand: &Operand<'a>) -> Option<(R, bool)> {
        match *operand {
            Operand::Name(name) => match self.find(name)? {
                Binding::Register { r, wide } => Some((r, wide)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The predicate that `operand` writes; `_` is one that nobody reads.
    pub(super) fn predicate(&mut self, operand: &Operand<'a>) -> Option<P> {
        match *operand {
            Operand::Sink => Some(self.scratch_predicate()),
            Operand::Name(name) => match self.find(name)? {
                Binding::Predicate(p) => Some(p),
                _ => None,
            },
            _ => None,
        }
    }

    /// The condition that `operand` reads.
    pub(super) fn condition(&mut self, operand: &Operand<'a>) -> Option<Condition> {
        match *operand {
            Operand::Name(name) | Operand::Not(name) => match self.find(name)? {
                Binding::Predicate(p) => Some(Condition {
                    p,
                    negate: matches!(operand, Operand::Not(_)),
                }),
                _ => None,
            },
            Operand::Literal(Literal::Int(n)) => Some(Condition {
                p: if n == 0 { FALSE } else { TRUE },
                negate: false,
            }),
            _ => None,
        }
    }

    /// Splits `d|p` into its two operands.
    pub(super) fn pair<'o>(
        &self,
        operand: &'o Operand<'a>,
    ) -> (&'o Operand<'a>, Option<&'o Operand<'a>>) {
        match operand {
            Operand::Pair(first, second) => (first, Some(second)),
            single => (single, None),
        }
    }

    /// Which of the kernel's own memories the name of an address means.
    pub(super) fn space_of(&mut self, name: &str) -> Option<VariableSpace> {
        match self.find(name)? {
            Binding::Memory(space, _) => Some(space),
            Binding::DynamicShared => Some(VariableSpace::Shared),
            _ => None,
        }
    }
}

/// The modifiers of an opcode that no one has taken yet.
pub(super) struct Mods<'a> {
    pub(super) parts: Vec<&'a str>,
}

impl<'a> Mods<'a> {
    /// Takes `name` if it is there.
    pub(super) fn take(&mut self, name: &str) -> bool {
        match self.parts.iter().position(|p| *p == name) {
            Some(at) => {
                self.parts.remove(at);
                true
            }
            None => false,
        }
    }

    /// Takes the first modifier that `choose` knows.
    pub(super) fn choose<T>(&mut self, choose: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, value) = self
            .parts
            .iter()
            .enumerate()
            .find_map(|(at, p)| Some((at, choose(p)?)))?;
        self.parts.remove(at);
        Some(value)
    }

    /// Takes the first modifier that the table names.
    pub(super) fn pick<T: Copy, const N: usize>(&mut self, table: [(&str, T); N]) -> Option<T> {
        self.choose(|p| Some(table.iter().find(|(name, _)| *name == p)?.1))
    }

    /// Takes the first type, in the order written.
    pub(super) fn ty(&mut self) -> Option<Type> {
        self.choose(|p| if p.ends_with("x2") { None } else { scalar(p) })
    }

    /// Takes the first 16-bit float type. True if it is a pair of values.
    pub(super) fn half(&mut self) -> Option<(Type, bool)> {
        self.pick([
            ("f16", (Type::F16, false)),
            ("bf16", (Type::Bf16, false)),
            ("f16x2", (Type::F16, true)),
            ("bf16x2", (Type::Bf16, true)),
        ])
    }

    pub(super) fn rounding(&mut self) -> Option<Rounding> {
        self.pick([
            ("rn", Rounding::Nearest),
            ("rz", Rounding::Zero),
            ("rm", Rounding::Down),
            ("rp", Rounding::Up),
        ])
    }

    pub(super) fn float_mode(&mut self) -> FloatMode {
        FloatMode {
            rounding: self.rounding().unwrap_or(Rounding::Nearest),
            ftz: self.take("ftz"),
            saturate: self.take("sat"),
        }
    }
}

/// The operands of an instruction, by position.
#[derive(Clone, Copy)]
pub(super) struct Operands<'o, 'a> {
    pub(super) items: &'o [Operand<'a>],
    /// Number of them, from the first on, that were looked at.
    pub(super) used: &'o Cell<usize>,
}

impl<'o, 'a> Operands<'o, 'a> {
    pub(super) fn get(&self, at: usize) -> Option<&'o Operand<'a>> {
        self.used.set(self.used.get().max(at + 1));
        self.items.get(at)
    }

    /// All but the last, which has no effect here.
    pub(super) fn without_last(self) -> Option<Operands<'o, 'a>> {
        self.ignore();
        let (_, items) = self.items.split_last()?;
        Some(Operands { items, ..self })
    }

    /// For an instruction without effect here.
    pub(super) fn ignore(&self) {
        self.used.set(self.items.len());
    }

    pub(super) fn count(&self) -> usize {
        self.items.len()
    }
}

/// Reads an operand that may be left out.
pub(super) fn given<T, U>(
    operand: Option<T>,
    read: impl FnOnce(T) -> Option<U>,
) -> Option<Option<U>> {
    match operand {
        Some(operand) => read(operand).map(Some),
        None => Some(None),
    }
}

/// The elements of a vector operand, or the operand itself.
pub(super) fn items<'o, 'a>(operand: &'o Operand<'a>) -> &'o [Operand<'a>] {
    match operand {
        Operand::Vector(items) => items,
        single => std::slice::from_ref(single),
    }
}

/// Takes the two parts of `a` that have `bits` bits each, the low one first.
pub(super) fn unpacked(parts: [R; 2], bits: u8, a: R) -> Op {
    let [low, high] = parts.map(Some);
    Op::Unpack {
        bits,
        count: 2,
        parts: [low, high, None, None],
        a,
    }
}

fn type_name(ty: Type) -> &'static str {
    match (ty, ty.bytes()) {
        (Type::F32, _) => "f32",
        (Type::F64, _) => "f64",
        (_, 8) => "b64",
        _ => "b32",
    }
}
