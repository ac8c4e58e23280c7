//! Matrix operations: `mma`, `ldmatrix`, `stmatrix`, `movmatrix`.

use super::operands::{Mods, Operands, items};
use crate::program::lower::Lowering;
use crate::program::op::{
    Access, ByteType, Columns, Factors, Layout, MatrixProduct, MatrixProduct64, MatrixRows, Op,
    Order, ProductShape, QuadPairProducts, R, Sums, Type,
};
use crate::ptx::Operand;

impl<'a> Lowering<'a> {
    pub(super) fn matrix_product(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let saturate = mods.take("satfinite");
        let is_rounded = mods.take("rn");
        let ["sync", "aligned", shape, a_layout, b_layout, names @ ..] = mods.parts.as_slice()
        else {
            return None;
        };
        let (shape, layouts) = (*shape, [*a_layout, *b_layout]);
        let names: [&str; 4] = names.try_into().ok()?;
        mods.parts.clear();
        match (shape, layouts, names) {
            (shape, ["row", "col"], ["f64", "f64", "f64", "f64"]) if !saturate => {
                self.matrix_product_64(shape, operands)
            }
            _ if is_rounded => None,
            ("m8n8k4", layouts, [d, "f16", "f16", c]) if !saturate => {
                self.quad_pair_products(layouts, [d, c], operands)
            }
            (shape, ["row", "col"], names) => {
                self.matrix_product_32(shape, names, saturate, operands)
            }
            _ => None,
        }
    }

    /// A product whose registers are all 32-bit.
    fn matrix_product_32(
        &mut self,
        shape: &str,
        [d, a, b, c]: [&str; 4],
        saturate: bool,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let (factors, sums, ty) = types(d, a, b, c, saturate)?;
        let shape = match (shape, factors) {
            ("m16n8k4", Factors::Tf32) => ProductShape::M16N8K4,
            ("m16n8k8", Factors::F16 | Factors::Bf16 | Factors::Tf32) => ProductShape::M16N8K8,
            ("m16n8k16", Factors::Tf32) => return None,
            ("m16n8k16", _) => ProductShape::M16N8K16,
            ("m8n8k16", Factors::Int8 { .. }) => ProductShape::M8N8K16,
            ("m16n8k32", Factors::E4m3 { .. } | Factors::E5m2 { .. } | Factors::Int8 { .. }) => {
                ProductShape::M16N8K32
            }
            _ => return None,
        };
        let mut product = MatrixProduct {
            factors,
            sums,
            shape,
            d: [R(0); 4],
            a: [R(0); 4],
            b: [R(0); 2],
            c: [R(0); 4],
        };
        let [left, right, count] = product.registers();
        self.target_vector(&mut product.d[..count], operands.get(0)?, false)?;
        self.source_vector(&mut product.a[..left], operands.get(1)?, Type::U32)?;
        self.source_vector(&mut product.b[..right], operands.get(2)?, Type::U32)?;
        self.source_vector(&mut product.c[..count], operands.get(3)?, ty)?;
        Some(Op::MatrixProduct(product))
    }

    /// Emits all but the last operation of a product of f64.
    fn matrix_product_64(&mut self, shape: &str, operands: Operands<'_, 'a>) -> Option<Op> {
        let (rows, depth): (usize, usize) = match shape {
            "m8n8k4" => (8, 4),
            "m16n8k4" => (16, 4),
            "m16n8k8" => (16, 8),
            "m16n8k16" => (16, 16),
            _ => return None,
        };
        let (lefts, rights) = (rows * depth / 32, depth / 4);
        let count = rows / 4;
        let [mut d, mut a, mut b, mut c] = [[R(0); 8]; 4];
        self.target_vector(&mut d[..count], operands.get(0)?, true)?;
        self.source_vector(&mut a[..lefts], operands.get(1)?, Type::F64)?;
        self.source_vector(&mut b[..rights], operands.get(2)?, Type::F64)?;
        self.source_vector(&mut c[..count], operands.get(3)?, Type::F64)?;
        let first_four = |r: [R; 8]| [r[0], r[1], r[2], r[3]];
        let (last, mut c) = (rights - 1, first_four(c));
        let mut part = |k: usize, d| {
            let left = &a[k * lefts / rights..];
            let part = MatrixProduct64 {
                rows: rows as u8,
                depth: if k == 0 { depth as u8 } else { 0 },
                d,
                a: [left[0], left[1]],
                b: b[k],
                c,
            };
            c = d;
            Op::MatrixProduct64(part)
        };
        for k in 0..last {
            let sums = [(); 4].map(|()| self.scratch(true));
            self.emit_before(part(k, sums));
        }
        Some(part(last, first_four(d)))
    }

