//! Runs one `wgmma.mma_async` on tiles that are laid out here, as the PTX manual draws them.

use cuda_sim::Fault;
use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use crate::instructions::rig::stream;

/// A form of the instruction, and how its operands lie.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub a: &'static str,
    pub b: &'static str,
    pub sums: &'static str,
    pub columns: usize,
    /// A is in registers.
    pub fragments: bool,
    /// Of A and of B.
    pub tiles: [Tile; 2],
    pub negated: [bool; 2],
    pub adds: bool,
    pub saturate: bool,
}

/// A tile in shared memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tile {
    pub transposed: bool,
    /// Chunks of 16 bytes that a swizzle exchanges: 1 (none), 2, 4 or 8.
    pub width: u64,
    /// Chunks by which the tile begins within such a row.
    pub shift: u64,
    /// The offset of the descriptor that is the larger one, where both are free.
    pub leading_is_larger: bool,
}

/// A by rows, B by rows, C and D by rows; values as bits.
#[derive(Debug, Clone)]
pub struct Matrices {
    pub a: Vec<u32>,
    pub b: Vec<u32>,
    pub c: Vec<u32>,
}

pub const K_MAJOR: Tile = Tile {
    transposed: false,
    width: 8,
    shift: 0,
    leading_is_larger: false,
};

impl Case {
    pub fn new(a: &'static str, b: &'static str, sums: &'static str, columns: usize) -> Case {
        Case {
            a,
            b,
            sums,
            columns,
            fragments: false,
            tiles: [K_MAJOR; 2],
            negated: [false; 2],
            adds: true,
            saturate: false,
        }
    }

    /// Bits of a factor.
    pub fn bits(&self) -> usize {
        match self.a {
            "f16" | "bf16" => 16,
            "tf32" => 32,
            _ => 8,
        }
    }

    pub fn depth(&self) -> usize {
        256 / self.bits()
    }

    fn is_half(&self) -> bool {
        self.sums == "f16"
    }

    /// Registers of D.
    fn count(&self) -> usize {
        self.columns / if self.is_half() { 4 } else { 2 }
    }

    pub fn matrices(
        &self,
        mut factor: impl FnMut() -> u32,
        mut sum: impl FnMut() -> u32,
    ) -> Matrices {
        let depth = self.depth();
        Matrices {
            a: (0..64 * depth).map(|_| factor()).collect(),
            b: (0..depth * self.columns).map(|_| factor()).collect(),
            c: (0..64 * self.columns).map(|_| sum()).collect(),
        }
    }

    /// The instruction, with its accumulators in %f or %r from 0 on, A in %r1000 or %d20, B in
    /// %d21, and `scale-d` in %p1.
    pub fn instruction(&self) -> String {
        let Case {
            a,
            b,
            sums,
            columns,
            ..
        } = self;
        let kind = if self.is_half() || *sums == "s32" {
            'r'
        } else {
            'f'
        };
        let d: Vec<String> = (0..self.count()).map(|i| format!("%{kind}{i}")).collect();
        let left = match self.fragments {
            true => "{%r1000, %r1001, %r1002, %r1003}",
            false => "%d20",
        };
        let mut text = format!(
            "wgmma.mma_async.sync.aligned.m64n{columns}k{}.{sums}.{a}.{b}{} {{{}}}, {left}, %d21, %p1",
            self.depth(),
            if self.saturate { ".satfinite" } else { "" },
            d.join(", ")
        );
        if *sums != "s32" {
            for negated in self.negated {
                text += if negated { ", -1" } else { ", 1" };
            }
        }
        if self.bits() == 16 {
            let skipped = usize::from(self.fragments);
            for tile in &self.tiles[skipped..] {
                text += if tile.transposed { ", 1" } else { ", 0" };
            }
        }
        text + ";\n"
    }

    /// Shared memory with both tiles, and their descriptors.
    pub fn shared(&self, matrices: &Matrices) -> (Vec<u8>, [u64; 2]) {
        let (depth, bytes) = (self.depth(), self.bits() / 8);
        let mut image = Vec::new();
        let mut descriptors = [0; 2];
        let lines = [64, self.columns];
        for operand in 0..2 {
            let tile = self.tiles[operand];
            let start = image.len() as u64 + 16 * tile.shift;
            let [leading, stride] = tile.offsets(lines[operand]);
            for row in 0..lines[operand] {
                for k in 0..depth {
                    let bits = match operand {
                        0 => matrices.a[row * depth + k],
                        _ => matrices.b[k * self.columns + row],
                    };
                    let at = tile.place(start, leading, stride, [row, k], bytes);
                    if image.len() < at + bytes {
                        image.resize(at + bytes, 0xee);
                    }
                    image[at..at + bytes].copy_from_slice(&bits.to_le_bytes()[..bytes]);
                }
            }
            image.resize(image.len().next_multiple_of(1024), 0xee);
            let swizzle = [0, 3, 2, 1][tile.width.ilog2() as usize];
            descriptors[operand] =
                start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62;
        }
        (image, descriptors)
    }

