//! How the blocks of a kernel fill a multiprocessor, from the compiler's report in the committed PTX.

use gpu_recording::{At, Canvas};

use super::Figure;

pub const FIGURES: &[Figure] = &[Figure {
    name: "occupancy",
    description: "Three kernels on a multiprocessor of an H100, each with three bars: warps, registers and shared memory, filled by its resident blocks. Eight blocks of the vector addition fill all 64 warps and half of the registers. Three blocks of rung 4 fill the registers, and only 12 warps. Seventeen blocks of the bank conflicts' kernel, of one warp each, fill shared memory, and only 17 warps.",
    caption: "Resident blocks of three kernels on one SM of an H100, from the compiler's reports. A bar is all that there is, and each block takes its part; the system adds 1 KiB of shared memory to each. The dashed red block is the next one: where it crosses the end of a bar, that limit binds. The filled share of the top bar is the occupancy.",
    size: (660, 418),
    draw: occupancy,
}];

/// What a multiprocessor of an H100 has: warps, registers, bytes of shared memory, blocks.
const WARPS: u32 = 64;
const REGISTERS: u32 = 65536;
const SHARED: u32 = 228 << 10;
const BLOCKS: u32 = 32;
/// Bytes of shared memory that the system takes for each block.
const RESERVED: u32 = 1024;

/// A kernel, the threads of a block, and its committed PTX.
struct Kernel {
    name: &'static str,
    threads: u32,
    ptx: &'static str,
}

const KERNELS: [Kernel; 3] = [
    Kernel {
        name: "gpu/kernels/vector_add.cu",
        threads: 256,
        ptx: include_str!("../../../gpu/ptx/vector_add.ptx"),
    },
    Kernel {
        name: "stage4-flash-cuda/kernels/4_mma.cu, D = 128",
        threads: 128,
        ptx: include_str!(
            "../../../stage4-flash-cuda/ptx/4_mma-BLOCK_KV_64-BLOCK_Q_64-HEAD_DIM_128-THREADS_128.ptx"
        ),
    },
    Kernel {
        name: "gpu/kernels/bank_conflicts.cu",
        threads: 32,
        ptx: include_str!("../../../gpu/ptx/bank_conflicts.ptx"),
    },
];

/// What a block takes.
struct Block {
    warps: u32,
    /// As the compiler reports them.
    registers_per_thread: u32,
    shared_of_kernel: u32,
    /// As they are given out.
    registers: u32,
    shared: u32,
}

impl Kernel {
    /// From the compiler's line `// sm_90 NAME: registers 32, …, shared 512`.
    fn block(&self) -> Block {
        let line = (self.ptx.lines()).find(|line| line.starts_with("// sm_90 "));
        let number = |name: &str| {
            let (_, rest) = line?.split_once(name)?;
            let digits = rest.trim_start().split(',').next()?;
            digits.parse::<u32>().ok()
        };
        let both = number(" registers ").zip(number(" shared "));
        let (registers, shared) = both.expect("committed PTX has the compiler's report");
        let warps = self.threads.div_ceil(32);
        Block {
            warps,
            registers_per_thread: registers,
            shared_of_kernel: shared,
            registers: warps * (32 * registers).next_multiple_of(256),
            shared: (shared + RESERVED).next_multiple_of(128),
        }
    }
}

impl Block {
    /// Blocks that fit by warps, by registers and by shared memory. Each of four schedulers has a quarter of the registers.
    fn limits(&self) -> [u32; 3] {
        let warps_by_registers = 4 * (REGISTERS / 4 / (self.registers / self.warps));
        [
            WARPS / self.warps,
            warps_by_registers / self.warps,
            SHARED / self.shared,
        ]
    }

    fn resident(&self) -> u32 {
        self.limits().into_iter().fold(BLOCKS, u32::min)
    }

    /// The share of warps that are resident.
    fn occupancy(&self) -> f64 {
        f64::from(self.resident() * self.warps) / f64::from(WARPS)
    }
}

