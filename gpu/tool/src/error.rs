//! Errors of kernel files.

use std::path::PathBuf;

/// Why a kernel file cannot be read or compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A kernel file cannot be read.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },

    /// Constants were given for a PTX file, which is compiled already.
    #[error("{} is PTX, and {name} would come too late", path.display())]
    ConstantsOfPtx {
        /// The file.
        path: PathBuf,
        /// The request, like `constant BLOCK`.
        name: String,
    },

    /// A line of `variants.txt` cannot be read.
    #[error("variants.txt, line {line}: {reason}: {text:?}")]
    BadVariant {
        /// The line's number, from 1.
        line: usize,
        /// The line.
        text: String,
        /// The reason.
        reason: &'static str,
    },

    /// The file does not compile, or there is no compiler.
    #[error(transparent)]
    Gpu(#[from] gpu::Error),
}
