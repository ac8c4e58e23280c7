//! The exported names and codes, against cudarc's own source: a name it looks up and does not find
//! is a panic there, a code it does not know is undefined behaviour.

use std::{collections::BTreeSet, error::Error, fs, path::PathBuf, process::Command};

use cudarc::driver::sys;

const EXPORTED: &str = include_str!("../symbols.txt");
const STATUS: &str = include_str!("../src/status.rs");

/// The folder of the cudarc that this workspace builds with.
fn cudarc() -> Result<PathBuf, Box<dyn Error>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--filter-platform=x86_64-unknown-linux-gnu",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata = String::from_utf8(output.stdout)?;
    let manifests = metadata
        .split(r#""manifest_path":""#)
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let folder = manifests
        .map(|path| PathBuf::from(path).parent().map(PathBuf::from))
        .find(|folder| {
            let name = folder
                .as_ref()
                .and_then(|folder| folder.file_name()?.to_str());
            name.is_some_and(|name| name == "cudarc" || name.starts_with("cudarc-0"))
        });
    folder
        .flatten()
        .ok_or_else(|| "cudarc is no dependency".into())
}

/// Every `sys::cu…` function named in `source`.
fn calls(source: &str) -> BTreeSet<&str> {
    source
        .split("sys::")
        .skip(1)
        .filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
            rest[end..].starts_with('(').then_some(&rest[..end])
        })
        .filter(|name| name.starts_with("cu"))
        .collect()
}

#[test]
fn every_function_that_cudarc_calls_is_exported() -> Result<(), Box<dyn Error>> {
    let driver = cudarc()?.join("src/driver");
    let mut files = vec![driver.join("result.rs")];
    for entry in fs::read_dir(driver.join("safe"))? {
        files.push(entry?.path());
    }
    let exported: BTreeSet<&str> = EXPORTED.lines().collect();
    let mut called = 0;
    for file in files {
        let source = fs::read_to_string(&file)?;
        let calls = calls(&source);
        let missing: Vec<_> = calls.difference(&exported).collect();
        assert!(missing.is_empty(), "{} calls {missing:?}", file.display());
        called += calls.len();
    }
    assert!(
        called >= 90,
        "found {called} calls only: has cudarc's source changed its form?"
    );
    Ok(())
}

#[test]
fn every_function_that_cudarc_binds_is_exported() -> Result<(), Box<dyn Error>> {
    let bindings = fs::read_to_string(cudarc()?.join("src/driver/sys/mod.rs"))?;
    let names = bindings.split("load::<_F>(\"").skip(1);
    let bound: BTreeSet<&str> = names.filter_map(|rest| rest.split('"').next()).collect();
    assert!(bound.len() > 500, "found {} functions only", bound.len());
    let exported: BTreeSet<&str> = EXPORTED.lines().collect();
    let missing: Vec<_> = bound.difference(&exported).collect();
    assert!(missing.is_empty(), "{missing:?}");
    Ok(())
}

#[test]
fn every_listed_function_is_found_and_what_is_not_simulated_says_so() -> Result<(), Box<dyn Error>>
{
    cuda_sim::install()?;
    // SAFETY: the library that `install` has loaded.
    let library = unsafe { libloading::Library::new("libcuda.so") }?;
    for name in EXPORTED.lines() {
        // SAFETY: only looked up.
        unsafe { library.get::<unsafe extern "C" fn() -> u32>(name.as_bytes()) }?;
    }
    for name in [
        "cuArrayCreate_v2",
        "cuTensorMapEncodeIm2colWide",
        "cuIpcGetMemHandle",
    ] {
        // SAFETY: a function that ignores its arguments.
        let code = unsafe { library.get::<unsafe extern "C" fn() -> u32>(name.as_bytes())?() };
        assert_eq!(code, 801, "{name}");
    }
    Ok(())
}

#[test]
fn the_first_name_of_cu_event_destroy_destroys_an_event() -> Result<(), Box<dyn Error>> {
    cuda_sim::install()?;
    let _context = cudarc::driver::CudaContext::new(0)?;
    // SAFETY: the library that `install` has loaded.
    let library = unsafe { libloading::Library::new("libcuda.so") }?;
    // SAFETY: the type is that of the function.
    let destroy: libloading::Symbol<unsafe extern "C" fn(sys::CUevent) -> sys::CUresult> =
        unsafe { library.get(b"cuEventDestroy") }?;
    let mut event = std::ptr::null_mut();
    // SAFETY: a place for the handle, which is then destroyed; the driver checks handles.
    let codes = unsafe {
        [
            sys::cuEventCreate(&mut event, 0),
            destroy(event),
            destroy(event),
        ]
    };
    let [created, destroyed, again] = codes;
    created.result()?;
    destroyed.result()?;
    assert_eq!(again, sys::CUresult::CUDA_ERROR_INVALID_HANDLE);
    Ok(())
}

#[test]
fn the_list_is_sorted_and_names_every_exported_function() -> Result<(), Box<dyn Error>> {
    let listed: Vec<&str> = EXPORTED.lines().collect();
    assert!(listed.is_sorted());
    let mut defined = BTreeSet::new();
    let mut paths = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../src/driver")];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                paths.push(entry?.path());
            }
            continue;
        }
        let source = fs::read_to_string(path)?;
        for definition in source.split("extern \"C\" fn cu").skip(1) {
            let end = definition.find('(').ok_or("no argument list")?;
            defined.insert(format!("cu{}", &definition[..end]));
        }
        // Macros that define functions are given their names.
        for list in ["\nunsupported! {", "\nmemset! {"] {
            let names = source.split_once(list).map_or("", |(_, names)| names);
            let names = names.split('}').next().unwrap_or_default();
            let names = names.split(|c: char| c.is_whitespace() || c == ':');
            defined.extend(
                names
                    .filter(|name| name.starts_with("cu"))
                    .map(String::from),
            );
        }
    }
    assert_eq!(
        listed
            .into_iter()
            .map(String::from)
            .collect::<BTreeSet<_>>(),
        defined
    );
    Ok(())
}

#[test]
fn every_code_is_in_cudarcs_enumeration() -> Result<(), Box<dyn Error>> {
    let bindings = fs::read_to_string(cudarc()?.join("src/driver/sys/mod.rs"))?;
    let enumeration = bindings
        .split("#[cfg(any(feature =")
        .filter(|part| part.contains("pub enum cudaError_enum {"))
        .find(|part| {
            part.split("))]")
                .next()
                .is_some_and(|features| features.contains("cuda-12080"))
        })
        .ok_or("no enumeration for cuda-12080")?;
    let enumeration = enumeration.split("}").next().ok_or("no end")?;
    let mut codes = 0;
    for line in STATUS.lines().filter(|line| line.contains("c\"CUDA_")) {
        let code = line
            .split(" = ")
            .nth(1)
            .and_then(|rest| rest.split(',').next())
            .ok_or("no code")?;
        let name = line.split('"').nth(1).ok_or("no name")?;
        assert!(
            enumeration.contains(&format!(" {name} = {code},")),
            "{name} = {code}"
        );
        codes += 1;
    }
    assert!(codes > 30, "found {codes} codes only");
    Ok(())
}
