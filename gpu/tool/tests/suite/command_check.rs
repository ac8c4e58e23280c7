//! `gpu check`, as a user runs it.

use std::{env, fs};

use crate::common::{DOUBLE, folder, gpu, root, run, words, write};

const VECTOR_ADD: &str = "check gpu/kernels/vector_add.cu --grid 2 --block 256 \
     --arg f32[300]=iota --arg f32[300]=ones --arg f32[300]=uninit";

#[test]
fn without_expected_results_no_verdict_on_them_is_given() {
    // `check` runs on the simulator, whatever the environment asks for.
    let clean = run(
        root(),
        &words(&format!("{VECTOR_ADD} --arg i32=300")),
        &[("GPU", "cuda")],
    );
    clean.succeeds();
    let lines: Vec<&str> = clean.text.lines().collect();
    assert_eq!(
        lines[0],
        "no fault found; results not checked: vector_add of gpu/kernels/vector_add.cu, grid (2, 1, 1), block (256, 1, 1), \
         under 4 schedules"
    );
    assert!(
        lines.len() == 3
            && lines[1].starts_with("checked: bounds, ")
            && lines[2].starts_with("not checked: results; `// expect N"),
        "{}",
        clean.text
    );
}

#[test]
fn expected_results_are_judged() {
    let folder = folder("command_check_expected");
    write(&folder, "twice.ptx", DOUBLE);
    let clean = gpu(&folder, "check twice.ptx");
    assert!(
        clean.success
            && clean.text.starts_with("clean: twice of twice.ptx, ")
            && clean.text.trim_end().ends_with("endless loops, results"),
        "{}",
        clean.text
    );
    // The wrong sum that the other schedules give too.
    write(
        &folder,
        "twice.ptx",
        DOUBLE.replace("8 10 12 14", "8 10 12 15"),
    );
    let wrong = gpu(&folder, "check twice.ptx");
    assert!(!wrong.success);
    assert_eq!(
        wrong.text,
        "wrong result: twice of twice.ptx, grid (2, 1, 1), block (4, 1, 1), in launch order\n\
         argument 0: element 7 is 14 (0x41600000), expected 15 (0x41700000); 1 of 8 elements differ\n"
    );
    // An instance of no expectation at all.
    write(
        &folder,
        "twice.ptx",
        DOUBLE.replace("// expect 0:", "// expect 1:"),
    );
    let none = gpu(&folder, "check twice.ptx --arg f32[8]=iota");
    none.fails().says("argument 1: it is no buffer");
}

#[test]
fn a_fault_comes_before_a_wrong_result() {
    let folder = folder("command_check_fault_first");
    write(
        &folder,
        "twice.ptx",
        DOUBLE.replace("f32[8]=iota", "f32[7]=iota"),
    );
    let fault = gpu(&folder, "check twice.ptx");
    fault
        .fails()
        .says("\n\nout-of-bounds load")
        .omits("wrong result");
}

/// Both warps exchange the same four bytes for their number, and nothing orders them.
const LAST: &str = "// launch: grid=1 block=64\n// args: u32[1]=zeros\n\
    .version 8.4\n.target sm_75\n.address_size 64\n.visible .entry last(.param .u64 p)\n{\n\
    .reg .b32 %r<3>;\n.reg .b64 %d<2>;\nld.param.u64 %d1, [p];\nmov.u32 %r1, %tid.x;\n\
    shr.u32 %r2, %r1, 5;\natom.global.exch.b32 %r1, [%d1], %r2;\nret;\n}\n";

#[test]
fn the_first_schedule_is_launch_order() {
    let folder = folder("command_check_order");
    write(&folder, "last.ptx", format!("// expect 0: u32 1\n{LAST}"));
    // In launch order the second warp is the last.
    let one = gpu(&folder, "check last.ptx --seeds 1");
    one.succeeds().begins("clean: ");
    let more = gpu(&folder, "check last.ptx --seeds 16");
    more.fails().begins("wrong result: ").says(", under seed ");
    // A seed that the environment sets is not ignored.
    let seed = run(
        &folder,
        &words("check last.ptx --seeds 1 --arg u32[1]=uninit --block 2048"),
        &[("CUDA_SIM_SEED", "5")],
    );
    seed.says(", under CUDA_SIM_SEED=5\n");
}

/// A loop that does not end.
const ENDLESS: &str = "// launch: grid=64 block=256\n.version 8.4\n.target sm_75\n.address_size 64\n\
    .visible .entry endless()\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, 0;\nL:\nadd.u32 %r1, %r1, 1;\nbra L;\n}\n";