    /// Runs it, and returns D by rows.
    pub fn run(&self, matrices: &Matrices) -> Vec<u32> {
        let body = format!(
            "wgmma.fence.sync.aligned;\n{}wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
            self.instruction()
        );
        let (image, descriptors) = self.shared(matrices);
        self.run_body(&body, 128, &image, descriptors, matrices)
            .unwrap_or_else(|fault| panic!("{self:?}: {fault}"))
    }

    /// Runs `body` with the registers of [`Case::instruction`] by this many threads, between loads
    /// of A and C from device memory and a store of the accumulators. `%r1010` is the thread.
    pub fn run_body(
        &self,
        body: &str,
        threads: u32,
        image: &[u8],
        descriptors: [u64; 2],
        matrices: &Matrices,
    ) -> Result<Vec<u32>, Box<Fault>> {
        let (count, depth) = (self.count(), self.depth());
        let kind = if self.is_half() || self.sums == "s32" {
            'r'
        } else {
            'f'
        };
        let mut text = String::from(
            ".version 8.4\n.target sm_90a\n.address_size 64\n.file 1 \"k.cu\"\n.extern .shared .align 1024 .b8 s[];\n\
             .visible .entry t(.param .u64 image, .param .u32 bytes, .param .u64 pa, .param .u64 pc, .param .u64 pd, \
             .param .u64 da, .param .u64 db, .param .u32 adds)\n{\n\
             .reg .b32 %r<1100>;\n.reg .f32 %f<200>;\n.reg .b64 %d<30>;\n.reg .pred %p<9>;\n\
             mov.u32 %r1010, %tid.x;\nld.param.u32 %r1012, [bytes];\nld.param.u64 %d1, [image];\n\
             shl.b32 %r1011, %r1010, 2;\nmov.u32 %r1013, s;\n\
             fill:\nsetp.ge.u32 %p2, %r1011, %r1012;\n@%p2 bra filled;\n\
             cvt.u64.u32 %d2, %r1011;\nadd.s64 %d2, %d1, %d2;\nld.global.u32 %r1014, [%d2];\n\
             add.u32 %r1015, %r1013, %r1011;\nst.shared.u32 [%r1015], %r1014;\n\
             add.u32 %r1011, %r1011, 512;\nbra fill;\nfilled:\n\
             ld.param.u64 %d20, [da];\nld.param.u64 %d21, [db];\n\
             ld.param.u32 %r1014, [adds];\nsetp.ne.u32 %p1, %r1014, 0;\n\
             ld.param.u64 %d3, [pa];\nmul.wide.u32 %d4, %r1010, 16;\nadd.s64 %d3, %d3, %d4;\n\
             ld.global.v4.u32 {%r1000, %r1001, %r1002, %r1003}, [%d3];\n",
        );
        text += &format!(
            "ld.param.u64 %d5, [pc];\nmul.wide.u32 %d6, %r1010, {};\nadd.s64 %d5, %d5, %d6;\n",
            4 * count
        );
        for i in 0..count {
            text += &format!("ld.global.b32 %{kind}{i}, [%d5+{}];\n", 4 * i);
        }
        text += "fence.proxy.async.shared::cta;\nbar.sync 0;\n";
        text += body;
        text += "ld.param.u64 %d7, [pd];\nadd.s64 %d7, %d7, %d6;\n";
        for i in 0..count {
            text += &format!("st.global.b32 [%d7+{}], %{kind}{i};\n", 4 * i);
        }
        text += "ret;\n}\n";
        let stream = stream();
        let module = stream.context().load_module(Ptx::from_src(text)).unwrap();
        let kernel = module.load_function("t").unwrap();
        let words: Vec<u32> = image
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let per_lane = |lane: usize| self.fragment_of_c(matrices, lane);
        let lanes = threads as usize;
        let c: Vec<u32> = (0..lanes).flat_map(|lane| per_lane(lane % 128)).collect();
        let a: Vec<u32> = (0..lanes)
            .flat_map(|lane| self.fragment_of_a(matrices, lane % 128, depth))
            .collect();
        let [words_d, a, c] = [&words, &a, &c].map(|words| stream.clone_htod(words).unwrap());
        let mut d = stream.alloc_zeros::<u32>(lanes * count).unwrap();
        let mut launch = stream.launch_builder(&kernel);
        let (bytes, adds) = (image.len() as u32, u32::from(self.adds));
        launch.arg(&words_d).arg(&bytes).arg(&a).arg(&c).arg(&mut d);
        launch.arg(&descriptors[0]).arg(&descriptors[1]).arg(&adds);
        let shape = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes: bytes,
        };
        // SAFETY: the arguments are those of the kernel; the simulator checks its accesses.
        if let Err(error) = unsafe { launch.launch(shape) } {
            let fault = cuda_sim::take_fault();
            return Err(Box::new(fault.unwrap_or_else(|| panic!("{error}"))));
        }
        let words = stream.clone_dtoh(&d).unwrap();
        let mut sums = vec![0; 64 * self.columns];
        for lane in 0..lanes.min(128) {
            for (place, sum) in self
                .places(lane)
                .into_iter()
                .zip(self.split(&words[lane * count..][..count]))
            {
                sums[place] = sum;
            }
        }
        Ok(sums)
    }

    /// Elements of the sums of a thread: figure "WGMMA .m64nNk16 register fragment layout for
    /// accumulator matrix D" of the PTX manual.
    fn places(&self, thread: usize) -> Vec<usize> {
        let (warp, lane) = (thread / 32, thread % 32);
        let place = |i: usize| {
            let row = 16 * warp + lane / 4 + 8 * (i / 2 % 2);
            let column = 8 * (i / 4) + lane % 4 * 2 + i % 2;
            row * self.columns + column
        };
        (0..self.columns / 2).map(place).collect()
    }

    fn fragment_of_c(&self, matrices: &Matrices, thread: usize) -> Vec<u32> {
        let sums = self.places(thread).into_iter().map(|at| matrices.c[at]);
        let sums: Vec<u32> = sums.collect();
        match self.is_half() {
            true => sums.chunks(2).map(|pair| pair[1] << 16 | pair[0]).collect(),
            false => sums,
        }
    }

    fn split(&self, words: &[u32]) -> Vec<u32> {
        match self.is_half() {
            true => words.iter().flat_map(|w| [w & 0xffff, w >> 16]).collect(),
            false => words.to_vec(),
        }
    }

    /// Words of A of a thread: the figures of the manual, in which the elements of a word follow
    /// one another in a row.
    fn fragment_of_a(&self, matrices: &Matrices, thread: usize, depth: usize) -> [u32; 4] {
        let (warp, lane) = (thread / 32, thread % 32);
        let each = 32 / self.bits();
        std::array::from_fn(|i| {
            let row = 16 * warp + lane / 4 + 8 * (i % 2);
            let column = each * (lane % 4) + 4 * each * (i / 2);
            (0..each).fold(0, |word, e| {
                word | matrices.a[row * depth + column + e] << (e * self.bits())
            })
        })
    }
}

