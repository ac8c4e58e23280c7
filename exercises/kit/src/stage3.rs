//! The calls of stage 3: attention on host arrays. They are stage 1's.

use stage1_reference::{Attend, Error};

use crate::message::Outcome;
use crate::serving::{self, Answer};
use crate::stage1::{ArgumentOf, Call, attend};

/// Answers calls of [`Attend`].
pub fn serve<A: Attend<Error = Error>>(own: A) -> ! {
    serve_any(&own, A::argument_of)
}

fn serve_any(own: &dyn Attend<Error = Error>, argument_of: ArgumentOf) -> ! {
    serving::serve(|call, _| match call {
        Call::Attend(attention) => attend(own, argument_of, &attention),
        Call::MultiHead { .. } => {
            let text = "stage 3 has no multi-head layer".to_owned();
            Ok(Answer::on_host(Outcome::Failed { text }, Vec::new()))
        }
    })
}
