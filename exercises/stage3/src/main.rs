//! The program that the grader runs. It is not part of the exercise.

fn main() {
    exercise_kit::stage3::serve(exercise_stage3::Own)
}
