//! The language of arguments: `i32=256`, `f32[256]=iota`, `{i64=4096,64,1,f32=0.5}`.

use std::fmt;
use std::path::{Path, PathBuf};

use super::fields;
use super::values::{Type, Values};

/// An argument of a kernel.
///
/// `TYPE=VALUE` is a scalar. `TYPE[COUNT]=INIT` is a buffer in device memory, whose address is passed; `null` is the
/// address of nothing. TYPE is one of u8 s8 i8 u16 i16 f16 bf16 u32 i32 u64 i64 f32 f64. A value is decimal, or its bits
/// as `0x…`; a floating-point one may be `inf`, `-inf` or `nan`. [`Init`] lists what a buffer may hold.
///
/// `{FIELD,FIELD,…}` is a struct that is passed by value: its fields in order, each written as an argument is, and
/// nested structs too. After a scalar, further fields of its type may be just VALUE: `{i64=4096,64,1,f32=0.5}`. The
/// fields lie where C puts them, so padding need not be written. An array is its elements.
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
        /// How many elements; `None`: as many as the file has.
        count: Option<usize>,
        /// What it holds before the launch.
        init: Init,
    },
    /// A struct, passed by value.
    Struct {
        /// Its fields, in order; one at least.
        fields: Vec<Argument>,
    },
}

/// What a buffer holds before the launch.
#[derive(Debug, Clone, PartialEq)]
pub enum Init {
    /// `zeros`
    Zeros,
    /// `ones`
    Ones,
    /// `iota`: 0, 1, 2, …, rounded or wrapped to the type.
    Iota,
    /// `random` or `random:SEED`: floats evenly spread over [-1, 1), integers over all their values. Without a seed it
    /// follows from the argument's number, so that no two arguments are alike.
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
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Argument, String> {
        if text == "null" {
            return Ok(Argument::Scalar {
                ty: Type::U64,
                bits: 0,
            });
        }
        if let Some(fields) = text.strip_prefix('{') {
            let fields = fields
                .strip_suffix('}')
                .ok_or("the struct lacks its closing brace")?;
            return fields::parse(fields);
        }
        let (left, right) = text
            .split_once('=')
            .ok_or("an argument is TYPE=VALUE, TYPE[COUNT]=INIT, {FIELD,FIELD,…} or null")?;
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
            Argument::Struct { fields } => {
                let found = fields.drain(..).map(|field| field.in_folder(folder));
                *fields = found.collect();
            }
            Argument::Scalar { .. } | Argument::Buffer { .. } => {}
        }
        self
    }
}

impl Init {
    fn parse(ty: Type, text: &str) -> Result<Init, String> {
        if let Some(path) = text.strip_prefix('@') {
            return file(path);
        }
        if let Some(list) = text.strip_prefix('{') {
            let list = list
                .strip_suffix('}')
                .ok_or("the list lacks its closing brace")?;
            let words = list.split(',').filter(|_| !list.is_empty());
            let values = words.map(|word| ty.parse_value(word.trim()));
            return Ok(Init::List(Values::from_bits(
                ty,
                values.collect::<Result<Vec<u64>, _>>()?,
            )));
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

fn file(path: &str) -> Result<Init, String> {
    if path.is_empty() {
        return Err("@ is not followed by a file's name".to_owned());
    }
    Ok(Init::File(path.into()))
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Scalar { ty, bits } => write!(f, "{ty}={}", ty.show(*bits)),
            Argument::Buffer { ty, count, .. } => match count {
                Some(count) => write!(f, "{ty}[{count}]"),
                None => write!(f, "{ty}[]"),
            },
            Argument::Struct { fields } => {
                let fields: Vec<String> = fields.iter().map(Argument::to_string).collect();
                write!(f, "{{{}}}", fields.join(","))
            }
        }
    }
}
