//! Matrices between shared memory and registers: `ldmatrix`, `stmatrix` and `movmatrix` against
//! their layout.

use super::rig::*;

/// Four matrices of 8 rows with 8 elements each, whose value is 8 · row + column, of all 32 rows.
/// `order` is the row whose address a lane has; the fragments of lane l.
fn matrices(which: &str, count: usize, order: impl Fn(u64) -> u64) -> Vec<Vec<u64>> {
    let module = ".shared .align 16 .b8 tile[512];\n";
    let names = ["%r10", "%r11", "%r12", "%r13"];
    (0..count)
        .map(|matrix| {
            let body = format!(
                "mov.u32 %r5, tile;\nmov.u32 %r6, %tid.x;\nmad.lo.u32 %r7, %r6, 16, %r5;\n\
                 mul.lo.u32 %r8, %r6, 524296;\nadd.u32 %r8, %r8, 65536;\n\
                 st.shared.u32 [%r7], %r8;\nadd.u32 %r8, %r8, 131074;\nst.shared.u32 [%r7+4], %r8;\n\
                 add.u32 %r8, %r8, 131074;\nst.shared.u32 [%r7+8], %r8;\nadd.u32 %r8, %r8, 131074;\n\
                 st.shared.u32 [%r7+12], %r8;\nbar.sync 0;\n\
                 mad.lo.u32 %r7, {{a}}, 16, %r5;\n\
                 ldmatrix.sync.aligned.m8n8.{which}.shared.b16 {{{}}}, [%r7];\nmov.u32 {{d}}, {};",
                names[..count].join(", "),
                names[matrix]
            );
            // Lanes that name no row have an address far away.
            let row = |lane: u64| if lane < 8 * count as u64 { order(lane) } else { 1 << 24 };
            run_in(module, &body, U32, &[U32], &[(0..32).map(row).collect()])
        })
        .collect()
}

#[test]
fn rows_and_columns_of_loaded_matrices() {
    let order = |lane: u64| (lane * 5 + 3) % 32;
    for (name, count) in [("x1", 1), ("x2", 2), ("x4", 4)] {
        for transposed in [false, true] {
            let which = format!("{name}{}", if transposed { ".trans" } else { "" });
            for (matrix, fragment) in matrices(&which, count, order).iter().enumerate() {
                for (lane, &got) in fragment.iter().enumerate() {
                    let element = |row, column| 8 * order(8 * matrix as u64 + row) + column;
                    let wanted = pair(lane as u64, transposed, element);
                    assert_eq!(got, wanted, "{which}, matrix {matrix}, lane {lane}");
                }
            }
        }
    }
}

/// Elements of a fragment: lane 4g + t has elements 2t and 2t + 1 of row g, or, transposed, of
/// column g.
fn pair(lane: u64, transposed: bool, element: impl Fn(u64, u64) -> u64) -> u64 {
    let (g, t) = (lane / 4, lane % 4);
    match transposed {
        false => element(g, 2 * t) | element(g, 2 * t + 1) << 16,
        true => element(2 * t, g) | element(2 * t + 1, g) << 16,
    }
}