#[test]
fn an_endless_loop_is_found_by_its_instructions() {
    let folder = folder("command_check_endless");
    write(&folder, "endless.ptx", ENDLESS);
    let endless = gpu(&folder, "check endless.ptx");
    let text = "endless loop: one warp ran more than 4194304 instructions";
    endless.fails().says(text);
    endless.says("raise CUDA_SIM_BUDGET");
    let fewer = run(
        &folder,
        &words("check endless.ptx"),
        &[("CUDA_SIM_BUDGET", "1000")],
    );
    fewer.says("more than 1000 instructions");
}

#[test]
fn what_is_not_simulated_has_a_status_of_its_own() {
    let folder = folder("command_check_unknown");
    let kernel = ENDLESS.replace("bra L;", "vmad.u32.u32.u32 %r1, %r1, %r1, %r1;\nret;");
    write(&folder, "unknown.ptx", &kernel);
    let unknown = gpu(&folder, "check unknown.ptx");
    assert_eq!(unknown.status, Some(3), "{}", unknown.text);
    unknown.says("the simulator does not know the instruction vmad.u32.u32.u32");
}

#[test]
fn a_sum_of_lanes_in_step_is_remarked_on() {
    let folder = folder("command_check_remark");
    let step = |offset: u32| {
        format!(
            "ld.volatile.shared.u32 %r2, [%r1+{offset}];\nld.volatile.shared.u32 %r3, [%r1];\n\
             add.u32 %r3, %r3, %r2;\nst.volatile.shared.u32 [%r1], %r3;\n"
        )
    };
    let sum = |between: &str| {
        format!(
            "// launch: grid=1 block=32\n.version 8.4\n.target sm_75\n.address_size 64\n.visible .entry sum()\n{{\n\
             .reg .b32 %r<9>;\n.shared .align 4 .b8 s[256];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, s;\nshl.b32 %r0, %r0, 2;\n\
             add.u32 %r1, %r1, %r0;\nst.shared.u32 [%r1], %r0;\nst.shared.u32 [%r1+128], %r0;\nbar.warp.sync -1;\n\
             {}{between}{}ret;\n}}\n",
            step(128),
            step(64)
        )
    };
    write(&folder, "old.ptx", sum(""));
    let old = gpu(&folder, "check old.ptx");
    old.says("remark: sum: lanes of a warp pass values on through volatile shared memory");
    assert_eq!(old.status, Some(0), "{}", old.text);
    write(&folder, "new.ptx", sum("bar.warp.sync -1;\n"));
    let new = gpu(&folder, "check new.ptx");
    assert!(!new.text.contains("remark"), "{}", new.text);
}

#[test]
fn time_is_limited() {
    let folder = folder("command_check_timeout");
    write(&folder, "endless.ptx", ENDLESS);
    let limits = [
        ("CUDA_SIM_BUDGET", "1000000000000"),
        ("CUDA_SIM_LAUNCH_BUDGET", "1000000000000"),
    ];
    for command in ["check", "run", "profile"] {
        let ended = run(
            &folder,
            &words(&format!("{command} endless.ptx --timeout 0.5")),
            &limits,
        );
        assert_eq!(ended.status, Some(124), "{}", ended.text);
        // A GPU may still be starting.
        let when = if env::var_os("GPU").is_some() {
            ""
        } else {
            "running"
        };
        ended.says(&format!(
            "error: stopped after 0.5 s, the limit of --timeout, while {when}"
        ));
    }
    let wrong = gpu(&folder, "check endless.ptx --timeout 0");
    wrong.says("it is a number of seconds above 0");
}

/// A kernel that prints a line.
const PRINTS: &str = "// launch: grid=1 block=1\n.version 8.4\n.target sm_75\n.address_size 64\n\
    .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n\
    .global .align 1 .b8 text[7] = {104, 101, 108, 108, 111, 10, 0};\n\
    .visible .entry prints()\n{\n.reg .b32 %r<2>;\n.reg .b64 %d<4>;\nmov.u64 %d1, text;\ncvta.global.u64 %d2, %d1;\n\
    mov.u64 %d3, 0;\n{\n.param .b64 param0;\nst.param.b64 [param0+0], %d2;\n.param .b64 param1;\n\
    st.param.b64 [param1+0], %d3;\n.param .b32 retval0;\ncall.uni (retval0), vprintf, (param0, param1);\n\
    ld.param.b32 %r1, [retval0+0];\n}\nret;\n}\n";

#[test]
fn what_a_kernel_prints_does_not_stand_among_verdicts() {
    let folder = folder("command_check_prints");
    write(&folder, "prints.ptx", PRINTS);
    for (line, aside) in [
        ("check prints.ptx --seeds 1", true),
        ("profile prints.ptx --json -", true),
        ("run prints.ptx", false),
    ] {
        let ran = gpu(&folder, line);
        let output = ran.text.strip_suffix(&*ran.errors).unwrap();
        ran.succeeds();
        let printed = (output.contains("hello\n"), ran.errors == "hello\n");
        assert_eq!(printed, (!aside, aside), "{line}: {}", ran.text);
    }
}

