//! The program that the grader runs. It is not part of the exercise.

fn main() {
    exercise_kit::stage4::serve(exercise_stage4::Own::new)
}
