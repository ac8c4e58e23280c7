//! Whole gradings: the solutions, the untouched starters, and submissions that are broken in every way.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use grade::child::Limits;
use grade::grade::{Settings, Step, grade};
use grade::places::Places;
use grade::tasks::{TASKS, Task, select};
use grade::verdict::{Grade, Kind, Subject, TaskGrade};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The tasks that a test grades at every run of the tests: one on the CPU, one on a device.
const SOME: [(u8, &str); 2] = [(1, "mha"), (2, "softmax")];

/// The grades of some tasks.
fn graded(chosen: impl Fn(&Task) -> bool, places: Places) -> Grade {
    let tasks: Vec<_> = TASKS.iter().filter(|task| chosen(task)).collect();
    grade(&Settings::new(places), &tasks, |_| {}).unwrap()
}

fn is_some(task: &Task) -> bool {
    SOME.contains(&(task.stage, task.id))
}

#[test]
fn a_solution_gets_full_marks_and_its_starter_nothing() {
    full_marks(&graded(is_some, Places::solution(root())));
    not_begun(&graded(is_some, starters()));
}

/// `GRADINGS=20 cargo test -p grade -- --ignored full_marks` grades 20 times.
#[test]
#[ignore = "grades all tasks twice: takes minutes"]
fn the_solutions_get_full_marks_each_time_and_reports_differ_in_times_alone() {
    let gradings = std::env::var("GRADINGS").map_or(2, |count| count.parse().unwrap());
    let mut first: Option<Grade> = None;
    for grading in 0..gradings {
        let grade = graded(|_| true, Places::solution(root()));
        full_marks(&grade);
        let grade = without_times(grade);
        let first = first.get_or_insert_with(|| grade.clone());
        assert_eq!(grade.tasks, first.tasks, "grading {grading}");
        println!("grading {grading}: 20 of 20");
    }
}

/// Modelled times stay: they are counted.
fn without_times(mut grade: Grade) -> Grade {
    for task in &mut grade.tasks {
        task.seconds = 0.0;
        if let Some(work) = &mut task.work
            && work.label == "time on the CPU"
        {
            (work.yours, work.reference) = (0.0, 0.0);
            for fast in task
                .criteria
                .iter_mut()
                .filter(|criterion| criterion.kind == Kind::Fast)
            {
                fast.note.clear();
            }
        }
    }
    grade
}

fn full_marks(grade: &Grade) {
    for task in &grade.tasks {
        assert_eq!(task.score, task.points, "{task:#?}");
        assert_eq!(task.headline, "Full marks.");
        let work = task.work.as_ref().unwrap();
        assert!(work.yours > 0.0 && work.reference > 0.0, "{work:?}");
        assert!(
            task.criteria.iter().all(|criterion| criterion.run > 0),
            "{task:#?}"
        );
    }
    // The same kernels as the stage's, so the same counted work.
    for task in grade.tasks.iter().filter(|task| task.stage == 2) {
        let work = task.work.as_ref().unwrap();
        assert_eq!(work.yours, work.reference, "{work:?}");
    }
}

#[test]
#[ignore = "builds all stages: takes minutes"]
fn untouched_starters_get_nothing_and_say_what_to_write() {
    not_begun(&graded(|_| true, starters()));
}

fn starters() -> Places {
    Places::submission(root(), "starters", "/none".into())
}

fn not_begun(grade: &Grade) {
    for task in &grade.tasks {
        assert_eq!(task.score, 0.0, "{task:#?}");
        let file = format!("exercises/stage{}/", task.stage);
        let says = task.headline.starts_with("Not begun: write ") && task.headline.contains(&file);
        assert!(says, "{}", task.headline);
    }
}

/// The solution of a stage with other files in it, and its grade for one task.
fn broken(stage: u8, task: &str, files: &[(&str, String)]) -> TaskGrade {
    let places = Places::submission(root(), "broken", tmp("broken"));
    broken_in(&places, LIMITS, stage, task, files)
}

const LIMITS: Limits = Limits {
    build: Duration::from_secs(20),
    call: Duration::from_secs(4),
    task: Duration::from_secs(20),
    clock: Duration::from_secs(80),
    submission: Duration::from_secs(80),
    cpu_seconds: 300,
    memory: 2 << 30,
};

