//! Floating-point operations that instructions count as.

use super::rig::*;

#[test]
fn operations_on_16_bit_floats_count_as_such() {
    for (body, operations) in [
        ("add.f16 %h1, %h2, %h3;\n", 1),
        ("mul.bf16x2 %r1, %r2, %r3;\n", 2),
        ("fma.rn.f16 %h1, %h2, %h3, %h1;\n", 2),
        ("fma.rn.bf16x2 %r1, %r2, %r3, %r1;\n", 4),
        ("ex2.approx.f16x2 %r1, %r2;\n", 2),
        ("neg.f16 %h1, %h2;\n", 0),
    ] {
        let set = "mov.u16 %h1, 0;\nmov.u16 %h2, 0;\nmov.u16 %h3, 0;\n\
                   mov.u32 %r1, 0;\nmov.u32 %r2, 0;\nmov.u32 %r3, 0;\n";
        let body = format!("{set}{body}mov.u32 {{d}}, 0;");
        let (_, launches) = cuda_sim::profile(|| run(&body, U32, &[], &[]));
        let total = launches[0].total;
        assert_eq!(total.flops_half, 32 * operations, "{body}");
        assert_eq!(total.flops(), total.flops_half, "{body}");
    }
    let (_, launches) =
        cuda_sim::profile(|| run("mov.u32 {d}, 0;\nadd.f32 {d}, {d}, {d};", U32, &[], &[]));
    let total = launches[0].total;
    assert_eq!(
        (total.flops_half, total.flops_f32, total.flops()),
        (0, 32, 32)
    );
}
