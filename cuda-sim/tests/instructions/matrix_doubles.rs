//! Products of matrices of f64, `mma`, against a chain of fused multiply-adds.

use cuda_sim::Class;

use super::fragments::Mma;
use super::matrix::random;

/// Rows and columns of A.
const SHAPES: [(usize, usize); 4] = [(8, 4), (16, 4), (16, 8), (16, 16)];

/// `.rn` is the default.
fn opcode(rows: usize, depth: usize) -> String {
    let rounding = if depth == 8 { ".rn" } else { "" };
    format!("mma.sync.aligned.m{rows}n8k{depth}.row.col{rounding}.f64.f64.f64.f64")
}

fn mma(opcode: &str, rows: usize, depth: usize) -> Mma<'_> {
    Mma {
        opcode,
        target: if rows == 8 { 80 } else { 90 },
        bits: 64,
        registers: [rows / 4, rows * depth / 32, depth / 4, rows / 4],
        in_place: if depth == 16 {
            &["%a7", "%b3", "%c0", "%a0"]
        } else {
            &[]
        },
    }
}

/// Row and column of a lane's element `i` of A, of B, and of C and D: the formulas of the PTX
/// manual.
fn place_in_a(lane: usize, i: usize, depth: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let column = match depth {
        4 => thread,
        8 if i < 2 => thread,
        8 => thread + 4,
        _ if i.is_multiple_of(2) => i * 2 + thread,
        _ => i * 2 - 2 + thread,
    };
    (group + 8 * (i % 2), column)
}

fn place_in_b(lane: usize, i: usize) -> (usize, usize) {
    (i * 4 + lane % 4, lane >> 2)
}

fn place_in_c(lane: usize, i: usize) -> (usize, usize) {
    let group = lane >> 2;
    (
        if i < 2 { group } else { group + 8 },
        lane % 4 * 2 + (i & 1),
    )
}

#[test]
fn products_of_f64_are_a_chain_of_fused_multiply_adds() {
    let mut bits = random(3);
    let special = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::MAX,
        -f64::MIN_POSITIVE / 8.0,
    ];
    for (rows, depth) in SHAPES {
        let opcode = opcode(rows, depth);
        let mma = mma(&opcode, rows, depth);
        for round in 0..16 {
            // Sums of values of many sizes depend on the order.
            let mut value = || match bits() {
                // A NaN in each sum would hide the others.
                x if round % 4 == 0 && x.is_multiple_of(64) => {
                    special[(x >> 8) as usize % special.len()]
                }
                x => (f64::from(x) - 2e9) * 2f64.powi((bits() % 80) as i32 - 40),
            };
            let mut matrix =
                |elements: usize| -> Vec<f64> { (0..elements).map(|_| value()).collect() };
            let (a, b, c) = (matrix(rows * depth), matrix(depth * 8), matrix(rows * 8));
            let lanes = |count: usize, value: &dyn Fn(usize, usize) -> f64| -> Vec<Vec<u64>> {
                let lane = |lane| (0..count).map(|i| value(lane, i).to_bits()).collect();
                (0..32).map(lane).collect()
            };
            let [sums, left, right, _] = mma.registers;
            let a_lanes = lanes(left, &|lane, i| {
                let (row, column) = place_in_a(lane, i, depth);
                a[row * depth + column]
            });
            let b_lanes = lanes(right, &|lane, i| {
                let (row, column) = place_in_b(lane, i);
                b[row * 8 + column]
            });
            let c_lanes = lanes(sums, &|lane, i| {
                let (row, column) = place_in_c(lane, i);
                c[row * 8 + column]
            });
            let d = mma.run([&a_lanes, &b_lanes, &c_lanes]);
            for (lane, d) in d.iter().enumerate() {
                for (i, &got) in d.iter().enumerate() {
                    let (row, column) = place_in_c(lane, i);
                    let add =
                        |sum: f64, k: usize| a[row * depth + k].mul_add(b[k * 8 + column], sum);
                    let wanted = (0..depth).fold(c[row * 8 + column], add);
                    let wanted = match wanted.is_nan() {
                        true => 0x7ff8_0000_0000_0000,
                        false => wanted.to_bits(),
                    };
                    assert_eq!(got, wanted, "{opcode}: row {row}, column {column}");
                }
            }
        }
    }
}

#[test]
fn counters_of_products_of_f64() {
    for (rows, depth) in SHAPES {
        let opcode = opcode(rows, depth);
        let mma = mma(&opcode, rows, depth);
        let zeros = mma.registers.map(|count| vec![vec![0; count]; 64]);
        let [_, a, b, c] = &zeros;
        let (_, launches) = cuda_sim::profile(|| mma.run([a, b, c]));
        let total = launches[0].total;
        assert_eq!(total.of(Class::Tensor), 2);
        let operations = 2 * 2 * (rows * 8 * depth) as u64;
        assert_eq!(
            (total.flops_tensor, total.flops_tensor_f64),
            (operations, operations),
            "{opcode}"
        );
    }
}
