//! The program that the grader runs. It is not part of the exercise, but for the tiles of the bonus
//! tasks: `mma.rs`, `swizzle.rs`, `pipeline.rs`, `wgmma.rs`, `backward.rs` and `tune.rs`.

mod backward;
mod gradients;
mod mma;
mod pipeline;
mod swizzle;
mod tensor_cores;
mod tune;
mod wgmma;

fn main() {
    exercise_kit::stage4::serve(
        exercise_stage4::Own::new,
        tensor_cores::Bonus::new,
        gradients::Backward::new,
        tune::tile,
    )
}
