//! The rules of ARCHITECTURE.md that a program can check, over all packages of the workspace.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gpu::ptx_file;
use gpu::unit::{Folder, Unit};
use gpu_tool::{variants, workspace};

use crate::common::root;

const MAX_KERNEL_LINES: usize = 300;
const MAX_PRELUDE_LINES: usize = 120;
const MAX_LIB_LINES: usize = 80;
const MAX_COMMENT_COLUMNS: usize = 100;

/// Packages that have wider comments.
const WIDE: [&str; 1] = ["grade/"];

/// The package that judges the others, and which depends on those it judges.
const JUDGE: &str = "conformance";

/// The packages, and what each may use of the others. A new package adds its line. Tests, benches
/// and examples may also use [`JUDGE`].
const MAY_USE: &[(&str, &[&str])] = &[
    (
        JUDGE,
        &[
            "gpu",
            "stage1-reference",
            "stage2-naive-cuda",
            "stage3-flash-cpu",
            "stage4-flash-cuda",
            "stage5-decode",
            "stage6-pipeline",
        ],
    ),
    ("bench-kit", &[]),
    (
        "exercise-kit",
        &[
            "cuda-sim",
            "gpu",
            "stage1-reference",
            "stage2-naive-cuda",
            "stage4-flash-cuda",
            "stage5-decode",
            "stage6-pipeline",
        ],
    ),
    (
        "exercise-story",
        &[
            "exercise-kit",
            "exercise-stage4",
            "exercise-stage5",
            "exercise-stage6",
        ],
    ),
    ("cuda-sim", &[]),
    ("cuda-sim-libcuda", &["cuda-sim"]),
    ("cuda-sim-tests", &["cuda-sim"]),
    ("gpu", &["cuda-sim", "gpu-embed", "gpu-reading"]),
    ("gpu-embed", &[]),
    ("gpu-launch", &["cuda-sim", "gpu-reading", "gpu-recording"]),
    ("gpu-reading", &[]),
    ("gpu-recording", &[]),
    (
        "gpu-tool",
        &[
            "cuda-sim",
            "gpu",
            "gpu-launch",
            "gpu-reading",
            "gpu-recording",
        ],
    ),
    (
        "gpu-web",
        &[
            "cuda-sim",
            "gpu-launch",
            "gpu-recording",
            "gpu-tool",
            "kernel-corpus",
        ],
    ),
    (
        "grade",
        &[
            JUDGE,
            "bench-kit",
            "exercise-kit",
            "gpu",
            "gpu-launch",
            "gpu-tool",
            "grade-causes",
            "stage1-reference",
            "stage2-naive-cuda",
            "stage3-flash-cpu",
            "stage4-flash-cuda",
            "stage5-decode",
            "stage6-pipeline",
            "warm-up",
        ],
    ),
    (
        "grade-causes",
        &[JUDGE, "exercise-kit", "stage1-reference", "stage6-pipeline"],
    ),
    (
        "kernel-corpus",
        &["cuda-sim", "gpu", "gpu-launch", "gpu-tool"],
    ),
    ("stage1-reference", &[]),
    (
        "stage2-naive-cuda",
        &["bench-kit", "gpu", "stage1-reference"],
    ),
    ("stage3-flash-cpu", &["stage1-reference"]),
    (
        "stage4-flash-cuda",
        &["bench-kit", "gpu", "stage1-reference", "stage2-naive-cuda"],
    ),
    (
        "stage5-decode",
        &["bench-kit", "gpu", "stage1-reference", "stage4-flash-cuda"],
    ),
    ("storyteller", &[]),
    (
        "stage6-pipeline",
        &[
            "bench-kit",
            "gpu",
            "stage1-reference",
            "stage4-flash-cuda",
            "stage5-decode",
            "storyteller",
        ],
    ),
    (
        "training",
        &["bench-kit", "gpu", "stage2-naive-cuda", "stage4-flash-cuda"],
    ),
    ("warm-up", &["gpu", "gpu-launch", "gpu-tool"]),
];

#[test]
fn a_file_holds_one_idea() {
    let too_long = |ending: &str, limit: usize| {
        let files = files(ending);
        assert!(!files.is_empty(), "{ending}");
        let lengths = files.into_iter().map(|file| (file.lines().count(), file));
        let long = lengths.filter(|(lines, _)| *lines > limit);
        long.map(|(lines, file)| format!("{} has {lines} lines, of at most {limit}", file.name))
            .collect()
    };
    none("kernels", too_long(".cu", MAX_KERNEL_LINES));
    none("prelude", too_long("/prelude.cuh", MAX_PRELUDE_LINES));
    none("maps", too_long("/lib.rs", MAX_LIB_LINES));
}

