//! The host's part of a CUDA program, which is left out: NVRTC compiles device code alone, and has
//! none of the host's headers.
//!
//! A file's functions are the host's unless `__global__`, `__device__` or a macro that stands for
//! them marks them, or they are `constexpr`. A file with such a function, or with the call of a
//! macro like `PYBIND11_MODULE(…)`, is a program. Then its unmarked functions and variables are
//! blanked, and those classes, aliases and constants which no device code mentions, also by way of
//! others. Directives stay, and so do the places of all that is left: lines have the numbers that
//! they had.

mod declarations;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use gpu::library_headers;
use gpu::unit::{Header, Missing, Unit, shown, virtual_name};

use declarations::{Declaration, Macros, Shape, declarations, macros, marks, namespaces};
use tokens::{tokens, words};

/// A function of the host that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFunction {
    /// The file, from the workspace's root.
    pub file: String,
    /// The function's name, or that of the macro whose call it is.
    pub name: String,
    /// Its first and last line, from 1.
    pub lines: (usize, usize),
}

impl HostFunction {
    /// A sentence that lists functions, the first eight by name.
    pub fn list(functions: &[HostFunction]) -> String {
        let names = functions.iter().take(LISTED).map(|function| {
            let HostFunction { file, name, lines } = function;
            match lines {
                (first, last) if first == last => format!("{name} ({file}:{first})"),
                (first, last) => format!("{name} ({file}:{first}-{last})"),
            }
        });
        let names: Vec<String> = names.collect();
        let more = match functions.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("Host code is not compiled: {}{more}.", names.join(", "))
    }
}

/// The most functions that are listed by name.
const LISTED: usize = 8;

/// Leaves the host code out of a unit, and returns its functions. A unit without host code stays as
/// it is, and so do headers of packages.
///
/// # Errors
///
/// [`gpu::Error::BadInclude`] for a header that only what is left includes.
pub(crate) fn leave_out(unit: &mut Unit) -> Result<Vec<HostFunction>, gpu::Error> {
    let path = unit.path();
    let constants = unit.constants().clone();
    let mut around = Around {
        texts: Vec::new(),
        constants: constants
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect(),
    };
    let mut texts = vec![(path, &mut unit.source)];
    for header in &mut unit.headers {
        let name = shown(&header.name).to_owned();
        match header.of_package {
            true => around.texts.push(&header.text),
            false => texts.push((name, &mut header.text)),
        }
    }
    let given: Vec<(&str, &str)> = texts
        .iter()
        .map(|(name, text)| (&**name, &***text))
        .collect();
    let Some(code) = left_out(&given, &around) else {
        return Ok(Vec::new());
    };
    for ((_, text), left) in texts.into_iter().zip(code.texts) {
        *text = left;
    }
    compile_as_nvcc(unit);
    // A text that was no directive before may be one now.
    unit.check_includes()?;
    Ok(code.functions)
}

/// The header that is included before a program.
const IMPLICIT: &str = "c++/nvcc.h";

/// Headers that nvcc includes before every file.
const OF_NVCC: [&str; 4] = ["cstdint", "cstddef", "cmath", "cstdlib"];

/// Further such headers, and the beginnings of the names of their templates: they are included if a
/// text has such a name.
const TEMPLATES_OF_NVCC: [(&str, &[&str]); 3] = [
    ("algorithm", &["std::min", "std::max", "std::clamp"]),
    ("limits", &["std::numeric_limits"]),
    (
        "type_traits",
        &[
            "std::is_",
            "std::conditional",
            "std::enable_if",
            "std::decay",
            "std::remove_",
            "std::integral_constant",
            "std::bool_constant",
            "std::true_type",
            "std::false_type",
        ],
    ),
];

