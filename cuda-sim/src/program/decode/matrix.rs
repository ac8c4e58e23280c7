//! Matrix operations: `mma.sync` and `ldmatrix.sync`.

use super::operands::{Mods, Operands};
use crate::program::lower::Lowering;
use crate::program::op::{
    ALL_BYTES, Access, MatrixLoad, MatrixProduct, MemorySpace, NarrowType, Op, Order, R, Type,
};
use crate::ptx::Operand;

impl<'a> Lowering<'a> {
    pub(super) fn matrix_product(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let (shape, ty) = match *mods.parts.as_slice() {
            ["sync", "aligned", shape, "row", "col", "f32", a, b, "f32"] if a == b => (shape, a),
            _ => return None,
        };
        let ty = match (shape, ty) {
            ("m16n8k16", "f16") => NarrowType::F16,
            ("m16n8k16", "bf16") => NarrowType::Bf16,
            ("m16n8k8", "tf32") => NarrowType::Tf32,
            _ => return None,
        };
        mods.parts.clear();
        let mut d = [R(0); 4];
        for (d, item) in d.iter_mut().zip(vector(operands.get(0)?, 4)?) {
            *d = self.target(item, false)?;
        }
        Some(Op::MatrixProduct(MatrixProduct {
            ty,
            d,
            a: self.fragment(operands.get(1)?, Type::U32)?,
            b: self.fragment(operands.get(2)?, Type::U32)?,
            c: self.fragment(operands.get(3)?, Type::F32)?,
        }))
    }

    fn fragment<const N: usize>(&mut self, operand: &Operand<'a>, ty: Type) -> Option<[R; N]> {
        let mut r = [R(0); N];
        for (r, item) in r.iter_mut().zip(vector(operand, N)?) {
            *r = self.source(item, ty)?;
        }
        Some(r)
    }

    pub(super) fn matrix_load(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let known = mods.take("sync") && mods.take("aligned") && mods.take("m8n8");
        known.then_some(())?;
        let count = mods.choose(|p| match p {
            "x1" => Some(1u8),
            "x2" => Some(2),
            "x4" => Some(4),
            _ => None,
        })?;
        let transposed = mods.take("trans");
        mods.take("b16").then_some(())?;
        let address = self.address(mods, operands.get(1)?)?;
        if !matches!(address.space, MemorySpace::Shared | MemorySpace::Generic) {
            return None;
        }
        let mut d = [R(0); 4];
        for (d, item) in d.iter_mut().zip(vector(operands.get(0)?, count.into())?) {
            *d = self.target(item, false)?;
        }
        let access = Access {
            ty: Type::U32,
            count: 4,
            wide: false,
            order: Order::Weak,
            used: ALL_BYTES,
            row: true,
            site: 0,
        };
        Some(Op::MatrixLoad(MatrixLoad {
            access,
            address,
            count,
            transposed,
            d,
        }))
    }
}

/// The items of a vector of `count`; a vector of one is its item.
fn vector<'o, 'a>(operand: &'o Operand<'a>, count: usize) -> Option<&'o [Operand<'a>]> {
    match operand {
        Operand::Vector(items) => (items.len() == count).then_some(items),
        single if count == 1 => Some(std::slice::from_ref(single)),
        _ => None,
    }
}
