//! The stricter judgement of attention: no worse than PyTorch's own f32 result on the same inputs.
//!
//! `fixtures/torch_errors.json` has the errors of PyTorch against f64 on every attention problem;
//! `fixtures/torch_errors.py` makes it. The largest of a few errors is partly luck, so twice
//! PyTorch's is allowed, and 1e-7 more.

use std::collections::HashMap;
use std::fmt;

use crate::{Part, Report};

static ERRORS: &str = include_str!("../fixtures/torch_errors.json");

/// The errors of an implementation beside PyTorch's, on the attention problems that were compared.
///
/// Its `Debug` form is the same text as its `Display` form.
#[derive(Clone)]
pub struct BesideTorch {
    /// The name of the implementation.
    pub implementation: String,
    /// One entry per problem and tensor, in order.
    pub rows: Vec<Row>,
}

/// The errors in one tensor of one problem, against f64.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The problem's name.
    pub problem: String,
    /// `o` or `lse`.
    pub tensor: &'static str,
    /// The implementation's.
    pub own: Errors,
    /// PyTorch's; `None` if the fixture lacks the problem and has to be made again.
    pub torch: Option<Errors>,
}

/// The errors in one tensor, against f64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// The largest absolute error.
    pub max_abs: f64,
    /// The root of the mean squared error.
    pub rmse: f64,
}

impl Report {
    /// The errors of this report beside PyTorch's. Only for reports on the attention table.
    pub fn beside_torch(&self) -> BesideTorch {
        let torch = torch_errors();
        let mut rows = Vec::new();
        let table = self.cases.iter().filter(|case| case.part == Part::Table);
        for case in table {
            for comparison in case.comparisons() {
                let own = Errors {
                    max_abs: comparison.max_abs,
                    rmse: comparison.rmse,
                };
                let tensor = comparison.tensor;
                rows.push(Row {
                    problem: case.name.clone(),
                    tensor,
                    own,
                    // PyTorch's numbers do not depend on who wants lse.
                    torch: torch
                        .get(&(case.name.trim_end_matches("_without_lse"), tensor))
                        .copied(),
                });
            }
        }
        BesideTorch {
            implementation: self.implementation.clone(),
            rows,
        }
    }
}

impl Row {
    /// True if the largest error is at most twice PyTorch's, plus 1e-7.
    pub fn passed(&self) -> bool {
        self.within(2.0)
    }

    /// True if the largest error is at most so many times PyTorch's, plus 1e-7. Never
    /// if PyTorch's is not known.
    pub fn within(&self, times: f64) -> bool {
        (self.torch).is_some_and(|torch| self.own.max_abs <= times * torch.max_abs + 1e-7)
    }

    /// The largest error as a multiple of PyTorch's, plus 1e-7.
    fn share(&self) -> f64 {
        self.own.max_abs / (self.torch.map_or(0.0, |torch| torch.max_abs) + 1e-7)
    }
}

impl BesideTorch {
    /// The report as an error if a row did not pass, or if there are none; else it is printed.
    ///
    /// # Errors
    ///
    /// The report itself.
    pub fn into_result(self) -> Result<(), Self> {
        if self.rows.is_empty() || !self.rows.iter().all(Row::passed) {
            return Err(self);
        }
        println!("{self}");
        Ok(())
    }
}

impl std::error::Error for BesideTorch {}

impl fmt::Debug for BesideTorch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The rows that did not pass; if all did, the one that is nearest to its limit.
impl fmt::Display for BesideTorch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed): (Vec<&Row>, Vec<&Row>) =
            self.rows.iter().partition(|row| row.passed());
        write!(
            f,
            "{}: {} of {} tensors are at most twice as far from f64 as PyTorch's",
            self.implementation,
            passed.len(),
            self.rows.len()
        )?;
        let shown = match failed.is_empty() {
            true => Vec::from_iter(
                passed
                    .into_iter()
                    .max_by(|a, b| a.share().total_cmp(&b.share())),
            ),
            false => failed,
        };
        for Row {
            problem,
            tensor,
            own,
            torch,
        } in shown
        {
            write!(f, "\n  {problem}  {tensor}: {own}; PyTorch ")?;
            match torch {
                Some(torch) => write!(f, "{torch}")?,
                None => f.write_str("unknown: run fixtures/torch_errors.py")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "max abs {:.2e}, rmse {:.2e}", self.max_abs, self.rmse)
    }
}

/// PyTorch's errors, by problem and tensor.
fn torch_errors() -> HashMap<(&'static str, &'static str), Errors> {
    let problems: HashMap<&str, [f64; 4]> =
        serde_json::from_str(ERRORS).expect("the fixture is a map from names to 4 numbers");
    let mut errors = HashMap::new();
    for (name, [o_max, o_rmse, lse_max, lse_rmse]) in problems {
        for (tensor, max_abs, rmse) in [("o", o_max, o_rmse), ("lse", lse_max, lse_rmse)] {
            errors.insert((name, tensor), Errors { max_abs, rmse });
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::{Problem as _, attention};
    use std::collections::BTreeSet;

    #[test]
    fn the_fixture_has_the_problems_of_the_table_and_no_others() {
        let problems = attention::problems();
        let names: BTreeSet<&str> = problems.iter().map(|problem| problem.name()).collect();
        let torch = torch_errors();
        let known: BTreeSet<&str> = torch.keys().map(|&(name, _)| name).collect();
        assert_eq!(known, names, "run fixtures/torch_errors.py");
    }

    #[test]
    fn twice_the_error_and_a_little_more_passes() {
        let row = |own: f64, torch: Option<f64>| {
            let errors = |max_abs| Errors { max_abs, rmse: 0.0 };
            let (own, torch) = (errors(own), torch.map(errors));
            Row {
                problem: "p".to_owned(),
                tensor: "o",
                own,
                torch,
            }
        };
        let passed = |own, torch| row(own, torch).passed();
        assert!(passed(1.09e-6, Some(5e-7)) && !passed(1.11e-6, Some(5e-7)));
        assert!(!passed(0.0, None) && !passed(f64::NAN, Some(1.0)));
        assert!(!passed(f64::INFINITY, Some(1.0)));
        let thrice = |own| row(own, Some(5e-7)).within(3.0);
        assert!(thrice(1.59e-6) && !thrice(1.61e-6));
    }
}