/// The same. What the program finds in its working directory is what these places have.
fn broken_in(
    places: &Places,
    limits: Limits,
    stage: u8,
    task: &str,
    files: &[(&str, String)],
) -> TaskGrade {
    let task = changed_in(places, limits, stage, task, files);
    assert_eq!(task.score, 0.0, "{task:#?}");
    task
}

/// The same, of what need not be broken.
fn changed_in(
    places: &Places,
    limits: Limits,
    stage: u8,
    task: &str,
    files: &[(&str, String)],
) -> TaskGrade {
    steps_changed_in(places, limits, stage, task, files).remove(0)
}

/// The same, of all steps of a task.
fn steps_changed_in(
    places: &Places,
    limits: Limits,
    stage: u8,
    task: &str,
    files: &[(&str, String)],
) -> Vec<TaskGrade> {
    // One after the other, in the same folder: what is the same is built once.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = fs::remove_dir_all(&places.submission);
    let folder = format!("stage{stage}");
    let solution = root().join("exercises/solutions").join(&folder);
    copy(&solution, &places.submission.join(&folder));
    for (name, text) in files {
        fs::write(places.submission.join(&folder).join(name), text).unwrap();
    }
    let settings = Settings {
        limits,
        ..Settings::new(places.clone())
    };
    let tasks = select(Some(stage), Some(task)).unwrap();
    grade(&settings, &tasks, |_| {}).unwrap().tasks
}

fn tmp(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::write(to, fs::read(&path).unwrap()).unwrap();
        }
    }
}

fn solution(file: &str) -> String {
    fs::read_to_string(root().join("exercises/solutions").join(file)).unwrap()
}

