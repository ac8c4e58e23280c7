//! Variables at module scope, and the sizes and initial values of variables anywhere.

use std::collections::{HashMap, HashSet};

use super::op::Type;
use crate::ptx::{
    Ast, Declaration, Function, Initial, Literal, Operand, PtxError, Space, is_opaque,
};

/// A `.global` or `.const` variable of a module.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Name in PTX; C++ names are mangled.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Its first bytes; those behind them are zero.
    pub(super) image: Vec<u8>,
    pub(super) relocations: Vec<Relocation>,
}

/// An address inside the initial image of a variable.
#[derive(Debug, Clone)]
pub(super) struct Relocation {
    /// Place in the image.
    pub at: usize,
    /// Bytes that hold the address, or a masked byte of it.
    pub bytes: usize,
    pub target: usize,
    pub offset: i64,
    /// `Some(0xFF00)` if only that byte of the address is stored.
    pub mask: Option<u64>,
}

/// A device function of a module.
pub(super) struct NamedFunction<'a> {
    /// The definition, or a declaration if the module has none.
    pub function: &'a Function<'a>,
    /// The value of a pointer to it: no address of memory.
    pub address: u64,
    /// Something else than a call names it.
    pub is_pointed_to: bool,
}

/// First address of a function; they are 16 bytes apart.
const FUNCTIONS: u64 = 0xf << 56;

/// The device functions of a module, by name.
fn functions<'a>(ast: &'a Ast<'a>) -> HashMap<&'a str, NamedFunction<'a>> {
    let mut functions: HashMap<&str, NamedFunction<'_>> = HashMap::new();
    for function in ast.functions.iter().filter(|f| !f.is_entry) {
        let address = FUNCTIONS + 16 * functions.len() as u64;
        let named = functions.entry(function.name).or_insert(NamedFunction {
            function,
            address,
            is_pointed_to: false,
        });
        if function.body.is_some() {
            named.function = function;
        }
    }
    let mut point_to = |name: &str| {
        if let Some(named) = functions.get_mut(name) {
            named.is_pointed_to = true;
        }
    };
    for value in ast.variables.iter().flat_map(|declared| &declared.init) {
        if let Initial::Address { name, .. } | Initial::AddressByte { name, .. } = value {
            point_to(name);
        }
    }
    for statement in ast.functions.iter().flat_map(|f| f.body.iter().flatten()) {
        statement.for_each_instruction(&mut |instruction| {
            let calls = instruction.opcode.starts_with("call");
            for operand in instruction.operands.iter().filter(|_| !calls) {
                if let Operand::Name(name) | Operand::Offset(name, _) = operand {
                    point_to(name);
                }
            }
        });
    }
    functions
}

/// Module-scope variables that live in device memory, and the shared ones that kernels lay out
/// themselves.
pub(super) struct VariableTable<'a> {
    pub variables: Vec<Variable>,
    /// Position in `variables`, by name.
    pub index: HashMap<&'a str, usize>,
    pub shared: HashMap<&'a str, &'a Declaration<'a>>,
    pub functions: HashMap<&'a str, NamedFunction<'a>>,
}

impl<'a> VariableTable<'a> {
    pub(super) fn new(ast: &'a Ast<'a>) -> Result<Self, PtxError> {
        let functions = functions(ast);
        let device = || {
            ast.variables
                .iter()
                .filter(|d| matches!(d.space, Space::Global | Space::Const) && !is_opaque(d.ty))
        };
        let mut index = HashMap::new();
        for (i, declared) in device().enumerate() {
            if index.insert(declared.name, i).is_some() {
                return Err(PtxError::new(
                    declared.line,
                    format!("variable {} is declared twice", declared.name),
                ));
            }
        }
        let defined: HashSet<&str> = ast.variables.iter().map(|d| d.name).collect();
        if let Some(missing) = ast.external.iter().find(|d| !defined.contains(d.name)) {
            let name = missing.name;
            let message = format!("extern variable {name} is not defined in this module");
            return Err(PtxError::new(missing.line, message));
        }
        let variables = device()
            .map(|d| variable(d, &index, &functions, ast))
            .collect::<Result<_, _>>()?;
        let shared = ast
            .variables
            .iter()
            .filter(|d| d.space == Space::Shared)
            .map(|d| (d.name, d))
            .collect();
        Ok(VariableTable {
            variables,
            index,
            shared,
            functions,
        })
    }
}

