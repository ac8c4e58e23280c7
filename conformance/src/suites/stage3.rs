//! The suite of stage 3: both passes of attention on host arrays, in memory that
//! grows with the sequence.

use std::hint::black_box;

use ndarray::{Array3, Array4};
use rayon::ThreadPoolBuilder;
use stage1_reference::{Attend, Feature, Options, Output};
use stage3_flash_cpu::{AttendBackward, Gradients};

use super::host;
use crate::compare::{Comparison, Tolerance};
use crate::inputs::{normal, tensor, uniform};
use crate::memory::extra;
use crate::problems::attention::random;
use crate::problems::{attention, gradients};
use crate::report::{Claim, Part, Report};
use crate::{Implementation, Judge};

/// Both passes, and dropout.
pub fn judge(
    who: &Implementation<'_>,
    parts: &[Part],
    own: &(impl AttendBackward + Sync),
) -> Report {
    let mut judge = Judge::new(who, parts);
    forward(&mut judge, own);
    backward(&mut judge, own);
    dropout(&mut judge, own);
    judge.report()
}

/// The forward pass.
pub fn forward(judge: &mut Judge<'_>, own: &(impl Attend + Sync)) {
    host::attention(judge, own);
    for part in judge.parts() {
        match part {
            Part::Schedules => {
                forward_schedules(judge, own, "threads_forward", attention::problems())
            }
            Part::Counted => forward_memory(judge, own),
            Part::Table | Part::Strided | Part::Random | Part::Arguments => {}
        }
    }
}

/// The backward pass, with the outputs of the implementation's own forward pass.
pub fn backward<A: AttendBackward + Sync>(judge: &mut Judge<'_>, own: &A) {
    let solve = |problem: &gradients::Problem, output: &mut Gradients| {
        *output = differentiated(own, problem)?;
        Ok::<_, A::Error>(())
    };
    for &part in judge.parts() {
        match part {
            Part::Table => judge.problems(part, gradients::problems(), solve),
            Part::Random => {
                for seed in judge.seeds(40) {
                    let head_dim = 1 + (7 * seed as usize) % 40;
                    let (problem, _) = random(seed << 8, head_dim, judge.lacks());
                    judge.problems(part, [gradients::Problem::new(problem)], solve);
                }
            }
            Part::Arguments => backward_arguments(judge, own),
            Part::Schedules => backward_schedules(judge, own),
            Part::Counted => backward_memory(judge, own),
            Part::Strided => {}
        }
    }
}

/// Both passes with dropout, which the task does not ask for.
pub fn dropout<A: AttendBackward + Sync>(judge: &mut Judge<'_>, own: &A) {
    host::dropout(judge, own);
    for &part in judge.parts() {
        match part {
            Part::Table => {
                let problems = attention::with_dropout().into_iter();
                let problems = problems.map(gradients::Problem::new);
                judge.problems(part, problems, |problem, output| {
                    *output = differentiated(own, problem)?;
                    Ok::<_, A::Error>(())
                });
            }
            Part::Schedules => {
                forward_schedules(judge, own, "threads_dropout", attention::with_dropout())
            }
            Part::Strided | Part::Random | Part::Arguments | Part::Counted => {}
        }
    }
}

/// The gradients of a problem, with the outputs of the implementation's own forward pass.
fn differentiated<A: AttendBackward>(
    own: &A,
    problem: &gradients::Problem,
) -> Result<Gradients, A::Error> {
    let forward = &problem.forward;
    let (q, k, v) = (forward.q.view(), forward.k.view(), forward.v.view());
    let attended = own.attend(q, k, v, &forward.options)?;
    let d_o = problem.d_o.view();
    own.attend_backward(q, k, v, &forward.options, &attended, d_o)
}

/// Runs `work` on so many host threads.
fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("a few threads can be started").install(work)
}

const THREADS: [usize; 3] = [1, 2, 7];

fn forward_schedules<A: Attend + Sync>(
    judge: &mut Judge<'_>,
    own: &A,
    name: &str,
    mut table: Vec<attention::Problem>,
) {
    table.retain(|problem| judge.missing(problem).is_none());
    judge.same_bits(name, THREADS, |&threads| {
        on_threads(threads, || {
            let mut values = Vec::new();
            for problem in &table {
                let (q, k, v) = (problem.q.view(), problem.k.view(), problem.v.view());
                let output = own.attend(q, k, v, &problem.options)?;
                values.extend(output.o.into_iter().chain(output.lse));
            }
            Ok::<_, A::Error>(values)
        })
    });
}

