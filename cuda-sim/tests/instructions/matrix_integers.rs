//! Products of matrices of 8-bit integers against exact sums.

use super::matrix::{BYTES, Form, Product, random};

/// The sum of a row times a column, and C.
fn exact(product: &Product, depth: usize, at: usize, signed: [bool; 2]) -> i64 {
    let value = |bits: u32, signed: bool| match signed {
        true => i64::from(bits as u8 as i8),
        false => i64::from(bits as u8),
    };
    let (row, column) = (at / 8, at % 8);
    let term = |k: usize| {
        let (a, b) = (product.a[row * depth + k], product.b[k * 8 + column]);
        value(a, signed[0]) * value(b, signed[1])
    };
    (0..depth).map(term).sum::<i64>() + i64::from(product.c[at] as i32)
}

#[test]
fn integer_products_are_exact_and_wrap_or_saturate() {
    for (shape, rows, depth) in [
        ("m8n8k16", 8, 16),
        ("m16n8k16", 16, 16),
        ("m16n8k32", 16, 32),
    ] {
        let form = Form {
            shape,
            rows,
            depth,
            ..BYTES
        };
        let mut bits = random(depth as u32);
        let mut byte = || match bits() {
            x if x % 4 == 0 => [0x80, 0xff, 0x7f, 0][(x >> 8) as usize % 4],
            x => x >> 24,
        };
        let mut more = random(5);
        let mut sum = || match more() {
            x if x % 3 == 0 => [i32::MAX, i32::MIN, i32::MAX - 40_000, i32::MIN + 40_000]
                [(x >> 8) as usize % 4] as u32,
            x => x,
        };
        let mut products: Vec<Product> =
            (0..8).map(|_| form.product(&mut byte, &mut sum)).collect();
        // The largest sums that there are.
        products.push(form.product(|| 0xff, || i32::MAX as u32));
        products.push(form.product(|| 0x80, || i32::MIN as u32));
        let types = [("s8", true), ("u8", false)];
        for (a, a_signed) in types {
            for (b, b_signed) in types {
                for saturate in [false, true] {
                    let clamp = if saturate { ".satfinite" } else { "" };
                    let modifiers = format!("{shape}.row.col{clamp}.s32.{a}.{b}.s32");
                    for (product, d) in products.iter().zip(form.run_as(&modifiers, &products)) {
                        for (at, &got) in d.iter().enumerate() {
                            let sum = exact(product, depth, at, [a_signed, b_signed]);
                            let wanted = match saturate {
                                true => sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
                                false => sum as i32,
                            };
                            assert_eq!(got as i32, wanted, "{modifiers}, element {at}");
                        }
                    }
                }
            }
        }
    }
}