#[test]
fn results_that_depend_on_the_schedule_are_not_called_clean() {
    let folder = folder("command_check_differs");
    write(&folder, "last.ptx", LAST);
    let check = gpu(&folder, "check last.ptx --seeds 16");
    let lines: Vec<&str> = check.text.lines().collect();
    assert!(
        check.success && lines.len() == 4 && !check.text.contains("clean"),
        "{}",
        check.text
    );
    assert_eq!(
        lines[0],
        "no fault, but the results differ: last of last.ptx, grid (1, 1, 1), block (64, 1, 1), under 16 schedules"
    );
    assert!(
        lines[1].starts_with("argument 0 is another under seed ")
            && lines[1].contains(
                " than in launch order, so it depends on the order of blocks and warps: it adds"
            ),
        "{}",
        check.text
    );
}

#[test]
fn a_fault_is_reported_with_its_source() {
    let fault = gpu(root(), &format!("{VECTOR_ADD} --arg i32=301 --seeds 1"));
    assert!(!fault.success);
    fault.begins("vector_add of gpu/kernels/vector_add.cu, grid (2, 1, 1), block (256, 1, 1), in launch order\n\n\
             out-of-bounds load of 4 bytes at 0x");
    fault.says("\n  block   (1, 0, 0), thread (44, 0, 0)");
    fault.ends("\ngpu/kernels/vector_add.cu:18\n    16 |                                       int n) {\n    17 |     int i = \
             blockIdx.x * BLOCK + threadIdx.x;\n>   18 |     if (i < n) c[i] = a[i] + b[i];\n    19 | }\n");
}

#[test]
fn a_launch_that_the_driver_refuses_is_reported() {
    let many = gpu(
        root(),
        &format!("{VECTOR_ADD} --arg i32=300 --block 2048").replacen("--block 256", "", 1),
    );
    many.fails()
        .says("launching kernel vector_add: the driver reports");
}

#[test]
fn ptx_without_lines_is_checked_too() {
    let folder = folder("command_check");
    write(&folder, "twice.ptx", DOUBLE);
    let clean = gpu(&folder, "check twice.ptx --seeds 2");
    clean.succeeds().says("under 2 schedules");
    let fault = gpu(&folder, "check twice.ptx --arg f32[7]=iota");
    fault.fails().says("the PTX has no line information");
    let none = gpu(&folder, "check twice.ptx --seeds 0");
    none.fails().says("invalid value '0' for '--seeds <N>'");
}

#[test]
fn both_sides_of_a_race_are_quoted() {
    let folder = folder("command_check_race");
    let source = folder.join("race.cu");
    fs::write(
        &source,
        "__shared__ unsigned s[64];\ns[t] = t;\n// no barrier\ns[t ^ 32] = t;\n",
    )
    .unwrap();
    let ptx = format!(
        "// launch: grid=1 block=64\n\
         .version 8.4\n.target sm_75\n.address_size 64\n.visible .entry race()\n{{\n\
         .shared .align 4 .b8 s[256];\n.reg .b32 %r<8>;\n\
         mov.u32 %r1, %tid.x;\nmov.u32 %r2, s;\nmad.lo.s32 %r3, %r1, 4, %r2;\n\
         xor.b32 %r4, %r1, 32;\nmad.lo.s32 %r5, %r4, 4, %r2;\n\
         .loc 1 2 1\nst.shared.u32 [%r3], %r1;\n.loc 1 4 1\nst.shared.u32 [%r5], %r1;\nret;\n}}\n\
         .file 1 \"{}\"\n",
        source.display()
    );
    write(&folder, "race.ptx", ptx);
    let race = gpu(&folder, "check race.ptx --seeds 1");
    race.fails().says("\n\nrace: ");
    for marked in [">    2 | s[t] = t;\n", ">    4 | s[t ^ 32] = t;\n"] {
        assert_eq!(race.text.matches(marked).count(), 1, "{}", race.text);
    }
}

#[test]
fn a_barrier_that_not_all_threads_take_is_quoted() {
    let file = "kernel-corpus/kernels/bug_shared_race_barrier_of_some.cu";
    let race = gpu(root(), &format!("check {file} --seeds 1"));
    race.fails()
        .says(&format!("come to the __syncthreads() at {file}:13"));
    let quoted = ">   13 |     if (t < 48) __syncthreads();  // MISSED\n";
    assert_eq!(race.text.matches(quoted).count(), 1, "{}", race.text);
}
