//! Runs one instruction over all combinations of its operands' values.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

/// Type of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ty {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    F64,
    Pred,
}

pub use Ty::*;

/// Name in PTX, and the definition here.
pub type Named<F> = (&'static str, F);

impl Ty {
    pub fn bits(self) -> u32 {
        match self {
            U8 | S8 => 8,
            U16 | S16 | F16 | Bf16 => 16,
            U32 | S32 | F32 | Pred => 32,
            U64 | S64 | F64 => 64,
        }
    }

    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    pub fn is_signed(self) -> bool {
        matches!(self, S8 | S16 | S32 | S64)
    }

    /// As PTX writes it.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The value of these bits, for integer types.
    pub fn int(self, bits: u64) -> i128 {
        let kept = i128::from(bits & self.mask());
        if self.is_signed() && kept >> (self.bits() - 1) == 1 {
            kept - (1 << self.bits())
        } else {
            kept
        }
    }

    pub fn least(self) -> i128 {
        if self.is_signed() {
            -(1 << (self.bits() - 1))
        } else {
            0
        }
    }

    pub fn greatest(self) -> i128 {
        self.least() + (1 << self.bits()) - 1
    }

    /// The value of these bits, for float types.
    pub fn float(self, bits: u64) -> f64 {
        match self {
            F32 => f32::from_bits(bits as u32).into(),
            F64 => f64::from_bits(bits),
            F16 => half_value(bits as u16, 10),
            Bf16 => half_value(bits as u16, 7),
            _ => panic!("{self:?} is not a float"),
        }
    }

    /// Bits of registers and memory: bytes are held in 16 bits.
    fn held(self) -> u32 {
        self.bits().max(16)
    }

    fn register(self, index: usize) -> String {
        let class = match (self, self.held()) {
            (Pred, _) => 'p',
            (_, 16) => 'h',
            (_, 32) => 'r',
            _ => 'd',
        };
        format!("%{class}{index}")
    }

    /// Values where something may go wrong.
    pub fn nasty(self) -> Vec<u64> {
        match self {
            Pred => vec![0, 1],
            F32 => [
                0.0,
                -0.0,
                1.0,
                -1.0,
                1.5,
                0.1,
                1.000_000_1,
                -3.0,
                2.5,
                16_777_215.0,
                -2.5e9,
                3e38,
                f32::MAX,
                f32::MIN,
                f32::MIN_POSITIVE,
                -1e-40,
                1.7e38,
                f32::from_bits(1),
                -f32::from_bits(1),
                f32::INFINITY,
                f32::NEG_INFINITY,
                f32::NAN,
            ]
            .map(|x| u64::from(x.to_bits()))
            .into(),
            F64 => [
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                0.1,
                1.000_000_000_000_000_2,
                -3.0,
                2_147_483_648.5,
                -9.3e18,
                1.8e19,
                1e200,
                f64::MAX,
                f64::MIN,
                f64::MIN_POSITIVE,
                -1e-310,
                1e-200,
                f64::from_bits(1),
                -f64::from_bits(1),
                // Just above the middle of two f16 and of two bf16, further than f32 can tell.
                1.0 + 1.0 / 2048.0 + 1e-13,
                1.0 + 1.0 / 256.0 + 1e-13,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
            ]
            .map(f64::to_bits)
            .into(),
            F16 => vec![
                0, 0x8000, 1, 0x83ff, 0x3c00, 0xbc01, 0x4248, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
                0x7e00,
            ],
            Bf16 => vec![
                0, 0x8000, 1, 0x807f, 0x3f80, 0xbf81, 0x4049, 0x7f7f, 0xff7f, 0x7f80, 0xff80,
                0x7fc0,
            ],
            _ => {
                let top = 1u64 << (self.bits() - 1);
                let spread = 0x5a17_c3f0_96e4_8db2u64;
                [
                    0,
                    1,
                    2,
                    5,
                    31,
                    32,
                    u64::MAX,
                    u64::MAX - 1,
                    top,
                    top - 1,
                    top + 1,
                    spread,
                    !spread >> 3,
                ]
                .map(|x| x & self.mask())
                .into()
            }
        }
    }
}

fn half_value(bits: u16, fraction: i32) -> f64 {
    let bias = (1 << (14 - fraction)) - 1;
    let digits = f64::from(bits & ((1 << fraction) - 1));
    let field = i32::from((bits & 0x7fff) >> fraction);
    let size = match field {
        0 => digits * 2f64.powi(1 - bias - fraction),
        f if f == 2 * bias + 1 && digits == 0.0 => f64::INFINITY,
        f if f == 2 * bias + 1 => f64::NAN,
        f => (digits + 2f64.powi(fraction)) * 2f64.powi(f - bias - fraction),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The bits of a value that is exact in the float type, or NaN.
pub fn float_bits(ty: Ty, x: f64) -> u64 {
    match ty {
        F32 => u64::from((x as f32).to_bits()),
        F64 => x.to_bits(),
        _ => {
            let sign = u64::from(x.is_sign_negative()) << 15;
            let found = (0..0x8000u64).find(|&bits| ty.float(bits) == x.abs());
            found.map_or(0x7fff, |bits| sign | bits)
        }
    }
}

pub fn stream() -> Arc<CudaStream> {
    cuda_sim::install().unwrap();
    CudaContext::new(0).unwrap().default_stream()
}

/// A kernel `t` out of `body`, with registers `%p %h %r %d <40>`, a 64-bit word per thread at
/// `%d30` for its result, and its operands in registers 1 to 3 of their classes. `{d}`, `{a}`,
/// `{b}`, `{c}` in `body` name result and operands.
fn kernel(body: &str, d: Ty, operands: &[Ty], module: &str) -> String {
    let mut text = String::from(".version 8.0\n.target sm_90\n.address_size 64\n");
    text += module;
    text += ".visible .entry t(.param .u64 out, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u32 n)\n{\n\
        .reg .pred %p<40>;\n.reg .b16 %h<40>;\n.reg .b32 %r<40>;\n.reg .b64 %d<40>;\n\
        mov.u32 %r30, %ctaid.x;\nmov.u32 %r31, %ntid.x;\nmov.u32 %r32, %tid.x;\nmad.lo.u32 %r30, %r30, %r31, %r32;\n\
        ld.param.u32 %r31, [n];\nsetp.ge.u32 %p30, %r30, %r31;\n@%p30 exit;\n\
        mul.wide.u32 %d31, %r30, 8;\nld.param.u64 %d30, [out];\nadd.s64 %d30, %d30, %d31;\n";
    let mut body = body.replace("{d}", &d.register(0));
    for (i, (&ty, name)) in operands.iter().zip(["{a}", "{b}", "{c}"]).enumerate() {
        body = body.replace(name, &ty.register(i + 1));
        text += &format!(
            "ld.param.u64 %d32, [p{}];\nadd.s64 %d32, %d32, %d31;\n",
            i + 1
        );
        text += &match ty {
            Pred => format!(
                "ld.global.u32 %r33, [%d32];\nsetp.ne.u32 %p{}, %r33, 0;\n",
                i + 1
            ),
            _ => format!("ld.global.b{} {}, [%d32];\n", ty.held(), ty.register(i + 1)),
        };
    }
    text += &body;
    text += &match d {
        Pred => "\nselp.u32 %r33, 1, 0, %p0;\nst.global.u32 [%d30], %r33;\n}\n".to_string(),
        _ => format!("\nst.global.b{} [%d30], {};\n}}\n", d.held(), d.register(0)),
    };
    text
}

/// Runs `body` once for each element of the operands' values, 96 threads to a block.
pub fn run(body: &str, d: Ty, operands: &[Ty], values: &[Vec<u64>]) -> Vec<u64> {
    run_in("", body, d, operands, values)
}

/// [`run`], with module-scope declarations.
pub fn run_in(module: &str, body: &str, d: Ty, operands: &[Ty], values: &[Vec<u64>]) -> Vec<u64> {
    let stream = stream();
    let text = kernel(body, d, operands, module);
    let loaded = stream.context().load_module(Ptx::from_src(text));
    let kernel = loaded
        .unwrap_or_else(|e| panic!("{body}: {e}"))
        .load_function("t")
        .unwrap();
    let n = values.first().map_or(32, Vec::len);
    let mut out = stream.alloc_zeros::<u64>(n).unwrap();
    let empty = stream.alloc_zeros::<u64>(1).unwrap();
    let inputs: Vec<_> = values
        .iter()
        .map(|v| stream.clone_htod(v).unwrap())
        .collect();
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut out);
    for i in 0..3 {
        launch.arg(inputs.get(i).unwrap_or(&empty));
    }
    let n = n as u32;
    launch.arg(&n);
    let shape = LaunchConfig {
        grid_dim: (n.div_ceil(96), 1, 1),
        block_dim: (96, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the arguments are those of the kernel, and each thread stays at its element.
    unsafe { launch.launch(shape) }.unwrap_or_else(|e| panic!("{body}: {e}"));
    stream.clone_dtoh(&out).unwrap()
}

/// Every combination of the operands' nasty values.
pub fn combinations(operands: &[Ty]) -> Vec<Vec<u64>> {
    let nasty: Vec<_> = operands.iter().map(|ty| ty.nasty()).collect();
    let n: usize = nasty.iter().map(Vec::len).product();
    let mut repeat = 1;
    nasty
        .iter()
        .map(|values| {
            let column = (0..n).map(|i| values[i / repeat % values.len()]).collect();
            repeat *= values.len();
            column
        })
        .collect()
}

/// Runs `body` on all combinations and asserts that `holds` for operands and result.
#[track_caller]
pub fn check_by(
    body: &str,
    d: Ty,
    operands: &[Ty],
    holds: impl Fn(&[u64], u64) -> Result<(), String>,
) {
    let values = combinations(operands);
    for (i, got) in run(body, d, operands, &values).into_iter().enumerate() {
        let arguments: Vec<u64> = values.iter().map(|column| column[i]).collect();
        if let Err(wanted) = holds(&arguments, got) {
            panic!("{body}\n  of {arguments:#x?}\n  gives {got:#x}, not {wanted}");
        }
    }
}

/// Runs `body` on all combinations and asserts that the result is `expected`, where NaN is NaN
/// whatever its bits.
#[track_caller]
pub fn check(body: &str, d: Ty, operands: &[Ty], expected: impl Fn(&[u64]) -> u64) {
    let is_nan = |bits: u64| matches!(d, F16 | Bf16 | F32 | F64) && d.float(bits).is_nan();
    check_by(body, d, operands, |x, got| {
        let wanted = expected(x) & (u64::MAX >> (64 - d.held()));
        if got == wanted || (is_nan(got) && is_nan(wanted)) {
            Ok(())
        } else {
            Err(format!("{wanted:#x}"))
        }
    });
}
