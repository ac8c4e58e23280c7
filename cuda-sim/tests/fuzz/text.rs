//! Cases of PTX text: a module is loaded; if that works, each of its kernels is launched.

use std::path::Path;
use std::{fs, ptr};

use super::driver::call;
use super::random::Random;
use super::{declarations, grammar, memory, mutation};

/// Bytes that loading and running a module may take beyond device memory.
const MEMORY: usize = 1 << 30;

/// The PTX files of the workspace.
pub fn corpus() -> Vec<Vec<u8>> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = Vec::new();
    collect(root, 0, &mut files);
    files.sort();
    assert!(files.len() > 20, "{} files", files.len());
    files.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn collect(folder: &Path, depth: u32, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let skipped = name == "target" || name.to_string_lossy().starts_with('.');
        if path.is_dir() && depth < 3 && !skipped {
            collect(&path, depth + 1, files);
        } else if path.extension().is_some_and(|e| e == "ptx") {
            files.push(path);
        }
    }
}

pub fn case(seed: u64, corpus: &[Vec<u8>]) {
    let random = &mut Random::new(seed);
    let text = match random.below(10) {
        0 => grammar::excess(random).into_bytes(),
        1..3 => grammar::module(random).into_bytes(),
        3 => declarations::module(random).into_bytes(),
        4 => {
            let made = grammar::module(random).into_bytes();
            let other = random.pick(corpus);
            mutation::mutate(random, &made, other)
        }
        _ => {
            let (text, other) = (random.pick(corpus), random.pick(corpus));
            mutation::mutate(random, text, other)
        }
    };
    if std::env::var_os("FUZZ_SEED").is_some() {
        eprintln!("{}", String::from_utf8_lossy(&text));
    }
    let peak = memory::peak_of(|| load_and_run(random, text));
    assert!(peak < MEMORY, "{peak} bytes");
}

/// Texts that failed before: each gives this code, and takes no more than this many MiB.
pub fn known() {
    let head = ".version 7.0\n.target sm_75\n.address_size 64\n";
    let predicates = (0..3000).map(|i| format!(".reg .pred %p{i}_<1048576>;\n"));
    let kernel = |body: String| format!(".visible .entry t() {{\n{body}\nret;\n}}\n");
    let doubling =
        (1..=16).map(|i| format!(".func f{i}() {{ call f{0}; call f{0}; ret; }}\n", i - 1));
    let doubling = doubling.collect::<String>();
    let cases = [
        (".global .b8 x[4000000000];".to_owned(), 2, 16),
        (".global .b8 x[40000000];".to_owned(), 0, 16),
        (".global .b128 x[2] = {1, 2};".to_owned(), 0, 16),
        (".global .u64 a;\n.global .b128 x = a;".to_owned(), 0, 16),
        (".global .u32 a;\n.global .u64 a;".to_owned(), 218, 16),
        (kernel(predicates.collect()), 218, 64),
        (
            format!(
                ".func f0() {{ .reg .b32 %r; mov.u32 %r, 1; ret; }}\n{doubling}{}",
                kernel("call f16;".into())
            ),
            0,
            256,
        ),
    ];
    for (text, expected, most) in cases {
        let shown = text.chars().take(100).collect::<String>();
        let text = format!("{head}{text}\n\0");
        let mut module = 0u64;
        let mut code = 0;
        let peak = memory::peak_of(|| {
            let (mut context, place) = (0u64, &raw mut module as u64);
            assert_eq!(
                call("cuDevicePrimaryCtxRetain", &[&raw mut context as u64, 0]),
                0
            );
            assert_eq!(call("cuCtxSetCurrent", &[context]), 0);
            code = call("cuModuleLoadData", &[place, text.as_ptr() as u64]);
            call("cuDevicePrimaryCtxRelease_v2", &[0]);
        });
        assert_eq!(code, expected, "{shown}");
        assert!(peak < most << 20, "{shown}: {peak} bytes");
    }
}

/// A file without an end is no module.
pub fn endless_file() {
    let (mut context, mut module) = (0u64, 0u64);
    assert_eq!(
        call("cuDevicePrimaryCtxRetain", &[&raw mut context as u64, 0]),
        0
    );
    assert_eq!(call("cuCtxSetCurrent", &[context]), 0);
    let path = c"/dev/zero";
    let code = call(
        "cuModuleLoad",
        &[&raw mut module as u64, path.as_ptr() as u64],
    );
    assert_eq!(code, 301);
}