/// Adds the header that is included before a program and the headers of the C++ library that it
/// includes, the options for a program, and takes missing headers in angle brackets as empty,
/// except CUDA's for kernels.
fn compile_as_nvcc(unit: &mut Unit) {
    // Code that is left without a mark is for kernels, such as functions that are constexpr.
    let option = "--device-as-default-execution-space".to_owned();
    unit.options.push(option);
    unit.options.push(format!("--pre-include={IMPLICIT}"));
    for missing in &mut unit.missing {
        missing.is_empty |= !missing.quoted && !library_headers::is_of_device(&missing.include);
    }
    let headers = unit.headers.iter().map(|header| &*header.text);
    let texts: Vec<&str> = headers.chain([&*unit.source]).collect();
    let needed = templates(&texts);
    let mut implicit: String = OF_NVCC
        .into_iter()
        .filter_map(library_headers::text)
        .collect();
    for name in &needed {
        implicit += &format!("#include <{name}>\n");
    }
    unit.headers.push(library_header(IMPLICIT, implicit));
    for name in needed {
        if unit.headers.iter().any(|header| header.include == name) {
            continue;
        }
        let header = library_header(name, library_headers::text(name).unwrap_or_default());
        let of_libcuxx = format!("cuda/std/{name}");
        if header.text.contains(&format!("#include <{of_libcuxx}>")) {
            unit.missing.push(Missing {
                include: of_libcuxx,
                by: header.name.clone(),
                line: 2,
                quoted: false,
                is_empty: true,
            });
        }
        unit.headers.push(header);
    }
}

/// The headers of [`TEMPLATES_OF_NVCC`] whose templates the texts name.
fn templates(texts: &[&str]) -> Vec<&'static str> {
    let named = |name: &&str| texts.iter().any(|text| text.contains(*name));
    let needed = TEMPLATES_OF_NVCC.iter();
    let needed = needed.filter(|(_, names)| names.iter().any(named));
    needed.map(|(header, _)| *header).collect()
}

/// A header of the C++ library or of nvcc.
fn library_header(include: &str, text: String) -> Header {
    let file = include.trim_start_matches("c++/");
    Header {
        include: include.to_owned(),
        name: virtual_name(&format!("c++/{file}")),
        text,
        of_package: false,
    }
}

/// Texts without the host's part.
#[derive(Debug)]
struct DeviceCode {
    /// The texts, in the order given.
    texts: Vec<String>,
    /// The functions that were left out.
    functions: Vec<HostFunction>,
}

/// Texts and constants that are compiled with a program, and left as they are.
#[derive(Debug, Default)]
struct Around<'a> {
    /// Texts of headers.
    texts: Vec<&'a str>,
    /// Constants, by name and value.
    constants: Vec<(&'a str, &'a str)>,
}

/// Leaves the host's part out of texts that are compiled together, each with its name. `None` if
/// they have none, or if the brackets of a text do not pair.
fn left_out(texts: &[(&str, &str)], around: &Around<'_>) -> Option<DeviceCode> {
    let all = || {
        let own = texts.iter().map(|(_, text)| *text);
        own.chain(around.texts.iter().copied())
    };
    let mut all_macros = Macros::new();
    for (name, body) in all().flat_map(macros) {
        all_macros.entry(name).or_default().extend(body);
    }
    for (name, value) in &around.constants {
        all_macros.entry(name).or_default().extend(words(value));
    }
    let marks = marks(&all_macros);
    let of_device = NAMESPACES.into_iter();
    let namespaces: BTreeSet<&str> = of_device.chain(all().flat_map(namespaces)).collect();
    let read = texts.iter();
    let read = read.map(|(_, text)| declarations(text, &marks, &namespaces));
    let declared: Vec<Vec<Declaration<'_>>> = read.collect::<Option<_>>()?;
    let of_host =
        |declaration: &Declaration<'_>| declaration.shape == Shape::Code && !declaration.marked;
    if !declared.iter().flatten().any(of_host) {
        return None;
    }
    let mentioned = mentioned(declared.iter().flatten(), &all_macros);
    let mut code = DeviceCode {
        texts: Vec::new(),
        functions: Vec::new(),
    };
    for ((name, text), declared) in texts.iter().zip(&declared) {
        let left_out = declared
            .iter()
            .filter(|declaration| match declaration.shape {
                _ if declaration.marked => false,
                Shape::Code | Shape::Prototype | Shape::Variable | Shape::HostNamespace => true,
                Shape::Shared => !declaration
                    .names
                    .iter()
                    .any(|name| mentioned.contains(name)),
                Shape::Other => false,
            });
        let left_out: Vec<&Declaration<'_>> = left_out.collect();
        let functions = left_out.iter().filter(|declaration| of_host(declaration));
        let mut lines = Lines::new(text);
        code.functions
            .extend(functions.map(|function| HostFunction {
                file: (*name).to_owned(),
                name: function.names.first().copied().unwrap_or("?").to_owned(),
                lines: (
                    lines.number(function.range.start),
                    lines.number(function.range.end - 1),
                ),
            }));
        code.texts.push(blanked(text, &left_out));
    }
    Some(code)
}

