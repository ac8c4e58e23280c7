//! WMMA: `wmma.load`, `wmma.store`, `wmma.mma`.
//!
//! PTX says nothing of the fragments of these instructions. Here they are those of `mma`, as far as
//! is known of GPUs from compute 8.0 on: an instruction becomes the address arithmetic, the loads
//! or stores of each register, or the products of 16 × 8 that it is made of. `m8n32k16` is
//! `m32n8k16` of the transposed matrices. Registers of `.f16` fragments that have nothing of their
//! own to hold are copies of the first ones.

use super::matrix::types;
use super::operands::{Mods, Operands, given, unpacked};
use crate::program::lower::Lowering;
use crate::program::op::{
    Access, Address, Conversion, Factors, FloatMode, IntBinary, IntTernary, MatrixProduct,
    MatrixProduct64, MatrixStart, NarrowType, Narrowing, Op, Order, ProductShape, R, Rounding,
    Special, Type, Use,
};

/// Elements of a fragment that lie side by side in a line: a row of A or C, or a column of B. Lane
/// 4g + t has the elements from `along` + count · t on of line `across` + g.
struct Unit {
    across: u32,
    along: u32,
    /// First of its registers.
    register: usize,
}

/// A fragment.
struct Fragment {
    /// Type of an element in memory.
    ty: Type,
    /// Type of a register.
    held: Type,
    /// Elements of a unit.
    count: u32,
    /// Registers of a unit.
    registers: usize,
    units: Vec<Unit>,
    /// Lines are rows of the matrix; otherwise columns.
    by_rows: bool,
    /// Registers of the instruction: those of the units, and copies of them.
    listed: usize,
}

/// Rows, columns and depth.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    m: u32,
    n: u32,
    k: u32,
}

impl Shape {
    fn named(name: &str) -> Option<Shape> {
        let (m, n, k) = match name {
            "m16n16k16" => (16, 16, 16),
            "m32n8k16" => (32, 8, 16),
            "m8n32k16" => (8, 32, 16),
            "m16n16k8" => (16, 16, 8),
            "m8n8k4" => (8, 8, 4),
            _ => return None,
        };
        Some(Shape { m, n, k })
    }

    /// True if it is computed as a product of transposed matrices.
    fn is_swapped(self) -> bool {
        self.n == 32
    }
}

/// Type of an element of A or B in memory, of a register, and the elements in a register.
fn element(name: &str, shape: Shape) -> Option<(Type, Type, u32)> {
    let (k, ty, held, count) = match name {
        "f16" | "bf16" => (16, Type::U16, Type::U32, 2),
        "tf32" => (8, Type::U32, Type::U32, 1),
        "f64" => (4, Type::F64, Type::F64, 1),
        "s8" | "u8" => (16, Type::U8, Type::U32, 4),
        _ => return None,
    };
    (shape.k == k).then_some((ty, held, count))
}

impl Fragment {
    /// A or B: its role, `a` or `b`.
    fn factor(role: &str, ty: &str, shape: Shape) -> Option<Fragment> {
        let (element, held, count) = element(ty, shape)?;
        let words = shape.k / (4 * count);
        let is_left = (role == "a") != shape.is_swapped();
        let lines = if role == "a" { shape.m } else { shape.n };
        let own = lines / 8 * words;
        let units = (0..own).map(|i| {
            // A has 16 rows in each block of registers, B 8 columns.
            let (across, word) = match is_left {
                true => (16 * (i / (2 * words)) + 8 * (i % 2), i / 2 % words),
                false => (8 * (i / words), i % words),
            };
            Unit {
                across,
                along: 4 * count * word,
                register: i as usize,
            }
        });
        Some(Fragment {
            ty: element,
            held,
            count,
            registers: 1,
            units: units.collect(),
            by_rows: role == "a",
            listed: if ty == "f16" { 8 } else { own as usize },
        })
    }

    /// C or D.
    fn sums(ty: &str, shape: Shape) -> Option<Fragment> {
        let (element, held, registers) = match ty {
            "f16" => (Type::U16, Type::U32, 1),
            "f32" => (Type::U32, Type::F32, 2),
            "s32" => (Type::U32, Type::S32, 2),
            "f64" => (Type::F64, Type::F64, 2),
            _ => return None,
        };
        if (ty == "f64") != (shape.k == 4) {
            return None;
        }
        // Two blocks of 16 × 8, side by side or one below the other; of `m8n32k16`, of the
        // transposed matrix. Of f64, one of 8 × 8.
        let side_by_side = shape.n == 16;
        let own = shape.m * shape.n / 64;
        let units = (0..own).map(|i| {
            let (block, half) = (i / 2, i % 2);
            let (across, along) = match side_by_side {
                true => (8 * half, 8 * block),
                false => (16 * block + 8 * half, 0),
            };
            Unit {
                across,
                along,
                register: i as usize * registers,
            }
        });
        Some(Fragment {
            ty: element,
            held,
            count: 2,
            registers,
            units: units.collect(),
            by_rows: !shape.is_swapped(),
            listed: own as usize * registers,
        })
    }
}

