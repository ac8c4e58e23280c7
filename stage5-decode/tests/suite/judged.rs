//! The suite of the stage with the library and every rung.

use conformance::device::{Device, on_host_threads};
use conformance::{Implementation, Judge, Part, Report, suites};
use rstest::rstest;
use stage1_reference::Feature;
use stage5_decode::{
    CacheShape, CacheViewMut, Decode, Decoding, Error, Inputs, Mode, NewTokens, Outputs,
    PerSequence, Rung, Shape, Stage5,
};

const DECODE: Mode = Mode::Rung(Rung::Decode);
const SPLIT: Mode = Mode::Rung(Rung::Split);
const GROUPED: Mode = Mode::Rung(Rung::Grouped);
const MMA: Mode = Mode::Rung(Rung::Mma);

/// The tasks of the suite.
#[derive(Clone, Copy, PartialEq)]
enum Task {
    Decode,
    UpdateCache,
}

fn judge(task: Task, mode: Mode, splits: Option<usize>, part: Part) -> Report {
    judge_sample(task, mode, splits, part, 1)
}

/// By one of so many problems.
fn judge_sample(
    task: Task,
    mode: Mode,
    splits: Option<usize>,
    part: Part,
    sample: usize,
) -> Report {
    let device = Device::open();
    let decode = Decode::new(device.stream.context()).unwrap_or_else(|error| panic!("{error}"));
    let mut decode = decode.with_mode(mode);
    if let Some(splits) = splits {
        decode = decode.with_splits(splits);
    }
    let own = Stage5 {
        stream: device.stream.clone(),
        decode,
    };
    let who = Implementation {
        name: &format!("stage 5, {mode}"),
        device: &device.name,
        lacks: match mode {
            Mode::Library => &[],
            Mode::Rung(_) => &[Feature::Window, Feature::Strides],
        },
    };
    let parts = [part];
    let mut judge = Judge::new(&who, &parts).sampled(sample);
    match task {
        Task::Decode => suites::stage5::decode(&mut judge, &device, &own),
        Task::UpdateCache => suites::stage5::update_cache(&mut judge, &device, &own),
    }
    judge.report()
}

#[rstest]
fn solves_the_table(
    #[values(Mode::Library, DECODE, SPLIT, GROUPED, MMA)] mode: Mode,
) -> Result<(), Report> {
    judge_sample(Task::Decode, mode, None, Part::Table, 4).into_result()
}

#[rstest]
#[ignore = "a sweep"]
fn solves_the_whole_table(
    #[values(Mode::Library, DECODE, SPLIT, GROUPED, MMA)] mode: Mode,
) -> Result<(), Report> {
    judge(Task::Decode, mode, None, Part::Table).into_result()
}

/// Some parts of a sequence are empty, and some have keys that no query sees.
#[rstest]
#[case(Mode::Library, 5)]
#[case(Mode::Library, 16)]
#[case(SPLIT, 5)]
#[case(GROUPED, 16)]
fn solves_random_problems_in_parts(
    #[case] mode: Mode,
    #[case] splits: usize,
) -> Result<(), Report> {
    judge(Task::Decode, mode, Some(splits), Part::Random).into_result()
}

#[rstest]
fn the_library_takes_strides(
    #[values(Task::Decode, Task::UpdateCache)] task: Task,
) -> Result<(), Report> {
    judge_sample(task, Mode::Library, None, Part::Strided, 4).into_result()
}

#[rstest]
#[ignore = "a sweep"]
fn the_library_takes_all_strides(
    #[values(Task::Decode, Task::UpdateCache)] task: Task,
) -> Result<(), Report> {
    judge(task, Mode::Library, None, Part::Strided).into_result()
}

#[rstest]
fn solves_random_problems_and_reads_no_more_than_it_must(
    #[values(Mode::Library, DECODE, SPLIT, GROUPED)] mode: Mode,
    #[values(Part::Random, Part::Counted)] part: Part,
) -> Result<(), Report> {
    judge(Task::Decode, mode, None, part).into_result()
}

/// Few random problems have its caches: `steps` has some of them.
#[test]
fn rung_4_reads_no_more_than_it_must() -> Result<(), Report> {
    judge(Task::Decode, MMA, None, Part::Counted).into_result()
}

