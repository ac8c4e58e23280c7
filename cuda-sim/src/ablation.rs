//! Switches of fast paths, which `benches/ablation.py` turns off one by one. They cost nothing: each is a constant.

/// The short way of loads and stores of one word per lane.
pub(crate) const WORD_ACCESS: bool = !cfg!(feature = "without-word-access");
/// The functions for AVX-512.
pub(crate) const AVX512: bool = !cfg!(feature = "without-avx512");
/// The functions for AVX2 and AVX-512: only portable ones are left.
pub(crate) const AVX2: bool = !cfg!(feature = "without-avx2");
/// Operations that run together are counted and run together.
pub(crate) const STRETCHES: bool = !cfg!(feature = "without-stretches");
/// An access through the same register as one before has its address pattern.
pub(crate) const LEADERS: bool = !cfg!(feature = "without-leaders");
/// Reads of shared memory are noted, and recorded before the next write.
pub(crate) const NOTED_READS: bool = !cfg!(feature = "without-noted-reads");
/// A load of device memory whose reads are on record needs no check.
pub(crate) const READ_RECORDS: bool = !cfg!(feature = "without-read-records");
/// Records of device memory are compared by run, and by sector where one record stands for a whole one.
pub(crate) const RECORD_BATCHES: bool = !cfg!(feature = "without-record-batches");
/// Regular address patterns have their own way to move words.
pub(crate) const SHAPES: bool = !cfg!(feature = "without-shapes");
/// Loads of kernel parameters have a short way.
pub(crate) const PARAMETERS: bool = !cfg!(feature = "without-parameters");
