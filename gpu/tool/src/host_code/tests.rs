//! Which declarations are the host's, by text.

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

const MAIN: &str = "int main(int argc, char** argv) {\n  k<<<1, 2>>>(); // }\n  return '}';\n}\n";

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
fn constant_functions_without_a_mark_are_found() {
    let found = |text: &str| {
        let marks = marks(&macros(text));
        has_unmarked_constant_function(text, &marks)
    };
    for text in [
        "constexpr int f(int x) { return x; }",
        "template <class T, int N = 2>\nconstexpr auto f(T x) -> int { return N; }",
        "struct S { int x; constexpr int f() const { return x; } };",
        "struct alignas(16) S { constexpr explicit S(int x) : x(x) {} int x; };",
        "constexpr __forceinline__ __attribute__((noinline)) int f() { return 1; }",
    ] {
        assert!(found(text), "{text}");
    }
    for text in [
        "__device__ constexpr int f() { return 1; }",
        "constexpr __host__ __device__ int f() { return 1; }",
        "#define HD __host__ __device__\nstruct S { HD constexpr int f() { return 1; } };",
        "constexpr int N = (3);\nstruct S { static constexpr int M = sizeof(int); int x[M]; };",
        "constexpr alignas(16) int X = 1;",
        "__global__ void k() { if constexpr (1 < 2) { f(); } constexpr int n = f(2); }",
    ] {
        assert!(!found(text), "{text}");
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