#[test]
fn comments_are_narrow() {
    let of_programs = [".rs", ".cu", ".cuh"].into_iter();
    let sources = of_programs.flat_map(|ending| {
        let others = ["examples", "exercises"].map(|folder| root().join(folder));
        let others = paths_in(others, ending).into_iter();
        let others =
            others.filter(|path| !path.components().any(|part| part.as_os_str() == "target"));
        files(ending)
            .into_iter()
            .chain(others.map(|path| Text::read(&path)))
    });
    let narrow = |file: &Text| !WIDE.iter().any(|folder| file.name.starts_with(folder));
    let wide = sources.filter(narrow).flat_map(|file| {
        let lines = file.lines().filter(|(_, line)| is_wide_comment(line));
        let lines = lines.map(|(number, line)| format!("{}:{number}: {line}", file.name));
        lines.collect::<Vec<_>>()
    });
    none("comments", wide.collect());
}

/// True for a comment that has a line of its own, and more columns than it may. Rows of tables,
/// arguments and expected values have no place to break them.
fn is_wide_comment(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else {
        return false;
    };
    let text = comment.trim_start_matches(['/', '!']).trim_start();
    let breaks = !["|", "args: ", "expect "]
        .iter()
        .any(|start| text.starts_with(start));
    breaks && line.chars().count() > MAX_COMMENT_COLUMNS
}

#[test]
fn a_wide_comment_is_found() {
    let words = "word ".repeat(20);
    assert!(is_wide_comment(&format!("// {words}")));
    assert!(is_wide_comment(&format!("    /// {words}")));
    assert!(!is_wide_comment(&format!("// {}", &words[..97])));
    assert!(
        !is_wide_comment(&format!("//! | {words}")),
        "a row of a table"
    );
    assert!(!is_wide_comment(&format!("// args: {words}")));
    assert!(!is_wide_comment(&words), "no comment");
}

#[test]
fn dependencies_point_one_way() {
    let packages = packages();
    let names: BTreeSet<&str> = packages.iter().map(|package| &*package.name).collect();
    let listed: BTreeSet<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, listed, "MAY_USE lists the packages");

    let mut offenders = Vec::new();
    for package in &packages {
        let (_, allowed) = MAY_USE
            .iter()
            .find(|(name, _)| *name == package.name)
            .unwrap();
        // A dependency is a line: `gpu.workspace = true`, `gpu = { … }`.
        let mut section = "";
        for (_, line) in package.manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let word = line.split(['.', '=', ' ']).next().unwrap();
            let allowed =
                allowed.contains(&word) || (word == JUDGE && section == "[dev-dependencies]");
            if names.contains(word) && !allowed {
                offenders.push(format!("{} uses {word}", package.manifest.name));
            }
        }
    }
    none("dependencies", offenders);
}

#[test]
fn no_stage_names_the_simulator() {
    let of_stages =
        |file: &Text| file.name.starts_with("stage") || file.name.starts_with("models/");
    let mut sources: Vec<Text> = files(".rs").into_iter().filter(of_stages).collect();
    assert!(!sources.is_empty());
    // A comment or a message may say cuda-sim, and a test may set CUDA_SIM_SEED; code says
    // cuda_sim.
    for source in &mut sources {
        source.text = source.text.replace("CUDA_SIM_", "");
    }
    none("stages", lines_with(&sources, &["cuda_sim"]));
    let manifests: Vec<Text> = files("Cargo.toml").into_iter().filter(of_stages).collect();
    none("manifests of stages", lines_with(&manifests, &["cuda-sim"]));
}

#[test]
fn the_simulator_knows_nothing_of_attention() {
    let of_simulator = |file: &Text| file.name.starts_with("cuda-sim/src/");
    let sources: Vec<Text> = files(".rs").into_iter().filter(of_simulator).collect();
    assert!(!sources.is_empty());
    let words = [
        "attention",
        "softmax",
        "stage1",
        "stage2",
        "stage4",
        "stage5",
        "stage6",
    ];
    none("cuda-sim", lines_with(&sources, &words));
}

