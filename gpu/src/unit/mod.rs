//! One compilation: a kernel file with its headers, constants and architecture, and the key over
//! all of them.

mod virtual_name;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::architecture::Architecture;
use crate::{Error, includes, library_headers};
pub(crate) use virtual_name::shown_in;
pub use virtual_name::{shown, virtual_name};

/// The compiler that makes the committed PTX, as pip names it.
pub const PINNED_COMPILER: &str = "nvidia-cuda-nvrtc-cu12==12.4.127";

/// The header that every package may include.
const PRELUDE_FILE: &str = "prelude.cuh";
const PRELUDE: &str = include_str!("../../kernels/prelude.cuh");

/// The C++ standard that a unit is compiled by, unless it names another.
pub const STANDARD: &str = "c++17";

/// A kernel file, ready to be compiled.
///
/// Everything has a *virtual name*, `/k/<package>/kernels/<file>`: NVRTC writes absolute paths into
/// the PTX (for line numbers), so the real ones would make it differ from checkout to checkout.
/// Without its `/k/` a virtual name is a path from the workspace's root.
#[derive(Debug, Clone)]
pub struct Unit {
    folder: String,
    file: String,
    constants: BTreeMap<String, String>,
    /// The kernel file's text.
    pub source: String,
    /// The headers that it includes, ordered by name.
    pub headers: Vec<Header>,
    /// The headers that it includes and that are not there, ordered by name.
    pub missing: Vec<Missing>,
    /// The least architecture it runs on, from its line `// arch: compute_80`; otherwise
    /// `compute_75`.
    pub architecture: Architecture,
    /// The C++ standard, like [`STANDARD`].
    pub standard: String,
    /// Instances of templates that are compiled, like `scale<4>`.
    pub instances: Vec<String>,
    /// Further options of the compiler.
    pub options: Vec<String>,
}

/// A header that a unit includes and that is not there.
#[derive(Debug, Clone)]
pub struct Missing {
    /// Its name, as it is included.
    pub include: String,
    /// The virtual name of the file that includes it.
    pub by: String,
    /// The line there, from 1.
    pub line: usize,
    /// True for a name in quotes, false for one in angle brackets.
    pub quoted: bool,
    /// True for a header that is taken as empty: one of a host library, or of CUDA where a header
    /// of the C++ library asks for it.
    pub is_empty: bool,
}

/// A header that a unit includes, directly or not.
#[derive(Debug, Clone)]
pub struct Header {
    /// The name between the quotes of `#include "…"`; `<package>/<file>` for a header of another
    /// package.
    pub include: String,
    /// Its virtual name.
    pub name: String,
    /// Its text. Includes of a header of another package name the package, because NVRTC knows no
    /// folders.
    pub text: String,
    /// True for the prelude and for headers in the `kernels/` folder of another package.
    pub of_package: bool,
}

/// The folder in which a file of a unit lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder<'a> {
    /// The kernel file's own.
    Own,
    /// The `kernels/` folder of this package.
    Package(&'a str),
    /// The folders that a command line names for headers.
    Included,
    /// The C++ library, as far as this crate has texts for it. It is never read.
    Standard,
}

