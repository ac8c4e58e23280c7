//! NVIDIA's run-time compiler, loaded by its exact path and called directly.
//!
//! cudarc's own wrapper loads NVRTC by name, from the first folder in which the dynamic linker
//! finds one. Committed PTX needs a known compiler, so this file declares the part of NVRTC's
//! interface that compiling needs, as `nvrtc.h` does.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::Library;

use crate::error::with_causes;
use crate::unit::{Missing, Unit, shown, shown_in};
use crate::{Error, hint, ptx_file};

/// A loaded compiler.
#[derive(Debug)]
pub struct Nvrtc {
    path: PathBuf,
    version: (i32, i32),
    functions: Functions,
    _library: Library, // the functions live in it
}

/// Result of a compilation.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The PTX.
    pub ptx: String,
    /// The compiler's log: warnings, and `ptxas`'s report where it was asked for. Files are named
    /// from the workspace's root.
    pub log: String,
}

impl Nvrtc {
    /// Loads the library at `path`. It must lie where it was installed: it finds its second half
    /// beside itself.
    ///
    /// # Errors
    ///
    /// [`Error::BadNvrtc`] if it cannot be loaded, or is not NVRTC.
    pub fn open(path: &Path) -> Result<Nvrtc, Error> {
        let bad = |reason: String| Error::BadNvrtc {
            path: path.to_owned(),
            reason,
        };
        // SAFETY: running a library's initialisers is trusting it; the user named it or installed
        // it as NVRTC.
        let library = unsafe { Library::new(path) }.map_err(|error| bad(with_causes(&error)))?;
        // SAFETY: the types of `Functions` are those of nvrtc.h.
        let functions =
            unsafe { Functions::find(&library) }.map_err(|error| bad(with_causes(&error)))?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both numbers outlive the call.
        let code = unsafe { (functions.version)(&mut major, &mut minor) };
        if code != SUCCESS {
            return Err(bad(format!("nvrtcVersion returns error {code}")));
        }
        Ok(Nvrtc {
            path: path.to_owned(),
            version: (major, minor),
            functions,
            _library: library,
        })
    }

    /// Where it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version, major and minor.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Its full version, like `12.4.127`, which it tells only in PTX.
    ///
    /// # Errors
    ///
    /// [`Error::Nvrtc`] if it cannot compile an empty kernel.
    pub fn full_version(&self) -> Result<String, Error> {
        let empty = Program {
            name: "/k/empty.cu",
            source: "",
            headers: &[],
            options: &[],
            instances: &[],
        };
        let ptx = self.run(&empty)?.ptx;
        let full = ptx
            .lines()
            .find_map(|line| line.split_once(", V"))
            .map(|(_, version)| version.trim().to_owned());
        Ok(full.unwrap_or_else(|| format!("{}.{}", self.version.0, self.version.1)))
    }

    /// Compiles a unit to PTX.
    ///
    /// # Errors
    ///
    /// [`Error::Compile`] with the log if the source has errors; [`Error::Nvrtc`] if the compiler
    /// fails otherwise.
    pub fn compile(&self, unit: &Unit) -> Result<Compiled, Error> {
        self.compile_with(unit, &unit.all_options())
    }

    /// Compiles a unit for a real architecture such as `sm_80`, to have the resource report of
    /// `ptxas` in the log.
    ///
    /// # Errors
    ///
    /// As [`Nvrtc::compile`].
    pub fn resource_log(&self, unit: &Unit, architecture: &str) -> Result<String, Error> {
        let mut options = unit.options_for(architecture);
        options.push("--ptxas-options=-v".to_owned());
        Ok(self.compile_with(unit, &options)?.log)
    }

    fn compile_with(&self, unit: &Unit, options: &[String]) -> Result<Compiled, Error> {
        // NVRTC names an included file by its real working directory and the name in the #include.
        // A #line directive gives it the virtual name instead, without moving its lines.
        let headers = unit.headers.iter().map(|header| {
            let text = format!("#line 1 \"{}\"\n{}", header.name, header.text);
            (header.include.clone(), text)
        });
        // NVRTC would open a file of this machine for a name that it has no text for. NVIDIA's
        // headers are meant. Those of host libraries are empty; in place of all others it gets the
        // error that it would report.
        let folders = self.headers();
        let (installed, absent): (Vec<&Missing>, Vec<&Missing>) =
            unit.missing.iter().partition(|missing| {
                let name = Path::new(&missing.include);
                folders
                    .iter()
                    .any(|folder| gpu_reading::within(folder, name).is_ok())
            });
        let texts = absent.iter().map(|missing| {
            let Missing {
                include, by, line, ..
            } = missing;
            let text = if missing.is_empty {
                String::new()
            } else {
                format!("#line {line} \"{by}\"\n#error could not open source file \"{include}\"\n")
            };
            (include.clone(), text)
        });
        let headers: Vec<(String, String)> = headers.chain(texts).collect();
        let mut options = options.to_vec();
        if !installed.is_empty() {
            let paths = folders.iter().map(|folder| folder.display());
            options.extend(paths.map(|path| format!("--include-path={path}")));
        }
        let name = unit.virtual_name();
        self.run(&Program {
            name: &name,
            source: &unit.source,
            headers: &headers,
            options: &options,
            instances: &unit.instances,
        })
        .map_err(|error| match error {
            Error::Compile {
                file, options, log, ..
            } => Error::Compile {
                advice: hint::advice(&absent, &log),
                file,
                options,
                log,
            },
            other => other,
        })
    }

