//! stage2-naive-cuda
