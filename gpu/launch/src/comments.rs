//! The comments of a kernel file: launches, arguments and what must come of them.

use std::fmt;
use std::path::Path;

use crate::argument::Argument;
use crate::error::InvocationError;
use crate::expectation::Expectation;
use crate::names::readable;
use crate::{fields, misspelt};

/// Launches and arguments that a file states. What it leaves out may come from a command line.
///
/// ```text
/// // launch: grid=4 block=64 shared=0 kernel=scale
/// // args: f32[256]=iota f32[256]=uninit i32=256 f32=0.5
/// // define: TILE=16
/// // expect 1: f32 0 0.5 1 1.5 …
/// // bug: out of bounds
/// ```
///
/// - `launch`: grid and block are `x`, `x,y` or `x,y,z`; `shared` is dynamic shared memory in
///   bytes, 0 if left out; `kernel` may be left out if the file has one kernel. Further `launch`
///   lines launch further kernels, one after the other, on the same arguments and `__device__`
///   variables: `pass=0,2` passes arguments 0 and 2, in this order, in place of all, and `pass=`
///   none. A file states 64 launches at most. `cooperative=yes` is for kernels that call
///   `grid.sync()`.
/// - `args`: one word for each parameter of the kernel, in the format of [`Argument`]. Blanks
///   within braces do not separate words. Further `args` lines continue the list, also within
///   braces; the end of a line counts as a blank. A tensor map, `tensormap{0,64x64,box=64x64}`, is
///   an argument beside the buffer that it describes: `pass=` leaves out what the kernel does not
///   take.
/// - `define`: constants for the compiler. Further lines add constants.
/// - `expect N`: the whole content of buffer argument N (counted over all arguments from 0) after
///   the launch, with the type of its elements; `N.M` is field M of a struct. Further lines for the
///   same argument continue it. `expect N ulp 2`, `expect N abs 1e-6` and `expect N rel 1e-3` give
///   a tolerance.
/// - `bug`: for a kernel that is wrong on purpose, the class of its fault; `none` for a correct
///   kernel. The lines where the fault may be reported end in `// BUG`.
///
/// A file may be a stranger's: its `.npy` files lie in its own folder or below, and its buffers
/// have 64 MiB together at most. Arguments of a command line have no such limits.
///
/// Such a comment begins its line. One that looks misspelt is an error. What `// arch:` says is for
/// the compiler.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// The launches, in order; one at least.
    pub launches: Vec<Launch>,
    /// The arguments of all launches.
    pub arguments: Vec<Argument>,
    /// The `-D` constants, by name and value.
    pub constants: Vec<(String, String)>,
    /// Expected contents of buffers after the launch.
    pub expectations: Vec<Expectation>,
    /// The class of the planted fault, or `none`.
    pub bug: Option<String>,
    /// The numbers, from 1, of the lines that end in `// BUG`.
    pub marked: Vec<u32>,
}

/// A launch of a kernel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Launch {
    /// The kernel's name.
    pub kernel: Option<String>,
    /// Blocks in x, y, z.
    pub grid: Option<[u32; 3]>,
    /// Threads of a block in x, y, z.
    pub block: Option<[u32; 3]>,
    /// Dynamic shared memory of a block, bytes.
    pub shared: u32,
    /// All blocks run at the same time, and may wait for each other by `grid.sync()`.
    pub cooperative: bool,
    /// The numbers of the arguments that are passed, in order; `None`: all are.
    pub pass: Option<Vec<usize>>,
}

impl Default for Invocation {
    fn default() -> Invocation {
        Invocation {
            launches: vec![Launch::default()],
            arguments: Vec::new(),
            constants: Vec::new(),
            expectations: Vec::new(),
            bug: None,
            marked: Vec::new(),
        }
    }
}

