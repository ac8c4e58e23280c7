/// Why an operation of this crate refused its arguments. Nothing has been computed then.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The problem is not a proper one: a shape, the scale or a mask does not fit.
    #[error(transparent)]
    Problem(#[from] stage1_reference::Error),

    /// A tile without rows or columns.
    #[error("{operation}: `tiles.{argument}` is 0, but needs at least 1")]
    EmptyTile {
        /// The operation that was called.
        operation: &'static str,
        /// The side of the tile, `queries` or `keys`.
        argument: &'static str,
    },
}
