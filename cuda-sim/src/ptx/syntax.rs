//! The syntax tree of one PTX module. Names borrow from the text.

use std::borrow::Cow;
use std::ops::Range;

/// A whole module.
#[derive(Debug, Default)]
pub(crate) struct Ast<'a> {
    /// Compute capability of `.target`, `10 × major + minor`; the highest, if there are several.
    pub target: Option<u32>,
    /// It is for that architecture alone, `sm_90a`, and so has what no other has.
    pub is_specific: bool,
    /// `.entry` and `.func` definitions, in order.
    pub functions: Vec<Function<'a>>,
    /// Module-scope variables: `.global`, `.const`, `.shared`.
    pub variables: Vec<Declaration<'a>>,
    /// `.extern` variables in device memory, which `variables` has too if the module defines them.
    pub external: Vec<Declaration<'a>>,
    /// Functions and variables as a linker sees them, in order.
    pub definitions: Vec<Definition<'a>>,
    /// Source files by their number in `.loc`.
    pub files: Vec<(u32, &'a str)>,
    /// Lines of the PTX text that the compiler took over from `asm` statements, as its comments
    /// say, in order.
    pub inline_asm: Vec<Range<u32>>,
}

/// A statement at module scope that declares or defines a function or variables.
#[derive(Debug)]
pub(crate) struct Definition<'a> {
    pub linkage: Linkage,
    /// One name, or several of a list of variables.
    pub names: Vec<&'a str>,
    /// A function with a body, or variables that have their place in this module.
    pub is_complete: bool,
    /// Bytes of the text, from the first directive to the semicolon or the closing brace.
    pub range: Range<usize>,
}

impl Definition<'_> {
    /// True if other modules use it by its name.
    pub(crate) fn is_shared_out(&self) -> bool {
        self.is_complete && matches!(self.linkage, Linkage::Visible | Linkage::Weak)
    }
}

/// Scope in which a name of a module is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// In its own module.
    Local,
    /// `.visible`: in all modules. One of them defines it.
    Visible,
    /// `.weak` and `.common`: in all modules. Several may define it, and one definition counts.
    Weak,
    /// `.extern`: defined in another module, or dynamic shared memory.
    Extern,
}

/// A kernel or a device function.
#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub name: &'a str,
    /// `.entry`, which the host can launch.
    pub is_entry: bool,
    pub results: Vec<Declaration<'a>>,
    pub params: Vec<Declaration<'a>>,
    /// Threads per block that `.maxntid` or `.reqntid` allow.
    pub max_threads: Option<u32>,
    /// `.maxnreg`, or a bound of its threads: the compiler knows with how many registers they
    /// start.
    pub bounds_registers: bool,
    /// Blocks of a cluster: `.reqnctapercluster`.
    pub cluster: Option<[u32; 3]>,
    /// `None` for a declaration without a body, such as `vprintf`.
    pub body: Option<Vec<Statement<'a>>>,
}

/// State space of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Reg,
    Global,
    Const,
    Shared,
    Local,
    Param,
}

/// One variable, or a family of registers `%r<10>`.
#[derive(Debug, Clone)]
pub(crate) struct Declaration<'a> {
    pub space: Space,
    pub name: &'a str,
    /// Type without its dot: `b32`, `f32`, `pred`.
    pub ty: &'a str,
    /// Elements per vector: 1, 2 or 4.
    pub vector: u32,
    /// Elements of the array, 1 for a scalar, 0 for an unsized `.extern .shared` array.
    pub elements: u64,
    /// Declared alignment in bytes.
    pub align: Option<u64>,
    /// `Some(10)` for `%r<10>`.
    pub family: Option<u32>,
    pub init: Vec<Initial<'a>>,
    pub line: u32,
}

/// True if a variable of this type is a texture, sampler or surface: a handle, which only their
/// instructions read.
pub(crate) fn is_opaque(ty: &str) -> bool {
    matches!(ty, "texref" | "samplerref" | "surfref")
}

/// One element of an initialiser.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Initial<'a> {
    Bits(Literal),
    /// The address of a variable, plus an offset; `generic` if written `generic(name)`.
    Address {
        name: &'a str,
        offset: i64,
        generic: bool,
    },
    /// `0xFF00(name)`: one byte of an address, as a mask.
    AddressByte {
        name: &'a str,
        offset: i64,
        generic: bool,
        mask: u64,
    },
}

/// A number as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Literal {
    Int(i128),
    /// `0f…`, or a decimal that is narrowed by its use.
    F32(f32),
    F64(f64),
}

/// One line of a body.
#[derive(Debug)]
pub(crate) enum Statement<'a> {
    Label(&'a str),
    Declare(Declaration<'a>),
    Instruction(Instruction<'a>),
    /// `label: .branchtargets a, b;`
    BranchTargets {
        name: &'a str,
        targets: Vec<&'a str>,
    },
    /// `{ … }`, a scope of names of its own.
    Scope(Vec<Statement<'a>>),
}

impl<'a> Statement<'a> {
    /// Calls `f` with each instruction of the statement.
    pub(crate) fn for_each_instruction<'s>(&'s self, f: &mut dyn FnMut(&'s Instruction<'a>)) {
        match self {
            Statement::Instruction(instruction) => f(instruction),
            Statement::Scope(inner) => inner
                .iter()
                .for_each(|statement| statement.for_each_instruction(f)),
            Statement::Label(_) | Statement::Declare(_) | Statement::BranchTargets { .. } => {}
        }
    }
}

/// Source position from `.loc`: file number and line, 0 when unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SourceLine {
    pub file: u32,
    pub line: u32,
}

/// One instruction.
#[derive(Debug)]
pub(crate) struct Instruction<'a> {
    /// Guard predicate, and whether it is negated: `@!%p1`.
    pub guard: Option<(&'a str, bool)>,
    /// Opcode with its modifiers, dots included: `ld.global.v4.f32`.
    pub opcode: Cow<'a, str>,
    pub operands: Vec<Operand<'a>>,
    pub source: SourceLine,
    /// The mask of `.pragma "used_bytes_mask 4095";` before it: of what a load reads, bytes that
    /// are used, a bit each.
    pub used_bytes: Option<u32>,
    /// Line in the PTX text.
    pub line: u32,
}

/// One operand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand<'a> {
    /// A register, variable, label or special register; `%v.x` keeps its suffix.
    Name(&'a str),
    /// `!%p1`
    Not(&'a str),
    /// `name+8` outside brackets.
    Offset(&'a str, i64),
    Literal(Literal),
    /// `[base+offset]`; no base for an absolute address.
    Address {
        base: Option<&'a str>,
        offset: i64,
    },
    /// `[name+offset, {x, y}]`: a place in a tensor, a texture or a surface.
    Texel {
        base: Option<&'a str>,
        offset: i64,
        /// What stands behind the comma.
        place: Vec<Operand<'a>>,
    },
    /// `{a, b}`; `{a}` is `a`.
    Vector(Vec<Operand<'a>>),
    /// `d|p`
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
    /// `(a, b)` of a call.
    List(Vec<Operand<'a>>),
    /// `_`
    Sink,
}

impl<'a> Operand<'a> {
    /// The operand, unless it is `_`.
    pub(crate) fn unless_sink(&self) -> Option<&Operand<'a>> {
        (*self != Operand::Sink).then_some(self)
    }
}
