//! Rig of the tests of graphs: a graph of `axpy` launches and copies.

use std::{
    ffi::{CString, c_void},
    mem::MaybeUninit,
    ptr,
    sync::Arc,
};

use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtr, DriverError, result,
    sys::{self, CUresult},
};

use crate::common::own_context;

pub type Result<T> = std::result::Result<T, DriverError>;

fn graph() -> Result<sys::CUgraph> {
    let mut graph = ptr::null_mut();
    // SAFETY: a place for the result.
    unsafe { sys::cuGraphCreate(&mut graph, 0) }.result()?;
    Ok(graph)
}

/// A context, a graph, and the kernel `axpy`.
pub struct Rig {
    pub context: Arc<CudaContext>,
    pub stream: Arc<CudaStream>,
    pub graph: sys::CUgraph,
    pub axpy: sys::CUfunction,
}

impl Rig {
    pub fn new() -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let context = own_context()?;
        // SAFETY: every test below uses one stream, or orders its streams itself.
        unsafe { context.disable_event_tracking() };
        let stream = context.default_stream();
        let ptx = CString::new(include_str!("../../ptx/driver.ptx"))?;
        // SAFETY: a zero-terminated text; the module stays loaded.
        let axpy = unsafe {
            let module = result::module::load_data(ptx.as_ptr().cast())?;
            result::module::get_function(module, CString::new("axpy")?)?
        };
        Ok(Rig {
            context,
            stream,
            graph: graph()?,
            axpy,
        })
    }

    /// The same with a graph of its own.
    pub fn with_new_graph(&self) -> Result<Self> {
        Ok(Rig {
            context: Arc::clone(&self.context),
            stream: Arc::clone(&self.stream),
            graph: graph()?,
            axpy: self.axpy,
        })
    }

    /// Adds a copy.
    pub fn add_copy(&self, copy: &sys::CUDA_MEMCPY3D) -> Result<sys::CUgraphNode> {
        let mut node = ptr::null_mut();
        // SAFETY: a place for the result, no dependencies, and parameters.
        unsafe {
            let context = self.context.cu_ctx();
            sys::cuGraphAddMemcpyNode(&mut node, self.graph, ptr::null(), 0, copy, context)
        }
        .result()?;
        Ok(node)
    }

    pub fn addr(&self, slice: &CudaSlice<f32>) -> u64 {
        slice.device_ptr(&self.stream).0
    }

    /// Adds `y += a * x`, which depends on nodes.
    pub fn add_axpy(
        &self,
        after: &[sys::CUgraphNode],
        y: &CudaSlice<f32>,
        x: &CudaSlice<f32>,
        a: f32,
    ) -> Result<sys::CUgraphNode> {
        let mut node = ptr::null_mut();
        self.with_axpy(y, x, a, |params| {
            // SAFETY: a place for the result, a list with its length, and parameters.
            unsafe {
                sys::cuGraphAddKernelNode_v2(
                    &mut node,
                    self.graph,
                    after.as_ptr(),
                    after.len(),
                    params,
                )
            }
        })?;
        Ok(node)
    }

    /// Calls `call` with the parameters of `y += a * x`, which are gone afterwards.
    pub fn with_axpy(
        &self,
        y: &CudaSlice<f32>,
        x: &CudaSlice<f32>,
        a: f32,
        call: impl FnOnce(*const sys::CUDA_KERNEL_NODE_PARAMS_v2) -> CUresult,
    ) -> Result<()> {
        let (mut to, mut from, mut a, mut n) = (self.addr(y), self.addr(x), a, y.len() as i32);
        let mut params = [
            (&raw mut to).cast::<c_void>(),
            (&raw mut from).cast(),
            (&raw mut a).cast(),
            (&raw mut n).cast(),
        ];
        // SAFETY: zeros are a valid value.
        let mut node: sys::CUDA_KERNEL_NODE_PARAMS_v2 = unsafe { std::mem::zeroed() };
        node.func = self.axpy;
        (node.gridDimX, node.gridDimY, node.gridDimZ) = (1, 1, 1);
        (node.blockDimX, node.blockDimY, node.blockDimZ) = (32, 1, 1);
        node.kernelParams = params.as_mut_ptr();
        call(&node).result()
    }

    /// A copy of the first bytes from one device address to another.
    pub fn copy(&self, to: u64, from: u64, bytes: usize) -> sys::CUDA_MEMCPY3D {
        let mut copy = MaybeUninit::<sys::CUDA_MEMCPY3D>::zeroed();
        let at = copy.as_mut_ptr();
        // SAFETY: zeros are valid in all fields but these two.
        let mut copy = unsafe {
            (&raw mut (*at).srcMemoryType).write(sys::CUmemorytype::CU_MEMORYTYPE_DEVICE);
            (&raw mut (*at).dstMemoryType).write(sys::CUmemorytype::CU_MEMORYTYPE_DEVICE);
            copy.assume_init()
        };
        (copy.srcDevice, copy.dstDevice) = (from, to);
        (copy.srcPitch, copy.dstPitch) = (bytes, bytes);
        (copy.srcHeight, copy.dstHeight) = (1, 1);
        (copy.WidthInBytes, copy.Height, copy.Depth) = (bytes, 1, 1);
        copy
    }

    pub fn instantiate(&self) -> Result<sys::CUgraphExec> {
        let mut executable = ptr::null_mut();
        let mut blamed = ptr::null_mut();
        let mut log = [b'x' as i8; 8];
        // cudarc does not bind it.
        type Instantiate = unsafe extern "C" fn(
            *mut sys::CUgraphExec,
            sys::CUgraph,
            *mut sys::CUgraphNode,
            *mut i8,
            usize,
        ) -> CUresult;
        // SAFETY: the function has this type; places for the results, and a buffer with its size.
        unsafe {
            let instantiate = sys::culib().get::<Instantiate>(b"cuGraphInstantiate_v2");
            let instantiate = instantiate.expect("it is exported");
            instantiate(
                &mut executable,
                self.graph,
                &mut blamed,
                log.as_mut_ptr(),
                8,
            )
        }
        .result()?;
        assert_eq!(log[0], 0);
        Ok(executable)
    }

    pub fn launch(&self, executable: sys::CUgraphExec) -> Result<()> {
        // SAFETY: a live graph; the driver checks what its nodes use.
        unsafe { result::graph::launch(executable, self.stream.cu_stream()) }
    }

    pub fn slice(&self, values: &[f32]) -> Result<CudaSlice<f32>> {
        self.stream.clone_htod(values)
    }

    pub fn values(&self, slice: &CudaSlice<f32>) -> Result<Vec<f32>> {
        self.stream.clone_dtoh(slice)
    }
}
