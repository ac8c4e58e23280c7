use ndarray::ArrayView4;
use stage1_reference::{Attend, Error, Options, Output, by_head};

use crate::flash::attend_head;

/// The plain implementation, `flash.rs`: causal or not, and no other option. It lacks
/// [`Head::LACKS`](stage1_reference::Head::LACKS).
#[derive(Debug, Clone, Copy)]
pub struct Flash;

impl Attend for Flash {
    type Error = Error;

    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        by_head("flash", [q, k, v], options, attend_head)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        Some(error.argument())
    }
}
