//! The `.target` that an instruction needs. NVIDIA's assembler refuses a module with a lower one,
//! and so does this driver.

use crate::ptx::{Ast, PtxError, Statement};

/// Opcodes, modifiers of which one must be there (none: any instruction with that opcode; words
/// with blanks between them: all of them together), and the least compute capability, as ptxas 12.9
/// has it. Instructions that every capability from 7.0 on has are not listed.
const NEEDS: &[(&[&str], &[&str], u32)] = &[
    (&["ex2"], &["f16", "f16x2"], 75),
    (&["ldmatrix", "movmatrix", "tanh"], &[], 75),
    (&["mma"], &["m16n8k8", "m8n8k16"], 75),
    (&["wmma"], &["s8", "u8", "s32"], 72),
    (&["wmma"], &["bf16", "tf32", "f64", "m16n16k8"], 80),
    (
        &["mma"],
        &["m16n8k16", "m16n8k32", "bf16", "tf32", "f64"],
        80,
    ),
    (&["cp"], &["async"], 80),
    (&["cp"], &["bulk"], 90),
    (&["prefetch"], &["tensormap"], 90),
    (&["tensormap"], &[], 90),
    (&["mbarrier", "redux"], &[], 80),
    (
        &["fma", "min", "max", "neg", "abs", "cvt"],
        &["bf16", "bf16x2"],
        80,
    ),
    (&["min", "max"], &["f16", "f16x2", "NaN"], 80),
    (&["fma", "cvt"], &["relu"], 80),
    (&["cvt"], &["f16x2", "tf32"], 80),
    (&["min", "max"], &["xorsign"], 86),
    (&["cvt"], &["e4m3x2", "e5m2x2"], 89),
    (&["mma"], &["e4m3", "e5m2"], 89),
    (
        &["mma"],
        &["m16n8k4 f64", "m16n8k8 f64", "m16n8k16 f64"],
        90,
    ),
    (&["stmatrix", "elect", "mapa"], &[], 90),
    (
        &["mbarrier"],
        &["try_wait", "expect_tx", "complete_tx", "relaxed"],
        90,
    ),
    (
        &[
            "add", "sub", "mul", "ex2", "tanh", "setp", "set", "atom", "red",
        ],
        &["bf16", "bf16x2"],
        90,
    ),
    (&["atom", "red"], &["v2", "v4", "v8", "b128"], 90),
    (
        &["ld", "st", "atom", "red", "fence", "mbarrier", "barrier"],
        &["cluster"],
        90,
    ),
];

/// First words of instructions of one architecture alone, and its compute capability: the target
/// has the suffix `a`.
const SPECIFIC: &[(&str, u32)] = &[("wgmma", 90), ("setmaxnreg", 90), ("tensormap.replace", 90)];

/// What the `.target` of a module gives.
#[derive(Clone, Copy)]
struct Target {
    capability: u32,
    is_specific: bool,
}

/// An error at the first instruction that the module's target lacks.
pub(super) fn check(ast: &Ast<'_>) -> Result<(), PtxError> {
    let Some(capability) = ast.target else {
        return Ok(());
    };
    let target = Target {
        capability,
        is_specific: ast.is_specific,
    };
    let bodies = ast.functions.iter().filter_map(|f| f.body.as_deref());
    bodies
        .into_iter()
        .try_for_each(|body| check_body(body, target))
}

fn check_body(body: &[Statement<'_>], target: Target) -> Result<(), PtxError> {
    body.iter().try_for_each(|statement| match statement {
        Statement::Scope(inner) => check_body(inner, target),
        Statement::Instruction(instruction) => {
            let opcode = &instruction.opcode;
            let refuse = |needed: String| {
                let Target { capability, is_specific } = target;
                let suffix = if is_specific { "a" } else { "" };
                let text = format!(
                    "{opcode} requires .target sm_{needed}, and this module is for sm_{capability}{suffix}"
                );
                Err(PtxError::new(instruction.line, text))
            };
            let mut specific = SPECIFIC.iter();
            let specific = specific.find(|(words, _)| opcode.starts_with(words));
            match (specific, needed(opcode)) {
                (Some((_, of)), _) if !target.is_specific || target.capability != *of => {
                    refuse(format!("{of}a"))
                }
                (_, needed) if needed > target.capability => refuse(format!("{needed} or higher")),
                _ => Ok(()),
            }
        }
        Statement::Label(_) | Statement::Declare(_) | Statement::BranchTargets { .. } => Ok(()),
    })
}

/// The least compute capability of an instruction, 0 if the table does not know.
fn needed(opcode: &str) -> u32 {
    let mut words = opcode.split('.');
    let base = words.next().unwrap_or_default();
    let has = |wanted: &str| words.clone().any(|word| word == wanted);
    let applies = |modifiers: &[&str]| {
        modifiers.is_empty() || modifiers.iter().any(|all| all.split(' ').all(has))
    };
    let rules = NEEDS
        .iter()
        .filter(|(bases, modifiers, _)| bases.contains(&base) && applies(modifiers));
    rules.map(|&(.., needed)| needed).max().unwrap_or(0)
}