    /// The folders of CUDA's headers that were installed with this compiler; none if they were not.
    pub fn headers(&self) -> Vec<PathBuf> {
        let lib = self
            .path
            .parent()
            .and_then(|lib| fs::canonicalize(lib).ok());
        let Some(package) = lib.as_deref().and_then(Path::parent) else {
            return Vec::new();
        };
        // Of a toolkit, or of pip's packages.
        let toolkit = package.join("include");
        if toolkit.join(CUDA_HEADER).is_file() {
            // CUDA 13 has libcu++ in a folder of its own.
            let cccl = Some(toolkit.join("cccl")).filter(|folder| folder.is_dir());
            return [toolkit].into_iter().chain(cccl).collect();
        }
        let folders = ["cuda_runtime", "cuda_cccl", "cuda_nvcc"]
            .map(|other| package.with_file_name(other).join("include"));
        if folders[0].join(CUDA_HEADER).is_file() {
            return folders
                .into_iter()
                .filter(|folder| folder.is_dir())
                .collect();
        }
        Vec::new()
    }

    fn run(&self, program: &Program<'_>) -> Result<Compiled, Error> {
        let file = shown(program.name).to_owned();
        let fail = &|operation: &'static str, message: String| Error::Nvrtc {
            file: file.clone(),
            operation,
            message,
        };
        let refused = |operation| move |code| fail(operation, self.functions.message(code));
        let text = |text: &str| {
            CString::new(text).map_err(|_| fail("nvrtcCreateProgram", "a NUL in a text".to_owned()))
        };

        let texts = |strings: &mut dyn Iterator<Item = &String>| {
            strings.map(|one| text(one)).collect::<Result<Vec<_>, _>>()
        };
        let (name, source) = (text(program.name)?, text(program.source)?);
        let includes = texts(&mut program.headers.iter().map(|(include, _)| include))?;
        let headers = texts(&mut program.headers.iter().map(|(_, header)| header))?;
        let options = texts(&mut program.options.iter())?;
        let instances = texts(&mut program.instances.iter())?;

        let mut handle = Handle {
            program: ptr::null_mut(),
            functions: &self.functions,
        };
        let (header_pointers, include_pointers) = (pointers(&headers), pointers(&includes));
        // SAFETY: the strings end in NUL and outlive the call, which copies them; both arrays have
        // the length given.
        let code = unsafe {
            (self.functions.create)(
                &mut handle.program,
                source.as_ptr(),
                name.as_ptr(),
                header_pointers.len() as c_int,
                header_pointers.as_ptr(),
                include_pointers.as_ptr(),
            )
        };
        if code != SUCCESS {
            return Err(refused("nvrtcCreateProgram")(code));
        }
        for instance in &instances {
            // SAFETY: the program was created; the string ends in NUL, and the call copies it.
            let code = unsafe { (self.functions.add_name)(handle.program, instance.as_ptr()) };
            if code != SUCCESS {
                return Err(refused("nvrtcAddNameExpression")(code));
            }
        }
        let option_pointers = pointers(&options);
        // SAFETY: the program was created; the options are as above.
        let code = unsafe {
            (self.functions.compile)(
                handle.program,
                option_pointers.len() as c_int,
                option_pointers.as_ptr(),
            )
        };
        let log = handle
            .text(self.functions.log_size, self.functions.log)
            .map_err(refused("nvrtcGetProgramLog"))?;
        let log = shown_in(&log);
        match code {
            SUCCESS => {}
            COMPILATION_ERROR => {
                return Err(Error::Compile {
                    file: file.clone(),
                    options: program.options.join(" "),
                    advice: String::new(),
                    log,
                });
            }
            code => {
                let message = format!("{} {log}", self.functions.message(code));
                return Err(fail("nvrtcCompileProgram", message.trim_end().to_owned()));
            }
        }
        let ptx = handle
            .text(self.functions.ptx_size, self.functions.ptx)
            .map_err(refused("nvrtcGetPTX"))?;
        let mut named = String::new();
        for (instance, name) in program.instances.iter().zip(&instances) {
            let lowered = handle
                .lowered(name)
                .map_err(refused("nvrtcGetLoweredName"))?;
            named += &ptx_file::instance_line(instance, &lowered);
        }
        Ok(Compiled {
            ptx: named + &with_own_call_numbers(&ptx),
            log,
        })
    }
}

