use crate::Feature;

/// Why an attention operation of this crate refused its arguments.
///
/// Nothing has been computed when one of these is returned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument has a shape that does not fit the others.
    #[error("{operation}: `{argument}` has shape {actual:?}, but needs {expected}")]
    Shape {
        /// The operation that was called.
        operation: &'static str,
        /// The argument with the wrong shape.
        argument: &'static str,
        /// Its shape.
        actual: Vec<usize>,
        /// The shape that it needs, in words and numbers.
        expected: String,
    },

    /// The query heads cannot be shared out evenly among the key/value heads.
    #[error(
        "{operation}: `q` has {heads} heads, which is not a multiple of the {kv_heads} heads of `k` and `v`"
    )]
    HeadGroups {
        /// The operation that was called.
        operation: &'static str,
        /// Heads of `q`.
        heads: usize,
        /// Heads of `k` and `v`.
        kv_heads: usize,
    },

    /// The scale is infinite or not a number.
    #[error("{operation}: `scale` is {scale}, but needs to be finite")]
    Scale {
        /// The operation that was called.
        operation: &'static str,
        /// The scale given.
        scale: f32,
    },

    /// The probability of dropout is not in `[0, 1)`.
    #[error("{operation}: `dropout` has probability {probability}, but needs one in [0, 1)")]
    Dropout {
        /// The operation that was called.
        operation: &'static str,
        /// The probability given.
        probability: f32,
    },

    /// A sequence is said to have more keys than there are.
    #[error("{operation}: `key_lengths[{sequence}]` is {length}, but `k` has only {nk} rows")]
    KeyLength {
        /// The operation that was called.
        operation: &'static str,
        /// The sequence in the batch.
        sequence: usize,
        /// Its number of keys, as given.
        length: usize,
        /// Rows of `k` and `v`.
        nk: usize,
    },

    /// The problem is a proper one, but this implementation lacks a part of it.
    #[error("{operation}: {feature} not supported by this implementation")]
    Unsupported {
        /// The operation that was called.
        operation: &'static str,
        /// The part that it lacks.
        feature: Feature,
    },
}

impl Error {
    /// [`Error::Shape`].
    pub(crate) fn shape(
        operation: &'static str,
        argument: &'static str,
        actual: &[usize],
        expected: String,
    ) -> Self {
        Self::Shape {
            operation,
            argument,
            actual: actual.to_vec(),
            expected,
        }
    }

    /// The argument that does not fit, such as `k`; `heads` if those of `q` and `k` do not divide.
    pub fn argument(&self) -> &'static str {
        match self {
            Self::Shape { argument, .. } => argument,
            Self::HeadGroups { .. } => "heads",
            Self::Scale { .. } => "scale",
            Self::Dropout { .. } => "dropout",
            Self::KeyLength { .. } => "key_lengths",
            Self::Unsupported { .. } => "options",
        }
    }
}
