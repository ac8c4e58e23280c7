//! The program that the grader runs. It is not part of the exercise.

fn main() {
    exercise_kit::stage5::serve(exercise_stage5::Own::new, exercise_stage5::Own::splitting)
}