/// The text with its calls numbered from 0. The compiler marks each call, `{ // callseq 4, 0`, with
/// a number that counts all that it compiled in this process.
fn with_own_call_numbers(ptx: &str) -> String {
    const MARK: &str = "// callseq ";
    let mut numbers: Vec<&str> = Vec::new();
    let mut text = String::with_capacity(ptx.len());
    for line in ptx.split_inclusive('\n') {
        let Some((before, rest)) = line.split_once(MARK) else {
            text += line;
            continue;
        };
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        let (number, after) = rest.split_at(digits.unwrap_or(rest.len()));
        let own = numbers.iter().position(|known| *known == number);
        let own = own.unwrap_or_else(|| {
            numbers.push(number);
            numbers.len() - 1
        });
        text += &format!("{before}{MARK}{own}{after}");
    }
    text
}

/// Input of NVRTC. Headers are pairs of the name in the `#include` and the text.
struct Program<'a> {
    name: &'a str,
    source: &'a str,
    headers: &'a [(String, String)],
    options: &'a [String],
    /// Instances of templates, like `scale<4>`.
    instances: &'a [String],
}

/// A header that every installation of CUDA's has.
const CUDA_HEADER: &str = "cuda_fp16.h";

const SUCCESS: c_int = 0;
const COMPILATION_ERROR: c_int = 6;

type RawProgram = *mut c_void;
type Size = unsafe extern "C" fn(RawProgram, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(RawProgram, *mut c_char) -> c_int;

/// Defines [`Functions`]: each with its name in the library and its type, as in NVRTC's header.
macro_rules! functions {
    ($($name:ident = $symbol:literal: $function:ty;)*) => {
        #[derive(Debug)]
        struct Functions { $($name: $function),* }

        impl Functions {
            /// # Safety
            ///
            /// `library` must be NVRTC, and outlive the result.
            unsafe fn find(library: &Library) -> Result<Functions, libloading::Error> {
                // SAFETY: the caller says that the library is NVRTC, whose header has these types.
                unsafe { Ok(Functions { $($name: *library.get::<$function>($symbol)?),* }) }
            }
        }
    };
}

functions! {
    version = b"nvrtcVersion": unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    message = b"nvrtcGetErrorString": unsafe extern "C" fn(c_int) -> *const c_char;
    create = b"nvrtcCreateProgram": unsafe extern "C" fn(
        *mut RawProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char,
    ) -> c_int;
    add_name = b"nvrtcAddNameExpression": unsafe extern "C" fn(RawProgram, *const c_char) -> c_int;
    lowered_name = b"nvrtcGetLoweredName":
        unsafe extern "C" fn(RawProgram, *const c_char, *mut *const c_char) -> c_int;
    compile = b"nvrtcCompileProgram": unsafe extern "C" fn(RawProgram, c_int, *const *const c_char) -> c_int;
    destroy = b"nvrtcDestroyProgram": unsafe extern "C" fn(*mut RawProgram) -> c_int;
    log_size = b"nvrtcGetProgramLogSize": Size;
    log = b"nvrtcGetProgramLog": Text;
    ptx_size = b"nvrtcGetPTXSize": Size;
    ptx = b"nvrtcGetPTX": Text;
}

impl Functions {
    fn message(&self, code: c_int) -> String {
        // SAFETY: NVRTC returns a static string for every code, known or not.
        unsafe { CStr::from_ptr((self.message)(code)) }
            .to_string_lossy()
            .into_owned()
    }
}

/// A program that is destroyed when dropped.
struct Handle<'a> {
    program: RawProgram,
    functions: &'a Functions,
}

impl Handle<'_> {
    /// The name in the PTX of an instance that was added before the compilation.
    fn lowered(&self, name: &CStr) -> Result<String, c_int> {
        let mut lowered = ptr::null();
        // SAFETY: the program was compiled; `name` ends in NUL, and `lowered` outlives the call.
        let code =
            unsafe { (self.functions.lowered_name)(self.program, name.as_ptr(), &mut lowered) };
        if code != SUCCESS || lowered.is_null() {
            return Err(code);
        }
        // SAFETY: NVRTC gives a string that ends in NUL and lives as long as the program.
        let lowered = unsafe { CStr::from_ptr(lowered) };
        Ok(lowered.to_string_lossy().into_owned())
    }

    /// A text of the program: its size is asked first, then the text with its closing NUL.
    fn text(&self, size: Size, text: Text) -> Result<String, c_int> {
        let mut bytes = 0;
        // SAFETY: the program was created, and `bytes` outlives the call.
        let code = unsafe { size(self.program, &mut bytes) };
        if code != SUCCESS {
            return Err(code);
        }
        let mut buffer = vec![0u8; bytes];
        // SAFETY: the buffer has the size that was just asked for.
        let code = unsafe { text(self.program, buffer.as_mut_ptr().cast()) };
        if code != SUCCESS {
            return Err(code);
        }
        let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(bytes);
        Ok(String::from_utf8_lossy(&buffer[..end]).into_owned())
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: the program was created and nothing else holds it.
            unsafe { (self.functions.destroy)(&mut self.program) };
        }
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_numbered_from_the_start_of_a_module() {
        let ptx = "{ // callseq 7, 0\nf;\n} // callseq 7\n{ // callseq 9, 0\n} // callseq 9\nret;";
        let own = "{ // callseq 0, 0\nf;\n} // callseq 0\n{ // callseq 1, 0\n} // callseq 1\nret;";
        assert_eq!(with_own_call_numbers(ptx), own);
    }
}
