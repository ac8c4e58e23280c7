//! Stage 2's interface.

use stage2_naive_cuda::{Call, Steps};

use super::{Error, Remote};

impl Steps for Remote {
    type Error = Error;

    fn run(&self, mut call: Call<'_>) -> Result<(), Error> {
        let message: exercise_kit::stage2::Call =
            call.try_map(|view| self.read(view), |view| self.read(&view.as_view()))?;
        let (first, second) = call.outputs();
        self.into_views(message, first, second)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
