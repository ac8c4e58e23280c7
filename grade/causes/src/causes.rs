//! The names of known mistakes.

use serde::{Deserialize, Serialize};

/// A known mistake that gives exactly the wrong values, or the fault, that was found.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The exponentials are taken without subtracting the row's maximum.
    NoMaxSubtraction,
    /// The maximum is never below 0.
    MaximumFromZero,
    /// The maximum is that of the first tile.
    MaximumOnce,
    /// The maximum is that of the products before they are scaled.
    MaximumBeforeScale,
    /// The scores are not multiplied by the scale.
    MissingScale,
    /// The scores are multiplied by another scale.
    WrongScale,
    /// The causal mask hides one key too many or too few.
    CausalOffByOne,
    /// The causal mask is aligned to the first key, not to the last.
    CausalTopLeft,
    /// The index of a query is that of its row among those of all heads.
    QueryOfAllHeads,
    /// The causal mask hides nothing.
    CausalIgnored,
    /// The number of keys that a query sees is below 0, and wraps around.
    CausalWraps,
    /// The loop over keys ends before the last one that a query sees.
    CausalEndsEarly,
    /// The loop over queries starts behind the first one that sees a key.
    CausalStartsLate,
    /// The causal mask has queries and keys exchanged.
    CausalTransposed,
    /// Hidden scores are multiplied by the scale.
    MaskBeforeScale,
    /// −inf is added to hidden scores.
    MaskAdded,
    /// A hidden key takes part in the sum.
    HiddenScoreNotInfinite,
    /// The window is one key too wide or too narrow.
    WindowOffByOne,
    /// The accumulated sum is not rescaled when the running maximum grows.
    MissingRescale,
    /// Keys beyond the end of the last tile take part.
    TailNotMasked,
    /// Keys or terms of the last tile, which is not full, do not take part.
    TailDropped,
    /// A part without a key becomes NaN.
    EmptyPart,
    /// Only one tile is in the sum.
    OneTileOnly,
    /// The first tile is not in the sum.
    FirstTileSkipped,
    /// The sum over a row has the values of some threads only.
    PartialReduction,
    /// The output is not divided by the sum.
    NotNormalised,
    /// The gradients of the scores lack delta, the sum of their row.
    MissingDelta,
    /// A gradient is not multiplied by the scale, or is twice.
    GradientScale,
    /// Weights are computed from a log-sum-exp that is taken to be of another base.
    LogSumBase,
    /// A gradient is a sum over the other one of p and ds.
    StaleWeights,
    /// `v` is read with rows and columns exchanged.
    TransposedV,
    /// An operand or the result of a matrix product is read or written with rows and columns exchanged.
    TransposedProduct,
    /// Elements are rounded to a smaller type than theirs.
    LowPrecision,
    /// A lane holds other elements of a tile than an instruction of tensor cores takes from it.
    FragmentLayout,
    /// Rows of a tile are swizzled when they are stored or when they are read, and not both.
    SwizzledOnce,
    /// A product of a warpgroup multiplies other elements than those of its factors.
    Descriptor,
    /// Scale or scores are rounded to half precision.
    RoundedEarly,
    /// Rows of another head or sequence are read.
    WrongHead,
    /// Heads of the cache are taken to lie another number of rows apart than `max_seq`.
    CacheStride,
    /// A slot of the cache that an earlier step wrote is read, or the newest is not.
    StaleCacheSlot,
    /// Slots of the cache that hold no token take part.
    UnusedSlots,
    /// A sequence is read with another length than its own.
    WrongLength,
    /// Rows that are no tokens are written to the cache.
    WritesPadding,
    /// Heads of new rows are taken to lie another number of rows apart than `n`.
    RowStride,
    /// Keys are used for values, or values for keys.
    KeysForValues,
    /// A weight of the layer is transposed.
    TransposedWeight,
    /// A bias of the layer is not added.
    MissingBias,
    /// A projection of the layer is left out.
    MissingProjection,
    /// The columns of a head are not those that belong to it.
    HeadsMixed,
    /// An array is read in the order of its memory, which is not that of its axes.
    MemoryOrder,
    /// Queries and keys are not rotated.
    NotRotated,
    /// Tokens stand at other positions than their own.
    WrongPosition,
    /// Attention or the MLP of a block replaces the stream that it is added to.
    MissingResidual,
    /// Rows are not normalised.
    MissingNorm,
    /// The logits are those that follow another token.
    LogitsOfAnotherToken,
    /// The logits are products with the embedding, where the decoder has an output matrix.
    TiedHead,
    /// A token is kept in 16 bits.
    NarrowToken,
    /// Another token than the likeliest is chosen.
    NotTheLikeliest,
    /// A token that ends the text is part of it, or does not end it.
    EndOfText,
    /// The text has the prompt, or lacks a token.
    WrongText,
    /// The output is right, and the log-sum-exp is not.
    WrongLogSum,
    /// The output is right, and a log-sum-exp is that of another row.
    MisplacedLogSum,
    /// A row that sees no key becomes NaN.
    NanFromMaskedRow,
    /// A row that sees no key sees the first one.
    AtLeastOneKey,
    /// The sum of a row that sees no key is 0, and its output is divided by it.
    ZeroByZero,
    /// A row that sees no key becomes the mean of values that it does not see.
    MaskedRowNotZero,
    /// Elements of the output are never written.
    NotWritten,
    /// No kernel is launched, and the output has elements.
    NothingLaunched,
    /// Shared memory is read before another thread has written it, or overwritten while it is read.
    UnsynchronisedTile,
    /// Shared memory is read that no thread has written.
    UnwrittenTile,
    /// The target of an asynchronous copy is used, or its source changed, before its thread has waited for it.
    CopyInFlight,
    /// Memory is used while a bulk copy or a product of a warpgroup may still read or write it.
    UnwaitedTile,
    /// A product of a warpgroup begins without a fence behind the accesses to its registers.
    UnfencedProduct,
    /// A register of such a product is used before the wait for it.
    ProductInFlight,
    /// Arrivals or bytes of a phase of an mbarrier do not add up.
    Mbarrier,
    /// Threads use the same bytes of device memory, in no order.
    RaceInDeviceMemory,
    /// An access is outside every buffer.
    OutOfBounds,
    /// An index has 32 bits, and the tensor more elements.
    NarrowIndex,
    /// An access is at an address that is null.
    NullPointer,
    /// An address is not a multiple of the size of the access.
    Misaligned,
    /// Memory is read that nobody wrote.
    UninitialisedRead,
    /// Not all threads of a block come to a barrier.
    DivergentBarrier,
    /// The shared arrays of a kernel do not fit.
    SharedTooLarge,
    /// A loop does not end.
    EndlessLoop,
    /// The code says `todo!`.
    NotBegun,
}