#[rstest]
fn refuses_bad_arguments(
    #[values(Task::Decode, Task::UpdateCache)] task: Task,
    #[values(Mode::Library, DECODE, SPLIT, MMA)] mode: Mode,
) -> Result<(), Report> {
    judge(task, mode, None, Part::Arguments).into_result()
}

#[rstest]
fn updates_caches(
    #[values(Mode::Library, DECODE)] mode: Mode,
    #[values(Part::Table, Part::Counted)] part: Part,
) -> Result<(), Report> {
    judge(Task::UpdateCache, mode, None, part).into_result()
}

#[test]
fn no_bit_of_rung_1_depends_on_the_schedule() {
    on_host_threads("judged::no_bit_of_rung_1_depends_on_the_schedule", || {
        judge(Task::Decode, DECODE, None, Part::Schedules)
    });
}

#[test]
fn no_bit_of_rung_2_depends_on_the_schedule() {
    on_host_threads("judged::no_bit_of_rung_2_depends_on_the_schedule", || {
        judge(Task::Decode, SPLIT, Some(5), Part::Schedules)
    });
}

#[test]
fn no_bit_of_rung_3_depends_on_the_schedule() {
    on_host_threads("judged::no_bit_of_rung_3_depends_on_the_schedule", || {
        judge(Task::Decode, GROUPED, Some(5), Part::Schedules)
    });
}

#[test]
fn no_bit_of_rung_4_depends_on_the_schedule() {
    on_host_threads("judged::no_bit_of_rung_4_depends_on_the_schedule", || {
        judge(Task::Decode, MMA, Some(5), Part::Schedules)
    });
}

#[test]
fn no_bit_of_the_library_depends_on_the_schedule() {
    on_host_threads(
        "judged::no_bit_of_the_library_depends_on_the_schedule",
        || judge(Task::Decode, Mode::Library, Some(5), Part::Schedules),
    );
}

#[test]
fn no_bit_of_the_cache_depends_on_the_schedule() {
    on_host_threads(
        "judged::no_bit_of_the_cache_depends_on_the_schedule",
        || judge(Task::UpdateCache, Mode::Library, None, Part::Schedules),
    );
}

/// Sees all keys, whatever the window, and says nothing of what it refuses.
struct Unbounded(Stage5);

impl Decoding for Unbounded {
    type Error = Error;

    fn update_cache(
        &self,
        cache: CacheViewMut<'_>,
        counts: PerSequence<'_>,
        new: NewTokens<'_>,
    ) -> Result<(), Error> {
        self.0.update_cache(cache, counts, new)
    }

    fn decode(&self, inputs: Inputs<'_>, outputs: Outputs<'_>, shape: &Shape) -> Result<(), Error> {
        let window = None;
        self.0.decode(inputs, outputs, &Shape { window, ..*shape })
    }

    fn has_cache(&self, _: &CacheShape, paged: bool) -> bool {
        !paged
    }

    fn argument_of(_: &Error) -> Option<&str> {
        None
    }
}

#[test]
fn a_wrong_decode_fails_the_problems_that_it_gets_wrong() {
    let device = Device::open();
    let wrong = Unbounded(Stage5 {
        stream: device.stream.clone(),
        decode: Decode::new(device.stream.context()).unwrap(),
    });
    let who = Implementation {
        name: "unbounded",
        device: &device.name,
        lacks: &[],
    };
    let report = suites::stage5::judge(&who, &[Part::Table, Part::Arguments], &device, &wrong);
    let failed = Vec::from_iter(report.failures().map(|case| &*case.name));
    let of_table = |name: &&str| !name.starts_with("refuses_");
    let wrong = Vec::from_iter(failed.iter().copied().filter(of_table));
    // The sequence is longer than the window in some; the paged ones are not asked for.
    assert_eq!(wrong.len(), 6, "{wrong:?}");
    assert!(
        wrong.iter().all(|name| name.contains("_window")),
        "{wrong:?}"
    );
    assert!(failed.contains(&"refuses_decode_short_q"), "{failed:?}");
    assert!(
        failed.contains(&"refuses_update_past_the_end"),
        "{failed:?}"
    );
}