/// Namespaces of CUDA's headers and of those of the C++ library, which `using namespace` may name.
const NAMESPACES: [&str; 9] = [
    "cooperative_groups",
    "cub",
    "cuda",
    "experimental",
    "nvcuda",
    "ptx",
    "std",
    "thrust",
    "wmma",
];

/// The words that device code mentions: those of marked declarations, and of macros and unmarked
/// declarations that they mention.
fn mentioned<'a>(
    declared: impl Iterator<Item = &'a Declaration<'a>>,
    macros: &'a Macros<'a>,
) -> BTreeSet<&'a str> {
    let mut shared = Vec::new();
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut mentioned = BTreeSet::new();
    let mut waiting: Vec<&str> = Vec::new();
    for declaration in declared {
        if declaration.marked || declaration.shape == Shape::Other {
            waiting.extend(&declaration.words);
        } else if declaration.shape == Shape::Shared {
            for name in &declaration.names {
                by_name.entry(name).or_default().push(shared.len());
            }
            shared.push(Some(declaration));
        }
    }
    while let Some(word) = waiting.pop() {
        if !mentioned.insert(word) {
            continue;
        }
        waiting.extend(macros.get(word).into_iter().flatten());
        for &at in by_name.get(word).into_iter().flatten() {
            // Its words once, though it has several names.
            let words = shared[at].take().map(|declaration| &declaration.words);
            waiting.extend(words.into_iter().flatten());
        }
    }
    mentioned
}

