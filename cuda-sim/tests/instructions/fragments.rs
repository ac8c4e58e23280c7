//! Runs one `mma` of any shape on the registers of warps.

use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::rig::stream;

/// An `mma`: its opcode, the `.target` of its module, bits of its registers, and as many of them as
/// a lane has of D, A, B and C.
pub struct Mma<'a> {
    pub opcode: &'a str,
    pub target: u32,
    pub bits: u32,
    pub registers: [usize; 4],
    /// The registers of D, if they are some of the others: `%a0` is the first of A.
    pub in_place: &'a [&'a str],
}

impl Mma<'_> {
    /// Runs it for the lanes of whole warps, one warp a block. Of A, B and C it takes the registers
    /// of each lane, and of D it returns them.
    pub fn run(&self, operands: [&[Vec<u64>]; 3]) -> Vec<Vec<u64>> {
        let [d_count, counts @ ..] = self.registers;
        let (bits, opcode) = (self.bits, self.opcode);
        let names = |name: char, count: usize| -> Vec<String> {
            (0..count).map(|i| format!("%{name}{i}")).collect()
        };
        let vector = |name: char, count: usize| format!("{{{}}}", names(name, count).join(", "));
        let results = match self.in_place {
            [] => names('d', d_count),
            names => names.iter().map(|name| name.to_string()).collect(),
        };
        let place = |name: char, count: usize| {
            format!(
                "ld.param.u64 %p, [p{name}];\nmad.wide.u32 %p, %lane, {}, %p;\n",
                8 * count
            )
        };
        let mut body = String::new();
        for (name, count) in ['a', 'b', 'c'].into_iter().zip(counts) {
            body += &place(name, count);
            for i in 0..count {
                body += &format!("ld.global.b{bits} %{name}{i}, [%p+{}];\n", 8 * i);
            }
        }
        let [a, b, c] = counts;
        body += &format!(
            "{opcode} {{{}}}, {}, {}, {};\n",
            results.join(", "),
            vector('a', a),
            vector('b', b),
            vector('c', c)
        );
        body += &place('d', d_count);
        for (i, result) in results.iter().enumerate() {
            body += &format!("st.global.b{bits} [%p+{}], {result};\n", 8 * i);
        }
        let text = format!(
            ".version 8.4\n.target sm_{}\n.address_size 64\n\
             .visible .entry t(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)\n{{\n\
             .reg .b{bits} %a<8>, %b<8>, %c<8>, %d<8>;\n.reg .b32 %lane, %block;\n.reg .b64 %p;\n\
             mov.u32 %lane, %tid.x;\nmov.u32 %block, %ctaid.x;\nmad.lo.u32 %lane, %block, 32, %lane;\n{body}ret;\n}}\n",
            self.target
        );
        let stream = stream();
        let module = stream.context().load_module(Ptx::from_src(text)).unwrap();
        let kernel = module.load_function("t").unwrap();
        let lanes = operands[0].len();
        let inputs = operands.map(|lanes| stream.clone_htod(&lanes.concat()).unwrap());
        let mut d = stream.alloc_zeros::<u64>(lanes * d_count).unwrap();
        let mut launch = stream.launch_builder(&kernel);
        for input in &inputs {
            launch.arg(input);
        }
        launch.arg(&mut d);
        let shape = LaunchConfig {
            grid_dim: (lanes as u32 / 32, 1, 1),
            block_dim: (32, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the arguments are those of the kernel, and each thread stays at its words.
        unsafe { launch.launch(shape) }.unwrap_or_else(|e| panic!("{opcode}: {e}"));
        let words = stream.clone_dtoh(&d).unwrap();
        words.chunks(d_count).map(<[u64]>::to_vec).collect()
    }
}
