//! The language of arguments: `i32=256`, `f32[256]=iota`, `f32x4={1,2,3,4}`,
//! `{i64=4096,64,1,f32=0.5}`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::fields::{self, Position};
use crate::tensor_map::TensorMap;
use crate::values::{Type, Values};

/// The size, in bytes, up to which a parameter is passed: CUDA's limit for all parameters of a
/// kernel, before Volta.
pub const MAX_PARAMETER: usize = 4096;

/// An argument of a kernel.
///
/// `TYPE=VALUE` is a scalar. `TYPE[COUNT]=INIT` is a buffer in device memory, whose address is
/// passed; `null` is the address of nothing. TYPE is one of u8 s8 i8 u16 i16 f16 bf16 u32 i32 u64
/// i64 f32 f64. A value is decimal, or its bits as `0x…`; a floating-point one may be `inf`, `-inf`
/// or `nan`. [`Init`] lists what a buffer may hold.
///
/// `TYPExN={VALUE,…}` is one of CUDA's vectors, with N = 2, 3 or 4: `f32x4={1,2,3,4}` is a
/// `float4`. Two or four elements are aligned to their size, 16 bytes at most, three to the size of
/// one.
///
/// `{FIELD,FIELD,…}` is a struct that is passed by value: its fields in order, each written as an
/// argument is, and nested structs too, 16 at most within each other. After a scalar, further
/// fields of its type may be just VALUE: `{i64=4096,64,1,f32=0.5}`. The fields lie where C puts
/// them, so padding need not be written. An array is its elements. A struct with `__align__(16)` is
/// `alignas(16){FIELD,…}`.
///
/// `tensormap{BUFFER,SIZES,box=SIZES,KEY=VALUE,…}` is a `CUtensorMap` of the tensor in another
/// argument, a buffer, whose number is BUFFER: `tensormap{0,64x8,box=64x8,swizzle=128}`. SIZES are
/// the elements of 1 to 5 dimensions, the contiguous one first: `64x8` is 8 rows of 64. The box is
/// what a copy moves. May be left out: `swizzle=none|32|64|128`, `strides=BYTESxBYTES` of all
/// dimensions but the contiguous one (else packed), `every=NxN` (element strides, else 1),
/// `type=tf32|tf32_ftz|f32_ftz` (else the buffer's), `fill=zeros|nan`, `interleave=none|16|32`,
/// `l2=none|64|128|256`.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// A value.
    Scalar {
        /// Its type.
        ty: Type,
        /// Its bits, in the low bytes.
        bits: u64,
    },
    /// The address of a buffer.
    Buffer {
        /// The type of its elements.
        ty: Type,
        /// Number of elements; `None`: as many as the file has.
        count: Option<usize>,
        /// Its content before the launch.
        init: Init,
    },
    /// A vector of CUDA's.
    Vector {
        /// Its two, three or four elements.
        values: Values,
    },
    /// A struct, passed by value.
    Struct {
        /// The alignment it has at least, a power of two, bytes; 1 if none is stated.
        align: usize,
        /// Its fields, in order; one at least.
        fields: Vec<Argument>,
    },
    /// A tensor map, passed by value.
    TensorMap(TensorMap),
}

/// Content of a buffer before the launch.
#[derive(Debug, Clone, PartialEq)]
pub enum Init {
    /// `zeros`
    Zeros,
    /// `ones`
    Ones,
    /// `iota`: 0, 1, 2, …, rounded or wrapped to the type.
    Iota,
    /// `random` or `random:SEED`: floats evenly spread over [-1, 1), integers over all their
    /// values. Without a seed it follows from the argument's number, so that no two arguments are
    /// alike.
    Random(Option<u64>),
    /// `uninit`: nothing is written to it.
    Uninit,
    /// `{1,2,3}`
    List(Values),
    /// `@file.npy`: the elements of a NumPy file, of this type, in row-major order.
    File(PathBuf),
}