fn occupancy(c: &mut Canvas) {
    const LEFT: f64 = 122.0;
    const WIDTH: f64 = 362.0;
    for (index, kernel) in KERNELS.iter().enumerate() {
        let top = 16.0 + 140.0 * index as f64;
        let block = kernel.block();
        let resident = block.resident();
        let shared = match block.shared_of_kernel {
            0 => "no shared memory".to_owned(),
            bytes => format!("{:.1} KiB of shared memory", f64::from(bytes) / 1024.0),
        };
        c.heading(At::Start, 8.0, top, kernel.name);
        c.note(
            At::Start,
            8.0,
            top + 19.0,
            &format!(
                "{} threads, {} registers for each, {shared}: {resident} blocks, occupancy {:.1} %",
                kernel.threads,
                block.registers_per_thread,
                100.0 * block.occupancy()
            ),
        );
        let bars = [
            (block.warps, WARPS, "64 warps"),
            (block.registers, REGISTERS, "65,536 registers"),
            (block.shared, SHARED, "228 KiB shared"),
        ];
        for (bar, ((taken, all, name), limit)) in bars.into_iter().zip(block.limits()).enumerate() {
            let y = top + 30.0 + 30.0 * bar as f64;
            let width = WIDTH * f64::from(taken) / f64::from(all);
            c.text(At::End, LEFT - 8.0, y + 16.0, name);
            c.rect("plain", LEFT, y, WIDTH, 23.0);
            for place in 0..resident {
                c.rect("blue", LEFT + width * f64::from(place), y, width, 23.0);
            }
            if limit == resident {
                let x = LEFT + width * f64::from(resident);
                c.rect("next", x, y, width, 23.0);
                let end = f64::max(x + width, LEFT + WIDTH);
                c.text(At::Start, end + 8.0, y + 16.0, "binds");
            }
        }
        c.line(
            "path",
            (LEFT + WIDTH, top + 26.0),
            (LEFT + WIDTH, top + 117.0),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices;

    #[test]
    fn the_limits_are_those_of_the_table_of_devices() {
        let of = |name: &str| {
            devices::figure("h100", name)
                .unwrap()
                .parse::<u32>()
                .unwrap()
        };
        assert_eq!(of("threads per multiprocessor"), 32 * WARPS);
        assert_eq!(of("shared memory per multiprocessor, KiB") << 10, SHARED);
        assert_eq!(of("blocks per multiprocessor"), BLOCKS);
    }

    #[test]
    fn each_kernel_has_another_limit() {
        let binding = KERNELS.map(|kernel| {
            let block = kernel.block();
            let limits = block.limits();
            [0, 1, 2].map(|at| limits[at] == block.resident())
        });
        let one = |at: usize| [0, 1, 2].map(|other| other == at);
        assert_eq!(binding, [one(0), one(1), one(2)]);
    }

    /// As an H200, which has the limits of an H100, and the simulator report it.
    #[test]
    fn the_occupancy_is_that_which_a_gpu_and_the_simulator_report() {
        let measured = include_str!("../../../hardware/h200_counters.csv");
        let counted = include_str!("../../generated/ladder-f16.txt");
        for kernel in KERNELS {
            let of_gpu = measured.lines().find_map(|row| {
                let cells: Vec<&str> = row.split(',').collect();
                (cells[0] == kernel.name).then(|| cells[3].to_owned())
            });
            let of_simulator = || {
                let row = counted.lines().find(|row| row.contains("4_mma.cu"))?;
                Some(
                    row.split('|')
                        .nth(8)?
                        .trim()
                        .trim_end_matches('%')
                        .to_owned(),
                )
            };
            let expected = of_gpu.or_else(of_simulator).unwrap();
            let digits = expected
                .split_once('.')
                .map_or(0, |(_, digits)| digits.len());
            let percent = 100.0 * kernel.block().occupancy();
            assert_eq!(format!("{percent:.digits$}"), expected, "{}", kernel.name);
        }
    }
}