    /// `mma.m8n8k4` of f16: emits its first half.
    fn quad_pair_products(
        &mut self,
        layouts: [&str; 2],
        [d, c]: [&str; 2],
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let (d_type, c_type) = match (d, c) {
            ("f16", "f16") => (Sums::F16, Sums::F16),
            ("f32", "f16") => (Sums::F32, Sums::F16),
            ("f32", "f32") => (Sums::F32, Sums::F32),
            _ => return None,
        };
        let layout = |name| match name {
            "row" => Some(Layout::Row),
            "col" => Some(Layout::Column),
            _ => None,
        };
        let [a_layout, b_layout] = [layout(layouts[0])?, layout(layouts[1])?];
        let [c_count, d_count] = [c_type, d_type].map(Sums::registers_of_quad_pairs);
        let c_ty = match c_type {
            Sums::F16 => Type::U32,
            _ => Type::F32,
        };
        let ([mut d, mut c], [mut a, mut b]) = ([[R(0); 8]; 2], [[R(0); 2]; 2]);
        self.target_vector(&mut d[..2 * d_count], operands.get(0)?, false)?;
        self.source_vector(&mut a, operands.get(1)?, Type::U32)?;
        self.source_vector(&mut b, operands.get(2)?, Type::U32)?;
        self.source_vector(&mut c[..2 * c_count], operands.get(3)?, c_ty)?;
        let part = |columns, d: &[R], c: &[R]| QuadPairProducts {
            a_layout,
            b_layout,
            c_type,
            d_type,
            columns,
            d: [d[0], d[1], d[2], d[3]],
            a,
            b,
            c: [c[0], c[1], c[2], c[3]],
        };
        let first = part(Columns::Low, &d, &c);
        let mut second = part(Columns::High, &d[d_count..], &c[c_count..]);
        // What the first part writes, the second must not read.
        for r in second
            .a
            .iter_mut()
            .chain(&mut second.b)
            .chain(&mut second.c[..c_count])
        {
            if first.d[..d_count].contains(r) {
                let copy = self.scratch(false);
                self.emit_before(Op::Move {
                    wide: false,
                    d: copy,
                    a: *r,
                });
                *r = copy;
            }
        }
        self.emit_before(Op::QuadPairProducts(first));
        Some(Op::QuadPairProducts(second))
    }

    /// Reads a vector of as many results as `r` has.
    pub(super) fn target_vector(
        &mut self,
        r: &mut [R],
        operand: &Operand<'a>,
        wide: bool,
    ) -> Option<()> {
        let items = vector(operand, r.len())?;
        for (r, item) in r.iter_mut().zip(items) {
            *r = self.target(item, wide)?;
        }
        Some(())
    }

    /// Reads a vector of as many values as `r` has.
    pub(super) fn source_vector(
        &mut self,
        r: &mut [R],
        operand: &Operand<'a>,
        ty: Type,
    ) -> Option<()> {
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
        let address = self.shared_address(mods, operands.get(at)?)?;
        let access = Access {
            row: true,
            ..Access::vector(Type::U32, 4, Order::Weak)
        };
        let mut matrices = MatrixRows {
            access,
            address,
            count,
            transposed,
            r: [R(0); 4],
        };
        let registers = &mut matrices.r[..usize::from(count)];
        let operand = operands.get(fragments)?;
        Some(match base {
            "ldmatrix" => {
                self.target_vector(registers, operand, false)?;
                Op::MatrixLoad(matrices)
            }
            _ => {
                self.source_vector(registers, operand, Type::U32)?;
                Op::MatrixStore(matrices)
            }
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
        _ => Factors::bytes(float8(a)?, float8(b)?),
    };
    let (sums, ty) = match (factors, d, c) {
        (Factors::Int8 { .. }, "s32", "s32") => (Sums::S32 { saturate }, Type::S32),
        (Factors::Int8 { .. }, ..) => return None,
        _ if saturate => return None,
        (Factors::F16 | Factors::E4m3 { .. } | Factors::E5m2 { .. }, "f16", "f16") => {
            (Sums::F16, Type::U32)
        }
        (_, "f32", "f32") => (Sums::F32, Type::F32),
        _ => return None,
    };
    Some((factors, sums, ty))
}

fn float8(name: &str) -> Option<ByteType> {
    match name {
        "e4m3" => Some(ByteType::E4m3),
        "e5m2" => Some(ByteType::E5m2),
        _ => None,
    }
}

/// The items of a vector of `count`; a vector of one is its item.
fn vector<'o, 'a>(operand: &'o Operand<'a>, count: usize) -> Option<&'o [Operand<'a>]> {
    let items = items(operand);
    (items.len() == count).then_some(items)
}
