//! The program that the grader runs. It is not part of the exercise.

fn main() {
    exercise_kit::stage2::serve(exercise_stage2::Own::new)
}
