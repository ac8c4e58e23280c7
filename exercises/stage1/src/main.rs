//! The program that the grader runs. It is not part of the exercise.

fn main() {
    exercise_kit::stage1::serve(exercise_stage1::Own)
}