impl<'a> Lowering<'a> {
    pub(super) fn wmma(&mut self, mods: &mut Mods<'a>, operands: Operands<'_, 'a>) -> Option<Op> {
        match *mods.parts.first()? {
            "load" | "store" => self.matrix_move(mods, operands),
            "mma" => self.wmma_product(mods, operands),
            _ => None,
        }
    }

    fn matrix_move(&mut self, mods: &mut Mods<'a>, operands: Operands<'_, 'a>) -> Option<Op> {
        let (loads, role) = match *mods.parts.as_slice() {
            ["load", role @ ("a" | "b" | "c"), "sync", "aligned", ..] => (true, role),
            ["store", "d", "sync", "aligned", ..] => (false, "d"),
            _ => return None,
        };
        mods.parts.drain(..4);
        let by_rows = mods.pick([("row", true), ("col", false)])?;
        let shape = mods.choose(Shape::named)?;
        let ty = mods.parts.pop()?;
        let fragment = match role {
            "a" | "b" => Fragment::factor(role, ty, shape)?,
            _ => Fragment::sums(ty, shape)?,
        };
        let (at, list) = if loads { (1, 0) } else { (0, 1) };
        let address = self.address(mods, operands.get(at)?)?;
        if !mods.parts.is_empty() {
            return None;
        }
        let mut registers = vec![R(0); fragment.listed];
        let list = operands.get(list)?;
        match loads {
            true => self.target_vector(&mut registers, list, fragment.held.is_wide())?,
            false => self.source_vector(&mut registers, list, fragment.held)?,
        }
        let stride = match operands.count() {
            3 => Some(operands.get(2)?),
            _ => None,
        };
        let stride = given(stride, |operand| self.source(operand, Type::U32))?;
        let packed = match (role, by_rows) {
            ("a", true) | ("b", false) => shape.k,
            ("a", false) | (_, false) => shape.m,
            _ => shape.n,
        };
        let stride = stride.unwrap_or_else(|| self.number(packed));

        self.emit_before(Op::MatrixStart(MatrixStart {
            address,
            stride,
            element: fragment.ty.bytes() as u8,
            fragment: (fragment.listed as u32 * fragment.held.bytes()) as u8,
            write: !loads,
        }));
        let in_lines = by_rows == fragment.by_rows;
        let places = self.places(&fragment, &address, stride, in_lines)?;
        let mut ops = Vec::new();
        for (unit, places) in fragment.units.iter().zip(places) {
            let held = &registers[unit.register..][..fragment.registers];
            match loads {
                true => self.load_unit(&fragment, held, &places, &mut ops),
                false => self.store_unit(&fragment, held, &places, &mut ops),
            }
        }
        if loads {
            let own = fragment.units.len() * fragment.registers;
            for (i, &d) in registers.iter().enumerate().skip(own) {
                let a = registers[i % own];
                ops.push(Op::Move { wide: false, d, a });
            }
        }
        self.emit_all_but_last(ops)
    }

    /// The addresses of the elements of each unit: one if they lie side by side.
    fn places(
        &mut self,
        fragment: &Fragment,
        address: &Address,
        stride: R,
        in_lines: bool,
    ) -> Option<Vec<Vec<Address>>> {
        let bytes = fragment.ty.bytes();
        let lane = self.special(Special::LaneId);
        let [two, three, count] = [2, 3, fragment.count].map(|number| self.number(number));
        let [g, t, along, first] = [(); 4].map(|()| self.scratch(false));
        let (line, column) = if in_lines { (g, along) } else { (along, g) };
        for op in [
            binary(IntBinary::ShiftRight, g, lane, two),
            binary(IntBinary::And, t, lane, three),
            binary(IntBinary::MulLow, along, t, count),
            Op::IntTernary {
                op: IntTernary::MadLow,
                ty: Type::U32,
                d: first,
                a: line,
                b: stride,
                c: column,
            },
        ] {
            self.emit_before(op);
        }
        let start = self.advanced(address, first, bytes);
        let place = |unit: &Unit, i: u32| -> (u32, u32) {
            match in_lines {
                true => (unit.across, unit.along + i),
                false => (unit.along + i, unit.across),
            }
        };
        let elements = if in_lines { 1 } else { fragment.count };
        let mut places = Vec::new();
        for unit in &fragment.units {
            let mut of_unit = Vec::new();
            for i in 0..elements {
                let (lines, rest) = place(unit, i);
                let line = match lines {
                    0 => start,
                    _ => self.advanced(&start, stride, lines * bytes),
                };
                of_unit.push(line.plus(rest * bytes)?);
            }
            places.push(of_unit);
        }
        Some(places)
    }

