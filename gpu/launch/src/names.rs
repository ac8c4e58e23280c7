//! Names of kernels as their sources have them.

use std::fmt;

use cpp_demangle::{DemangleOptions, Symbol};

/// The most characters of a readable name. A short name of the compiler's can stand for a very long
/// one.
const LONGEST: usize = 1024;

/// The name in the source of a kernel that has this name in PTX: `scale<4>` of `_Z5scaleILi4EEvPf`,
/// without parameters. A name that C++ did not change is given back.
pub fn readable(name: &str) -> String {
    let options = DemangleOptions::new().no_params().no_return_type();
    let mut text = Bounded(String::new());
    let demangled = Symbol::new(name)
        .ok()
        .filter(|_| name.starts_with("_Z"))
        .and_then(|symbol| symbol.structured_demangle(&mut text, &options).ok());
    match demangled {
        Some(()) => text.0,
        None => name.to_owned(),
    }
}

/// A text that refuses to grow beyond [`LONGEST`].
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// The report of a fault, in which the kernel is called as in its source. `kernel` is its name in
/// the PTX.
pub fn readable_report(report: &str, kernel: &str) -> String {
    let line = |name: &str| format!("\n  kernel  {name}\n");
    report.replace(&line(kernel), &line(&readable(kernel)))
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn a_kernel_has_the_name_of_its_source() {
        assert_eq!(readable("_Z5scalePffi"), "scale");
        assert_eq!(readable("_Z5scaleILi4EEvPf"), "scale<4>");
        assert_eq!(readable("_Z3addIfLb1EEvPT_"), "add<float, true>");
        assert_eq!(readable("_ZN2ns5scaleEPf"), "ns::scale");
        for same in ["scale", "", "_Z", "_Z5sc", "$bad", "_Zé"] {
            assert_eq!(readable(same), same);
        }
    }

    #[test]
    fn a_name_that_would_be_very_long_is_left_as_it_is() {
        let mut name = "_Z1fIN".to_owned();
        name += &"1aI".repeat(400);
        assert_eq!(readable(&name), name);
        let doubled = format!("_Z1f{}", "PFvS_S_E".repeat(200));
        assert!(readable(&doubled).len() <= 2 * super::LONGEST);
    }
}