impl Invocation {
    /// Reads the comments of a kernel's source or PTX. Names of `.npy` files are relative to
    /// `folder`.
    ///
    /// # Errors
    ///
    /// [`InvocationError::BadLine`] for a comment of this format that cannot be read, or that looks
    /// misspelt.
    pub fn parse(text: &str, folder: &Path) -> Result<Invocation, InvocationError> {
        let mut invocation = Invocation::default();
        let mut launch_seen = false;
        let mut arguments = String::new();
        let mut unclosed = None; // the line where a brace was opened and not closed
        let mut expected: Vec<(usize, &str)> = Vec::new(); // the first line of each expectation
        let bad = |(line, text): (usize, &str), reason: String| InvocationError::BadLine {
            line,
            text: text.to_owned(),
            reason,
        };
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if line.trim_end().ends_with("// BUG") {
                invocation.marked.push(number as u32);
            }
            let Some(comment) = line.strip_prefix("//") else {
                continue;
            };
            // Without a blank before it, a word states nothing: the match finds none.
            let (word, rest) = comment.split_once(':').unwrap_or_default();
            let word = word.strip_prefix(' ').unwrap_or_default();
            let read = match word {
                "launch" => Launch::parse(rest).and_then(|launch| {
                    if !std::mem::replace(&mut launch_seen, true) {
                        invocation.launches.clear();
                    }
                    invocation.launches.push(launch);
                    match invocation.launches.len() > MAX_LAUNCHES {
                        true => Err(format!("a file states at most {MAX_LAUNCHES} launches")),
                        false => Ok(()),
                    }
                }),
                "args" => {
                    arguments += rest;
                    arguments.push(' '); // so that no value goes on in the next line
                    if fields::is_open(&arguments) {
                        unclosed = unclosed.or(Some((number, line)));
                        continue;
                    }
                    unclosed = None;
                    invocation.read_arguments(&std::mem::take(&mut arguments), folder)
                }
                "define" => invocation.read_constants(rest),
                "bug" if invocation.bug.is_some() => Err("the bug is stated twice".to_owned()),
                "bug" => {
                    invocation.bug = Some(rest.trim().to_owned());
                    Ok(())
                }
                _ => match word.strip_prefix("expect ") {
                    Some(argument) if is_expectation(argument) => {
                        let added = Expectation::add(&mut invocation.expectations, argument, rest);
                        expected.resize(invocation.expectations.len(), (number, line));
                        added
                    }
                    _ if word == "arch" => continue,
                    _ => misspelt::directive(comment).map_or(Ok(()), Err),
                },
            };
            read.map_err(|reason| bad((number, line), reason))?;
        }
        if let Some(line) = unclosed {
            return Err(bad(line, "a brace is not closed".to_owned()));
        }
        for (expectation, line) in invocation.expectations.iter().zip(expected) {
            let fits = expectation.fits(&invocation.arguments);
            fits.map_err(|reason| bad(line, reason))?;
        }
        Ok(invocation)
    }

    fn read_arguments(&mut self, words: &str, folder: &Path) -> Result<(), String> {
        for word in fields::split(words, char::is_whitespace).filter(|word| !word.is_empty()) {
            let argument = Argument::parse(word).map_err(|reason| {
                let number = self.arguments.len();
                format!("argument {number} ({}): {reason}", fields::shown(word))
            })?;
            let own = argument.files().try_for_each(|name| is_own(folder, name));
            own.map_err(|reason| format!("argument {}: {reason}", self.arguments.len()))?;
            self.arguments.push(argument.in_folder(folder));
        }
        let bytes: u64 = self
            .arguments
            .iter()
            .map(Argument::buffer_bytes)
            .fold(0, u64::saturating_add);
        if bytes > MAX_BUFFERS {
            return Err(format!(
                "the buffers have {bytes} bytes together, of at most {MAX_BUFFERS} that a file may ask for"
            ));
        }
        Ok(())
    }

    fn read_constants(&mut self, words: &str) -> Result<(), String> {
        for word in words.split_whitespace() {
            self.constants.push(constant(word)?);
        }
        Ok(())
    }
}

impl Launch {
    /// A kernel of a file, called `kernel` in the PTX, and its launch in one line: `scale of x.cu,
    /// grid (4, 1, 1), block (64, 1, 1)`.
    pub fn title(&self, kernel: &str, file: impl fmt::Display) -> String {
        let size = |size: Option<[u32; 3]>| {
            let [x, y, z] = size.unwrap_or_default();
            format!("({x}, {y}, {z})")
        };
        let mut title = format!(
            "{} of {file}, grid {}, block {}",
            readable(kernel),
            size(self.grid),
            size(self.block)
        );
        if self.shared > 0 {
            title += &format!(", {} bytes of dynamic shared memory", self.shared);
        }
        title
    }

    /// Reads `KEY=VALUE` words.
    fn parse(words: &str) -> Result<Launch, String> {
        let mut launch = Launch::default();
        for word in words.split_whitespace() {
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| format!("{word:?} is not KEY=VALUE"))?;
            match key {
                "grid" => launch.grid = Some(extent(value)?),
                "block" => launch.block = Some(extent(value)?),
                "shared" => {
                    let bytes = value.parse();
                    launch.shared =
                        bytes.map_err(|_| format!("{value:?} is not a number of bytes"))?;
                }
                "kernel" => launch.kernel = Some(value.to_owned()),
                "cooperative" => {
                    launch.cooperative = match value {
                        "yes" => true,
                        "no" => false,
                        _ => return Err(format!("cooperative is yes or no, not {value:?}")),
                    };
                }
                "pass" => {
                    let numbers = value.split(',').filter(|_| !value.is_empty());
                    let numbers = numbers.map(str::parse);
                    let numbers = numbers.collect::<Result<_, _>>();
                    let numbers = numbers
                        .map_err(|_| format!("{value:?} is not numbers of arguments, like 0,2"))?;
                    launch.pass = Some(numbers);
                }
                _ => {
                    return Err(format!(
                        "{key:?} is none of grid, block, shared, cooperative, kernel and pass"
                    ));
                }
            }
        }
        Ok(launch)
    }
}

/// The most launches that a file states.
const MAX_LAUNCHES: usize = 64;

/// The bytes that all buffers which a file states may have together.
const MAX_BUFFERS: u64 = 64 << 20;

/// Refuses a file that does not lie in the folder of the kernel file that names it. One that is not
/// there is no matter: reading it will tell.
fn is_own(folder: &Path, name: &Path) -> Result<(), String> {
    if !folder.join(name).exists() {
        return Ok(());
    }
    let own = gpu_reading::within(folder, name).map(|_| ());
    own.map_err(|reason| {
        format!(
            "{}: {reason}; an argument of the command line may name it",
            name.display()
        )
    })
}

/// True if a comment `expect ARGUMENT: …` is one of this format, good or bad: prose has more words
/// before its colon.
fn is_expectation(argument: &str) -> bool {
    argument.starts_with(|c: char| c.is_ascii_digit()) || !argument.trim().contains(' ')
}

/// Reads `x`, `x,y` or `x,y,z`; what is left out is 1.
///
/// # Errors
///
/// The reason.
pub fn extent(text: &str) -> Result<[u32; 3], String> {
    let mut extent = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("{text:?} has more than three dimensions"));
    }
    for (size, part) in extent.iter_mut().zip(parts) {
        *size = part
            .parse()
            .map_err(|_| format!("{text:?} is not x, x,y or x,y,z in whole numbers"))?;
    }
    Ok(extent)
}

/// Reads `NAME=VALUE`.
///
/// # Errors
///
/// The reason.
pub fn constant(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not NAME=VALUE")),
    }
}
