//! Graphs built node by node, through CUDA's own calls.

mod common;

use std::{
    ffi::{CString, c_void},
    mem::MaybeUninit,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use common::{Outcome, expect_error, own_context};
use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtr, DriverError, result,
    sys::{self, CUresult},
};

type Result<T> = std::result::Result<T, DriverError>;

/// A context, a graph, and the kernel `axpy`.
struct Rig {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    graph: sys::CUgraph,
    axpy: sys::CUfunction,
}

impl Rig {
    fn new() -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let context = own_context()?;
        // SAFETY: every test below uses one stream, or orders its streams itself.
        unsafe { context.disable_event_tracking() };
        let stream = context.default_stream();
        let mut graph = ptr::null_mut();
        // SAFETY: a place for the result.
        unsafe { sys::cuGraphCreate(&mut graph, 0) }.result()?;
        let ptx = CString::new(include_str!("../ptx/driver.ptx"))?;
        // SAFETY: a zero-terminated text; the module stays loaded.
        let axpy = unsafe {
            let module = result::module::load_data(ptx.as_ptr().cast())?;
            result::module::get_function(module, CString::new("axpy")?)?
        };
        Ok(Rig {
            context,
            stream,
            graph,
            axpy,
        })
    }

    fn addr(&self, slice: &CudaSlice<f32>) -> u64 {
        slice.device_ptr(&self.stream).0
    }

    /// Adds `y += a * x` behind nodes.
    fn add_axpy(
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
    fn with_axpy(
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
    fn copy(&self, to: u64, from: u64, bytes: usize) -> sys::CUDA_MEMCPY3D {
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

    fn instantiate(&self) -> Result<sys::CUgraphExec> {
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

    fn launch(&self, executable: sys::CUgraphExec) -> Result<()> {
        // SAFETY: a live graph; the driver checks what its nodes use.
        unsafe { result::graph::launch(executable, self.stream.cu_stream()) }
    }

    fn slice(&self, values: &[f32]) -> Result<CudaSlice<f32>> {
        self.stream.clone_htod(values)
    }

    fn values(&self, slice: &CudaSlice<f32>) -> Result<Vec<f32>> {
        self.stream.clone_dtoh(slice)
    }
}

#[test]
fn nodes_run_behind_those_they_depend_on_whatever_the_order_in_which_they_were_added() -> Outcome {
    let rig = Rig::new()?;
    let (a, b, c) = (
        rig.slice(&[1.0])?,
        rig.slice(&[10.0])?,
        rig.slice(&[100.0])?,
    );
    let last = rig.add_axpy(&[], &c, &b, 1.0)?; // c += b
    let first = rig.add_axpy(&[], &b, &a, 2.0)?; // b += 2 a
    // SAFETY: lists of one handle.
    unsafe { sys::cuGraphAddDependencies(rig.graph, &first, &last, 1) }.result()?;
    let executable = rig.instantiate()?;
    rig.launch(executable)?;
    assert_eq!(
        (rig.values(&b)?, rig.values(&c)?),
        (vec![12.0], vec![112.0])
    );
    rig.launch(executable)?;
    assert_eq!(
        (rig.values(&b)?, rig.values(&c)?),
        (vec![14.0], vec![126.0])
    );
    // The other way round it is a circle.
    // SAFETY: as above.
    unsafe { sys::cuGraphAddDependencies(rig.graph, &last, &first, 1) }.result()?;
    let text = expect_error(rig.instantiate(), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("circle"), "{text}");
    // What was instantiated before still runs.
    rig.launch(executable)?;
    Ok(())
}

#[test]
fn nodes_of_an_instantiated_graph_can_be_replaced() -> Outcome {
    let rig = Rig::new()?;
    let (x, y, z) = (
        rig.slice(&[1.0, 2.0])?,
        rig.slice(&[0.0, 0.0])?,
        rig.slice(&[5.0, 6.0])?,
    );
    let kernel = rig.add_axpy(&[], &y, &x, 1.0)?;
    let mut copy = ptr::null_mut();
    let context = rig.context.cu_ctx();
    let params = rig.copy(rig.addr(&z), rig.addr(&y), 8);
    // SAFETY: a place for the result, a list of one handle, and parameters.
    unsafe { sys::cuGraphAddMemcpyNode(&mut copy, rig.graph, &kernel, 1, &params, context) }
        .result()?;
    let executable = rig.instantiate()?;
    rig.launch(executable)?;
    assert_eq!(rig.values(&z)?, [1.0, 2.0]);
    rig.with_axpy(&y, &x, 10.0, |params| {
        // SAFETY: parameters of the same kernel.
        unsafe { sys::cuGraphExecKernelNodeSetParams_v2(executable, kernel, params) }
    })?;
    let shorter = rig.copy(rig.addr(&z), rig.addr(&y), 4);
    // SAFETY: parameters of a copy.
    unsafe { sys::cuGraphExecMemcpyNodeSetParams(executable, copy, &shorter, context) }.result()?;
    rig.launch(executable)?;
    assert_eq!(
        (rig.values(&y)?, rig.values(&z)?),
        (vec![11.0, 22.0], vec![11.0, 2.0])
    );
    // The graph itself is as it was.
    rig.launch(rig.instantiate()?)?;
    assert_eq!(rig.values(&z)?, [12.0, 24.0]);
    // SAFETY: refused: nodes of other kinds, and of no graph.
    unsafe {
        let refused = sys::cuGraphExecMemcpyNodeSetParams(executable, kernel, &shorter, context);
        let text = expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(text.contains("Kernel"), "{text}");
        let refused =
            sys::cuGraphExecMemcpyNodeSetParams(executable, ptr::null_mut(), &shorter, context);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    Ok(())
}

#[test]
fn memset_host_empty_and_child_nodes_run() -> Outcome {
    unsafe extern "C" fn count(data: *mut c_void) {
        // SAFETY: the counter below, which outlives the launches.
        unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
    }
    let rig = Rig::new()?;
    let (x, y) = (rig.slice(&[1.0; 6])?, rig.slice(&[7.0; 6])?);
    let kernel = rig.add_axpy(&[], &y, &x, 1.0)?;
    let mut parent = ptr::null_mut();
    let calls = AtomicU32::new(0);
    // Rows of one element, two elements apart.
    let fill = sys::CUDA_MEMSET_NODE_PARAMS {
        dst: rig.addr(&y),
        pitch: 8,
        value: 0,
        elementSize: 4,
        width: 1,
        height: 3,
    };
    let host = sys::CUDA_HOST_NODE_PARAMS {
        fn_: Some(count),
        userData: (&raw const calls).cast_mut().cast(),
    };
    let mut nodes = [ptr::null_mut(); 4];
    // SAFETY: places for the results, lists with their lengths, and parameters; `calls` outlives the launches.
    unsafe {
        sys::cuGraphCreate(&mut parent, 0).result()?;
        sys::cuGraphAddMemsetNode(
            &mut nodes[0],
            parent,
            ptr::null(),
            0,
            &fill,
            rig.context.cu_ctx(),
        )
        .result()?;
        sys::cuGraphAddHostNode(&mut nodes[1], parent, ptr::null(), 0, &host).result()?;
        sys::cuGraphAddEmptyNode(&mut nodes[2], parent, nodes.as_ptr(), 2).result()?;
        sys::cuGraphAddChildGraphNode(&mut nodes[3], parent, &nodes[2], 1, rig.graph).result()?;
        let mut kinds = Vec::new();
        for node in nodes {
            let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL;
            sys::cuGraphNodeGetType(node, &mut kind).result()?;
            kinds.push(kind as u32);
        }
        assert_eq!(kinds, [2, 3, 5, 4]);
        // The child is a copy: what happens to the graph afterwards does not matter.
        sys::cuGraphDestroyNode(kernel).result()?;
    }
    let (mut count, mut roots) = (0, [ptr::null_mut(); 4]);
    // SAFETY: places for the results, as many as said.
    unsafe {
        sys::cuGraphGetNodes(parent, ptr::null_mut(), &mut count).result()?;
        assert_eq!(count, 4);
        sys::cuGraphGetRootNodes(parent, roots.as_mut_ptr(), &mut count).result()?;
        assert_eq!((count, &roots[..2]), (2, &nodes[..2]));
        let mut clone = ptr::null_mut();
        sys::cuGraphClone(&mut clone, parent).result()?;
        sys::cuGraphDestroy(parent).result()?;
        let mut executable = ptr::null_mut();
        sys::cuGraphInstantiateWithFlags(&mut executable, clone, 0).result()?;
        rig.launch(executable)?;
    }
    rig.stream.synchronize()?;
    assert_eq!(rig.values(&y)?, [1.0, 8.0, 1.0, 8.0, 1.0, 8.0]);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let empty = rig.instantiate()?;
    rig.launch(empty)?;
    assert_eq!(rig.values(&y)?, [1.0, 8.0, 1.0, 8.0, 1.0, 8.0]);
    Ok(())
}

#[test]
fn a_captured_graph_has_nodes_too() -> Outcome {
    let rig = Rig::new()?;
    let stream = rig.context.new_stream()?;
    let mut data = stream.alloc_zeros::<u32>(4)?;
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    let (mut status, mut id) = (sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE, 0);
    // SAFETY: places for results.
    unsafe {
        sys::cuStreamGetCaptureInfo_v2(
            stream.cu_stream(),
            &mut status,
            &mut id,
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
        )
    }
    .result()?;
    assert_eq!(
        status,
        sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
    );
    assert_ne!(id, 0);
    stream.memset_zeros(&mut data)?;
    stream.memset_zeros(&mut data)?;
    let graph = stream
        .end_capture(sys::CUgraphInstantiate_flags(0))?
        .ok_or("no graph")?;
    let (mut count, mut nodes) = (5, [ptr::null_mut(); 5]);
    let (mut before, mut number) = ([ptr::null_mut(); 1], 1);
    // SAFETY: places for results, as many as said.
    unsafe {
        sys::cuGraphGetNodes(graph.cu_graph(), nodes.as_mut_ptr(), &mut count).result()?;
        assert_eq!(count, 2);
        sys::cuGraphNodeGetDependencies(nodes[1], before.as_mut_ptr(), &mut number).result()?;
    }
    assert_eq!((number, before[0]), (1, nodes[0]));
    Ok(())
}

#[test]
fn memsets_and_calls_can_be_replaced() -> Outcome {
    unsafe extern "C" fn count(data: *mut c_void) {
        // SAFETY: a counter below, which outlives the launches.
        unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
    }
    let rig = Rig::new()?;
    let y = rig.slice(&[0.0; 4])?;
    let calls = [(); 3].map(|()| AtomicU32::new(0));
    let host = |which: usize| sys::CUDA_HOST_NODE_PARAMS {
        fn_: Some(count),
        userData: (&raw const calls[which]).cast_mut().cast(),
    };
    let fill = |value: f32, width| sys::CUDA_MEMSET_NODE_PARAMS {
        dst: rig.addr(&y),
        pitch: 0,
        value: value.to_bits(),
        elementSize: 4,
        width,
        height: 1,
    };
    let context = rig.context.cu_ctx();
    let [mut memset, mut call] = [ptr::null_mut(); 2];
    let mut seen = Vec::new();
    // SAFETY: places for results, and parameters; `calls` outlives the launches.
    unsafe {
        let (graph, none) = (rig.graph, ptr::null());
        sys::cuGraphAddMemsetNode(&mut memset, graph, none, 0, &fill(1.0, 4), context).result()?;
        sys::cuGraphAddHostNode(&mut call, graph, none, 0, &host(0)).result()?;
        let first = rig.instantiate()?;
        sys::cuGraphMemsetNodeSetParams(memset, &fill(2.0, 3)).result()?;
        sys::cuGraphHostNodeSetParams(call, &host(1)).result()?;
        let second = rig.instantiate()?;
        sys::cuGraphExecMemsetNodeSetParams(second, memset, &fill(3.0, 2), context).result()?;
        sys::cuGraphExecHostNodeSetParams(second, call, &host(2)).result()?;
        let third = rig.instantiate()?;
        for executable in [first, third, second] {
            rig.launch(executable)?;
            seen.push(rig.values(&y)?);
        }
        let refused = sys::cuGraphHostNodeSetParams(memset, &host(0));
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        let refused = sys::cuGraphExecMemsetNodeSetParams(first, call, &fill(0.0, 1), context);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        let refused = sys::cuGraphMemsetNodeSetParams(memset, &fill(0.0, 5));
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    rig.stream.synchronize()?;
    assert_eq!(seen, [[1.0; 4], [2.0, 2.0, 2.0, 1.0], [3.0, 3.0, 2.0, 1.0]]);
    assert_eq!(calls.map(AtomicU32::into_inner), [1; 3]);
    Ok(())
}

#[test]
fn an_edge_is_added_once() -> Outcome {
    let rig = Rig::new()?;
    let x = rig.slice(&[1.0])?;
    let [a, b, c] = [(); 3].map(|()| rig.add_axpy(&[], &x, &x, 1.0));
    let (a, b, c) = (a?, b?, c?);
    let twice = rig.add_axpy(&[a, b, a], &x, &x, 1.0);
    let text = expect_error(twice.map(drop), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("twice"), "{text}");
    let add = |from: &[sys::CUgraphNode], to: &[sys::CUgraphNode]| {
        // SAFETY: lists of the same length.
        unsafe {
            let (graph, count) = (rig.graph, from.len());
            sys::cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), count)
        }
        .result()
    };
    let edges = |node| {
        let mut count = 0;
        // SAFETY: a live node, and a place for the result.
        unsafe { sys::cuGraphNodeGetDependencies(node, ptr::null_mut(), &mut count) }
            .result()
            .map(|()| count)
    };
    // An error leaves the graph as it was.
    for (from, to) in [([a, a, a], [b, c, b]), ([a, b, c], [b, b, c])] {
        expect_error(add(&from, &to), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!([edges(a)?, edges(b)?, edges(c)?], [0; 3]);
    }
    add(&[a, a, b], &[b, c, c])?;
    expect_error(add(&[a], &[c]), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!([edges(a)?, edges(b)?, edges(c)?], [0, 1, 2]);
    // A circle is told apart from other errors.
    add(&[c], &[a])?;
    let mut executable = ptr::null_mut();
    let mut instantiate = |graph, flags| {
        // SAFETY: zeros are a valid value.
        let mut params: sys::CUDA_GRAPH_INSTANTIATE_PARAMS = unsafe { std::mem::zeroed() };
        params.flags = flags;
        // SAFETY: a place for the result, and parameters.
        let code =
            unsafe { sys::cuGraphInstantiateWithParams(&mut executable, graph, &mut params) };
        (code as u32, params.result_out as u32)
    };
    assert_eq!(instantiate(rig.graph, 0), (1, 2));
    assert_eq!(instantiate(ptr::null_mut(), 0), (400, 1));
    // SAFETY: a live node.
    unsafe { sys::cuGraphDestroyNode(c) }.result()?;
    assert_eq!(instantiate(rig.graph, 1 << 20), (1, 1));
    assert_eq!(instantiate(rig.graph, 0), (0, 0));
    rig.launch(executable)?;
    Ok(())
}

#[test]
fn the_kernel_of_a_library_is_a_node_of_the_current_context() -> Outcome {
    let rig = Rig::new()?;
    let (x, y) = (rig.slice(&[1.0])?, rig.slice(&[5.0])?);
    let ptx = CString::new(include_str!("../ptx/driver.ptx"))?;
    let (mut library, mut kernel) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: a zero-terminated text, places for results, no options.
    unsafe {
        let (code, none) = (ptx.as_ptr().cast(), ptr::null_mut());
        let values = ptr::null_mut();
        sys::cuLibraryLoadData(
            &mut library,
            code,
            none,
            values,
            0,
            ptr::null_mut(),
            values,
            0,
        )
        .result()?;
        sys::cuLibraryGetKernel(&mut kernel, library, c"axpy".as_ptr()).result()?;
    }
    let own = rig.context.cu_ctx();
    let other = own_context()?;
    rig.context.bind_to_thread()?;
    let mut node = ptr::null_mut();
    let mut add = |context| {
        rig.with_axpy(&y, &x, 1.0, |params| {
            // SAFETY: parameters, and a place for the result.
            unsafe {
                let mut params = *params;
                (params.func, params.kern, params.ctx) = (ptr::null_mut(), kernel, context);
                sys::cuGraphAddKernelNode_v2(&mut node, rig.graph, ptr::null(), 0, &params)
            }
        })
    };
    add(ptr::null_mut())?;
    add(own)?;
    let text = expect_error(add(other.cu_ctx()), CUresult::CUDA_ERROR_NOT_SUPPORTED);
    assert!(text.contains("context"), "{text}");
    rig.launch(rig.instantiate()?)?;
    assert_eq!(rig.values(&y)?, [7.0]);
    Ok(())
}

#[test]
fn bad_nodes_are_refused_when_they_are_added() -> Outcome {
    let rig = Rig::new()?;
    let x = rig.slice(&[1.0, 2.0])?;
    let context = rig.context.cu_ctx();
    let mut node = ptr::null_mut();
    let mut other = ptr::null_mut();
    // SAFETY: places for results; what is wrong is refused.
    unsafe {
        sys::cuGraphCreate(&mut other, 0).result()?;
        sys::cuGraphAddEmptyNode(&mut node, other, ptr::null(), 0).result()?;
        // A node of another graph.
        let refused = rig.add_axpy(&[node], &x, &x, 1.0);
        expect_error(refused.map(drop), CUresult::CUDA_ERROR_INVALID_VALUE);
        // A copy past the end.
        let copy = rig.copy(rig.addr(&x), rig.addr(&x), 9);
        let refused =
            sys::cuGraphAddMemcpyNode(&mut node, rig.graph, ptr::null(), 0, &copy, context);
        let text = expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(text.contains("1 bytes past the end"), "{text}");
        // A kernel that is none.
        let mut params: sys::CUDA_KERNEL_NODE_PARAMS_v2 = std::mem::zeroed();
        let refused = sys::cuGraphAddKernelNode_v2(&mut node, rig.graph, ptr::null(), 0, &params);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_HANDLE);
        // A grid of no blocks.
        params.func = rig.axpy;
        let refused = sys::cuGraphAddKernelNode_v2(&mut node, rig.graph, ptr::null(), 0, &params);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        // No parameters at all.
        let refused =
            sys::cuGraphAddKernelNode_v2(&mut node, rig.graph, ptr::null(), 0, ptr::null());
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let mut count = 0;
    // SAFETY: a place for the result.
    unsafe { sys::cuGraphGetNodes(rig.graph, ptr::null_mut(), &mut count) }.result()?;
    assert_eq!(count, 0);
    Ok(())
}
