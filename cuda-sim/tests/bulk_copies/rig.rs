//! Tensors with their maps, and kernels that copy boxes of them.

use std::sync::Arc;

use cuda_sim::FaultKind;
use cudarc::driver::sys::{self, CUtensorMapDataType as DataType, CUtensorMapSwizzle as Swizzle};
use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

pub use DataType::*;
pub use Swizzle::*;

/// The element types of tensors, and their bytes.
pub const ELEMENTS: [(DataType, usize); 13] = [
    (CU_TENSOR_MAP_DATA_TYPE_UINT8, 1),
    (CU_TENSOR_MAP_DATA_TYPE_UINT16, 2),
    (CU_TENSOR_MAP_DATA_TYPE_UINT32, 4),
    (CU_TENSOR_MAP_DATA_TYPE_INT32, 4),
    (CU_TENSOR_MAP_DATA_TYPE_UINT64, 8),
    (CU_TENSOR_MAP_DATA_TYPE_INT64, 8),
    (CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2),
    (CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4),
    (CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8),
    (CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2),
    (CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, 4),
    (CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 4),
    (CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ, 4),
];

/// A tensor map as a kernel's parameter.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Map(pub sys::CUtensorMap);

// SAFETY: plain data with C layout, as the kernels declare it.
unsafe impl DeviceRepr for Map {}

/// A tensor and the box that a copy moves; all but the element type by dimension, the innermost
/// first.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub element: DataType,
    pub bytes: usize,
    pub sizes: Vec<u64>,
    /// Bytes, without those of the innermost dimension.
    pub strides: Vec<u64>,
    pub box_sizes: Vec<u32>,
    pub element_strides: Vec<u32>,
    pub swizzle: Swizzle,
    pub fills_nan: bool,
}

impl Tensor {
    /// A tensor whose rows lie one behind the other, each rounded up to 16 bytes.
    pub fn dense((element, bytes): (DataType, usize), sizes: &[u64], box_sizes: &[u32]) -> Tensor {
        let mut strides = Vec::new();
        let mut next = (sizes[0] * bytes as u64).next_multiple_of(16);
        for size in &sizes[1..] {
            strides.push(next);
            next *= size;
        }
        Tensor {
            element,
            bytes,
            sizes: sizes.to_vec(),
            strides,
            box_sizes: box_sizes.to_vec(),
            element_strides: vec![1; sizes.len()],
            swizzle: CU_TENSOR_MAP_SWIZZLE_NONE,
            fills_nan: false,
        }
    }

    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    /// Bytes of device memory from the first element to behind the last.
    pub fn device_bytes(&self) -> usize {
        let distances = (1..self.rank()).map(|i| (self.sizes[i] - 1) * self.strides[i - 1]);
        distances.sum::<u64>() as usize + self.sizes[0] as usize * self.bytes
    }

    /// Elements of the box in each dimension.
    pub fn counts(&self) -> Vec<usize> {
        let count = |i: usize| match i {
            0 => self.box_sizes[0],
            _ => self.box_sizes[i].div_ceil(self.element_strides[i]),
        };
        (0..self.rank()).map(|i| count(i) as usize).collect()
    }

    pub fn box_bytes(&self) -> usize {
        self.counts().iter().product::<usize>() * self.bytes
    }

    /// Where each element of the box at `first` lies: its offset in the box without swizzling, and
    /// its offset in device memory if the tensor has it.
    pub fn elements(&self, first: &[i32]) -> Vec<(usize, Option<usize>)> {
        let counts = self.counts();
        let all = counts.iter().product::<usize>();
        let element = |number: usize| {
            let (mut rest, mut device, mut is_inside) = (number, 0i64, true);
            for i in 0..self.rank() {
                let step = match i {
                    0 => rest % counts[0],
                    _ => rest % counts[i] * self.element_strides[i] as usize,
                };
                rest /= counts[i];
                let coordinate = i64::from(first[i]) + step as i64;
                is_inside &= coordinate >= 0 && coordinate < self.sizes[i] as i64;
                device += coordinate
                    * match i {
                        0 => self.bytes as i64,
                        _ => self.strides[i - 1] as i64,
                    };
            }
            (number * self.bytes, is_inside.then_some(device as usize))
        };
        (0..all).map(element).collect()
    }

