//! Matrix operations: `mma`, `ldmatrix`, `stmatrix`, `movmatrix`.

use super::operands::{Mods, Operands};
use crate::program::lower::Lowering;
use crate::program::op::{
    Access, Factors, MatrixProduct, MatrixProduct64, MatrixRows, MemorySpace, Op, Order, R, Sums,
    Type,
};
use crate::ptx::Operand;

impl<'a> Lowering<'a> {
    pub(super) fn matrix_product(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let saturate = mods.take("satfinite");
        let (shape, d, a, b, c) = match *mods.parts.as_slice() {
            ["sync", "aligned", shape, "row", "col", d, a, b, c] => (shape, d, a, b, c),
            _ => return None,
        };
        if let ["m8n8k4", "f64", "f64", "f64", "f64"] = [shape, d, a, b, c] {
            mods.parts.clear();
            return self.matrix_product_64(operands).filter(|_| !saturate);
        }
        let (factors, sums, ty) = types(d, a, b, c, saturate)?;
        let depth = match (factors, shape) {
            (Factors::F16 | Factors::Bf16, "m16n8k8") => 8,
            (Factors::F16 | Factors::Bf16, "m16n8k16") => 16,
            (Factors::Tf32, "m16n8k4") => 4,
            (Factors::Tf32, "m16n8k8") => 8,
            (Factors::Int8 { .. }, "m16n8k16") => 16,
            (Factors::Int8 { .. }, "m16n8k32") => 32,
            _ => return None,
        };
        mods.parts.clear();
        let mut product = MatrixProduct {
            factors,
            sums,
            depth,
            d: [R(0); 4],
            a: [R(0); 4],
            b: [R(0); 2],
            c: [R(0); 4],
        };
        let (words, count) = (product.words(), product.sum_registers());
        for (d, item) in product.d.iter_mut().zip(vector(operands.get(0)?, count)?) {
            *d = self.target(item, false)?;
        }
        self.fragment(&mut product.a[..2 * words], operands.get(1)?, Type::U32)?;
        self.fragment(&mut product.b[..words], operands.get(2)?, Type::U32)?;
        self.fragment(&mut product.c[..count], operands.get(3)?, ty)?;
        Some(Op::MatrixProduct(product))
    }

    fn matrix_product_64(&mut self, operands: Operands<'_, 'a>) -> Option<Op> {
        let mut d = [R(0); 2];
        for (d, item) in d.iter_mut().zip(vector(operands.get(0)?, 2)?) {
            *d = self.target(item, true)?;
        }
        let ([mut a, mut b], mut c) = ([[R(0)]; 2], [R(0); 2]);
        self.fragment(&mut a, operands.get(1)?, Type::F64)?;
        self.fragment(&mut b, operands.get(2)?, Type::F64)?;
        self.fragment(&mut c, operands.get(3)?, Type::F64)?;
        let ([a], [b]) = (a, b);
        Some(Op::MatrixProduct64(MatrixProduct64 { d, a, b, c }))
    }

    /// Reads a vector of as many registers as `r` has.
    fn fragment(&mut self, r: &mut [R], operand: &Operand<'a>, ty: Type) -> Option<()> {
        let items = vector(operand, r.len())?;
        for (r, item) in r.iter_mut().zip(items) {
            *r = self.source(item, ty)?;
        }
        Some(())
    }

    /// `ldmatrix`, `stmatrix`.
    pub(super) fn matrix_rows(
        &mut self,
        base: &str,
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
        let (at, fragments) = match base {
            "ldmatrix" => (1, 0),
            _ => (0, 1),
        };
        let address = self.address(mods, operands.get(at)?)?;
        if !matches!(address.space, MemorySpace::Shared | MemorySpace::Generic) {
            return None;
        }
        let access = Access {
            count: 4,
            row: true,
            ..Access::of_one(Type::U32, Order::Weak)
        };
        let mut matrices = MatrixRows {
            access,
            address,
            count,
            transposed,
            r: [R(0); 4],
        };
        let items = vector(operands.get(fragments)?, count.into())?;
        for (r, item) in matrices.r.iter_mut().zip(items) {
            *r = match base {
                "ldmatrix" => self.target(item, false)?,
                _ => self.source(item, Type::U32)?,
            };
        }
        Some(match base {
            "ldmatrix" => Op::MatrixLoad(matrices),
            _ => Op::MatrixStore(matrices),
        })
    }

    pub(super) fn matrix_transpose(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let known = ["sync", "aligned", "m8n8", "trans", "b16"];
        known.iter().all(|name| mods.take(name)).then_some(())?;
        Some(Op::MatrixTranspose {
            d: self.target(operands.get(0)?, false)?,
            a: self.source(operands.get(1)?, Type::U32)?,
        })
    }
}

/// The types of a product, as its modifiers name them, and that of the registers of C.
pub(super) fn types(
    d: &str,
    a: &str,
    b: &str,
    c: &str,
    saturate: bool,
) -> Option<(Factors, Sums, Type)> {
    let factors = match (a, b) {
        ("f16", "f16") => Factors::F16,
        ("bf16", "bf16") => Factors::Bf16,
        ("tf32", "tf32") => Factors::Tf32,
        ("s8" | "u8", "s8" | "u8") => Factors::Int8 {
            a_signed: a == "s8",
            b_signed: b == "s8",
        },
        _ => return None,
    };
    let (sums, ty) = match (factors, d, c) {
        (Factors::Int8 { .. }, "s32", "s32") => (Sums::S32 { saturate }, Type::S32),
        (Factors::Int8 { .. }, ..) => return None,
        _ if saturate => return None,
        (Factors::F16, "f16", "f16") => (Sums::F16, Type::U32),
        (_, "f32", "f32") => (Sums::F32, Type::F32),
        _ => return None,
    };
    Some((factors, sums, ty))
}

/// The items of a vector of `count`; a vector of one is its item.
pub(super) fn vector<'o, 'a>(operand: &'o Operand<'a>, count: usize) -> Option<&'o [Operand<'a>]> {
    match operand {
        Operand::Vector(items) => (items.len() == count).then_some(items),
        single if count == 1 => Some(std::slice::from_ref(single)),
        _ => None,
    }
}
