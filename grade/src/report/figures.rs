//! The figures that the assignment asks for.

use serde::{Deserialize, Serialize};

/// A figure; `None` if it was not measured.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct Figure {
    /// The shape.
    pub label: String,
    /// The learner's, in `unit`.
    pub yours: Option<f64>,
    /// The value that it is compared with, in `unit`.
    pub reference: Option<f64>,
    /// `ms`.
    pub unit: String,
}

/// All of them.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct Figures {
    /// Stage 4 over stage 2's kernels: two shapes, causal and not.
    pub flash: Vec<Figure>,
    /// Stage 5, time to first token and between tokens, with a cache over recomputing.
    pub decode: Vec<Figure>,
    /// Stage 6, time to first token and between tokens, over stage 6's program.
    pub pipeline: Vec<Figure>,
    /// The generated text.
    pub text: Option<String>,
}

impl Figure {
    /// A figure that was not measured.
    fn none(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            yours: None,
            reference: None,
            unit: "ms".to_owned(),
        }
    }

    /// The reference's time over the learner's.
    pub fn speed_up(&self) -> Option<f64> {
        Some(self.reference? / self.yours?)
    }
}

impl Default for Figures {
    /// The assignment's shapes, not measured.
    fn default() -> Self {
        let flash = [(4, 128), (64, 4096)].into_iter().flat_map(|(batch, n)| {
            ["not causal", "causal"].map(|mask| format!("B = {batch}, N = {n}, {mask}"))
        });
        let decode = [
            "TTFT: B = 16, prompt of 1024",
            "TBT: 100 steps, room for 2048",
        ];
        let pipeline = ["TTFT: the storyteller", "TBT: the storyteller"];
        Self {
            flash: flash.map(|label| Figure::none(&label)).collect(),
            decode: decode.map(Figure::none).to_vec(),
            pipeline: pipeline.map(Figure::none).to_vec(),
            text: None,
        }
    }
}