    /// The bits of an element outside of the tensor.
    pub fn fill(&self) -> u64 {
        match self.bytes {
            _ if !self.fills_nan => 0,
            2 => 0x7fff,
            4 => 0x7fff_ffff,
            _ => 0x7fff_ffff_ffff_ffff,
        }
    }

    pub fn encode(&self, address: u64) -> Map {
        let mut map = Map(sys::CUtensorMap { opaque: [0; 16] });
        // SAFETY: each array has as many elements as the rank says.
        let result = unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut map.0,
                self.element,
                self.rank() as u32,
                address as *mut _,
                self.sizes.as_ptr(),
                self.strides.as_ptr(),
                self.box_sizes.as_ptr(),
                self.element_strides.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                self.swizzle,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                match self.fills_nan {
                    true => sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
                    false => sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                },
            )
        };
        assert_eq!(result, sys::CUresult::CUDA_SUCCESS, "{self:?}");
        map
    }
}

/// Where a swizzle puts the byte at an address of shared memory: the pieces of 16 bytes of each
/// span change places, by the number of the line of 128 bytes.
pub fn swizzled(swizzle: Swizzle, address: usize) -> usize {
    let pieces = match swizzle {
        CU_TENSOR_MAP_SWIZZLE_32B => 2,
        CU_TENSOR_MAP_SWIZZLE_64B => 4,
        CU_TENSOR_MAP_SWIZZLE_128B => 8,
        _ => return address,
    };
    let (piece, line) = (address / 16 % pieces, address / 128);
    address - 16 * piece + 16 * (piece ^ (line % pieces))
}

pub fn stream() -> Arc<CudaStream> {
    cuda_sim::install().unwrap();
    CudaContext::new(0).unwrap().default_stream()
}

/// Address of a buffer.
pub fn address<T>(buffer: &CudaSlice<T>, stream: &CudaStream) -> u64 {
    buffer.device_ptr(stream).0
}

/// Bytes without a pattern.
pub fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// Registers, and operands of a copy: `%d1` address of the tensor map, `%d2` data, `%d3` result,
/// `%r0` barrier, `%r1` the tile at `shared`, `%r2…` coordinates, `%r9` thread. Shared memory
/// begins with 128 bytes for barriers.
const HEAD: &str = ".version 8.4\n.target sm_90a\n.address_size 64\n\
    .extern .shared .align 1024 .b8 all[];\n\
    .visible .entry t(.param .align 64 .b8 map[128], .param .u64 data, .param .u64 out, .param .u32 shared,\n\
    .param .u32 c0, .param .u32 c1, .param .u32 c2, .param .u32 c3, .param .u32 c4) CLUSTER\n{\n\
    .reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<60>;\n.reg .b64 %d<20>;\n\
    mov.b64 %d0, map;\ncvta.param.u64 %d1, %d0;\nld.param.u64 %d2, [data];\nld.param.u64 %d3, [out];\n\
    mov.u32 %r0, all;\nld.param.u32 %r1, [shared];\nadd.u32 %r1, %r1, %r0;\n\
    ld.param.u32 %r2, [c0];\nld.param.u32 %r3, [c1];\nld.param.u32 %r4, [c2];\nld.param.u32 %r5, [c3];\n\
    ld.param.u32 %r6, [c4];\nmov.u32 %r9, %tid.x;\n";

