//! Calls that are not inlined by the compiler, on the kernels of `cuda-sim/kernels/calls.cu`,
//! against the host.

use std::sync::Arc;

use cuda_sim::{Fault, FaultKind};
use cudarc::driver::{
    CudaContext, CudaModule, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

const THREADS: u32 = 64;

struct Calls {
    stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
}

impl Calls {
    /// The kernels of the file: kernels that cannot run stand beside those that can.
    fn load() -> Calls {
        Calls::from_ptx(include_str!("../ptx/calls.ptx"))
    }

    /// The kernels of a text.
    fn from_ptx(ptx: &str) -> Calls {
        cuda_sim::install().unwrap();
        let context = CudaContext::new(0).unwrap();
        Calls {
            stream: context.default_stream(),
            module: context.load_module(Ptx::from_src(ptx)).unwrap(),
        }
    }

    /// Values that 64 threads write, or their fault. `argument` follows the output, if there is
    /// one.
    fn run<T: DeviceRepr>(
        &self,
        kernel: &str,
        argument: Option<T>,
    ) -> Result<Vec<i32>, Box<Fault>> {
        let function = self.module.load_function(kernel).unwrap();
        let mut out = self.stream.clone_htod(&[-1i32; THREADS as usize]).unwrap();
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&mut out);
        if let Some(argument) = &argument {
            launch.arg(argument);
        }
        let shape = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the arguments are the kernel's, which writes an element for each thread.
        match unsafe { launch.launch(shape) } {
            Ok(_) => Ok(self.stream.clone_dtoh(&out).unwrap()),
            Err(_) => Err(Box::new(cuda_sim::take_fault().expect("a fault"))),
        }
    }

    #[track_caller]
    fn check<T: DeviceRepr>(&self, kernel: &str, argument: Option<T>, wanted: impl Fn(i32) -> i32) {
        let got = self
            .run(kernel, argument)
            .unwrap_or_else(|fault| panic!("{fault}"));
        let wanted: Vec<i32> = (0..THREADS as i32).map(wanted).collect();
        assert_eq!(got, wanted, "{kernel}");
    }

    #[track_caller]
    fn fault<T: DeviceRepr>(&self, kernel: &str, argument: Option<T>) -> Fault {
        *self.run(kernel, argument).expect_err(kernel)
    }
}

const NOTHING: Option<i32> = None;

const OPERATIONS: [fn(i32, i32) -> i32; 3] = [|a, b| a + b, |a, b| a - b, |a, b| a * b];

#[test]
fn functions_by_pointers_and_tables() {
    let calls = Calls::load();
    calls.check("pointers", NOTHING, |t| {
        let constant = OPERATIONS[[2, 0][t as usize % 2]](t, 3);
        let chosen = if t < 7 { t - 1 } else { t + 1 };
        OPERATIONS[t as usize % 3](t, 5) + 1000 * constant + 100_000 * chosen + t * t
    });
    calls.check("higher_order", NOTHING, |t| {
        let f = OPERATIONS[t as usize / 4 % 3];
        f(f(t, 2), 3)
    });
}

#[test]
fn virtual_functions() {
    Calls::load().check("virtual_calls", NOTHING, |t| {
        2 * t * if t % 3 == 0 { t } else { 7 }
    });
}

#[test]
fn a_pointer_to_no_function_is_a_bad_call() {
    let calls = Calls::load();
    for pointer in [0u64, 1, u64::MAX] {
        let fault = calls.fault("no_function", Some(pointer));
        assert_eq!(fault.kind, FaultKind::BadCall { parameters: 2 }, "{fault}");
        assert_eq!(fault.thread, [3, 0, 0]);
    }
}

fn descend(n: i32, seed: i32) -> i32 {
    match n {
        0 => seed,
        _ => descend(n - 1, seed + 1) + seed * n + (n & 3),
    }
}

fn fibonacci(n: i32) -> i32 {
    if n < 2 {
        n
    } else {
        fibonacci(n - 1) + fibonacci(n - 2)
    }
}

fn apply(n: i32, kind: i32) -> i32 {
    match n & 1 {
        0 if n <= 0 => kind,
        0 => 1 + apply(n - 1, kind),
        _ if n <= 0 => -kind,
        _ => 2 + apply(n - 2, kind),
    }
}

#[test]
fn recursion_to_some_depth() {
    let calls = Calls::load();
    calls.check("one_recursive_call", Some(32), |t| descend(t % 32, t));
    calls.check("two_recursive_calls", Some(6), |t| fibonacci(t % 6));
    calls.check("mutual_recursion", NOTHING, |t| i32::from(t % 20 % 2 == 0));
    calls.check("recursion_through_pointers", Some(4), |t| apply(t % 4, 100));
}

#[test]
fn deeper_recursion_faults_and_names_the_function() {
    let calls = Calls::load();
    for (kernel, name) in [
        ("one_recursive_call", "descend"),
        ("two_recursive_calls", "fibonacci"),
        ("recursion_through_pointers", ""),
    ] {
        let fault = calls.fault(kernel, Some(60));
        let FaultKind::UnknownCall { text } = &fault.kind else {
            panic!("{kernel}: {fault}")
        };
        assert!(text.contains(name) && text.contains("inlined"), "{text}");
    }
}

