//! Work of a phase of a launch, as the time model counts it.

use std::ops::AddAssign;

/// Defines the figures of a phase: each once, with its description.
macro_rules! figures {
    ($($(#[$doc:meta])* $figure:ident;)*) => {
        /// Work of a phase of a launch: of the code between two barriers, whenever it ran.
        ///
        /// It is what the assembler makes of the PTX: of neighbouring loads of shared memory that
        /// it joins, one counts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Phase { $($(#[$doc])* pub $figure: u64,)* }

        impl Phase {
            /// All figures by name.
            pub fn figures(&self) -> [(&'static str, u64); [$(stringify!($figure)),*].len()] {
                [$((stringify!($figure), self.$figure)),*]
            }

            /// A phase with these figures, in the order of [`figures`](Self::figures).
            pub(crate) fn from_figures(mut figures: impl Iterator<Item = u64>) -> Option<Phase> {
                Some(Phase { $($figure: figures.next()?),* })
            }

            /// The same work so many times.
            pub(crate) fn repeated(&self, times: u64) -> Phase {
                let figures = self.figures().map(|(_, figure)| figure * times);
                Phase::from_figures(figures.into_iter()).unwrap_or_default()
            }
        }

        impl AddAssign for Phase {
            fn add_assign(&mut self, other: Phase) {
                $(self.$figure += other.$figure;)*
            }
        }
    };
}

figures! {
    /// Warp instructions, but for those that copy a register, load a parameter or access local
    /// memory.
    instructions;
    /// Those of them on f32, f16 and bf16.
    fp32;
    /// On f64.
    fp64;
    /// Special functions.
    special;
    /// Operations of the tensor cores on f16, bf16 and 8-bit floats.
    tensor;
    /// On tf32.
    tensor_tf32;
    /// On f64.
    tensor_f64;
    /// On 8-bit integers.
    tensor_int8;
    /// Requests of global memory.
    global_requests;
    /// Requests of shared memory.
    shared_requests;
    /// Wavefronts of the unit that is both shared memory and first-level cache.
    wavefronts;
    /// Those of them of asynchronous copies that the block does not wait for within the phase.
    later_wavefronts;
    /// Sectors that the second-level cache serves: of loads those that the block had not loaded
    /// before.
    sectors;
    /// Those of them of asynchronous copies that the block does not wait for within the phase.
    later_sectors;
    /// Requests of local memory.
    local_requests;
    /// Sectors of local memory.
    local_sectors;
    /// Clocks that each warp would take alone, in all.
    latency_clocks;
    /// Operations of the tensor cores by `wgmma`: as many on f16 as take the same time.
    wgmma;
}
