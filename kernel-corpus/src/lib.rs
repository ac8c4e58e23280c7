//! Kernels that judge the simulator: `bug_*.cu` have one defect each, `clean_*.cu` have none.
//!
//! `README.md` lists the classes of defects and says how a kernel is added. Each file states its
//! launch, its arguments and what must come of it, in the comments that `gpu_launch`
//! reads. The tests of this package run them all; the program `gpu` runs one:
//! `cargo gpu check kernel-corpus/kernels/bug_trap_bad_code.cu`.

/// The kernels of the corpus, and their committed PTX.
pub static KERNELS: gpu::Bundle = gpu::bundle!();