fn load_and_run(random: &mut Random, text: Vec<u8>) {
    cuda_sim::set_budget(Some(20_000));
    let kernels = kernels(&text);
    with_module(text, |module| {
        for name in kernels.iter().take(4) {
            if let Some(function) = function(module, name)
                && let Some(buffer) = buffer()
            {
                launch(random, function, buffer);
                assert_eq!(call("cuMemFree_v2", &[buffer]), 0);
            }
        }
    });
}

/// Calls `f` with the module of a text, if it can be loaded. Its zero bytes are left out.
fn with_module(mut text: Vec<u8>, f: impl FnOnce(u64)) {
    text.retain(|&c| c != 0);
    text.push(0);
    let (mut context, mut module) = (0u64, 0u64);
    assert_eq!(
        call("cuDevicePrimaryCtxRetain", &[&raw mut context as u64, 0]),
        0
    );
    assert_eq!(call("cuCtxSetCurrent", &[context]), 0);
    if call(
        "cuModuleLoadData",
        &[&raw mut module as u64, text.as_ptr() as u64],
    ) == 0
    {
        f(module);
    }
    call("cuDevicePrimaryCtxRelease_v2", &[0]);
}

/// A module by grammar: loading it works, and two launches of its kernel come to the same.
pub fn whole_case(seed: u64) {
    let random = &mut Random::new(seed);
    let text = match random.below(3) {
        0 => declarations::module(random),
        _ => grammar::structured(random),
    };
    if std::env::var_os("FUZZ_SEED").is_some() {
        eprintln!("{text}");
    }
    cuda_sim::set_budget(Some(20_000));
    cuda_sim::set_seed(random.one_in(2).then(|| random.bits()));
    let launches = random.bits();
    let peak = memory::peak_of(|| {
        let mut loaded = false;
        with_module(text.into_bytes(), |module| {
            loaded = true;
            let launch_twice = || -> Option<()> {
                let (function, buffer) = (function(module, b"t\0")?, buffer()?);
                let [one, two] = [(); 2].map(|()| {
                    assert_eq!(call("cuMemsetD8_v2", &[buffer, 0, BUFFER as u64]), 0);
                    let outcome = launch(&mut Random::new(launches), function, buffer);
                    (outcome, contents(buffer))
                });
                assert_eq!(one, two);
                assert_eq!(call("cuMemFree_v2", &[buffer]), 0);
                Some(())
            };
            launch_twice().expect("the kernel and memory are there");
        });
        assert!(loaded, "a module by grammar is not loaded");
    });
    assert!(peak < MEMORY, "{peak} bytes");
}

/// The words behind `.entry`, each with a zero byte.
fn kernels(text: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(text);
    let names = text.split(".entry").skip(1).map(|rest| {
        let rest = rest.trim_start();
        let end = rest.find(|c: char| c.is_whitespace() || "({".contains(c));
        let mut name = rest.as_bytes()[..end.unwrap_or(rest.len())].to_vec();
        name.retain(|&c| c != 0);
        name.push(0);
        name
    });
    names.collect()
}

const BUFFER: usize = 4096;

fn buffer() -> Option<u64> {
    let mut buffer = 0u64;
    let code = call("cuMemAlloc_v2", &[&raw mut buffer as u64, BUFFER as u64]);
    (code == 0).then_some(buffer)
}

fn contents(buffer: u64) -> Vec<u8> {
    let mut bytes = vec![0u8; BUFFER];
    let arguments = [bytes.as_mut_ptr() as u64, buffer, BUFFER as u64];
    assert_eq!(call("cuMemcpyDtoH_v2", &arguments), 0);
    bytes
}

fn function(module: u64, name: &[u8]) -> Option<u64> {
    let mut function = 0u64;
    let arguments = [&raw mut function as u64, module, name.as_ptr() as u64];
    (call("cuModuleGetFunction", &arguments) == 0).then_some(function)
}

/// Launches a kernel. What came of it: the codes and the fault.
fn launch(random: &mut Random, function: u64, buffer: u64) -> (u32, u32, Option<cuda_sim::Fault>) {
    // Every parameter is the buffer's address, over and over, or a small number.
    let value = if random.one_in(4) {
        random.number()
    } else {
        buffer
    };
    let block = vec![value; 4200];
    let pointers = vec![block.as_ptr() as u64; 4096];
    let threads = *random.pick(&[1, 32, 64, 96, 128]);
    let shared = *random.pick(&[0, 1024, 44 << 10]);
    cuda_sim::take_fault();
    let launched = call(
        "cuLaunchKernel",
        &[
            function,
            2,
            1,
            1,
            threads,
            1,
            1,
            shared,
            0,
            pointers.as_ptr() as u64,
            ptr::null::<u8>() as u64,
        ],
    );
    let ended = call("cuCtxSynchronize", &[]);
    (launched, ended, cuda_sim::take_fault())
}