fn variable(
    declared: &Declaration<'_>,
    index: &HashMap<&str, usize>,
    functions: &HashMap<&str, NamedFunction<'_>>,
    ast: &Ast<'_>,
) -> Result<Variable, PtxError> {
    let invalid = |message: String| PtxError::new(declared.line, message);
    let (size, _) = layout(declared)?;
    if size > 1 << 32 {
        return Err(invalid(format!(
            "variable {} of {size} bytes is too large",
            declared.name
        )));
    }
    let element = element_bytes(declared)? as usize;
    // What has no initial value is zero, and takes no place here.
    let mut image = vec![0; size.min((element * declared.init.len()) as u64) as usize];
    let mut relocations = Vec::new();
    let mut at = 0;
    for value in &declared.init {
        if at + element > image.len() {
            return Err(invalid(format!(
                "variable {} has more initial values than elements",
                declared.name
            )));
        }
        let mut address = |name: &str, offset, mask| match index.get(name) {
            Some(&target) => {
                relocations.push(Relocation {
                    at,
                    bytes: element.min(size_of::<u64>()),
                    target,
                    offset,
                    mask,
                });
                Ok(())
            }
            None if functions.contains_key(name) => {
                let address = functions[name].address.wrapping_add_signed(offset);
                let bytes = masked(address, mask).to_le_bytes();
                let written = element.min(bytes.len());
                image[at..at + written].copy_from_slice(&bytes[..written]);
                Ok(())
            }
            // A kernel has no address here.
            None if ast.functions.iter().any(|f| f.name == name) => Ok(()),
            None => Err(invalid(format!(
                "the initial value of {} names {name}, which is not a variable in device memory",
                declared.name
            ))),
        };
        match *value {
            Initial::Bits(literal) => {
                let bits = literal_bits(literal, declared.ty).to_le_bytes();
                let written = element.min(bits.len()); // of 128 bits, the low half
                image[at..at + written].copy_from_slice(&bits[..written]);
            }
            Initial::Address { name, offset, .. } => address(name, offset, None)?,
            Initial::AddressByte {
                name, offset, mask, ..
            } => address(name, offset, Some(mask))?,
        }
        at += element;
    }
    Ok(Variable {
        name: declared.name.to_string(),
        bytes: size,
        image,
        relocations,
    })
}

/// An address, or the byte of it that `mask` names.
pub(super) fn masked(address: u64, mask: Option<u64>) -> u64 {
    match mask {
        Some(0) => 0,
        Some(mask) => (address & mask) >> mask.trailing_zeros(),
        None => address,
    }
}

/// Bytes of one element; predicates and unknown types are an error.
fn element_bytes(declared: &Declaration<'_>) -> Result<u64, PtxError> {
    match scalar(declared.ty) {
        Some(ty) => Ok(u64::from(ty.bytes())),
        None if declared.ty == "b128" => Ok(16),
        // A kernel's parameter.
        None if is_opaque(declared.ty) => Ok(8),
        None => Err(PtxError::new(
            declared.line,
            format!("a variable cannot have type .{}", declared.ty),
        )),
    }
}

/// Size and alignment of a variable, in bytes.
pub(super) fn layout(declared: &Declaration<'_>) -> Result<(u64, u64), PtxError> {
    let element = element_bytes(declared)? * u64::from(declared.vector);
    Ok((
        element * declared.elements,
        declared.align.unwrap_or(element).max(1),
    ))
}

/// The type behind `b32`, `u32`, `f16x2` …: untyped bits count as unsigned.
pub(super) fn scalar(name: &str) -> Option<Type> {
    Some(match name {
        "u8" | "b8" => Type::U8,
        "s8" => Type::S8,
        "u16" | "b16" => Type::U16,
        "s16" => Type::S16,
        "u32" | "b32" => Type::U32,
        "s32" => Type::S32,
        "u64" | "b64" => Type::U64,
        "s64" => Type::S64,
        "f16" => Type::F16,
        "bf16" => Type::Bf16,
        "f32" => Type::F32,
        "f64" => Type::F64,
        "f16x2" | "bf16x2" => Type::U32,
        _ => return None,
    })
}

/// Bits of a literal when used as type `ty`.
pub(super) fn literal_bits(literal: Literal, ty: &str) -> u64 {
    match (literal, ty) {
        (Literal::Int(n), "f32") => u64::from((n as f32).to_bits()),
        (Literal::Int(n), "f64") => (n as f64).to_bits(),
        (Literal::Int(n), _) => n as u64,
        (Literal::F32(x), "f64") => f64::from(x).to_bits(),
        (Literal::F32(x), _) => u64::from(x.to_bits()),
        (Literal::F64(x), "f64" | "b64") => x.to_bits(),
        (Literal::F64(x), _) => u64::from((x as f32).to_bits()),
    }
}