#[test]
fn kernels_include_the_prelude_headers_beside_them_and_headers_of_packages_below() {
    let packages = packages();
    let offenders = [".cu", ".cuh"]
        .into_iter()
        .flat_map(files)
        .flat_map(|file| {
            let includes = file.lines().filter(|(_, line)| is_include(line));
            let bad = includes.filter(|(_, line)| !may_include(&packages, &file.name, line));
            let bad = bad.map(|(number, line)| format!("{}:{number}: {line}", file.name));
            bad.collect::<Vec<_>>()
        });
    none("includes", offenders.collect());
}

#[test]
fn an_include_against_the_order_of_packages_is_found() {
    let packages = packages();
    let may =
        |file: &str, header: &str| may_include(&packages, file, &format!("#include \"{header}\""));
    let stage6 = "stage6-pipeline/kernels/gemv.cu";
    assert!(may(stage6, "prelude.cuh"));
    assert!(may(
        "stage4-flash-cuda/kernels/library/attention.cu",
        "mask.cuh"
    ));
    assert!(may("stage4-flash-cuda/kernels/library/half.cuh", "mma.cuh"));
    assert!(
        !may(stage6, "mask.cuh"),
        "it does not lie beside the kernel"
    );
    assert!(may(stage6, "stage5-decode/library/cache.cuh"), "below");
    assert!(!may(
        "stage2-naive-cuda/kernels/1_softmax_tree.cu",
        "stage4-flash-cuda/mask.cuh"
    ));
    assert!(!may(stage6, "stage5-decode/none.cuh"), "there is none");
    assert!(!may(stage6, "stage5-decode/combine.cu"), "no header");
    assert!(
        may(stage6, "gpu/prelude.cuh"),
        "a header of a package below"
    );
    assert!(
        may(
            "stage2-naive-cuda/kernels/library/softmax.cu",
            "stage2-naive-cuda/block_reduce.cuh"
        ),
        "a header of its own package"
    );
    assert!(!may_include(&packages, stage6, "#include <cuda_fp16.h>"));
}

fn is_include(line: &str) -> bool {
    let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
    directive.is_some_and(|line| line.starts_with("include"))
}

/// True if the line of a file, named from the workspace's root, includes what it may: the prelude,
/// a header beside it, or `<package>/<file>.cuh` of its own package or one that this may use.
fn may_include(packages: &[Package], file: &str, line: &str) -> bool {
    let quoted = line
        .split_once('"')
        .and_then(|(_, rest)| rest.split_once('"'));
    let Some((header, _)) = quoted.filter(|(header, _)| header.ends_with(".cuh")) else {
        return false;
    };
    let beside = root().join(file).with_file_name(header);
    if header == "prelude.cuh" || beside.is_file() {
        return true;
    }
    let own = packages.iter().find(|package| {
        let kernels = format!("{}/kernels/", package.folder);
        file.starts_with(&kernels)
    });
    // A file in a folder of kernels/ has the headers of kernels/ too.
    let above = own.map(|own| root().join(&own.folder).join("kernels").join(header));
    if above.is_some_and(|above| above.is_file()) {
        return true;
    }
    let rule = own.and_then(|own| MAY_USE.iter().find(|(name, _)| *name == own.name));
    let Some((own, below)) = rule else {
        return false;
    };
    header.split_once('/').is_some_and(|(package, header)| {
        let owner = packages.iter().find(|other| other.name == package);
        let folder = owner.map(|other| root().join(&other.folder).join("kernels"));
        (package == *own || below.contains(&package))
            && folder.is_some_and(|folder| folder.join(header).is_file())
    })
}

/// The book quotes code between `ANCHOR: name` and `ANCHOR_END: name`, each name once in a file.
#[test]
fn anchors_are_closed_and_named_once() {
    let mut offenders = Vec::new();
    for file in [".cu", ".cuh", ".rs"].into_iter().flat_map(files) {
        let named = |mark: &str| -> Vec<String> {
            let lines = file.text.lines();
            let names = lines.filter_map(|line| line.trim().strip_prefix(mark));
            names.map(str::to_owned).collect()
        };
        let (mut open, mut closed) = (named("// ANCHOR: "), named("// ANCHOR_END: "));
        open.sort();
        closed.sort();
        let twice = open.windows(2).any(|pair| pair[0] == pair[1]);
        if open != closed || twice {
            offenders.push(format!("{}: {open:?}, {closed:?}", file.name));
        }
    }
    none("anchors", offenders);
}

#[test]
fn there_are_no_headers_or_binaries_of_others() {
    let endings = [".so", ".a", ".o", ".dll", ".cubin", ".fatbin", ".h", ".hpp"];
    let found = endings.into_iter().flat_map(paths);
    none(
        "not sources",
        found.map(|path| path.display().to_string()).collect(),
    );
}