impl Unit {
    /// Puts together `file` of `package`, compiled with `-DNAME=VALUE` for every constant.
    ///
    /// `read` gives the text of a file of the package's `kernels/` folder, or of another package's,
    /// if there is such a file. Headers are found by their `#include "…"` and `#include <…>`: first
    /// in the folder of the file that includes them; then `<package>/<file>.cuh` in the `kernels/`
    /// folder of that package; then the prelude; then [`Folder::Included`]; then those of the C++
    /// library for which there is a text. The compiler reports any other header, except NVIDIA's if
    /// they are installed.
    ///
    /// # Errors
    ///
    /// [`Error::BadConstant`] for a name that is not a C identifier, is given twice, or a value
    /// with control characters; [`Error::BadArchitecture`]; [`Error::NoSuchHeader`] for a header of
    /// another package that is not there; [`Error::BadInclude`] for a header that is not named in
    /// the text; [`Error::TooMuchText`]; errors of `read`.
    pub fn new(
        package: &str,
        file: &str,
        constants: &[(&str, &str)],
        read: impl Fn(Folder<'_>, &str) -> Result<Option<String>, Error>,
    ) -> Result<Option<Unit>, Error> {
        Unit::in_folder(&format!("{package}/kernels"), file, constants, read)
    }

    /// As [`Unit::new`], for a file of any folder: `folder` takes the place of `<package>/kernels`
    /// in its virtual name. It may be empty. `read` reads own files in that folder.
    ///
    /// # Errors
    ///
    /// Those of [`Unit::new`].
    pub fn in_folder(
        folder: &str,
        file: &str,
        constants: &[(&str, &str)],
        read: impl Fn(Folder<'_>, &str) -> Result<Option<String>, Error>,
    ) -> Result<Option<Unit>, Error> {
        let read = |folder: Folder<'_>, name: &str| -> Result<Option<String>, Error> {
            Ok(read(folder, name)?.map(without_mark))
        };
        let Some(source) = read(Folder::Own, file)? else {
            return Ok(None);
        };
        let path = joined(folder, file);
        let mut includes = Includes {
            folder,
            read,
            found: BTreeMap::new(),
            missing: BTreeMap::new(),
            bytes: source.len(),
        };
        // A header beside a file in a folder of kernels/ is named from kernels/.
        let source = includes.scan(Folder::Own, file, &source)?;
        let Includes { found, missing, .. } = includes;
        let is_missing = |missing: &Missing| !found.contains_key(&missing.include);
        let unit = Unit {
            missing: missing.into_values().filter(is_missing).collect(),
            headers: found.into_values().collect(),
            architecture: Architecture::declared_by(&path, &source)?,
            constants: checked(&path, constants)?,
            folder: folder.to_owned(),
            file: file.to_owned(),
            source,
            standard: STANDARD.to_owned(),
            instances: Vec::new(),
            options: Vec::new(),
        };
        Ok(Some(unit))
    }

    /// The kernel file's name, like `softmax.cu`.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The kernel file, from the workspace's root.
    pub fn path(&self) -> String {
        joined(&self.folder, &self.file)
    }

    /// The name that the compiler is told, and that it writes into the PTX.
    pub fn virtual_name(&self) -> String {
        virtual_name(&self.path())
    }

    /// The `-D` constants, by name.
    pub fn constants(&self) -> &BTreeMap<String, String> {
        &self.constants
    }

    /// All options that give PTX, sorted.
    pub fn all_options(&self) -> Vec<String> {
        self.options_for(&self.architecture.to_string())
    }

    /// All options to compile for `architecture`, which may be a real one such as `sm_80`; sorted.
    pub fn options_for(&self, architecture: &str) -> Vec<String> {
        let mut options = vec![
            "--generate-line-info".to_owned(),
            format!("--gpu-architecture={architecture}"),
            format!("--std={}", self.standard),
        ];
        options.extend_from_slice(&self.options);
        options.extend(
            self.constants
                .iter()
                .map(|(name, value)| format!("-D{name}={value}")),
        );
        options.sort();
        options
    }

    /// Adds a header of the C++ library that its texts do not include, unless it is there. What
    /// this header includes and is not there is taken as missing.
    pub fn add_library_header(&mut self, name: &str, text: String) {
        let include = library_headers::given_name(name);
        if self.knows(&include) {
            return;
        }
        let file = virtual_name(&include);
        for inner in includes::find(&text) {
            let missing = inner.name.filter(|name| !self.knows(name));
            self.missing.extend(missing.map(|name| Missing {
                include: name,
                by: file.clone(),
                line: inner.line,
                quoted: inner.quoted,
                is_empty: true,
            }));
        }
        self.headers.push(Header {
            include,
            name: file,
            text,
            of_package: false,
        });
    }

    /// True for the name of a header that is there, or that is known to be missing.
    fn knows(&self, name: &str) -> bool {
        self.headers.iter().any(|header| header.include == name)
            || self.missing.iter().any(|missing| missing.include == name)
    }

    /// Holds the `#include` directives of its texts against its headers, after the texts were
    /// changed.
    ///
    /// # Errors
    ///
    /// [`Error::BadInclude`] for a header that is neither known nor known to be missing, so that
    /// NVRTC would look for it.
    pub fn check_includes(&self) -> Result<(), Error> {
        let path = self.virtual_name();
        let headers = self.headers.iter();
        let texts = headers.map(|header| (&header.name, &header.text));
        for (file, text) in texts.chain([(&path, &self.source)]) {
            let includes = includes::find(text);
            let unknown = includes
                .iter()
                .find(|include| !include.name.as_deref().is_some_and(|name| self.knows(name)));
            if let Some(include) = unknown {
                return Err(Error::BadInclude {
                    file: shown(file).to_owned(),
                    line: include.line,
                });
            }
        }
        Ok(())
    }

    /// The SHA-256, in hexadecimal, of all that determines the PTX: names, texts, options and the
    /// pinned compiler.
    pub fn key(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            // The length keeps apart what would read the same when joined.
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        add(&self.virtual_name());
        add(&self.source);
        for header in &self.headers {
            add(&header.name);
            add(&header.text);
        }
        for option in self.all_options() {
            add(&option);
        }
        for instance in &self.instances {
            add(instance);
        }
        add(PINNED_COMPILER);
        hexadecimal(&hash.finalize())
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

fn joined(folder: &str, file: &str) -> String {
    if folder.is_empty() {
        return file.to_owned();
    }
    format!("{folder}/{file}")
}

/// The text without the byte order mark with which some editors begin a file: NVRTC does not know
/// it.
fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

/// The most headers of a unit.
const MAX_HEADERS: usize = 256;

/// Finds the headers of a unit.
struct Includes<'a, R> {
    /// The kernel file's folder in virtual names.
    folder: &'a str,
    read: R,
    /// By the name that the compiler is given.
    found: BTreeMap<String, Header>,
    missing: BTreeMap<String, Missing>,
    /// Of all texts.
    bytes: usize,
}

impl<R: Fn(Folder<'_>, &str) -> Result<Option<String>, Error>> Includes<'_, R> {
    /// Adds all headers that `text` includes, directly or not; `text` is of the file
    /// `file` in folder `from`. Returns the text in which each include has the name
    /// that the compiler is given.
    fn scan(&mut self, from: Folder<'_>, file: &str, text: &str) -> Result<String, Error> {
        let mut renamed = String::with_capacity(text.len());
        let mut copied = 0;
        for include in includes::find(text) {
            let Some(name) = &include.name else {
                return Err(Error::BadInclude {
                    file: self.path(from, file),
                    line: include.line,
                });
            };
            match self.add(from, file, name, include.quoted)? {
                Some(given) => {
                    renamed += &text[copied..include.range.start];
                    renamed += &given;
                    copied = include.range.end;
                }
                None => {
                    let missing = Missing {
                        include: name.clone(),
                        by: virtual_name(&self.path(from, file)),
                        line: include.line,
                        quoted: include.quoted,
                        is_empty: from == Folder::Standard || library_headers::is_of_host(name),
                    };
                    self.missing.entry(name.clone()).or_insert(missing);
                }
            }
        }
        renamed += &text[copied..];
        Ok(renamed)
    }

    /// Adds the header that the file `file` in folder `from` includes as `name`, if there is one.
    /// Returns the name that the compiler is given.
    fn add(
        &mut self,
        from: Folder<'_>,
        file: &str,
        name: &str,
        quoted: bool,
    ) -> Result<Option<String>, Error> {
        // Beside the file that includes it, which may lie in a folder below.
        let beside = match file.rsplit_once('/') {
            Some((below, _)) => format!("{below}/{name}"),
            None => name.to_owned(),
        };
        let (folder, header, text) = if let Some(text) = (self.read)(from, &beside)? {
            (from, &*beside, text)
        } else if let Some(text) = (self.read)(from, name)? {
            (from, name, text)
        } else if let Some((package, header)) = name.split_once('/')
            && header.ends_with(".cuh")
            && let Some(text) = (self.read)(Folder::Package(package), header)?
        {
            (Folder::Package(package), header, text)
        } else if name == PRELUDE_FILE {
            (Folder::Package("gpu"), name, PRELUDE.to_owned())
        } else if let Some(text) = (self.read)(Folder::Included, name)? {
            (Folder::Included, name, text)
        } else if let Some(text) = library_headers::text(name) {
            (Folder::Standard, name, text)
        } else if quoted && name.contains('/') && name.ends_with(".cuh") {
            return Err(Error::NoSuchHeader {
                file: self.path(from, file),
                header: name.to_owned(),
            });
        } else {
            return Ok(None);
        };
        let include = match folder {
            Folder::Package(package) if from == folder && header != PRELUDE_FILE => {
                format!("{package}/{header}")
            }
            Folder::Package(_) => name.to_owned(),
            Folder::Standard => library_headers::given_name(header),
            _ => header.to_owned(),
        };
        if !self.found.contains_key(&include) {
            self.bytes += text.len();
            if self.found.len() == MAX_HEADERS || self.bytes > gpu_reading::MAX_TEXT {
                return Err(Error::TooMuchText {
                    file: self.path(Folder::Own, file),
                    headers: MAX_HEADERS,
                    bytes: gpu_reading::MAX_TEXT,
                });
            }
            let entry = Header {
                include: include.clone(),
                name: virtual_name(&self.path(folder, header)),
                text: String::new(),
                of_package: matches!(folder, Folder::Package(_)),
            };
            self.found.insert(include.clone(), entry); // first, because headers may include each other
            let text = self.scan(folder, header, &text)?;
            self.found
                .entry(include.clone())
                .and_modify(|entry| entry.text = text);
        }
        Ok(Some(include))
    }

    /// A file from the workspace's root.
    fn path(&self, folder: Folder<'_>, file: &str) -> String {
        match folder {
            Folder::Own => joined(self.folder, file),
            Folder::Package(package) => format!("{package}/kernels/{file}"),
            Folder::Included => file.to_owned(),
            Folder::Standard => library_headers::given_name(file),
        }
    }
}

fn checked(path: &str, constants: &[(&str, &str)]) -> Result<BTreeMap<String, String>, Error> {
    let mut map = BTreeMap::new();
    for (name, value) in constants {
        let identifier = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name
                .bytes()
                .next()
                .is_some_and(|first| !first.is_ascii_digit());
        let reason = if !identifier {
            "the name is not an identifier"
        } else if value.chars().any(char::is_control) {
            "the value has control characters"
        } else if map
            .insert((*name).to_owned(), (*value).to_owned())
            .is_some()
        {
            "the name is given twice"
        } else {
            continue;
        };
        let (name, value) = ((*name).to_owned(), (*value).to_owned());
        return Err(Error::BadConstant {
            file: path.to_owned(),
            name,
            value,
            reason,
        });
    }
    Ok(map)
}