/// Mischief in front of attention: its name, its code, and words of the headline.
const MISCHIEF: [(&str, &str, &[&str]); 10] = [
    (
        "panics",
        r#"panic!("at the disco")"#,
        &["panicked", "src/lib.rs:", "at the disco"],
    ),
    (
        "spins",
        "loop { std::hint::spin_loop() }",
        &["did not answer", "it worked for 1 s"],
    ),
    (
        "parks",
        "loop { std::thread::park() }",
        &["did not answer", "it waited for 1 s without work"],
    ),
    (
        "takes_memory",
        "let mut all = Vec::new(); loop { all.push(vec![0u8; 1 << 26]); std::hint::black_box(&all); }",
        &["the program ended", "memory"],
    ),
    (
        "prints",
        r#"let line = "x".repeat(1 << 20); loop { println!("{line}"); }"#,
        &["the program was stopped", "it printed more than 64 MiB"],
    ),
    (
        "leaves_the_sandbox",
        include_str!("leaves_the_sandbox.rs"),
        &[
            "child false, forked false, network false, read false, written false, own true, thread true",
        ],
    ),
    // The grader's priority, processors and limits decide how long the reference takes: nobody else changes them. The calls
    // would change nothing if they were allowed.
    (
        "touches_the_grader",
        include_str!("touches_the_grader.rs"),
        &["others [-1, -1, -1, -1, -1, -1], own [0, 1]"],
    ),
    (
        "exits",
        "std::process::exit(0)",
        &["the program ended", "without an answer"],
    ),
    // The frame of a reply: done, without outputs, without launches, and nothing is in use.
    (
        "answers",
        r#"println!("\x08\0\0\0\0\0\0\0\0\0\0\0null"); eprintln!("score: 2"); panic!("printed")"#,
        &["printed"],
    ),
    ("is_wrong", r#"panic!("wrong")"#, &["wrong"]),
];

/// All of it is in one program, which is built once: a file in its working directory says what it does.
#[test]
fn mischief_ends_with_its_reason() {
    let marker = "let sizes = Sizes::of(\"attention\", q.dim(), k.dim(), v.dim())?;";
    let text = solution("stage1/src/lib.rs");
    assert_eq!(text.matches(marker).count(), 1);
    let arms = MISCHIEF.map(|(name, code, _)| format!("{name:?} => {{ {code} }}\n"));
    let chosen = format!(
        "match &*std::fs::read_to_string(\"mischief\").unwrap() {{\n{}_ => panic!(\"another\"),\n}}\n",
        arms.concat()
    );
    let text = text.replace(marker, &(chosen + marker));
    for (name, _, words) in MISCHIEF {
        let places = Places::submission(root(), "mischief", tmp("mischief"));
        let working = places.scratch.join("cache");
        fs::create_dir_all(&working).unwrap();
        fs::write(working.join("mischief"), name).unwrap();
        let mut limits = LIMITS;
        if let "spins" | "parks" = name {
            limits.call = Duration::from_secs(1);
        }
        let task = broken_in(&places, limits, 1, "mha", &[("src/lib.rs", text.clone())]);
        let missing = words.iter().find(|word| !task.headline.contains(**word));
        assert_eq!(missing, None, "{name}: {task:#?}");
        let printed = &task.output;
        match name {
            "takes_memory" => assert!(printed.contains("memory allocation"), "{printed}"),
            "prints" => assert!(
                printed.len() < 100 << 10 && printed.contains("bytes left out"),
                "{}",
                printed.len()
            ),
            "answers" => assert!(printed.contains("score: 2") && printed.contains("null")),
            // The others follow correctness.
            "is_wrong" => {
                let shares = task.criteria.iter();
                let shares: Vec<(Kind, f64)> = shares.map(|it| (it.kind, it.share)).collect();
                assert_eq!(shares, Kind::ALL.map(|kind| (kind, 0.0)));
                assert!(task.criteria[0].run > 0 && task.criteria[1].run == 0);
            }
            _ => {}
        }
    }
}

/// A frame that is written before the kit moves its pipes, and before there is a request, is no reply.
#[test]
fn a_constructor_cannot_answer() {
    let text = solution("stage1/src/lib.rs") + include_str!("answers_early.rs");
    let task = broken(1, "mha", &[("src/lib.rs", text)]);
    says(
        &task,
        &[
            "the program's answer cannot be read",
            "it answers no request",
        ],
    );
}

/// Stage 2's solution with another softmax.cu and its committed PTX, which the grader takes from nobody else.
fn with_kernel(name: &str) -> TaskGrade {
    let folder = root().join("grade/tests/broken").join(name);
    let mut files = vec![(
        "kernels/softmax.cu".to_owned(),
        folder.join("kernels/softmax.cu"),
    )];
    for ptx in fs::read_dir(folder.join("ptx")).unwrap() {
        let path: PathBuf = ptx.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        files.push((format!("ptx/{name}"), path));
    }
    assert_eq!(files.len(), 2, "the kernel's PTX is committed");
    let files: Vec<(String, String)> = files
        .into_iter()
        .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
        .collect();
    let files: Vec<(&str, String)> = files
        .iter()
        .map(|(name, text)| (&**name, text.clone()))
        .collect();
    let places = Places {
        subject: Subject::Solution,
        ..Places::submission(root(), "broken", tmp("broken"))
    };
    broken_in(&places, LIMITS, 2, "softmax", &files)
}

#[track_caller]
fn says(task: &TaskGrade, words: &[&str]) {
    let missing = words.iter().find(|word| !task.headline.contains(**word));
    assert_eq!(missing, None, "{task:#?}");
}

#[test]
fn a_step_that_hangs_is_not_waited_for_again() {
    let text = solution("stage3/src/flash.rs").replace(
        "    for rows in tiles(0..nq, BLOCK_Q) {",
        "    while nq > 0 {}\n    for rows in tiles(0..nq, BLOCK_Q) {",
    );
    let places = Places::submission(root(), "broken", tmp("hanging-step"));
    let mut limits = LIMITS;
    limits.call = Duration::from_secs(1);
    let steps = steps_changed_in(&places, limits, 3, "flash", &[("src/flash.rs", text)]);
    let [online, ragged, causal] = &steps[..] else {
        panic!("{steps:#?}");
    };
    says(online, &["did not answer and was stopped"]);
    for later in [ragged, causal] {
        says(later, &["Not run: a call of an earlier step of this task"]);
        assert_eq!(later.output, "", "nothing is called");
    }
}

#[test]
fn a_kernel_that_hangs_is_stopped() {
    let task = with_kernel("hangs");
    says(&task, &["softmax", "instructions", "softmax.cu:"]);
}

#[test]
fn a_kernel_that_writes_out_of_bounds_is_named_with_its_line() {
    says(
        &with_kernel("out_of_bounds"),
        &["softmax.cu:10", "out-of-bounds store"],
    );
}

#[test]
fn a_kernel_that_does_not_compile_is_named_or_needs_a_compiler() {
    let text =
        solution("stage2/kernels/softmax.cu").replace("float sum = 0.0f;", "float sum = nothing;");
    let task = broken(2, "softmax", &[("kernels/softmax.cu", text)]);
    match gpu::find_nvrtc::search().unwrap().found {
        Some(_) => says(
            &task,
            &[
                "does not compile: exercises/stage2/kernels/softmax.cu",
                "nothing",
            ],
        ),
        None => says(&task, &["cargo gpu fetch-nvrtc"]),
    }
}

#[test]
fn rust_that_does_not_compile_is_named_with_its_line() {
    let text = solution("stage1/src/lib.rs") + "\nfn broken() -> u32 { \"text\" }\n";
    let line = text.lines().count();
    let task = broken(1, "mha", &[("src/lib.rs", text)]);
    let place = format!("exercises/stage1/src/lib.rs:{line}:");
    says(&task, &["does not compile", &place, "mismatched types"]);
    assert!(
        task.findings[0].detail.contains("expected `u32`"),
        "{task:#?}"
    );
}

#[test]
#[ignore = "compiles kernels: needs NVRTC"]
fn a_file_that_does_not_compile_costs_its_own_task_alone() {
    let text = solution("stage2/src/gemm.rs") + "\nfn broken() -> u32 { \"text\" }\n";
    let places = Places::submission(root(), "broken", tmp("broken"));
    let other = [("src/gemm.rs", text.clone())];
    let task = changed_in(&places, LIMITS, 2, "softmax", &other);
    assert_eq!(task.headline, "Full marks.");
    let task = broken(2, "gemm", &[("src/gemm.rs", text)]);
    says(
        &task,
        &["does not compile", "exercises/stage2/src/gemm.rs:"],
    );
}

/// What a build does not survive in the files of a task: the text, and the beginning of the headline. The kernels are embedded as
/// UTF-8, and the compiler names another file.
const BROKEN: [(&str, &[u8], &str); 3] = [
    (
        "src/gemm.rs",
        b"fn broken() -> u32 { \"text\" }",
        "It does not compile: exercises/stage2/src/gemm.rs:",
    ),
    (
        "src/gemm.rs",
        b"#[allow(long_running_const_eval)]\nconst _: () = loop {};",
        "It does not compile: the compiler was stopped: it worked for 5 s. Of this task it compiled exercises/stage2/src/gemm.rs.",
    ),
    ("kernels/gemm.cu", b"// \xff", "It does not compile: "),
];

/// Each task is judged by its own files: one that does not compile costs the others nothing.
#[test]
#[ignore = "grades a stage three times: takes half a minute"]
fn a_file_that_is_broken_costs_its_own_task_alone() {
    for (file, text, headline) in BROKEN {
        let places = Places::submission(root(), "shared", tmp("shared"));
        let _ = fs::remove_dir_all(&places.submission);
        let folder = places.submission.join("stage2");
        copy(&root().join("exercises/solutions/stage2"), &folder);
        let whole = [solution(&format!("stage2/{file}")).as_bytes(), text, b"\n"].concat();
        fs::write(folder.join(file), whole).unwrap();
        let settings = Settings {
            values_alone: true,
            limits: Limits {
                build: Duration::from_secs(5),
                ..LIMITS
            },
            ..Settings::new(places)
        };
        let tasks = select(Some(2), None).unwrap();
        let grade = grade(&settings, &tasks, |_| {}).unwrap();
        let says = |task: &TaskGrade| task.headline.starts_with(headline);
        assert!(says(&grade.tasks[1]), "{grade:#?}");
        let compiled = grade
            .tasks
            .iter()
            .map(|task| !task.headline.contains("does not compile"));
        assert_eq!(Vec::from_iter(compiled), [true, false, true], "{grade:#?}");
    }
}

/// Tasks of a stage that compiles are graded by one program.
#[test]
fn tasks_that_compile_share_a_program() {
    let places = Places::submission(root(), "compiles", tmp("compiles"));
    let folder = places.submission.join("stage2");
    copy(&root().join("exercises/solutions/stage2"), &folder);
    let settings = Settings {
        values_alone: true,
        ..Settings::new(places)
    };
    let tasks = select(Some(2), None).unwrap();
    let mut builds = 0;
    let count = |step: Step<'_>| builds += usize::from(matches!(step, Step::Building(_)));
    let grade = grade(&settings, &tasks, count).unwrap();
    assert_eq!(builds, 1, "{grade:#?}");
}

/// The first task takes more than there is.
#[test]
fn no_task_is_begun_when_the_time_of_the_submission_is_over() {
    let settings = Settings {
        limits: Limits {
            submission: Duration::from_nanos(1),
            ..LIMITS
        },
        ..Settings::new(Places::submission(root(), "late", "/none".into()))
    };
    let tasks = select(Some(5), None).unwrap();
    let mut builds = 0;
    let count = |step: Step<'_>| builds += usize::from(matches!(step, Step::Building(_)));
    let grade = grade(&settings, &tasks, count).unwrap();
    let starts = grade.tasks.iter().map(|task| {
        assert_eq!(task.score, 0.0);
        task.headline.starts_with("Not run: ")
    });
    // Time for bonus tasks is apart.
    let expected = [false, true, true, true, false];
    assert_eq!(Vec::from_iter(starts), expected, "{grade:#?}");
    assert!(
        grade.tasks[0].headline.contains("was stopped"),
        "{grade:#?}"
    );
    // One for each kind of task.
    assert_eq!(builds, 2);
}

#[test]
fn a_file_that_is_absent_is_named() {
    let places = Places::submission(root(), "absent", tmp("absent"));
    fs::create_dir_all(places.submission.join("stage4/src")).unwrap();
    let launch = solution("stage4/src/launch.rs");
    fs::write(places.submission.join("stage4/src/launch.rs"), launch).unwrap();
    let tasks = select(Some(4), Some("flash")).unwrap();
    let grade = grade(&Settings::new(places), &tasks, |_| {}).unwrap();
    assert_eq!(grade.tasks.len(), 4);
    for task in &grade.tasks {
        says(task, &["Not in the submission: stage4/kernels/flash.cu"]);
        assert!(
            task.findings.iter().all(|finding| finding.cause.is_none()),
            "{task:#?}"
        );
    }
}

/// A submission from before there were bonus tasks has nothing of them, and a `lib.rs` that does not know them.
#[test]
fn a_bonus_that_a_submission_lacks_is_not_begun() {
    let places = Places::submission(root(), "without-bonus", tmp("without-bonus"));
    let sources = places.submission.join("stage4/src");
    fs::create_dir_all(&sources).unwrap();
    let lib = fs::read_to_string(root().join("exercises/stage4/src/lib.rs")).unwrap();
    let code = lib.lines().filter(|line| !line.starts_with("//!"));
    let code = code.collect::<Vec<_>>().join("\n");
    for file in [
        "mma",
        "swizzle",
        "pipeline",
        "wgmma",
        "tensor_cores",
        "backward",
        "tune",
    ] {
        assert!(!code.contains(file), "{file}");
    }
    fs::write(sources.join("lib.rs"), lib).unwrap();
    let mut tasks = select(Some(4), None).unwrap();
    tasks.retain(|task| task.bonus);
    assert_eq!(tasks.len(), 6);
    not_begun(&grade(&Settings::new(places), &tasks, |_| {}).unwrap());
}

/// A submission may have no link, so that the exercise has a copy.
#[test]
fn the_headers_of_stage_4_are_those_of_the_ladder() {
    let read = |file: String| fs::read_to_string(root().join(file)).unwrap();
    for (header, folder) in [
        ("mma.cuh", ""),
        ("hopper.cuh", ""),
        ("wgmma.cuh", ""),
        ("tile.cuh", "backward/"),
    ] {
        let own = format!("stage4-flash-cuda/kernels/{folder}{header}");
        let given = format!("exercises/stage4/kernels/{header}");
        assert!(
            read(own.clone()) == read(given.clone()),
            "copy {own} to {given}"
        );
    }
}

/// The sandbox denies it. Without one, the grader looks at the list of what the compiler read.
#[test]
fn a_build_that_reads_the_solution_is_refused() {
    let solution = root().canonicalize().unwrap();
    let solution = solution.join("exercises/solutions/stage1/src/lib.rs");
    let read = [
        format!("const _: &str = include_str!({solution:?});"),
        format!("#[path = {solution:?}] mod solved;"),
    ];
    for read in read {
        let text =
            self::solution("stage1/src/lib.rs") + "\n#[allow(missing_docs, unused)]\n" + &read;
        let task = broken(1, "mha", &[("src/lib.rs", text)]);
        says(&task, &["read", "solutions/stage1/src/lib.rs"]);
    }
}
