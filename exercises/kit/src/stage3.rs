//! The calls of stage 3: attention on host arrays. They are stage 1's.

use stage1_reference::Attend;

use crate::message::Outcome;
use crate::serving::{self, Answer};
use crate::stage1::{Call, attend};

/// Answers calls of [`Attend`].
pub fn serve<A: Attend>(own: A) -> ! {
    serving::serve(|call, tensors, _| match call {
        Call::Attend(modifiers) => attend(&own, modifiers, tensors),
        Call::MultiHead { .. } => {
            let text = "stage 3 has no multi-head layer".to_owned();
            Ok(Answer::on_host(Outcome::Failed { text }, Vec::new()))
        }
    })
}
