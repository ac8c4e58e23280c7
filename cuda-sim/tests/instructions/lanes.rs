//! Exchange between lanes, and barriers with counts and predicates.

use super::rig::*;

/// 96 threads: three whole warps, with values that differ by lane.
fn lanes(seed: u64) -> Vec<u64> {
    (0..96)
        .map(|i: u64| (i + 1).wrapping_mul(0x9e37_79b9 + 2 * seed) >> 3 & 0xffff_ffff)
        .collect()
}

#[test]
fn shuffles() {
    for (mode, name) in ["up", "down", "bfly", "idx"].iter().enumerate() {
        for width in [32u64, 16, 8, 2, 1] {
            let segment = 32 - width;
            for clamp in [if mode == 0 { 0 } else { 31 }, 20] {
                let (a, b) = (lanes(width), lanes(clamp + 7));
                let body = format!(
                    "shfl.sync.{name}.b32 %r4|%p4, {{a}}, {{b}}, {}, -1;\nselp.u32 %r5, 1, 0, %p4;\nmov.b64 {{d}}, {{%r4, %r5}};",
                    segment << 8 | clamp
                );
                let got = run(&body, U64, &[U32, U32], &[a.clone(), b.clone()]);
                for (i, got) in got.into_iter().enumerate() {
                    let (lane, by) = ((i % 32) as u64, b[i] & 31);
                    let first = lane & segment;
                    let last = first | clamp & (width - 1);
                    let (source, inside) = match mode {
                        0 => (
                            lane.wrapping_sub(by),
                            lane as i64 - by as i64 >= last as i64,
                        ),
                        1 => (lane + by, lane + by <= last),
                        2 => (lane ^ by, lane ^ by <= last),
                        _ => (first | by & (width - 1), first | by & (width - 1) <= last),
                    };
                    let from = if inside { source } else { lane } as usize;
                    let wanted = u64::from(inside) << 32 | a[i / 32 * 32 + from];
                    assert_eq!(got, wanted, "{body} in lane {lane} by {by}");
                }
            }
        }
    }
}

#[test]
fn shuffles_and_votes_without_a_mask_are_for_the_threads_that_run_them() {
    let a: Vec<u64> = (0..32).collect();
    let got = run(
        "shfl.bfly.b32 %r4, {a}, 3, 31;\nmov.b32 {d}, %r4;",
        U32,
        &[U32],
        std::slice::from_ref(&a),
    );
    assert_eq!(got, a.iter().map(|lane| lane ^ 3).collect::<Vec<_>>());
    let body = "mov.u32 {d}, 0;\nsetp.lt.u32 %p1, {a}, 7;\nsetp.ne.u32 %p2, {a}, 2;\n@%p1 vote.ballot.b32 {d}, %p2;";
    let wanted: Vec<u64> = (0..32)
        .map(|lane| if lane < 7 { 0b111_1011 } else { 0 })
        .collect();
    assert_eq!(run(body, U32, &[U32], &[a]), wanted);
}

type Reduction = fn(u32, u32) -> u32;