/// The text with blanks in place of these declarations. Line ends and directives stay.
fn blanked(text: &str, left_out: &[&Declaration<'_>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for declaration in left_out {
        for byte in &mut bytes[declaration.range.clone()] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    let tokens = tokens(text).into_iter();
    for directive in tokens.filter(|token| token.kind.is_directive()) {
        let range = directive.range;
        bytes[range.clone()].copy_from_slice(&text.as_bytes()[range]);
    }
    // Declarations begin and end with tokens, so no character was cut.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The lines of bytes of a text that are asked for in order.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Lines<'a> {
        Lines {
            text,
            at: 0,
            line: 1,
        }
    }

    fn number(&mut self, byte: usize) -> usize {
        self.line += self.text.as_bytes()[self.at..byte]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        self.at = byte;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The device code of a text, without blank lines and blanks at the ends of lines; the text
    /// itself if it is no program.
    fn left(text: &str) -> String {
        let code = left_out(&[("k.cu", text)], &Around::default());
        let left = code.map_or(text.to_owned(), |mut code| code.texts.remove(0));
        assert_eq!(left.matches('\n').count(), text.matches('\n').count());
        let lines = left.lines().map(str::trim_end);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        lines.join("\n")
    }

    const MAIN: &str =
        "int main(int argc, char** argv) {\n  k<<<1, 2>>>(); // }\n  return '}';\n}\n";

    #[test]
    fn a_file_without_host_code_is_left_alone() {
        for text in [
            "",
            "__global__ void k() {}\n",
            "struct X { void f() {} };\ntypedef int unused;\nconstexpr int f() { return 1; }\n",
            "int x;\nvoid declared();\n",
            "namespace a { __device__ int x; }\n",
            "#define MARK __device__\nMARK int f() { return 1; }\n",
        ] {
            assert!(
                left_out(&[("k.cu", text)], &Around::default()).is_none(),
                "{text}"
            );
        }
    }

    #[test]
    fn functions_without_a_mark_are_left_out() {
        let kernel = "extern \"C\" __global__ void k(int* x) { *x = 1; }";
        for host in [
            "int main() { return 0; }",
            "static inline void f(std::vector<int> x) { g(x); }",
            "template <typename T, bool B = (1 > 0)>\nvoid f(T x) { if (x < 1) { } }",
            "struct S f(int x) { return {}; }",
            "S::S(int x) : a{x}, b(x) { }",
            "bool operator==(const S& a, const S& b) { return true; }",
            "void operator()(int x) { }",
            "auto f(int x) -> int { return x; }",
            "PYBIND11_MODULE(NAME, m) {\n  m.def(\"f\", &f);\n}",
            "TORCH_BINDING(f32, float)\nTORCH_BINDING(f16, half)\nvoid f() {}",
            "int f()\n#ifdef A\n{ return 1; }\n#else\n{ return 2; }\n#endif",
            "#ifdef A\nvoid f() {\n#else\nvoid f(int x) {\n#endif\n}",
            "void f() { const char* s = \"}\"; char c = '{'; /* } */ }",
            "void f() { auto s = R\"x(} )\" )x\"; int i = 1'000; }",
            "__host__ int f() { return 1; }",
            "int f() { return 1; };",
            "void f() { auto g = [=] __device__ (int x) { return x; }; }",
        ] {
            let only = |text: &str| {
                let lines = text.lines().filter(|line| !line.starts_with('#'));
                let rest: String = lines.collect();
                rest.replace([';', ' '], "")
            };
            let text = format!("{host}\n{kernel}\n{host}\n");
            assert_eq!(only(&left(&text)), only(kernel), "{text}\n{}", left(&text));
        }
    }

    #[test]
    fn device_code_is_never_touched() {
        for device in [
            "__global__ void k() {}",
            "template <int N>\n__global__ void __launch_bounds__(256) k(float (&x)[N]) { f<N>(x); }",
            "template __global__ void k<4>(float*);",
            "__host__ __device__ int f() { return 1; }",
            "#define MARK __host__ __device__ inline\n#define MARKED MARK\nMARKED int f() { return 1; }",
            "__constant__ float table[2] = {1, 2};",
            "__device__ int a, b = f(1);",
            "extern __shared__ float buffer[];",
            "struct S { int x; __device__ int f() { return x; } };",
            "namespace a { namespace b { __device__ int x; } }",
            "extern \"C\" {\n__global__ void k() {}\n}",
            "inline namespace a { __device__ int f() { return 1; } }",
            "__align__(16) __device__ int x;",
            "__device__ bool operator<=(S a, S b) { return true; }",
            "__device__ S& S::operator=(const S& s) { return *this; }",
            "__global__\n#if A\nvoid k(int x)\n#else\nvoid k()\n#endif\n{ }",
            "#define KERNEL(name) __global__ void name() {}\nKERNEL(a)\nKERNEL(b)",
            "static_assert(sizeof(int) == 4, \"4 bytes\");",
            "using namespace nvcuda;",
            "using namespace nvcuda::wmma;",
            "namespace cg = cooperative_groups;\nusing namespace cg;",
            "namespace a { namespace b { __device__ int x; } }\nusing namespace b;",
        ] {
            for text in [format!("{device}\n{MAIN}"), format!("{MAIN}{device}\n")] {
                assert_eq!(left(&text), device, "{text}");
            }
        }
    }

    #[test]
    fn what_device_code_mentions_stays_with_it() {
        for shared in [
            "struct S { int x; };",
            "typedef struct { int x; } S;",
            "using S = float (*)(float);",
            "typedef float (*S)(float);",
            "enum { R, S = 2 };",
            "enum class S : int { A };",
            "constexpr int S = 1;",
            "static const float S[] = {1, 2};",
            "template <int N> struct S { };",
            "constexpr int S(int x) { return x; }",
            "struct T { }; struct S : T { };",
            "#define M S\nstruct S { };",
            "template <class T> concept S = true;",
            "class alignas(16) S final { };",
            "template <class T> using S = T;",
            "template <class T, int N = 2>\nusing S = Pair<T, N>;",
            "template <class T> struct S { S(T); };\ntemplate <class T> S(T) -> S<T>;",
            "namespace S = nvcuda::wmma;",
        ] {
            let word = if shared.contains("#define M") {
                "M"
            } else {
                "S"
            };
            let kernel = format!("__global__ void k() {{ f({word}); }}");
            let text = format!("{shared}\n{kernel}\n{MAIN}");
            assert_eq!(left(&text), format!("{shared}\n{kernel}"), "{text}");
            let other = "__global__ void k() {}";
            let expected = if shared.starts_with('#') {
                "#define M S\n"
            } else {
                ""
            };
            let text = format!("{shared}\n{other}\n{MAIN}");
            assert_eq!(left(&text), format!("{expected}{other}"), "{text}");
        }
    }

    #[test]
    fn variables_and_prototypes_of_the_host_are_left_out() {
        for host in [
            "cublasHandle_t handle;",
            "static std::vector<int> v = {1, 2};",
            "int x{5};",
            "torch::Tensor f(torch::Tensor x);",
            "template void f<4>(int);",
            "extern cudaDeviceProp properties;",
            "auto f(int x) -> int;",
            "template <class T> auto f(T x) -> T;",
            "using namespace at;",
            "using namespace torch::indexing;",
        ] {
            assert_eq!(
                left(&format!("{host}\n{MAIN}__global__ void k() {{}}\n")),
                "__global__ void k() {}"
            );
        }
    }

    #[test]
    fn a_type_without_a_name_is_known_by_its_alias() {
        let host = "typedef struct {\n  FILE* file;\n} Loader;\n";
        let device = "typedef struct { int x; } S;\n__global__ void k(S s) { struct S* t; }";
        assert_eq!(left(&format!("{host}{device}\n{MAIN}")), device);
    }

    #[test]
    fn a_header_knows_the_kernel_file() {
        let texts = [
            (
                "k.cu",
                "__global__ void k(S s) { MARK_USE }\nint main() { }\n",
            ),
            (
                "h.h",
                "struct S { };\nstruct T { std::string s; };\n#define MARK __device__\n",
            ),
            ("i.h", "MARK int f() { return 1; }\nint g() { return 1; }\n"),
        ];
        let code = left_out(&texts, &Around::default()).unwrap();
        assert!(code.texts[1].starts_with("struct S { };\n  "));
        assert!(!code.texts[1].contains("struct T"));
        assert!(!code.texts[1].contains("string"));
        assert!(code.texts[2].starts_with("MARK int f() { return 1; }\n  "));
        let function = |file: &str, name: &str, line| HostFunction {
            file: file.to_owned(),
            name: name.to_owned(),
            lines: (line, line),
        };
        assert_eq!(
            code.functions,
            [function("k.cu", "main", 2), function("i.h", "g", 2)]
        );
    }

    #[test]
    fn headers_that_are_left_alone_and_constants_are_read() {
        let around = Around {
            texts: vec!["#define DEV __device__\nnamespace tile { }\nint g() { return 1; }\n"],
            constants: vec![("KERNEL", "__global__ void"), ("HOST", "static")],
        };
        let device = "DEV int f() { return 1; }\nKERNEL k() {}\nusing namespace tile;\n";
        let text = format!("{device}HOST int h() {{ return 1; }}\n");
        let code = left_out(&[("k.cu", &text)], &around).unwrap();
        assert_eq!(code.texts[0].trim_end(), device.trim_end());
        assert_eq!(code.functions.len(), 1);
        assert_eq!(code.functions[0].name, "h");
    }

    #[test]
    fn a_text_whose_brackets_do_not_pair_is_left_alone() {
        for text in [
            "int main() {",
            "int main() { } }",
            "namespace a {\nint main() { }\n",
            "int main() { (; }",
            "int main() { /* }",
            "int main(",
            "template <",
            "#if\n#else\n#else",
            "int main() { \"}",
            "R\"(",
        ] {
            // Nothing panics; what has a main that ends is cut or not.
            let _ = left_out(&[("k.cu", text)], &Around::default());
        }
        for text in ["int main() {", "int main() { } }"] {
            assert!(left_out(&[("k.cu", text)], &Around::default()).is_none());
        }
    }

    /// Processor time, which other programs do not lengthen. Time quadratic in the length would be
    /// longer by far.
    #[test]
    fn time_grows_with_the_text() {
        let mut texts: Vec<String> = [
            "{",
            "(",
            "<",
            "template <",
            "#if 1\n",
            "a(b)\n",
            "struct X {",
            "R\"(",
            "R\"a\n",
            "/*",
            "\\\n",
            "é",
            "x=",
            "int f() {}\n",
        ]
        .map(|part| part.repeat(1 << 18))
        .into();
        let numbers = || 0..1 << 14;
        // Each link of a chain stands before the one that it needs.
        texts.push(
            numbers()
                .map(|n| format!("#define M{n:05} M{:05}\n", n + 1))
                .chain(["#define M16384 __device__\nM00000 int x;\nint main() { }\n".to_owned()])
                .collect(),
        );
        let values: String = numbers().map(|n| format!("E{n}, ")).collect();
        texts.push(format!(
            "enum {{ {values} }};\n__global__ void k() {{ f(E1); }}\nint main() {{ }}\n"
        ));
        let seconds = |text: &String| {
            let begin = processor_time();
            let _ = left_out(&[("k.cu", text)], &Around::default());
            processor_time() - begin
        };
        let times = texts.iter().map(|text| (seconds(text), &text[..16]));
        let slow: Vec<(f64, &str)> = times.filter(|(seconds, _)| *seconds > 3.0).collect();
        assert_eq!(slow, []);
    }

    /// Seconds for which this thread has worked.
    fn processor_time() -> f64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: it writes a time to a place for one.
        let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        assert_eq!(code, 0);
        time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
    }
}
