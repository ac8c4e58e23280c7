//! Task `tune` of stage 4: the tile of a kernel that is given.

use conformance::{AnyError, Judge, suites};
use stage1_reference::Feature;
use stage4_flash_cuda::Rung;

use super::stage4::{forward, reference};
use super::{Exam, Input, Place, Rig, Whose, all, by};
use crate::remote::Tuned;

/// The choice of a tile for each shape.
pub(super) struct Tune;

/// Sizes `[H, nq, nk, D]` and causal mask of [`Input::Repeated`].
const SMALL: [([usize; 4], bool); 2] = [([2, 50, 70, 64], false), ([2, 65, 65, 128], true)];

impl Exam for Tune {
    /// The learner's code chooses a tile; the kernel runs in this process.
    fn place(&self) -> Place {
        Place::Host
    }

    fn lacks(&self) -> &'static [Feature] {
        &Rung::LACKS
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage4::attention::<f32>(judge, rig.device, &learner(rig));
    }

    fn timed_case(&self) -> &'static str {
        "" // the error names it
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        if input != Input::Repeated {
            return Err(input.missing());
        }
        let solution = reference(rig, Rung::RegisterTiles)?;
        by!(whose, &learner(rig), &solution, |own| {
            all(&SMALL, |&(sizes, causal)| {
                forward::<f32>(own, rig.device, sizes, causal, 0)
            })
        })
    }
}

fn learner<'a>(rig: &Rig<'a>) -> Tuned<'a> {
    Tuned {
        remote: rig.remote,
        device: rig.device,
    }
}
