//! Compute capability that a kernel is compiled for, and the devices that run it.

use std::fmt::{self, Write as _};

use crate::Error;

/// A compute capability to compile for, such as `compute_80` or `compute_90a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Architecture {
    /// The compute capability, major and minor.
    pub capability: (i32, i32),
    /// `a`: runs on that capability only. `f`: on the later ones of the same major number.
    pub suffix: Option<char>,
}

impl Architecture {
    /// Reads what the kernel file `path` declares by a line `// arch: compute_80` among the
    /// comments that open it; otherwise `compute_75`, Turing.
    ///
    /// # Errors
    ///
    /// [`Error::BadArchitecture`] if the line says something else.
    pub fn declared_by(path: &str, source: &str) -> Result<Architecture, Error> {
        let opening = source
            .lines()
            .take_while(|line| line.is_empty() || line.starts_with("//"));
        let mut declared = opening.filter_map(|line| line.strip_prefix("// arch:"));
        let value = declared.next().map_or("compute_75", str::trim);
        Architecture::parse(value).ok_or_else(|| Error::BadArchitecture {
            file: path.to_owned(),
            value: value.to_owned(),
        })
    }

    /// Reads `compute_80`, `compute_90a`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Architecture> {
        let digits = text.strip_prefix("compute_")?;
        let suffix = digits
            .chars()
            .last()
            .filter(|last| matches!(last, 'a' | 'f'));
        let number = digits.strip_suffix(['a', 'f']).unwrap_or(digits);
        let plain =
            (2..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
        let number: i32 = number.parse().ok().filter(|_| plain)?;
        Some(Architecture {
            capability: (number / 10, number % 10),
            suffix,
        })
    }

    /// True if code for this architecture runs on a device of compute capability `device`.
    pub fn runs_on(self, device: (i32, i32)) -> bool {
        match self.suffix {
            None => device >= self.capability,
            Some('f') => device.0 == self.capability.0 && device.1 >= self.capability.1,
            Some(_) => device == self.capability,
        }
    }

    /// The name of the real architecture of this capability: `sm_80`.
    pub fn real(self) -> String {
        self.to_string().replace("compute_", "sm_")
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "compute_{}{}", self.capability.0, self.capability.1)?;
        self.suffix.map_or(Ok(()), |suffix| f.write_char(suffix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_declares_its_architecture_in_its_opening_comments() {
        let declared =
            |source: &str| Architecture::declared_by("x.cu", source).map(|found| found.to_string());
        assert_eq!(
            declared("// idea\n// arch: compute_80\n\nint x;").unwrap(),
            "compute_80"
        );
        assert_eq!(
            declared("// idea\n// arch: compute_90a\n").unwrap(),
            "compute_90a"
        );
        assert_eq!(
            declared("// idea\nint x;\n// arch: compute_80\n").unwrap(),
            "compute_75"
        );
        for bad in ["sm_80", "compute_8", "compute_80b", "compute_+80", "", "80"] {
            let error = declared(&format!("// arch: {bad}\n")).unwrap_err();
            assert!(
                matches!(&error, Error::BadArchitecture { value, .. } if value == bad),
                "{error}"
            );
        }
    }

    #[test]
    fn a_device_must_be_new_enough() {
        let runs = |name, device| Architecture::parse(name).unwrap().runs_on(device);
        assert!(
            runs("compute_80", (8, 0)) && runs("compute_80", (9, 0)) && !runs("compute_80", (7, 5))
        );
        assert!(runs("compute_90a", (9, 0)) && !runs("compute_90a", (10, 0)));
        assert!(runs("compute_100f", (10, 3)) && !runs("compute_100f", (12, 0)));
        assert_eq!(
            Architecture::parse("compute_120").unwrap().capability,
            (12, 0)
        );
    }
}
