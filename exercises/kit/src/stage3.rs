//! The calls of stage 3: attention on host arrays.

use serde::{Deserialize, Serialize};
use stage1_reference::Attend;

use crate::serving;
use crate::stage1::{Modifiers, attend};

/// A call of [`Attend`].
#[derive(Serialize, Deserialize, Debug, Clone)]
pub enum Call {
    /// [`Attend::attend`]. Takes q, k, v, and the tensors of the modifiers; gives o and lse.
    Attend(Modifiers),
}

/// Answers calls of the stage's interface.
pub fn serve<A: Attend>(own: A) -> ! {
    serving::serve(|Call::Attend(modifiers), tensors, _| attend(&own, modifiers, tensors))
}