    /// `address` plus `index` times `bytes`.
    pub(super) fn advanced(&mut self, address: &Address, index: R, bytes: u32) -> Address {
        let (d, b) = (self.scratch(address.wide), self.number(bytes));
        let (a, c) = (index, address.base);
        self.emit_before(match address.wide {
            true => Op::MadWide {
                ty: Type::U32,
                d,
                a,
                b,
                c,
            },
            false => Op::IntTernary {
                op: IntTernary::MadLow,
                ty: Type::U32,
                d,
                a,
                b,
                c,
            },
        });
        Address {
            base: d,
            ..*address
        }
    }

    /// Loads a unit into the registers `held`.
    fn load_unit(
        &mut self,
        fragment: &Fragment,
        held: &[R],
        places: &[Address],
        ops: &mut Vec<Op>,
    ) {
        let load = |address: Address, ty: Type, registers: &[R]| Op::Load {
            access: Access::vector(ty, registers.len(), Order::Weak),
            address,
            d: std::array::from_fn(|i| registers.get(i).copied()),
        };
        if let [address] = places {
            ops.push(load(*address, fragment.held, held));
        } else if fragment.registers > 1 {
            let each = places.iter().zip(held);
            ops.extend(each.map(|(address, r)| load(*address, fragment.ty, &[*r])));
        } else {
            let mut word = None;
            for (i, address) in places.iter().enumerate() {
                let (part, both) = (self.scratch(false), self.scratch(false));
                ops.push(load(*address, fragment.ty, &[part]));
                let shift = self.number(8 * fragment.ty.bytes() * i as u32);
                if let Some(low) = word {
                    ops.push(binary(IntBinary::ShiftLeft, part, part, shift));
                    ops.push(binary(IntBinary::Or, both, low, part));
                    word = Some(both);
                } else {
                    word = Some(part);
                }
            }
            let a = word.unwrap_or(held[0]);
            ops.push(Op::Move {
                wide: false,
                d: held[0],
                a,
            });
        }
    }

    /// Stores a unit of C or D from the registers `held`.
    fn store_unit(
        &mut self,
        fragment: &Fragment,
        held: &[R],
        places: &[Address],
        ops: &mut Vec<Op>,
    ) {
        let store = |address: Address, ty: Type, registers: &[R]| Op::Store {
            access: Access::vector(ty, registers.len(), Order::Weak),
            address,
            a: std::array::from_fn(|i| registers[i.min(registers.len() - 1)]),
        };
        if let [address] = places {
            ops.push(store(*address, fragment.held, held));
        } else if fragment.registers > 1 {
            let each = places.iter().zip(held);
            ops.extend(each.map(|(address, r)| store(*address, fragment.ty, &[*r])));
        } else {
            let (high, sixteen) = (self.scratch(false), self.number(16));
            ops.push(binary(IntBinary::ShiftRight, high, held[0], sixteen));
            let each = places.iter().zip([held[0], high]);
            ops.extend(each.map(|(address, r)| store(*address, fragment.ty, &[r])));
        }
    }

