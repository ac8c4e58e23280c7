//! What a page asks for.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One run of a kernel file, or several launches of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The PTX text.
    pub ptx: String,
    /// The comments that state launches, arguments and results, in the format of
    /// [`gpu_launch::Invocation`].
    pub launch: String,
    /// The name of the file in titles.
    #[serde(default)]
    pub name: String,
    /// Texts of the source files that the PTX names, by their names there.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// Permutes the order of blocks and warps.
    pub seed: Option<u64>,
    /// Instructions that a warp may run.
    pub budget: Option<u64>,
    /// Elements of each buffer to show.
    #[serde(default)]
    pub values: usize,
    /// What to record of the first launch.
    pub trace: Option<TraceRequest>,
}

/// The steps of a warp to record.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// Source lines, by file and number; all lines if there are none.
    #[serde(default)]
    pub lines: Vec<(String, u32)>,
    /// Index of the block.
    #[serde(default)]
    pub block: [u32; 3],
    /// Number of the warp in its block.
    #[serde(default)]
    pub warp: u32,
    /// Steps at most.
    pub steps: usize,
}