/// Functions whose parameters are registers, called by name and by pointer, with values that must
/// not change.
#[test]
fn registers_are_passed_by_value() {
    let ptx = ".version 8.4\n.target sm_75\n.address_size 64\n\
        .func (.reg .u32 r) more(.reg .u32 a)\n{\nadd.u32 a, a, 1;\nmul.lo.u32 r, a, 10;\nadd.u32 r, r, a;\nret;\n}\n\
        .visible .entry t(.param .u64 out)\n{\n.reg .b32 %r<8>;\n.reg .b64 %d<4>, pointer;\n\
        ld.param.u64 %d0, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %d1, %r1, 4;\nadd.u64 %d0, %d0, %d1;\n\
        call (%r2), more, (%r1);\nmov.u32 %r3, 0;\ncall (%r3), more, (5);\n\
        mov.u64 pointer, more;\nproto: .callprototype (.reg .u32 _) _ (.reg .u32 _);\n\
        call (%r1), pointer, (%r1), proto;\ncall (%r4), pointer, (7), proto;\n\
        add.u32 %r1, %r1, %r2;\nadd.u32 %r1, %r1, %r3;\nadd.u32 %r1, %r1, %r4;\nst.global.u32 [%d0], %r1;\nret;\n}\n";
    Calls::from_ptx(ptx).check("t", NOTHING, |t| 2 * 11 * (t + 1) + 11 * 6 + 11 * 8);
}

/// A call through a pointer whose arguments are not those of a function faults, and is not left
/// out.
#[test]
fn a_call_that_does_not_fit_faults() {
    for (operands, wanted) in [
        ("(%r1), %d1, (%d0), proto", "more"),
        ("(%r1), %r2, (%r1), proto", "call"),
    ] {
        let ptx = format!(
            ".version 8.4\n.target sm_75\n.address_size 64\n\
            .func (.reg .u32 r) more(.reg .u32 a)\n{{\nadd.u32 r, a, 1;\nret;\n}}\n\
            .visible .entry t(.param .u64 out)\n{{\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\nld.param.u64 %d0, [out];\n\
            mov.u32 %r1, 0;\nmov.u32 %r2, 0;\nmov.u64 %d1, more;\n\
            proto: .callprototype (.reg .u32 _) _ (.reg .u32 _);\ncall {operands};\nst.global.u32 [%d0], %r1;\nret;\n}}\n"
        );
        let fault = Calls::from_ptx(&ptx).fault("t", NOTHING);
        let text = match &fault.kind {
            FaultKind::UnknownCall { text } | FaultKind::UnknownInstruction { text } => text,
            _ => panic!("{fault}"),
        };
        assert!(text.contains(wanted), "{text}");
    }
}

/// Twelve functions that may call each other in every order: a kernel of them loads soon, and goes
/// some calls deep.
#[test]
fn many_functions_that_call_each_other_by_pointers() {
    let mut ptx = String::from(".version 8.4\n.target sm_75\n.address_size 64\n");
    let names: Vec<String> = (0..12).map(|i| format!("f{i}")).collect();
    ptx += &format!(
        ".global .align 8 .u64 table[12] = {{{}}};\n",
        names.join(", ")
    );
    for name in &names {
        ptx += &format!(
            ".func (.param .b32 r) {name}(.param .b32 n)\n{{\n.reg .pred %p;\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;\n\
             ld.param.u32 %r0, [n];\nsetp.eq.u32 %p, %r0, 0;\n@%p bra DONE;\n\
             mov.u64 %d0, table;\nmul.wide.u32 %d1, %r0, 8;\nadd.u64 %d0, %d0, %d1;\nld.global.u64 %d2, [%d0];\nsub.u32 %r1, %r0, 1;\n\
             {{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r1;\n\
             proto: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (b), %d2, (a), proto;\nld.param.b32 %r0, [b];\n}}\n\
             add.u32 %r0, %r0, 1;\nDONE:\nst.param.b32 [r], %r0;\nret;\n}}\n"
        );
    }
    ptx += ".visible .entry t(.param .u64 out, .param .u32 n)\n{\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;\n\
            ld.param.u64 %d0, [out];\nld.param.u32 %r0, [n];\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r0;\n\
            call (b), f0, (a);\nld.param.b32 %r1, [b];\nst.global.u32 [%d0], %r1;\nret;\n}\n";
    let calls = Calls::from_ptx(&ptx);
    let function = calls.module.load_function("t").unwrap();
    let mut out = calls.stream.alloc_zeros::<u32>(1).unwrap();
    let mut run = |n: u32| {
        let mut launch = calls.stream.launch_builder(&function);
        launch.arg(&mut out).arg(&n);
        // SAFETY: the arguments are the kernel's.
        let launched = unsafe { launch.launch(LaunchConfig::for_num_elems(1)) };
        launched.map(|_| calls.stream.clone_dtoh(&out).unwrap()[0])
    };
    assert_eq!(run(0), Ok(0));
    assert_eq!(run(2), Ok(2));
    assert!(run(11).is_err());
    let fault = cuda_sim::take_fault().expect("a fault");
    assert!(
        matches!(fault.kind, FaultKind::UnknownCall { .. }),
        "{fault}"
    );
}

#[test]
fn malloc_faults_where_it_is_called() {
    let calls = Calls::load();
    calls.check("allocates", Some(0), |_| 0);
    let fault = calls.fault("allocates", Some(4));
    let FaultKind::UnknownCall { text } = &fault.kind else {
        panic!("{fault}")
    };
    assert!(text.starts_with("malloc"), "{text}");
}