impl Cause {
    /// One sentence that says what to look at.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NoMaxSubtraction => {
                "The values are those of a softmax without the maximum subtracted: look at the argument of exp."
            }
            Self::MaximumFromZero => {
                "The values are those of a maximum that is never below 0: it starts at −inf. FLT_MIN is the least positive float."
            }
            Self::MaximumOnce => {
                "The values are those of the maximum of the first tile: look where a later tile changes it."
            }
            Self::MaximumBeforeScale => {
                "The values are those of the maximum of q · k before the scale: with a negative scale that is the least score. Scale first."
            }
            Self::MissingScale => {
                "The values are those of unscaled scores: look where q · k is multiplied by the scale."
            }
            Self::WrongScale => {
                "The values are those of another scale: it is 1 / sqrt(D) if none is given, with D the head dimension."
            }
            Self::CausalOffByOne => {
                "The causal mask is off by one key: look at the comparison of j with i + nk − nq."
            }
            Self::CausalTopLeft => {
                "The causal mask is aligned to the first key: query i sees the keys j ≤ i + nk − nq, not j ≤ i."
            }
            Self::QueryOfAllHeads => {
                "The index of a query is counted over the rows of all heads: query i of each head is its row modulo nq."
            }
            Self::CausalIgnored => {
                "The causal mask hides nothing: query i sees the keys j ≤ i + nk − nq alone; look where j is compared with that."
            }
            Self::CausalWraps => {
                "A query before the first key sees keys: i + nk − nq is below 0 there, and wraps around in an unsigned type, as `threadIdx` and `blockIdx` are."
            }
            Self::CausalEndsEarly => {
                "The loop over keys ends too early: its end is that of the last query of the tile, rounded up to whole tiles of keys."
            }
            Self::CausalStartsLate => {
                "The loop over queries starts too late: its start is the first query that sees the first key of the tile."
            }
            Self::CausalTransposed => {
                "The causal mask has queries and keys exchanged: where a row of the tile is a key, its columns are queries."
            }
            Self::MaskBeforeScale => {
                "Hidden scores are multiplied by the scale: −inf times a negative one is +inf, and times 0 NaN. Scale first, then mask."
            }
            Self::MaskAdded => {
                "−inf is added to hidden scores: NaN and +inf become NaN by that. Replace a hidden score, whatever it is."
            }
            Self::HiddenScoreNotInfinite => {
                "Hidden keys are in the sum: set their scores to −inf before the softmax. exp(0) is 1, and −10,000 is not below every score."
            }
            Self::WindowOffByOne => {
                "The window is off by one key: query i sees the keys from i + nk − nq − left on, that one included."
            }
            Self::MissingRescale => {
                "A factor exp(m_old − m_new) is missing: look where the maximum changes, or where parts with their own maxima meet."
            }
            Self::TailNotMasked => {
                "Keys beyond nk take part: look at the last tile, where its columns end before the tile does."
            }
            Self::TailDropped => {
                "The end of the last tile is left out: look at the number of tiles, which is rounded up."
            }
            Self::EmptyPart => {
                "A part without a key became NaN, and the row with it: its share of the row is 0."
            }
            Self::OneTileOnly => {
                "Only one tile is in the sum: look where the sum is set to 0, and at the loop over tiles."
            }
            Self::FirstTileSkipped => {
                "The first tile is not in the sum: look where the loop over tiles starts, and where the sum is set to 0."
            }
            Self::PartialReduction => {
                "The sum has the values of some threads only: look at the reduction over the block, after that over a warp."
            }
            Self::NotNormalised => {
                "The exponentials are not divided by their sum: look at the last step of the softmax."
            }
            Self::MissingDelta => {
                "The gradients of the scores lack delta, the sum of their row: ds = p · (dp − delta)."
            }
            Self::GradientScale => {
                "The scores are scale · q · k, so dq and dk are multiplied by the scale, once: look where they are stored."
            }
            Self::LogSumBase => {
                "The weights are those of a log-sum-exp in another base: lse is a natural logarithm, so p is exp(s − lse), or exp2((s − lse) · log2(e))."
            }
            Self::StaleWeights => {
                "dv is a sum of p · dO, and dk of ds · q: look which of p and ds lies in shared memory when each is added up."
            }
            Self::TransposedV => {
                "v is read with rows and columns exchanged: look at the index of v in p · v."
            }
            Self::TransposedProduct => {
                "Rows and columns of a matrix are exchanged: look at the index of the matrix, and at which stride it takes."
            }
            Self::LowPrecision => {
                "Elements are rounded before they are multiplied: they are f32, and so are products and sums."
            }
            Self::FragmentLayout => {
                "A lane holds other elements than mma.sync takes from it: compare rows and columns with the table in mma.cuh; of v, ldmatrix needs .trans."
            }
            Self::SwizzledOnce => {
                "Rows of a tile are stored at swizzled places and read from plain ones, or the other way round: both sides need the same function."
            }
            Self::Descriptor => {
                "A wgmma multiplies other elements than those of its factors: look at the address and the distance in each descriptor, in bytes, 2 for a column. Columns from 64 on lie in the next panel, a warpgroup has rows of its own, and each product of the scores but the first adds."
            }
            Self::RoundedEarly => {
                "Something is rounded to half precision too early: scale, scores, maximum and sums are f32, and p is rounded for its product with v alone."
            }
            Self::WrongHead => {
                "Rows of another head or sequence are read: head h of q reads head h / (H / H_kv) of k and v of its own sequence."
            }
            Self::CacheStride => {
                "Rows of the cache are looked for in the wrong place: its heads lie max_seq rows apart, whatever the length of the sequence."
            }
            Self::StaleCacheSlot => {
                "A slot of the cache is old: look at the position that is written, length − count + i, and at the length that is read."
            }
            Self::UnusedSlots => {
                "Slots of the cache that hold no token are read: there may be NaN, and 0 · NaN is NaN. Read the keys that the query sees alone."
            }
            Self::WrongLength => {
                "A sequence is read with another length than its own, which is `lengths[b]`."
            }
            Self::WritesPadding => {
                "Rows that are no tokens are written: only the first `counts[b]` of the n rows of sequence b are new."
            }
            Self::RowStride => {
                "New rows are looked for in the wrong place: heads of the new k and v lie n rows apart, however many of these are tokens."
            }
            Self::KeysForValues => {
                "Keys and values are mixed up: look at the two pointers, in the kernel and in the order of the launch's arguments."
            }
            Self::TransposedWeight => {
                "A weight is used transposed: weights are [in, out] here, and y = x · weight."
            }
            Self::MissingBias => "A bias is not added: each of the four projections may have one.",
            Self::MissingProjection => {
                "A projection is left out: the heads, side by side, are multiplied by w_o."
            }
            Self::HeadsMixed => {
                "The columns of the heads are mixed: head h has the columns h · D to (h + 1) · D, of every row."
            }
            Self::MemoryOrder => {
                "An array is read in the order of its memory: an `ArrayView` has strides, and its axes may lie in any order. Index it, or begin with `as_standard_layout()`."
            }
            Self::NotRotated => {
                "Queries and keys are not rotated: if the architecture has positions of the kind Rope, `kernels.rope` comes before the cache."
            }
            Self::WrongPosition => {
                "Tokens stand at the wrong positions: token i of a pass stands at the number of tokens before the pass, plus i."
            }
            Self::MissingResidual => {
                "A block replaces its input: attention and the MLP are added to x, by `Epilogue::Add`."
            }
            Self::MissingNorm => {
                "A norm is left out: one comes before attention, one before the MLP, and one before the logits."
            }
            Self::LogitsOfAnotherToken => {
                "The logits are those behind another token: those of the last token of each sequence are asked for, row b · n + n − 1."
            }
            Self::TiedHead => {
                "The logits are products with the embedding: a decoder that has an output matrix of its own, `weights.head`, uses that."
            }
            Self::NarrowToken => {
                "A token is kept in 16 bits: a vocabulary may have more than 65,536 tokens, and they are `u32`, on the device `i32`."
            }
            Self::NotTheLikeliest => {
                "Another token than the likeliest is chosen: look at the loop over the logits, at its bounds and its comparison."
            }
            Self::EndOfText => {
                "A token of `end` ends the text and is no part of it: look at the order of the comparison and of the push."
            }
            Self::WrongText => {
                "The text is not the tokens behind the prompt: the first of them follows the prompt, and there are at most `most`."
            }
            Self::WrongLogSum => {
                "The output is right, and lse is not: it is the maximum plus the natural logarithm of the sum."
            }
            Self::MisplacedLogSum => {
                "The output is right, and elements of lse are those of other rows: row i of matrix b has the element b · nq + i. Look where a piece of the rows begins."
            }
            Self::NanFromMaskedRow => {
                "A row that sees no key became NaN: its output is 0 and its lse −inf, as exp(−inf − −inf) is NaN."
            }
            Self::AtLeastOneKey => {
                "A query that sees no key sees the first one: the number of its keys is 0 or less, its output 0 and its lse −inf."
            }
            Self::ZeroByZero => {
                "The output of a row that sees no key became NaN, and its lse is right: its sum is 0, and 0 / 0 is NaN."
            }
            Self::MaskedRowNotZero => {
                "A row that sees no key became a mean of values: a large negative number instead of −inf cancels out."
            }
            Self::NotWritten => {
                "Elements of the output are never written: look whether the kernel writes any, at the grid, and at the last block."
            }
            Self::NothingLaunched => {
                "No kernel was launched in this problem, and its output has elements, to be written even where an input has none: look at what the launch returns early for."
            }
            Self::UnsynchronisedTile => {
                "Shared memory is read before it is written, or written while it is still read: look for a barrier between the two."
            }
            Self::UnwrittenTile => {
                "Shared memory is read that no thread has written: the end of a ragged tile is not filled, a stride lacks the padding of a row, or the writer comes later and a barrier is missing."
            }
            Self::CopyInFlight => {
                "An asynchronous copy is not complete: each thread waits for the copies that it began, then all come to a barrier."
            }
            Self::UnwaitedTile => {
                "A bulk copy or a wgmma may still read or write these bytes: wait for the mbarrier of the copy, or for the group of the products, before the tile is used, freed or stored to."
            }
            Self::UnfencedProduct => {
                "A wgmma uses registers that ordinary instructions used before: wgmma_fence() stands before the first of the products, behind what computes o or p."
            }
            Self::ProductInFlight => {
                "A wgmma may still write its sums or read p: commit the products and wait for their group, before anything else uses these registers."
            }
            Self::Mbarrier => {
                "A phase of an mbarrier ends when so many have arrived as mbarrier_init says, and so many bytes have come as were announced: count both, look at the parity of each wait, and at warps that wait elsewhere, such as at a __syncthreads() to which the producer never comes."
            }
            Self::RaceInDeviceMemory => {
                "Two threads take the same element of device memory, and nothing orders them: look at the index, and at the stride of the loop. If they have to share it, order them, between blocks by a fence and an atomic."
            }
            Self::OutOfBounds => {
                "An access is outside its buffer: the report names the line, the thread and the buffer."
            }
            Self::NarrowIndex => {
                "An index has too few bits: a cache can have more than 2³² elements, so compute the first element of a sequence in 64 bits."
            }
            Self::NullPointer => {
                "A null pointer is used, or null plus an offset: lse is null where nobody asks for it, so test it before you move it. Look at the order of the launch's arguments, too."
            }
            Self::Misaligned => {
                "An address is not a multiple of the size of the access: vector loads need aligned rows."
            }
            Self::UninitialisedRead => {
                "Memory is read that nobody wrote: the report names the line and the buffer or variable."
            }
            Self::DivergentBarrier => {
                "Not all threads come to a barrier: look for __syncthreads() behind an early return or inside a branch."
            }
            Self::SharedTooLarge => {
                "Shared arrays of fixed size have 48 KiB at most: choose a smaller tile, where the task has one in `tile()`."
            }
            Self::EndlessLoop => "A loop does not end: look at its condition and its step.",
            Self::NotBegun => "It is still to be written.",
        }
    }
}
