//! Advice on a whole program that does not compile.

use gpu::unit::Unit;

use crate::host_code::HostFunction;

/// Advice on a program whose host code was not found.
const MAIN: &str = "The file has a main(), and its host code could not be told from its kernels, because brackets do not pair \
                    outside of comments and strings. Put what runs on the host between #ifndef __CUDACC_RTC__ and #endif.";

/// The error of a unit without these functions of the host, with what to do about it if the unit
/// does not compile.
pub(crate) fn advised(error: gpu::Error, unit: &Unit, left_out: &[HostFunction]) -> gpu::Error {
    match error {
        gpu::Error::Compile {
            file,
            options,
            log,
            advice,
        } => gpu::Error::Compile {
            advice: prepended(&program_advice(&unit.source, left_out, &log), advice),
            file,
            options,
            log,
        },
        other => other,
    }
}

/// Lines of advice before others, which a blank line opens.
fn prepended(lines: &[String], others: String) -> String {
    if lines.is_empty() {
        return others;
    }
    let others = others.trim_start_matches('\n');
    format!("\n\n{}\n{others}", lines.join("\n"))
}

/// The advice for a compiler's log.
fn program_advice(source: &str, left_out: &[HostFunction], log: &str) -> Vec<String> {
    let mut advice = Vec::new();
    if has_main(source) {
        advice.push(MAIN.to_owned());
    }
    for function in left_out {
        let HostFunction { file, name, lines } = function;
        if log.contains(&format!("identifier \"{name}\" is undefined")) {
            advice.push(format!(
                "{name}, line {} of {file}, is a function of the host: a kernel calls it if it is marked __device__.",
                lines.0
            ));
        }
    }
    if !left_out.is_empty() {
        advice.push(HostFunction::list(left_out));
    }
    advice
}

/// True if a line begins with the definition of `main`.
fn has_main(source: &str) -> bool {
    source.lines().any(|line| {
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let mut words = words.filter(|word| !word.is_empty());
        line.starts_with("int")
            && words.next() == Some("int")
            && words.next() == Some("main")
            && line.contains('(')
    })
}

#[cfg(test)]
mod tests {
    use super::{HostFunction, program_advice};

    #[test]
    fn a_program_is_told_what_was_left_out() {
        let main = HostFunction {
            file: "k.cu".to_owned(),
            name: "main".to_owned(),
            lines: (3, 9),
        };
        let log = "k.cu(2): error: identifier \"helper\" is undefined\n";
        let helper = HostFunction {
            name: "helper".to_owned(),
            lines: (1, 1),
            ..main.clone()
        };
        assert_eq!(
            program_advice("", &[helper, main], log),
            [
                "helper, line 1 of k.cu, is a function of the host: a kernel calls it if it is marked __device__.",
                "Host code is not compiled: helper (k.cu:1), main (k.cu:3-9).",
            ]
        );
    }

    #[test]
    fn a_program_is_told_from_a_kernel() {
        let log = "k.cu(2): error: identifier \"cudaMalloc\" is undefined\n";
        for main in [
            "int main() {",
            "int main(int argc, char** argv)\n{",
            "\nint  main ()",
        ] {
            let source = format!("__global__ void k() {{}}\n{main}\n");
            let advice = program_advice(&source, &[], log);
            assert!(advice[0].contains("#ifndef __CUDACC_RTC__"), "{main}");
        }
        for other in [
            "// int main()",
            "int main_loop()",
            "print main()",
            "  int main;",
        ] {
            let none: [&str; 0] = [];
            assert_eq!(program_advice(other, &[], log), none, "{other}");
        }
    }
}