impl Tile {
    /// Leading and stride byte offset for a tile of so many rows, without gaps.
    fn offsets(&self, rows: usize) -> [u64; 2] {
        let (rows, core) = (rows as u64, 128);
        match (self.transposed, self.width) {
            // Two cores to a row, or all first cores before all second ones.
            (false, 1) if self.leading_is_larger => [core * rows / 8, core],
            (false, 1) => [core, 2 * core],
            (false, width) => [16, core * width],
            (true, 1) if self.leading_is_larger => [core * rows / 8, core],
            (true, 1) => [core, 2 * core],
            // Blocks of 8 columns by `width` chunks.
            (true, width) if self.leading_is_larger => [2 * core * width, core * width],
            (true, width) => [core * width, core * width * (rows / 8).div_ceil(width)],
        }
    }

    /// Where element (row, k) is.
    fn place(
        &self,
        start: u64,
        leading: u64,
        stride: u64,
        [row, k]: [usize; 2],
        bytes: usize,
    ) -> usize {
        let (row, k, bytes) = (row as u64, k as u64, bytes as u64);
        let (line, along) = if self.transposed { (k, row) } else { (row, k) };
        let (unit, rest) = (along * bytes / 16, along * bytes % 16);
        let plain = match (self.transposed, self.width) {
            (false, 1) => line % 8 * 16 + line / 8 * stride + unit * leading,
            (true, 1) => line % 8 * 16 + line / 8 * leading + unit * stride,
            (false, width) => line % 8 * 16 * width + line / 8 * stride + unit * 16,
            (true, width) => {
                line % 8 * 16 * width
                    + line / 8 * stride
                    + unit % width * 16
                    + unit / width * leading
            }
        };
        // Lines of 128 bytes with eight units each.
        let address = start + plain;
        let (line, unit) = (address / 128, address / 16 % 8);
        let swapped = unit / self.width * self.width + ((unit % self.width) ^ (line % self.width));
        (line * 128 + swapped * 16 + rest) as usize
    }
}
