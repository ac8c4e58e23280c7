//! JSON: the grade as it is, for programs. `schema/grade.json` describes it.

use crate::verdict::Grade;

/// The JSON text, with a line end.
///
/// # Panics
///
/// Never: a [`Grade`] has no map whose keys are not strings, which is all that can fail.
pub fn render(grade: &Grade) -> String {
    let json = serde_json::to_string_pretty(grade).expect("strings, numbers and lists");
    json + "\n"
}