impl Argument {
    /// Reads one argument.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn parse(text: &str) -> Result<Argument, String> {
        Argument::parse_within(text, 0)
    }

    /// Reads one argument, or a field that lies within `depth` structs.
    pub(crate) fn parse_within(text: &str, depth: usize) -> Result<Argument, String> {
        if text == "null" {
            return Ok(Argument::Scalar {
                ty: Type::U64,
                bits: 0,
            });
        }
        if let Some(map) = text.strip_prefix("tensormap{") {
            if depth > 0 {
                return Err("a tensor map is an argument, no field of a struct".to_owned());
            }
            let map = map
                .strip_suffix('}')
                .ok_or("the tensor map lacks its closing brace")?;
            return Ok(Argument::TensorMap(TensorMap::parse(map)?));
        }
        let (align, unaligned) = alignment(text)?;
        if let Some(fields) = unaligned.strip_prefix('{') {
            let fields = fields
                .strip_suffix('}')
                .ok_or("the struct lacks its closing brace")?;
            let fields = fields::parse(fields, depth)?;
            return Ok(Argument::Struct { align, fields });
        }
        let (left, right) = text.split_once('=').ok_or(
            "an argument is TYPE=VALUE, TYPE[COUNT]=INIT, {FIELD,FIELD,…}, tensormap{…} or null",
        )?;
        if let Some((name, count)) = left.split_once('x')
            && let Ok(ty) = Type::parse(name)
        {
            let values = vector(ty, count, right)?;
            return Ok(Argument::Vector { values });
        }
        let Some((name, count)) = left.split_once('[') else {
            let ty = Type::parse(left)?;
            if let Some(path) = right.strip_prefix('@') {
                return Ok(Argument::Buffer {
                    ty,
                    count: None,
                    init: file(path)?,
                });
            }
            let bits = ty.parse_value(right)?;
            return Ok(Argument::Scalar { ty, bits });
        };
        let ty = Type::parse(name)?;
        let count = count
            .strip_suffix(']')
            .ok_or("the count lacks its closing bracket")?;
        let count = match count {
            "" => None,
            count => Some(
                count
                    .parse()
                    .map_err(|_| format!("{count:?} is not a number of elements"))?,
            ),
        };
        let init = Init::parse(ty, right)?;
        let count = match (&init, count) {
            (Init::List(values), None) => Some(values.len()),
            (Init::List(values), Some(count)) if values.len() != count => {
                return Err(format!("{} values for {count} elements", values.len()));
            }
            (Init::File(_), None) => None,
            (_, None) => return Err("only a list or a file tells the count itself".to_owned()),
            (_, count) => count,
        };
        Ok(Argument::Buffer { ty, count, init })
    }

    /// The same argument with its file, if it names one, looked for in `folder`.
    pub fn in_folder(mut self, folder: &Path) -> Argument {
        match &mut self {
            Argument::Buffer {
                init: Init::File(path),
                ..
            } => *path = folder.join(&*path),
            Argument::Struct { fields, .. } => {
                let found = fields.drain(..).map(|field| field.in_folder(folder));
                *fields = found.collect();
            }
            Argument::Scalar { .. }
            | Argument::Vector { .. }
            | Argument::Buffer { .. }
            | Argument::TensorMap(_) => {}
        }
        self
    }

    /// The files that its buffers are read from.
    pub(crate) fn files(&self) -> Box<dyn Iterator<Item = &Path> + '_> {
        match self {
            Argument::Buffer {
                init: Init::File(path),
                ..
            } => Box::new(std::iter::once(path.as_path())),
            Argument::Struct { fields, .. } => Box::new(fields.iter().flat_map(Argument::files)),
            _ => Box::new(std::iter::empty()),
        }
    }

    /// The bytes of its buffers together; of a buffer that is read from a file, those of the file.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        match self {
            Argument::Buffer {
                init: Init::File(path),
                ..
            } => fs::metadata(path).map_or(0, |metadata| metadata.len()),
            Argument::Buffer { ty, count, .. } => {
                let count = count.unwrap_or(0) as u64;
                count.saturating_mul(ty.bytes() as u64)
            }
            Argument::Struct { fields, .. } => {
                let bytes = fields.iter().map(Argument::buffer_bytes);
                bytes.fold(0, u64::saturating_add)
            }
            Argument::Scalar { .. } | Argument::Vector { .. } | Argument::TensorMap(_) => 0,
        }
    }

    /// The argument at `position`, or the field of it.
    pub(crate) fn at<'a>(arguments: &'a [Argument], position: &Position) -> Option<&'a Argument> {
        let (first, rest) = position.numbers().split_first()?;
        rest.iter()
            .try_fold(arguments.get(*first)?, |argument, &index| match argument {
                Argument::Struct { fields, .. } => fields.get(index),
                _ => None,
            })
    }
}

