//! The kernel of a launch, held against the launch's arguments.

use crate::argument::{Argument, MAX_PARAMETER};
use crate::comments::{Invocation, Launch};
use crate::device::Config;
use crate::entry::{self, Entry};
use crate::error::InvocationError;
use crate::layout::Layout;
use crate::names::readable;
use crate::tensor_map::TensorMap;

/// The size, in bytes, that all parameters of a kernel may have together: CUDA's limit.
const MAX_PARAMETERS: usize = 32_764;

/// A kernel that fits the arguments of its launch.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) config: Config,
    /// The kernel's name in the PTX.
    pub(crate) kernel: String,
    /// The numbers of its arguments.
    pub(crate) passed: Vec<usize>,
}

impl Invocation {
    /// The kernel of a launch, which fits its arguments.
    pub(crate) fn choose(&self, launch: &Launch, ptx: &str) -> Result<Chosen, InvocationError> {
        let unstated = |what| InvocationError::Unstated { what };
        let config = Config {
            grid: launch.grid.ok_or_else(|| unstated("grid"))?,
            block: launch.block.ok_or_else(|| unstated("block"))?,
            shared: launch.shared,
            cooperative: launch.cooperative,
        };
        let entry = entry::choose(ptx, launch.kernel.as_deref())?;
        let all = || (0..self.arguments.len()).collect();
        let passed = launch.pass.clone().unwrap_or_else(all);
        self.fits(&entry, &passed)?;
        Ok(Chosen {
            config,
            kernel: entry.name,
            passed,
        })
    }

    /// Holds the arguments that are passed against the kernel's parameters.
    fn fits(&self, entry: &Entry, passed: &[usize]) -> Result<(), InvocationError> {
        if entry.parameters.len() != passed.len() {
            return Err(InvocationError::ArgumentCount {
                kernel: readable(&entry.name),
                parameters: entry.parameters.len(),
                arguments: passed.len(),
            });
        }
        for (&number, parameter) in passed.iter().zip(&entry.parameters) {
            let Some(argument) = self.arguments.get(number) else {
                return Err(InvocationError::NoSuchArgument {
                    kernel: readable(&entry.name),
                    number,
                    arguments: self.arguments.len(),
                });
            };
            let misfit = |misfit: String| InvocationError::DoesNotFit {
                number,
                argument: argument.to_string(),
                misfit,
            };
            let kernel = readable(&entry.name);
            let given = Layout::new(argument);
            // An argument that fits but for its padding lacks an alignment, maybe that of a field:
            // its offsets are in doubt.
            let is_struct = matches!(argument, Argument::Struct { .. });
            let padded = given.bytes.checked_next_multiple_of(parameter.align);
            if given.bytes != parameter.bytes && !(is_struct && padded == Some(parameter.bytes)) {
                let (given, needed) = (given.bytes, parameter.bytes);
                return Err(misfit(format!(
                    "has {given} bytes, but the parameter of kernel {kernel} has {needed}{}",
                    hint_of_size(given, needed, parameter.align)
                )));
            }
            let float = match argument {
                // A 16-bit float is an unsigned short in kernels that have no type for it.
                Argument::Scalar { ty, .. } if ty.bytes() > 2 => Some(ty.is_float()),
                Argument::Buffer { .. } => Some(false),
                _ => None,
            };
            if let (Some(given), Some(needed)) = (float, parameter.float)
                && given != needed
            {
                return Err(misfit(format!(
                    "is {}, but the parameter of kernel {kernel} is {}; bits are written as 0x…",
                    kind(given),
                    kind(needed)
                )));
            }
            if given.align != parameter.align {
                let (given, needed) = (given.align, parameter.align);
                return Err(misfit(format!(
                    "is aligned to {given} bytes, but the parameter of kernel {kernel} to {needed}{}",
                    hint_of_alignment(given, needed)
                )));
            }
            if given.bytes > MAX_PARAMETER {
                return Err(InvocationError::ParameterTooLarge {
                    kernel,
                    number,
                    bytes: given.bytes,
                    most: MAX_PARAMETER,
                });
            }
        }
        let sizes = entry.parameters.iter().map(|parameter| parameter.bytes);
        let bytes = sizes.fold(0, usize::saturating_add);
        if bytes > MAX_PARAMETERS {
            return Err(InvocationError::TooManyParameters {
                kernel: readable(&entry.name),
                bytes,
                most: MAX_PARAMETERS,
            });
        }
        Ok(())
    }
}

/// A parameter that is larger than any scalar is a struct, which a learner may not know how to
/// write.
fn hint_of_size(given: usize, needed: usize, align: usize) -> &'static str {
    let largest = size_of::<u64>();
    if (needed, align) == (TensorMap::BYTES, TensorMap::ALIGN) {
        ": a tensor map, written like tensormap{0,64x64,box=64x64,swizzle=128}"
    } else if given <= largest && needed > largest {
        ": a struct, written with its fields in braces, like {i64=4096,64,1,f32=0.5}"
    } else {
        ""
    }
}

/// More than the elements ask for is asked for by CUDA's vectors, or by the kernel's author.
fn hint_of_alignment(given: usize, needed: usize) -> String {
    if given >= needed {
        return String::new();
    }
    format!(
        ": CUDA's vectors are written like f32x4={{1,2,3,4}}, a struct with __align__({needed}) like \
         alignas({needed}){{f32=1,2}}"
    )
}

fn kind(float: bool) -> &'static str {
    if float {
        "a floating-point number"
    } else {
        "an integer or an address"
    }
}