/// `{%r2, %r3}`: so many coordinates.
pub fn coordinates(rank: usize) -> String {
    let names: Vec<String> = (2..2 + rank).map(|r| format!("%r{r}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// Waits for phase 0 of the barrier.
pub const WAIT: &str =
    "wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0], 0;\n@!%p1 bra wait;\n";

/// Copies `bytes` bytes of shared memory from `%r1` on to the result.
pub fn dump(bytes: usize) -> String {
    format!(
        "mov.u32 %r10, 0;\ndump:\nadd.u32 %r11, %r1, %r10;\ncvt.u64.u32 %d10, %r10;\nadd.u64 %d11, %d3, %d10;\n\
         ld.shared.v4.u32 {{%r12, %r13, %r14, %r15}}, [%r11];\nst.global.v4.u32 [%d11], {{%r12, %r13, %r14, %r15}};\n\
         add.u32 %r10, %r10, 16;\nsetp.lt.u32 %p2, %r10, {bytes};\n@%p2 bra dump;\n"
    )
}

/// The inverse of [`dump`]: fills shared memory from the result, for copies to read.
pub fn undump(bytes: usize) -> String {
    format!(
        "mov.u32 %r10, 0;\nundump:\nadd.u32 %r11, %r1, %r10;\ncvt.u64.u32 %d10, %r10;\nadd.u64 %d11, %d3, %d10;\n\
         ld.global.v4.u32 {{%r12, %r13, %r14, %r15}}, [%d11];\nst.shared.v4.u32 [%r11], {{%r12, %r13, %r14, %r15}};\n\
         add.u32 %r10, %r10, 16;\nsetp.lt.u32 %p2, %r10, {bytes};\n@%p2 bra undump;\nfence.proxy.async;\n"
    )
}

/// Arguments of a kernel.
pub struct Run<'r> {
    pub body: &'r str,
    pub map: Map,
    pub data: u64,
    pub out: u64,
    /// Place of the tile behind the start of shared memory.
    pub shared: u32,
    pub first: &'r [i32],
    pub threads: u32,
    pub blocks: u32,
    /// Blocks of a cluster.
    pub cluster: u32,
    pub shared_bytes: u32,
}

impl Run<'_> {
    pub fn one(body: &str) -> Run<'_> {
        Run {
            body,
            map: Map(sys::CUtensorMap { opaque: [0; 16] }),
            data: 0,
            out: 0,
            shared: 1024,
            first: &[],
            threads: 1,
            blocks: 1,
            cluster: 1,
            shared_bytes: 48 << 10,
        }
    }

    /// Runs the kernel; its fault, if it has one.
    pub fn launch(&self) -> Result<(), Box<FaultKind>> {
        let stream = stream();
        let cluster = match self.cluster {
            1 => String::new(),
            blocks => format!(".reqnctapercluster {blocks}, 1, 1"),
        };
        let head = HEAD.replace("CLUSTER", &cluster);
        let text = format!("{head}{}\nret;\n}}\n", self.body);
        let module = stream.context().load_module(Ptx::from_src(text));
        let module = module.unwrap_or_else(|e| panic!("{}: {e:?}", self.body));
        let kernel = module.load_function("t").unwrap();
        let mut first = [0; 5];
        first[..self.first.len()].copy_from_slice(self.first);
        let shape = LaunchConfig {
            grid_dim: (self.blocks, 1, 1),
            block_dim: (self.threads, 1, 1),
            shared_mem_bytes: self.shared_bytes,
        };
        let mut launch = stream.launch_builder(&kernel);
        launch
            .arg(&self.map)
            .arg(&self.data)
            .arg(&self.out)
            .arg(&self.shared);
        first.iter().for_each(|c| {
            launch.arg(c);
        });
        // SAFETY: the arguments are the kernel's, and the buffers outlive it.
        let result = unsafe { launch.launch(shape) }.and_then(|_| stream.synchronize());
        match result {
            Ok(()) => Ok(()),
            Err(error) => Err(match cuda_sim::take_fault() {
                Some(fault) => Box::new(fault.kind),
                None => panic!("{}: {error:?}", self.body),
            }),
        }
    }
}