impl Init {
    fn parse(ty: Type, text: &str) -> Result<Init, String> {
        if let Some(path) = text.strip_prefix('@') {
            return file(path);
        }
        if text.starts_with('{') {
            return Ok(Init::List(list(ty, text)?));
        }
        if let Some(seed) = text.strip_prefix("random:") {
            let seed = seed
                .parse()
                .map_err(|_| format!("{seed:?} is not a seed, a whole number from 0"))?;
            return Ok(Init::Random(Some(seed)));
        }
        match text {
            "zeros" => Ok(Init::Zeros),
            "ones" => Ok(Init::Ones),
            "iota" => Ok(Init::Iota),
            "random" => Ok(Init::Random(None)),
            "uninit" => Ok(Init::Uninit),
            _ => Err(format!(
                "{text:?} is none of zeros, ones, iota, random, random:SEED, uninit, {{1,2,3}} and @file.npy"
            )),
        }
    }
}

/// Reads `{1,2,3}`.
fn list(ty: Type, text: &str) -> Result<Values, String> {
    let list = text
        .strip_prefix('{')
        .ok_or_else(|| format!("{text:?} is not values in braces, like {{1,2,3}}"))?
        .strip_suffix('}')
        .ok_or("the list lacks its closing brace")?;
    let words = list.split(',').filter(|_| !list.is_empty());
    let values = words.map(|word| ty.parse_value(word.trim()));
    let values = values.collect::<Result<Vec<u64>, _>>()?;
    Ok(Values::from_bits(ty, values))
}

/// Reads a vector, of which `count` is written behind the type's `x`, and `text` behind the `=`.
fn vector(ty: Type, count: &str, text: &str) -> Result<Values, String> {
    if count.contains('[') {
        return Err(format!(
            "a buffer of vectors is one of their elements, {ty}[COUNT]=INIT"
        ));
    }
    let size = match count {
        "2" => 2,
        "3" => 3,
        "4" => 4,
        _ => return Err(format!("a vector is {ty}x2, {ty}x3 or {ty}x4")),
    };
    let values = list(ty, text)?;
    if values.len() != size {
        return Err(format!("{} values for a {ty}x{size}", values.len()));
    }
    Ok(values)
}

/// The alignment that a struct states, as `alignas(16){…}`, and what follows it; 1 and all of the
/// text if it states none.
fn alignment(text: &str) -> Result<(usize, &str), String> {
    let Some(stated) = text.strip_prefix("alignas(") else {
        return Ok((1, text));
    };
    let (number, fields) = stated
        .split_once(')')
        .filter(|(_, fields)| fields.starts_with('{'))
        .ok_or("alignas(…) stands right before the braces of a struct")?;
    let align = number.parse().ok();
    align
        .filter(|align: &usize| align.is_power_of_two() && *align <= MAX_PARAMETER)
        .map(|align| (align, fields))
        .ok_or_else(|| format!("{number:?} is no alignment, a power of two up to {MAX_PARAMETER}"))
}

fn file(path: &str) -> Result<Init, String> {
    if path.is_empty() {
        return Err("@ is not followed by a file's name".to_owned());
    }
    Ok(Init::File(path.into()))
}

/// A buffer as errors show it, without its content.
pub(crate) fn shown_buffer(ty: Type, count: Option<usize>) -> String {
    match count {
        Some(count) => format!("{ty}[{count}]"),
        None => format!("{ty}[]"),
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Scalar { ty, bits } => write!(f, "{ty}={}", ty.show(*bits)),
            Argument::Buffer { ty, count, .. } => f.write_str(&shown_buffer(*ty, *count)),
            Argument::Vector { values } => {
                let (ty, count) = (values.ty(), values.len());
                let values: Vec<String> = values.bits().map(|bits| ty.show(bits)).collect();
                write!(f, "{ty}x{count}={{{}}}", values.join(","))
            }
            Argument::Struct { align, fields } => {
                if *align > 1 {
                    write!(f, "alignas({align})")?;
                }
                let fields: Vec<String> = fields.iter().map(Argument::to_string).collect();
                write!(f, "{{{}}}", fields.join(","))
            }
            Argument::TensorMap(map) => write!(f, "tensormap{{{map}}}"),
        }
    }
}