#[test]
fn votes_matches_and_reductions() {
    let a: Vec<u64> = lanes(1).into_iter().map(|x| x & 3).collect();
    let warp = |i: usize| &a[i / 32 * 32..i / 32 * 32 + 32];
    let bits = |warp: &[u64], f: &dyn Fn(u64) -> bool| {
        warp.iter()
            .enumerate()
            .fold(0u64, |all, (lane, &x)| all | u64::from(f(x)) << lane)
    };
    let each = |body: &str, d: Ty, wanted: &dyn Fn(usize) -> u64| {
        let got = run(body, d, &[U32], std::slice::from_ref(&a));
        for (i, got) in got.into_iter().enumerate() {
            assert_eq!(got, wanted(i), "{body} in thread {i}");
        }
    };
    let odd = "and.b32 %r4, {a}, 1;\nsetp.ne.u32 %p4, %r4, 0;\n";
    each(
        &format!("{odd}vote.sync.ballot.b32 {{d}}, %p4, -1;"),
        U32,
        &|i| bits(warp(i), &|x| x & 1 == 1),
    );
    each(
        &format!("{odd}vote.sync.ballot.b32 {{d}}, !%p4, -1;"),
        U32,
        &|i| bits(warp(i), &|x| x & 1 == 0),
    );
    each(
        &format!("{odd}vote.sync.any.pred {{d}}, %p4, -1;"),
        Pred,
        &|i| u64::from(warp(i).iter().any(|x| x & 1 == 1)),
    );
    each(
        "setp.lt.u32 %p4, {a}, 4;\nvote.sync.all.pred {d}, %p4, -1;",
        Pred,
        &|_| 1,
    );
    each(
        "setp.lt.u32 %p4, {a}, 3;\nvote.sync.all.pred {d}, %p4, -1;",
        Pred,
        &|i| u64::from(warp(i).iter().all(|&x| x < 3)),
    );
    each(
        &format!("{odd}vote.sync.uni.pred {{d}}, %p4, -1;"),
        Pred,
        &|i| u64::from(warp(i).iter().all(|x| x & 1 == warp(i)[0] & 1)),
    );
    each("match.any.sync.b32 {d}, {a}, -1;", U32, &|i| {
        bits(warp(i), &|x| x == a[i])
    });
    each(
        "cvt.u64.u32 %d4, {a};\nmatch.all.sync.b64 {d}|%p4, %d4, -1;",
        U32,
        &|i| {
            if warp(i).iter().all(|x| *x == a[i]) {
                u64::from(u32::MAX)
            } else {
                0
            }
        },
    );
    each(
        "mov.u32 %r4, 7;\nmatch.all.sync.b32 %r5|{d}, %r4, -1;",
        Pred,
        &|_| 1,
    );
    each("activemask.b32 {d};", U32, &|_| u64::from(u32::MAX));
    each("elect.sync {d}|%p4, -1;", U32, &|_| 0);
    // Groups of 16 lanes vote by themselves.
    let half = "mov.u32 %r6, %laneid;\nand.b32 %r6, %r6, 16;\nmov.u32 %r7, 0xffff;\nshl.b32 %r7, %r7, %r6;\n";
    each(
        &format!("{half}redux.sync.add.u32 {{d}}, {{a}}, %r7;"),
        U32,
        &|i| a[i / 16 * 16..i / 16 * 16 + 16].iter().sum(),
    );
    let reductions: [Named<Reduction>; 8] = [
        ("add.s32", u32::wrapping_add),
        ("min.u32", u32::min),
        ("max.u32", u32::max),
        ("min.s32", |x, y| (x as i32).min(y as i32) as u32),
        ("max.s32", |x, y| (x as i32).max(y as i32) as u32),
        ("and.b32", |x, y| x & y),
        ("or.b32", |x, y| x | y),
        ("xor.b32", |x, y| x ^ y),
    ];
    for (name, f) in reductions {
        let body = format!("neg.s32 %r4, {{a}};\nredux.sync.{name} {{d}}, %r4, -1;");
        each(&body, U32, &|i| {
            u64::from(
                warp(i)
                    .iter()
                    .map(|&x| (x as u32).wrapping_neg())
                    .reduce(f)
                    .unwrap(),
            )
        });
    }
}

#[test]
fn barriers() {
    let a: Vec<u64> = (0..96).collect();
    let each = |body: &str, d: Ty, wanted: &dyn Fn(u64) -> u64| {
        let got = run_in(
            ".shared .align 4 .b32 s[96];\n",
            body,
            d,
            &[U32],
            std::slice::from_ref(&a),
        );
        for (i, got) in got.into_iter().enumerate() {
            assert_eq!(got, wanted(i as u64), "{body} in thread {i}");
        }
    };
    let test = "setp.lt.u32 %p4, {a}, 40;\n";
    each(
        &format!("{test}bar.red.popc.u32 {{d}}, 0, %p4;"),
        U32,
        &|_| 40,
    );
    each(
        &format!("{test}barrier.cta.red.popc.aligned.u32 {{d}}, 3, 96, !%p4;"),
        U32,
        &|_| 56,
    );
    each(
        &format!("{test}bar.red.and.pred {{d}}, 0, %p4;"),
        Pred,
        &|_| 0,
    );
    each(
        &format!("{test}bar.red.or.pred {{d}}, 0, %p4;"),
        Pred,
        &|_| 1,
    );
    // Warps 1 and 2 write and arrive without waiting; warp 0 waits for all three, then reads.
    let slot = "mov.u32 %r4, s;\nshl.b32 %r5, {a}, 2;\nadd.u32 %r4, %r4, %r5;\n";
    each(
        &format!(
            "{slot}setp.lt.u32 %p5, {{a}}, 32;\nmov.u32 {{d}}, 0;\n@%p5 bra WAIT;\nst.shared.u32 [%r4], {{a}};\nbar.arrive 5, 96;\nbra DONE;\n\
             WAIT:\nbar.sync 5, 96;\nld.shared.u32 {{d}}, [%r4+128];\nDONE:"
        ),
        U32,
        &|i| if i < 32 { i + 32 } else { 0 },
    );
    // Two warps meet at a barrier that the third never sees.
    each(
        &format!(
            "{slot}setp.ge.u32 %p5, {{a}}, 64;\nmov.u32 {{d}}, 1;\n@%p5 bra DONE;\nst.shared.u32 [%r4], {{a}};\nbar.sync 2, 64;\n\
             xor.b32 %r6, %r5, 252;\nmov.u32 %r7, s;\nadd.u32 %r7, %r7, %r6;\nld.volatile.shared.u32 {{d}}, [%r7];\nDONE:"
        ),
        U32,
        &|i| if i < 64 { 63 - i } else { 1 },
    );
}
