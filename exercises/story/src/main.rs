//! The program that `cargo grade story` runs: a learner's decoder, with the attention of his own
//! stages 4 and 5.

use exercise_kit::given::Makers;
use exercise_kit::stage6::serve_story;

fn main() {
    let own = Makers {
        fused: |stream| Box::new(exercise_stage4::Own::new(stream)),
        decoding: |stream| Box::new(exercise_stage5::Own::new(stream)),
    };
    serve_story(exercise_stage6::Own, own)
}