    fn wmma_product(&mut self, mods: &mut Mods<'a>, operands: Operands<'_, 'a>) -> Option<Op> {
        let saturate = mods.take("satfinite");
        let is_rounded = mods.take("rn");
        let (shape, [d_ty, a_ty, b_ty, c_ty]) = match *mods.parts.as_slice() {
            [
                "mma",
                "sync",
                "aligned",
                "row" | "col",
                "row" | "col",
                shape,
                d,
                c,
            ] => (shape, [d, "f16", "f16", c]),
            [
                "mma",
                "sync",
                "aligned",
                "row" | "col",
                "row" | "col",
                shape,
                d,
                a,
                b,
                c,
            ] if a != "f16" => (shape, [d, a, b, c]),
            _ => return None,
        };
        mods.parts.clear();
        let shape = Shape::named(shape)?;
        let fragments = [
            Fragment::sums(d_ty, shape)?,
            Fragment::factor("a", a_ty, shape)?,
            Fragment::factor("b", b_ty, shape)?,
            Fragment::sums(c_ty, shape)?,
        ];
        let mut lists = fragments
            .each_ref()
            .map(|fragment| vec![R(0); fragment.listed]);
        for (i, (list, fragment)) in lists.iter_mut().zip(&fragments).enumerate() {
            match i {
                0 => self.target_vector(list, operands.get(i)?, fragment.held.is_wide())?,
                _ => self.source_vector(list, operands.get(i)?, fragment.held)?,
            }
        }
        let [d, a, b, c] = lists;
        if let ["f64", "f64", "f64", "f64"] = [d_ty, a_ty, b_ty, c_ty] {
            return (!saturate).then(|| {
                Op::MatrixProduct64(MatrixProduct64 {
                    rows: 8,
                    depth: 4,
                    d: [d[0], d[1], d[0], d[1]],
                    a: [a[0]; 2],
                    b: b[0],
                    c: [c[0], c[1], c[0], c[1]],
                })
            });
        }
        // Sums of two types are added in f32.
        let sum = match (a_ty, d_ty, c_ty) {
            ("f16", "f16", "f32") | ("f16", "f32", "f16") if !is_rounded => "f32",
            _ if d_ty == c_ty && !is_rounded => d_ty,
            _ => return None,
        };
        let (factors, sums, _) = types(sum, a_ty, b_ty, sum, saturate)?;
        let c = match c_ty == sum {
            true => c,
            false => self.widened(&c),
        };
        let narrow = (d_ty != sum).then(|| d.clone());
        let d = match &narrow {
            Some(narrow) => (0..2 * narrow.len()).map(|_| self.scratch(false)).collect(),
            None => d,
        };
        // The transposed product has the factors in the other order.
        let (a, b, factors) = match (shape.is_swapped(), factors) {
            (true, Factors::Int8 { a_signed, b_signed }) => {
                let (a_signed, b_signed) = (b_signed, a_signed);
                (b, a, Factors::Int8 { a_signed, b_signed })
            }
            (true, factors) => (b, a, factors),
            (false, factors) => (a, b, factors),
        };
        let mut product = MatrixProduct {
            factors,
            sums,
            shape: match shape.k {
                8 => ProductShape::M16N8K8,
                _ => ProductShape::M16N8K16,
            },
            d: [R(0); 4],
            a: [R(0); 4],
            b: [R(0); 2],
            c: [R(0); 4],
        };
        let (words, count) = (product.words(), product.sum_registers());
        // Two blocks: of other columns if the matrices are 16 wide, otherwise of other rows.
        let mut blocks = (0..2).map(|block| {
            let (a_block, b_block) = if shape.n == 16 {
                (0, block)
            } else {
                (block, 0)
            };
            let part = |to: &mut [R], from: &[R], block: usize| {
                to.copy_from_slice(&from[block * to.len()..][..to.len()]);
            };
            part(&mut product.a[..2 * words], &a, a_block);
            part(&mut product.b[..words], &b, b_block);
            part(&mut product.c[..count], &c, block);
            part(&mut product.d[..count], &d, block);
            Op::MatrixProduct(product)
        });
        let (first, second) = (blocks.next()?, blocks.next()?);
        // A result of the first block must not be an operand of the second.
        let written = first.registers(Use::Write);
        let read = second.registers(Use::Read);
        if written.iter().any(|r| read.contains(r)) {
            return None;
        }
        self.emit_before(first);
        let Some(narrow) = narrow else {
            return Some(second);
        };
        self.emit_before(second);
        self.narrowed(&narrow, &d)
    }

    /// The halves of these registers, in f32.
    fn widened(&mut self, pairs: &[R]) -> Vec<R> {
        let mut wide = Vec::new();
        for &a in pairs {
            let [low, high] = [(); 2].map(|()| self.scratch(false));
            self.emit_before(unpacked([low, high], 16, a));
            for a in [low, high] {
                let d = self.scratch(false);
                self.emit_before(Op::Convert {
                    how: Conversion {
                        to: Type::F32,
                        from: Type::F16,
                        mode: FloatMode::PLAIN,
                        integral: false,
                    },
                    to_wide: false,
                    from_wide: false,
                    d,
                    a,
                });
                wide.push(d);
            }
        }
        wide
    }

    /// Rounds pairs of `wide` registers to halves of the registers `d`. Returns the last operation
    /// of it.
    fn narrowed(&mut self, d: &[R], wide: &[R]) -> Option<Op> {
        let pairs = d.iter().zip(wide.as_chunks::<2>().0);
        let ops = pairs.map(|(&d, &[low, high])| Op::ConvertPair {
            how: TO_F16,
            d,
            a: high,
            b: low,
        });
        self.emit_all_but_last(ops.collect())
    }

    /// Returns the last operation, which the caller emits.
    fn emit_all_but_last(&mut self, mut ops: Vec<Op>) -> Option<Op> {
        let last = ops.pop()?;
        ops.into_iter().for_each(|op| self.emit_before(op));
        Some(last)
    }
}

const TO_F16: Narrowing = Narrowing {
    to: NarrowType::F16,
    rounding: Rounding::Nearest,
    ties_away: false,
    relu: false,
    finite: false,
};

/// An operation on 32-bit integers.
fn binary(op: IntBinary, d: R, a: R, b: R) -> Op {
    Op::IntBinary {
        op,
        ty: Type::U32,
        d,
        a,
        b,
    }
}
