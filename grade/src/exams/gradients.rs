//! Task `backward` of stage 4.

use conformance::device::Device;
use conformance::layout::Layout;
use conformance::problems::{attention, gradients};
use conformance::{AnyError, Judge, suites};
use stage1_reference::{Attend, Feature, Options, Output};
use stage3_flash_cpu::Flash;
use stage4_flash_cuda::{Backward, BackwardMode, FusedBackward, Rung, Stage4Backward};

use super::stage1::tensors;
use super::stage4::{SMALL, WITHOUT_KEYS, reference};
use super::{Exam, Input, Place, Rig, Whose, all, by};
use crate::cause::{self, Explanation, Wrong, probes};

/// The gradients of attention, without stored scores.
pub(super) struct BackwardTask;

/// Sizes `[H, nq, nk, D]` and causal mask of the problem that is timed.
const TIMED: [([usize; 4], bool); 1] = [([8, 256, 256, 64], true)];

/// Those of [`Input::Many`]. A block computes a whole tile for its one key, so they are fewer than of other tasks, and still more than
/// the blocks that a device holds at a time.
const MANY: [([usize; 4], bool); 1] = [([700, 1, 1, 16], false)];

impl Exam for BackwardTask {
    /// The sums of the rows are given.
    fn place(&self) -> Place {
        Place::Device {
            lower: &["stage4-flash-cuda/kernels/backward/row_dots"],
            reads_back: false,
        }
    }

    fn lacks(&self) -> &'static [Feature] {
        &Rung::LACKS
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        let forward = reference(rig, Rung::RegisterTiles);
        let forward = forward.expect("the simulated device says what it can do");
        suites::stage4::backward::<f32>(judge, rig.device, &forward, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        let probes = probes::gradients(&Rung::LACKS);
        cause::explain(
            wrong,
            cause::solved(probes, |problem, gradients| {
                *gradients = solve(rig.remote, rig.device, problem)?;
                Ok::<_, AnyError>(())
            }),
        )
    }

    fn has_many(&self) -> bool {
        true
    }

    /// But for delta, a number for each row.
    fn writes_once(&self) -> bool {
        true
    }

    fn also_repeated(&self) -> &'static [Input] {
        &[Input::WithoutKeys]
    }

    fn timed_case(&self) -> &'static str {
        "b1_h8_n256_d64_causal"
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let (problems, seed): (&[_], _) = match input {
            Input::Repeated => (&SMALL, 0),
            Input::WithoutKeys => (&WITHOUT_KEYS, 0),
            Input::Many => (&MANY, 0),
            Input::Timed(seed) => (&TIMED, seed),
            other => return Err(other.missing()),
        };
        by!(whose, rig.remote, &solution(rig)?, |own| {
            all(problems, |&(sizes, causal)| {
                let gradients = solve(own, rig.device, &problem(sizes, causal, seed))?;
                let stage3_flash_cpu::Gradients { dq, dk, dv } = gradients;
                Ok(dq.into_iter().chain(dk).chain(dv).collect())
            })
        })
    }
}

/// The stage's own implementation.
fn solution(rig: &Rig<'_>) -> Result<Stage4Backward, AnyError> {
    let backward = Backward::new(rig.device.stream.context())?;
    Ok(Stage4Backward {
        stream: rig.device.stream.clone(),
        backward: backward.with_mode(BackwardMode::Recompute),
    })
}

/// A problem of these sizes, with seeded inputs.
fn problem([heads, nq, nk, head_dim]: [usize; 4], causal: bool, seed: u64) -> gradients::Problem {
    let [q, k, v] = tensors((1, heads, nq, head_dim), (1, heads, nk, head_dim), seed);
    let options = Options::default();
    let options = if causal { options.causal() } else { options };
    gradients::Problem::new(attention::Problem::new(String::new(), q, k, v, options))
}

/// The gradients of a problem. Its forward pass is computed on the CPU, where it adds nothing to what is counted on the device.
fn solve(
    own: &impl FusedBackward,
    device: &Device,
    problem: &gradients::Problem,
) -> Result<stage3_flash_cpu::Gradients, AnyError> {
    let attention::Problem {
        q, k, v, options, ..
    } = &problem.forward;
    let forward: Output = Flash.attend(q.view(), k.view(), v.view(), options)?;
    suites::stage4::solve_backward(device, own, problem, &forward, [Layout::Packed; 4])
}