/// An edited kernel whose PTX was not refreshed runs only where NVRTC is installed.
#[test]
fn committed_ptx_is_of_the_kernels_beside_it() {
    let (mut checked, mut offenders) = (0, Vec::new());
    for package in workspace::packages(root()).unwrap() {
        let folder = &package.folder;
        let name = folder.strip_prefix(root()).unwrap().display();
        let list = fs::read_to_string(folder.join("kernels/variants.txt")).unwrap();
        let mut wanted = BTreeSet::new();
        for variant in variants::parse(&list).unwrap() {
            let constants = variant
                .constants
                .iter()
                .map(|(name, value)| (&**name, &**value));
            let constants: Vec<(&str, &str)> = constants.collect();
            let kernels = folder.join("kernels");
            let source =
                |folder: Folder<'_>, file: &str| Ok(workspace::read(&kernels, folder, file));
            let unit = Unit::new(&package.name, &variant.file, &constants, source)
                .unwrap()
                .unwrap_or_else(|| panic!("{} has no {}", package.name, variant.file));
            let file = ptx_file::name(&unit);
            let ptx = fs::read_to_string(folder.join("ptx").join(&file)).unwrap_or_default();
            if ptx_file::key(&ptx) != Some(&unit.key()) {
                offenders.push(format!("{name}/ptx/{file}"));
            }
            let named = ptx
                .lines()
                .filter(|line| line.trim_start().starts_with(".file"));
            let real = named.filter(|line| !line.contains("\"/k/"));
            offenders.extend(real.map(|line| format!("{name}/ptx/{file}: {line}")));
            wanted.insert(file);
            checked += 1;
        }
        let ptx = folder.join("ptx");
        for path in paths_in([ptx.clone()], "") {
            let file = path.strip_prefix(&ptx).unwrap().to_str().unwrap();
            if !wanted.contains(file) {
                offenders.push(format!("{name}/ptx/{file}, of no variant"));
            }
        }
    }
    assert!(checked > 0);
    none("`cargo gpu refresh` mends these", offenders);
}

#[track_caller]
fn none(what: &str, offenders: Vec<String>) {
    assert!(offenders.is_empty(), "{what}:\n{}", offenders.join("\n"));
}

fn lines_with(files: &[Text], words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let lines = file.lines().filter(|(_, line)| {
            let line = line.to_lowercase();
            words.iter().any(|word| line.contains(word))
        });
        found.extend(lines.map(|(number, line)| format!("{}:{number}: {line}", file.name)));
    }
    found
}

/// A file, named from the workspace's root.
struct Text {
    name: String,
    text: String,
}

impl Text {
    fn read(path: &Path) -> Text {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        Text {
            name: name.to_owned(),
            text,
        }
    }

    /// The lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

struct Package {
    name: String,
    folder: String,
    manifest: Text,
}

/// The members that the workspace's Cargo.toml lists, one a line, but those that a learner writes.
fn packages() -> Vec<Package> {
    let workspace = Text::read(&root().join("Cargo.toml"));
    let after = workspace.text.split("members = [").nth(1).unwrap();
    let members = after
        .split(']')
        .next()
        .unwrap()
        .split('"')
        .skip(1)
        .step_by(2);
    let package = |folder: &str| {
        let manifest = Text::read(&root().join(folder).join("Cargo.toml"));
        let names = |(_, line): (usize, &str)| {
            Some(
                line.strip_prefix("name = \"")?
                    .strip_suffix('"')?
                    .to_owned(),
            )
        };
        let name = manifest.lines().find_map(names).unwrap();
        Package {
            name,
            folder: folder.to_owned(),
            manifest,
        }
    };
    let ours = members.filter(|folder| !folder.starts_with("exercises/stage"));
    ours.map(package).collect()
}

/// The files in the packages' folders whose path ends so.
fn files(ending: &str) -> Vec<Text> {
    paths(ending).iter().map(|path| Text::read(path)).collect()
}

fn paths(ending: &str) -> BTreeSet<PathBuf> {
    let packages = packages();
    let folders = packages.iter().map(|package| root().join(&package.folder));
    paths_in(folders, ending)
}

/// The files in folders, and in folders in them, whose path ends so.
fn paths_in(folders: impl IntoIterator<Item = PathBuf>, ending: &str) -> BTreeSet<PathBuf> {
    let mut paths = BTreeSet::new();
    let mut folders = Vec::from_iter(folders);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                paths.insert(path);
            }
        }
    }
    paths
}