/// Stores `count` matrices whose elements are 256 · matrix + 8 · row + column at the rows that
/// `order` names, and returns word `word` of each of the 32 rows of shared memory; rows that nobody
/// stored are all ones.
fn stored(which: &str, count: u64, word: u64, order: impl Fn(u64) -> u64) -> Vec<u64> {
    let module = ".shared .align 16 .b8 tile[512];\n";
    let transposed = which.contains("trans");
    let element = |matrix: u64| move |row: u64, column: u64| 256 * matrix + 8 * row + column;
    // Fragments of two matrices in each operand.
    let fragments = |first: u64| -> Vec<u64> {
        let element_pair = |lane: u64, matrix: u64| pair(lane, transposed, element(matrix));
        (0..32)
            .map(|lane| element_pair(lane, first) | element_pair(lane, first + 1) << 32)
            .collect()
    };
    let names = ["%r10", "%r11", "%r12", "%r13"][..count as usize].join(", ");
    let body = format!(
        "mov.u32 %r5, tile;\nmov.u32 %r6, %tid.x;\nmad.lo.u32 %r7, %r6, 16, %r5;\nmov.u32 %r8, -1;\n\
         st.shared.v4.u32 [%r7], {{%r8, %r8, %r8, %r8}};\nbar.sync 0;\n\
         mov.b64 {{%r10, %r11}}, {{b}};\nmov.b64 {{%r12, %r13}}, {{c}};\n\
         mad.lo.u32 %r9, {{a}}, 16, %r5;\n\
         stmatrix.sync.aligned.m8n8.{which}.shared.b16 [%r9], {{{names}}};\nbar.sync 0;\n\
         ld.shared.u32 {{d}}, [%r7+{}];",
        4 * word
    );
    // Lanes that name no row have an address far away.
    let rows = (0..32).map(|lane| {
        if lane < 8 * count {
            order(lane)
        } else {
            1 << 24
        }
    });
    run_in(
        module,
        &body,
        U32,
        &[U32, U64, U64],
        &[rows.collect(), fragments(0), fragments(2)],
    )
}

#[test]
fn rows_and_columns_of_stored_matrices() {
    let order = |lane: u64| (lane * 5 + 3) % 32;
    for (name, count) in [("x1", 1), ("x2", 2), ("x4", 4)] {
        for suffix in ["", ".trans"] {
            let which = format!("{name}{suffix}");
            for word in 0..4 {
                let got = stored(&which, count, word, order);
                let mut wanted = vec![u64::from(u32::MAX); 32];
                for row in 0..8 * count {
                    let element = |column| 256 * (row / 8) + 8 * (row % 8) + column;
                    wanted[order(row) as usize] = element(2 * word) | element(2 * word + 1) << 16;
                }
                assert_eq!(got, wanted, "{which}, word {word}");
            }
        }
    }
}

#[test]
fn a_moved_matrix_is_transposed() {
    let fragment = |transposed| -> Vec<u64> {
        (0..32)
            .map(|lane| pair(lane, transposed, |row, column| 300 * row + column))
            .collect()
    };
    let body = "movmatrix.sync.aligned.m8n8.trans.b16 {d}, {a};";
    assert_eq!(run(body, U32, &[U32], &[fragment(false)]), fragment(true));
    assert_eq!(run(body, U32, &[U32], &[fragment(true)]), fragment(false));
}

#[test]
fn counters_of_loaded_and_stored_matrices() {
    // Rows side by side: eight of them a wavefront.
    let (_, launches) = cuda_sim::profile(|| matrices("x4", 4, |lane| lane));
    let loads = launches[0].total.shared_loads;
    assert_eq!((loads.requests, loads.wavefronts, loads.ideal), (1, 4, 4));
    assert_eq!(loads.bytes, 512);
    // Every second row: rows 0, 8, … of a matrix lie in the same banks.
    let (_, launches) = cuda_sim::profile(|| matrices("x2", 2, |lane| 2 * lane));
    let loads = launches[0].total.shared_loads;
    assert_eq!((loads.requests, loads.wavefronts, loads.ideal), (1, 4, 2));
    // The same for stores, behind one that clears the rows.
    let counted = |count, order: fn(u64) -> u64| {
        let which = format!("x{count}");
        let (_, launches) = cuda_sim::profile(|| stored(&which, count, 0, order));
        let stores = launches[0].total.shared_stores;
        (
            stores.requests,
            stores.wavefronts,
            stores.ideal,
            stores.bytes,
        )
    };
    assert_eq!(counted(4, |lane| lane), (2, 4 + 4, 4 + 4, 512 + 512));
    assert_eq!(counted(2, |lane| 2 * lane), (2, 4 + 4, 4 + 2, 512 + 256));
}
