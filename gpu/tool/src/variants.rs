//! `kernels/variants.txt`: which compiled variants of a package's kernels are committed.
//!
//! A line names a kernel file and its `-D` constants: `gemm.cu TILE=16 DTYPE=float`. Empty lines
//! and lines that begin with `#` say nothing. `package NAME` names the package that the kernels are
//! compiled for, in a folder that is none itself.

use crate::Error;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The kernel file, like `gemm.cu`.
    pub file: String,
    /// The constants, by name and value, as they stand.
    pub constants: Vec<(String, String)>,
}

/// The word of a line that names a package.
const PACKAGE: &str = "package ";

/// The package that a `variants.txt` names, if it does.
pub fn package(text: &str) -> Option<&str> {
    text.lines()
        .find_map(|line| line.strip_prefix(PACKAGE))
        .map(str::trim)
}

/// Reads the lines of a `variants.txt`.
///
/// # Errors
///
/// [`Error::BadVariant`] for a line that does not begin with a `.cu` file, or has a word that is
/// not `NAME=VALUE`.
pub fn parse(text: &str) -> Result<Vec<Variant>, Error> {
    let numbered = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    numbered
        .filter(|(_, line)| {
            !line.is_empty() && !line.starts_with('#') && !line.starts_with(PACKAGE)
        })
        .map(|(number, line)| {
            parse_line(line).map_err(|reason| Error::BadVariant {
                line: number,
                text: line.to_owned(),
                reason,
            })
        })
        .collect()
}

fn parse_line(line: &str) -> Result<Variant, &'static str> {
    let mut words = line.split_whitespace();
    let file = words
        .next()
        .filter(|file| file.ends_with(".cu"))
        .ok_or("a line begins with a .cu file")?;
    let constants = words
        .map(|word| {
            word.split_once('=')
                .ok_or("constants are written NAME=VALUE")
        })
        .map(|constant| constant.map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect::<Result<_, _>>()?;
    Ok(Variant {
        file: file.to_owned(),
        constants,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_comments_skipped() {
        let variants = parse("# a comment\n\nsoftmax.cu\n  gemm.cu TILE=16  OP=a=b \n").unwrap();
        assert_eq!(variants.len(), 2);
        assert_eq!(
            variants[0],
            Variant {
                file: "softmax.cu".to_owned(),
                constants: vec![]
            }
        );
        let constants = [("TILE", "16"), ("OP", "a=b")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(
            variants[1],
            Variant {
                file: "gemm.cu".to_owned(),
                constants: constants.to_vec()
            }
        );
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        for bad in ["gemm.cu TILE", "gemm.ptx", "TILE=16 gemm.cu"] {
            let error = parse(&format!("# first\n{bad}\n")).unwrap_err();
            assert!(
                matches!(&error, Error::BadVariant { line: 2, text, .. } if text == bad),
                "{error}"
            );
        }
    }
}
