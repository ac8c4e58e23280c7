//! Tensor maps that a kernel makes: `tensormap.replace` and `tensormap.cp_fenceproxy`.
//!
//! A field of a map is stored as any other value, and a copy of a map is a load and a store of a
//! word by each lane, before a fence: so they are checked and counted.

use super::async_copy::number;
use super::operands::{Mods, Operands};
use crate::program::lower::Lowering;
use crate::program::op::{Access, Fence, Op, Order, Special, Type};
use crate::tensor_map::{Element, MAX_RANK, Swizzle, TENSOR_MAP_BYTES, place};

/// Types of elements in the order of `.elemtype`, which is not that of `CUtensorMapDataType`.
const ELEMENTS: [Element; 13] = [
    Element::U8,
    Element::U16,
    Element::U32,
    Element::S32,
    Element::U64,
    Element::S64,
    Element::F16,
    Element::F32,
    Element::F32Ftz,
    Element::F64,
    Element::Bf16,
    Element::Tf32,
    Element::Tf32Ftz,
];

impl<'a> Lowering<'a> {
    pub(super) fn tensor_map(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        match *mods.parts.as_slice() {
            ["replace", "tile", field, ..] => {
                mods.parts.drain(..3);
                self.replace(field, mods, operands)
            }
            [
                "cp_fenceproxy",
                "global",
                "shared::cta",
                "tensormap::generic",
                "release",
                "cta" | "cluster" | "gpu" | "sys",
                "sync",
                "aligned",
            ] => {
                mods.parts.clear();
                self.copy_map(operands)
            }
            _ => None,
        }
    }

    fn replace(
        &mut self,
        field: &str,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let map = self.address(mods, operands.get(0)?)?;
        mods.take("b1024").then_some(())?;
        let ty = mods.pick([("b32", Type::U32), ("b64", Type::U64)])?;
        let is_long = matches!(field, "global_address" | "global_stride");
        (ty.is_wide() == is_long).then_some(())?;
        // Fields of a dimension have its number in between.
        let lists = match field {
            "box_dim" => Some((place::BOX_SIZES, MAX_RANK)),
            "global_dim" => Some((place::SIZES, MAX_RANK)),
            "element_stride" => Some((place::ELEMENT_STRIDES, MAX_RANK)),
            "global_stride" => Some((place::STRIDES, MAX_RANK - 1)),
            _ => None,
        };
        let (at, ty, value) = if let Some((first, count)) = lists {
            let dimension = number(operands.get(1)?)? as usize;
            (dimension < count).then_some(())?;
            let at = first + ty.bytes() as usize * dimension;
            (at, ty, self.source(operands.get(2)?, ty)?)
        } else {
            let value = operands.get(1)?;
            match field {
                "global_address" => (place::ADDRESS, ty, self.source(value, ty)?),
                "rank" => (place::RANK, Type::U8, self.source(value, ty)?),
                "elemtype" => {
                    let element = *ELEMENTS.get(number(value)? as usize)?;
                    (place::ELEMENT, Type::U8, self.number(element as u32))
                }
                "swizzle_mode" => {
                    let swizzle = *Swizzle::ALL.get(number(value)? as usize)?;
                    (place::SWIZZLE, Type::U8, self.number(swizzle as u32))
                }
                "fill_mode" => {
                    let fill = number(value)?;
                    (fill <= 1).then_some(())?;
                    (place::FILL, Type::U8, self.number(fill))
                }
                // No interleaving, the only one that is simulated.
                "interleave_layout" if number(value)? == 0 => return Some(Op::Nothing),
                _ => return None,
            }
        };
        Some(Op::Store {
            access: Access::one(ty, Order::Weak),
            address: map.plus(at as u32)?,
            a: [value; 4],
        })
    }

    fn copy_map(&mut self, operands: Operands<'_, 'a>) -> Option<Op> {
        let mut side = |space: &'a str, at: usize| {
            let mut named = Mods { parts: vec![space] };
            self.address(&mut named, operands.get(at)?)
        };
        let (target, source) = (side("global", 0)?, side("shared::cta", 1)?);
        (number(operands.get(2)?)? as usize == TENSOR_MAP_BYTES).then_some(())?;
        let access = Access::one(Type::U32, Order::Weak);
        let lane = self.special(Special::LaneId);
        let [target, source] = [target, source].map(|side| self.advanced(&side, lane, 4));
        let word = self.scratch(false);
        self.emit_before(Op::Load {
            access,
            address: source,
            d: [Some(word), None, None, None],
        });
        self.emit_before(Op::Store {
            access,
            address: target,
            a: [word; 4],
        });
        Some(Op::Fence(Fence::Device))
    }
}