/// Threads add to dq in any order: they change nothing but its rounding.
fn backward_schedules<A: AttendBackward + Sync>(judge: &mut Judge<'_>, own: &A) {
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, 2, 200, 24), seed, normal));
    let (q, k, v, mut options) = (q.view(), k.view(), v.view(), Options::default());
    options.causal = !judge.lacks().contains(&Feature::Causal);
    let d_o = tensor(q.raw_dim(), 77, normal);
    let solve = |threads| {
        on_threads(threads, || {
            let output = own.attend(q, k, v, &options)?;
            own.attend_backward(q, k, v, &options, &output, d_o.view())
        })
    };
    judge.compared(Part::Schedules, "threads_backward", || {
        let first = solve(1)?;
        let mut all = Vec::new();
        for threads in [2, 7] {
            let other = solve(threads)?;
            for (name, x, first) in [
                ("dq", &other.dq, &first.dq),
                ("dk", &other.dk, &first.dk),
                ("dv", &other.dv, &first.dv),
            ] {
                let first = first.mapv(f64::from);
                let tolerance = Tolerance::of_largest(1e-6, &first);
                all.push(Comparison::new(name, x.view(), first.view(), tolerance));
            }
        }
        Ok::<_, A::Error>(all)
    });
}

fn backward_arguments<A: AttendBackward>(judge: &mut Judge<'_>, own: &A) {
    let ones = |n| Array4::<f32>::ones((1, 1, n, 4));
    let (q, options) = (ones(3), Options::default());
    let fits = Output {
        o: ones(3),
        lse: Array3::zeros((1, 1, 3)),
    };
    let (mut short_o, mut short_lse) = (fits.clone(), fits.clone());
    short_o.o = ones(2);
    short_lse.lse = Array3::zeros((1, 1, 2));
    for (name, output, d_o, argument) in [
        ("wide_d_o", &fits, Array4::ones((1, 1, 3, 5)), "d_o"),
        ("short_o", &short_o, ones(3), "o"),
        ("short_lse", &short_lse, ones(3), "lse"),
    ] {
        judge.refusal(name, argument, A::argument_of, || {
            let q = q.view();
            let result = own.attend_backward(q, q, q, &options, output, d_o.view());
            (result.map(|_| ()), true)
        });
    }
}

/// Queries and keys of the problem whose memory is counted: its scores would take 1 GiB.
const LONG: usize = 16_384;
const LONG_HEAD_DIM: usize = 64;

/// Bytes that a pass on two threads may need beyond its results: each thread has
/// scratch memory of its own.
const SCRATCH: u64 = 4 << 20;

/// Inputs, and options with a window, which saves time and no memory: scratch memory is
/// the same for every tile.
fn long(lacks: &[Feature]) -> ([Array4<f32>; 3], Options) {
    let shape = (1, 1, LONG, LONG_HEAD_DIM);
    let tensors = [1, 2, 3].map(|seed| tensor(shape, seed, uniform));
    let options = match lacks.contains(&Feature::Window) {
        true => Options::default(),
        false => Options::default().window(200, 200),
    };
    (tensors, options)
}

/// True if memory is counted: the program's allocator must be
/// [`Counting`](crate::memory::Counting), and no other thread may allocate meanwhile.
fn counts(judge: &mut Judge<'_>) -> bool {
    // The compiler may leave out what nobody looks at.
    let (bytes, _) = extra(0, || black_box(vec![0u8; 5 << 20]));
    if bytes < 5 << 20 {
        let claim = Claim {
            expected: "an allocator that counts".to_owned(),
            actual: "memory is not counted in this program".to_owned(),
            holds: false,
        };
        judge.claim(Part::Counted, "allocator".to_owned(), claim);
    }
    bytes >= 5 << 20
}

fn forward_memory(judge: &mut Judge<'_>, own: &(impl Attend + Sync)) {
    if !counts(judge) {
        return;
    }
    let ([q, k, v], options) = long(judge.lacks());
    let results = (q.len() + LONG) * size_of::<f32>();
    let (bytes, failed) = on_threads(2, || {
        let work = || own.attend(q.view(), k.view(), v.view(), &options);
        let (bytes, output) = extra(results, work);
        (bytes, output.is_err())
    });
    // A call that fails needs no memory, so it must not pass.
    let bytes = if failed { u64::MAX } else { bytes as u64 };
    judge.at_most("memory_forward", "bytes beyond the results", bytes, SCRATCH);
}

fn backward_memory(judge: &mut Judge<'_>, own: &(impl AttendBackward + Sync)) {
    if !counts(judge) {
        return;
    }
    let ([q, k, v], options) = long(judge.lacks());
    let (q, k, v) = (q.view(), k.view(), v.view());
    let results = 3 * q.len() * size_of::<f32>();
    let bytes = on_threads(2, || {
        let output = own.attend(q, k, v, &options).ok()?;
        let d_o = output.o.view();
        let work = || own.attend_backward(q, k, v, &options, &output, d_o);
        let (bytes, gradients) = extra(results, work);
        gradients.is_ok().then_some(bytes as u64)
    });
    let bytes = bytes.unwrap_or(u64::MAX);
    judge.at_most(
        "memory_backward",
        "bytes beyond the results",
        bytes,
        SCRATCH,
    );
}
