//! Wrong, unusual and dishonest solutions: each gets the points and the cause that its file says.
//!
//! See `exercises/wrong/README.md`. The gradings are ignored by default: they compile kernels, which takes NVRTC.

mod file;
mod matrix;
mod run;

use std::env;
use std::fs;
use std::sync::Mutex;
use std::thread;

use file::{Folder, Variant};
use run::{Verdict, grade};

/// Gradings at the same time.
const WORKERS: usize = 2;

#[test]
fn every_variant_fits_its_solution() {
    let variants = Variant::all();
    for variant in &variants {
        let files = variant
            .files()
            .unwrap_or_else(|why| panic!("{}: {why}", variant.name));
        assert!(!files.is_empty(), "{}", variant.name);
    }
    let count = |folder| {
        variants
            .iter()
            .filter(|variant| variant.folder == folder)
            .count()
    };
    assert!(count(Folder::Wrong) >= 30, "{}", count(Folder::Wrong));
    assert!(count(Folder::Unusual) >= 7, "{}", count(Folder::Unusual));
    assert!(count(Folder::Cheats) >= 7, "{}", count(Folder::Cheats));
}

/// The part of the table that is known without grading: the variants, their tasks and causes.
#[test]
fn the_matrix_has_every_variant() {
    let table = fs::read_to_string(matrix::path()).unwrap();
    let rows: Vec<_> = table.lines().filter_map(matrix::heading_of).collect();
    let expected: Vec<_> = Variant::all().iter().map(matrix::heading).collect();
    assert_eq!(rows, expected, "VARIANTS_WRITE=1 writes it anew");
}

/// The share of the variants that is graded, of `VARIANTS_SHARE=2/4`: which of how many. All are one share of one.
fn share() -> (usize, usize) {
    let Ok(share) = env::var("VARIANTS_SHARE") else {
        return (0, 1);
    };
    let numbers = share
        .split_once('/')
        .map(|(which, of)| (which.parse(), of.parse()));
    match numbers {
        Some((Ok(which), Ok(of))) if which < of => (which, of),
        _ => panic!("VARIANTS_SHARE: expected a share such as 2/4, counted from 0, got {share}"),
    }
}

#[test]
#[ignore = "compiles kernels: needs NVRTC, and a quarter of an hour"]
fn every_variant_gets_what_it_deserves() {
    let filter = env::var("VARIANTS").unwrap_or_default();
    let (which, of) = share();
    let chosen: Vec<Variant> = Variant::all()
        .into_iter()
        .filter(|variant| filter.split(',').any(|word| variant.name.contains(word)))
        .skip(which)
        .step_by(of)
        .collect();
    assert!(!chosen.is_empty(), "no variant has `{filter}` in its name");
    let next = Mutex::new(chosen.iter().enumerate());
    let verdicts: Mutex<Vec<Option<Verdict>>> = Mutex::new(vec![None; chosen.len()]);
    thread::scope(|scope| {
        for worker in 0..WORKERS.min(chosen.len()) {
            let (next, verdicts) = (&next, &verdicts);
            scope.spawn(move || {
                loop {
                    let Some((i, variant)) = next.lock().unwrap().next() else {
                        break;
                    };
                    let verdict = grade(variant, worker);
                    println!("{}", verdict.line(variant));
                    verdicts.lock().unwrap()[i] = Some(verdict);
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().unwrap();
    let pairs: Vec<(&Variant, Verdict)> =
        chosen.iter().zip(verdicts.into_iter().flatten()).collect();
    assert_eq!(pairs.len(), chosen.len(), "a grading was lost");

    let wrong = pairs.iter().flat_map(|(variant, verdict)| {
        let complaints = verdict.complaints(variant).into_iter();
        complaints
            .map(|complaint| format!("{}/{}: {complaint}", variant.folder.name(), variant.name))
    });
    let wrong: Vec<String> = wrong.collect();
    let table = matrix::table(&pairs);
    if filter.is_empty() && of == 1 {
        if env::var_os("VARIANTS_WRITE").is_some() {
            fs::write(matrix::path(), &table).unwrap();
        }
        let committed = fs::read_to_string(matrix::path()).unwrap_or_default();
        assert!(
            committed == table,
            "MATRIX.md is old: VARIANTS_WRITE=1 writes it anew\n{table}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
