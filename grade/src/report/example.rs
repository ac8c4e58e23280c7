//! A grade for the tests of the reports: full marks, wrong values, bad arguments, and a bonus that was not begun.

use crate::verdict::{
    Cause, Criterion, Finding, Grade, Kind, LaunchWork, SCHEMA, Subject, TaskGrade, Work,
};

/// The grade.
pub fn grade() -> Grade {
    Grade {
        schema: SCHEMA,
        subject: Subject::Learner,
        device: "cuda-sim (h100)".to_owned(),
        date: "2026-11-22T16:58:21Z".to_owned(),
        commit: Some("45ad50c+".to_owned()),
        seed: Some(7),
        tasks: vec![
            TaskGrade {
                headline: "Full marks.".to_owned(),
                work: Some(work("time on the CPU", [110.0, 100.0], Vec::new())),
                ..task(1, "mha", 2.0, [(3, 3), (4, 4), (2, 2), (1, 1)])
            },
            softmax(),
            flash(),
            TaskGrade {
                bonus: true,
                headline: "It is the starter.".to_owned(),
                ..task(5, "split", 1.0, [(0, 2), (0, 0), (0, 0), (0, 0)])
            },
        ],
    }
}

fn softmax() -> TaskGrade {
    let unsubtracted = |case: &str| Finding {
        case: case.to_owned(),
        cause: Some(Cause::NoMaxSubtraction),
        ..finding(Kind::Correct, "o[0, 1] is NaN, expected 0.25.")
    };
    let store = "out-of-bounds store of 4 bytes in softmax.cu:12.";
    TaskGrade {
        headline: "The values of 4 of 5 problems are wrong.".to_owned(),
        findings: vec![
            unsubtracted("r2_c33_peaks"),
            unsubtracted("r3_c65_peaks"),
            unsubtracted("r4_c129_peaks"),
            Finding {
                case: "r1_c1".to_owned(),
                ..finding(Kind::Correct, store)
            },
        ],
        output: "hello\n".to_owned(),
        ..task(2, "softmax", 1.0, [(1, 5), (0, 0), (0, 0), (0, 0)])
    }
}

fn flash() -> TaskGrade {
    let launch = LaunchWork {
        kernel: "flash".to_owned(),
        microseconds: 30.0,
        flops: 3e8,
        dram_bytes: 1e6,
    };
    TaskGrade {
        score: 3.0,
        headline: "Bad arguments are not refused.".to_owned(),
        findings: vec![
            Finding {
                detail: "expected an error that names q\n".to_owned(),
                ..finding(Kind::Robust, "q of rank 3 was not refused.")
            },
            finding(Kind::Robust, "q of rank 5 was not refused."),
        ],
        work: Some(work("modelled (h100)", [30.0, 10.0], vec![launch])),
        ..task(4, "flash", 4.0, [(6, 6), (2, 4), (2, 2), (1, 1)])
    }
}

fn finding(kind: Kind, sentence: &str) -> Finding {
    Finding {
        kind,
        case: String::new(),
        sentence: sentence.to_owned(),
        cause: None,
        detail: String::new(),
    }
}

fn work(label: &str, [yours, reference]: [f64; 2], launches: Vec<LaunchWork>) -> Work {
    Work {
        label: label.to_owned(),
        case: "b1_h8_n256_d64".to_owned(),
        yours,
        reference,
        unit: "µs".to_owned(),
        launches,
    }
}

/// A task with the checks of its criteria, passed and run: full marks or none, by the first.
fn task(stage: u8, task: &str, points: f64, checks: [(usize, usize); 4]) -> TaskGrade {
    let criteria = Kind::ALL.into_iter().zip(checks);
    let criteria = criteria.map(|(kind, (passed, run))| Criterion {
        kind,
        weight: kind.weight(),
        share: match kind {
            Kind::Robust if run > 0 => passed as f64 / run as f64,
            _ => f64::from(u8::from(run > 0 && passed == run)),
        },
        passed,
        run,
        note: String::new(),
    });
    let (passed, run) = checks[0];
    TaskGrade {
        stage,
        task: task.to_owned(),
        title: format!("the {task} of stage {stage}"),
        points,
        bonus: false,
        score: if passed == run { points } else { 0.0 },
        headline: String::new(),
        criteria: criteria.collect(),
        findings: Vec::new(),
        work: None,
        seconds: 1.5,
        output: String::new(),
        not_graded: None,
    }
}
