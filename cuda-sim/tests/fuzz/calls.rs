//! Cases of driver calls: one thread or three make random calls, with handles, sizes and addresses of every quality.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use crate::driver::call;
use crate::random::Random;

/// What an argument is made of. Pointers of the host are valid, as the driver API asks, or null.
#[derive(Debug, Clone, Copy)]
enum Of {
    /// Where a new handle goes, into this pool.
    New(Pool),
    /// A handle of a pool, valid, stale, null or of another kind.
    Handle(Pool),
    /// Where a result goes that nobody looks at.
    Result,
    /// A device address, and around it.
    Address,
    /// Bytes that the host's buffer has.
    Bytes,
    /// Bytes to copy to or from the host's buffer: those that it has, or more than there is device memory.
    Copied,
    /// Any size.
    Size,
    /// The host's buffer.
    Host,
    Ordinal,
    /// Small numbers: flags, attributes, modes.
    Small,
    /// Blocks or threads in one dimension.
    Extent,
    Text,
    Image,
    /// A function of the host that returns.
    Callback,
    /// Parameters for a kernel.
    Parameters,
    /// Properties of a memory pool.
    Properties,
    /// A list of two nodes of graphs.
    Nodes,
    /// How many of them: 0 to 2.
    Few,
    /// Parameters of a kernel node, of a memset node, of a host node.
    KernelNode,
    MemsetNode,
    HostNode,
    /// A copy of rows, a copy of slices.
    Rows,
    Slices,
    /// The bytes that every image has.
    Four,
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pool {
    Context,
    Stream,
    Event,
    Module,
    Function,
    Memory,
    HostMemory,
    Pooled,
    Graph,
    Node,
    Executable,
    Library,
    Kernel,
    Linker,
}

use Of::*;
use Pool::*;

/// The functions and their arguments.
const CALLS: &[(&str, &[Of])] = &[
    ("cuCtxCreate_v4", &[New(Context), Null, Small, Ordinal]),
    ("cuCtxDestroy_v2", &[Handle(Context)]),
    ("cuCtxSetCurrent", &[Handle(Context)]),
    ("cuCtxPushCurrent_v2", &[Handle(Context)]),
    ("cuCtxPopCurrent_v2", &[Result]),
    ("cuCtxSynchronize", &[]),
    ("cuCtxSetLimit", &[Small, Size]),
    ("cuCtxGetLimit", &[Result, Small]),
    ("cuCtxSetFlags", &[Small]),
    ("cuCtxGetDevice", &[Result]),
    ("cuCtxGetStreamPriorityRange", &[Result, Result]),
    ("cuCtxSetCacheConfig", &[Small]),
    ("cuDevicePrimaryCtxRetain", &[New(Context), Ordinal]),
    ("cuDevicePrimaryCtxRelease_v2", &[Ordinal]),
    ("cuDeviceGet", &[Result, Ordinal]),
    ("cuDeviceGetAttribute", &[Result, Small, Ordinal]),
    ("cuDeviceGetName", &[Host, Bytes, Ordinal]),
    ("cuDeviceTotalMem_v2", &[Result, Ordinal]),
    ("cuStreamCreate", &[New(Stream), Small]),
    ("cuStreamCreateWithPriority", &[New(Stream), Small, Small]),
    ("cuStreamDestroy_v2", &[Handle(Stream)]),
    ("cuStreamSynchronize", &[Handle(Stream)]),
    ("cuStreamQuery", &[Handle(Stream)]),
    ("cuStreamGetPriority", &[Handle(Stream), Result]),
    ("cuStreamWaitEvent", &[Handle(Stream), Handle(Event), Small]),
    (
        "cuStreamAttachMemAsync",
        &[Handle(Stream), Address, Size, Small],
    ),
    ("cuStreamBeginCapture_v2", &[Handle(Stream), Small]),
    ("cuStreamEndCapture", &[Handle(Stream), New(Graph)]),
    ("cuStreamIsCapturing", &[Handle(Stream), Result]),
    ("cuLaunchHostFunc", &[Handle(Stream), Callback, Null]),
    (
        "cuGraphInstantiateWithFlags",
        &[New(Executable), Handle(Graph), Small],
    ),
    ("cuGraphUpload", &[Handle(Executable), Handle(Stream)]),
    ("cuGraphLaunch", &[Handle(Executable), Handle(Stream)]),
    ("cuGraphExecDestroy", &[Handle(Executable)]),
    ("cuGraphDestroy", &[Handle(Graph)]),
    ("cuEventCreate", &[New(Event), Small]),
    ("cuEventDestroy_v2", &[Handle(Event)]),
    ("cuEventRecord", &[Handle(Event), Handle(Stream)]),
    ("cuEventQuery", &[Handle(Event)]),
    ("cuEventSynchronize", &[Handle(Event)]),
    (
        "cuEventElapsedTime",
        &[Result, Handle(Event), Handle(Event)],
    ),
    ("cuMemAlloc_v2", &[New(Memory), Size]),
    ("cuMemAllocManaged", &[New(Memory), Size, Small]),
    ("cuMemAllocAsync", &[New(Memory), Size, Handle(Stream)]),
    (
        "cuMemAllocFromPoolAsync",
        &[New(Memory), Size, Handle(Pooled), Handle(Stream)],
    ),
    ("cuMemFree_v2", &[Address]),
    ("cuMemFreeAsync", &[Address, Handle(Stream)]),
    ("cuMemHostAlloc", &[New(HostMemory), Size, Small]),
    ("cuMemFreeHost", &[Handle(HostMemory)]),
    (
        "cuMemHostGetDevicePointer_v2",
        &[Result, Handle(HostMemory), Small],
    ),
    ("cuMemGetInfo_v2", &[Result, Result]),
    ("cuMemcpyHtoD_v2", &[Address, Host, Copied]),
    (
        "cuMemcpyHtoDAsync_v2",
        &[Address, Host, Copied, Handle(Stream)],
    ),
    ("cuMemcpyDtoH_v2", &[Host, Address, Copied]),
    (
        "cuMemcpyDtoHAsync_v2",
        &[Host, Address, Copied, Handle(Stream)],
    ),
    ("cuMemcpyDtoD_v2", &[Address, Address, Size]),
    (
        "cuMemcpyDtoDAsync_v2",
        &[Address, Address, Size, Handle(Stream)],
    ),
    (
        "cuMemcpyPeerAsync",
        &[
            Address,
            Handle(Context),
            Address,
            Handle(Context),
            Size,
            Handle(Stream),
        ],
    ),
    ("cuMemsetD8_v2", &[Address, Small, Size]),
    ("cuMemsetD16Async", &[Address, Small, Size, Handle(Stream)]),
    ("cuMemsetD32_v2", &[Address, Small, Size]),
    ("cuMemsetD8Async", &[Address, Small, Size, Handle(Stream)]),
    ("cuMemsetD16_v2", &[Address, Small, Size]),
    ("cuMemsetD32Async", &[Address, Small, Size, Handle(Stream)]),
    ("cuMemAdvise_v2", &[Address, Size, Small, Small]),
    (
        "cuMemPrefetchAsync_v2",
        &[Address, Size, Small, Small, Handle(Stream)],
    ),
    ("cuMemPoolCreate", &[New(Pooled), Properties]),
    ("cuMemPoolDestroy", &[Handle(Pooled)]),
    ("cuMemPoolTrimTo", &[Handle(Pooled), Size]),
    ("cuMemPoolGetAttribute", &[Handle(Pooled), Small, Result]),
    ("cuMemPoolSetAttribute", &[Handle(Pooled), Small, Host]),
    ("cuDeviceGetMemPool", &[New(Pooled), Ordinal]),
    ("cuDeviceGetDefaultMemPool", &[New(Pooled), Ordinal]),
    ("cuDeviceSetMemPool", &[Ordinal, Handle(Pooled)]),
    ("cuModuleLoad", &[New(Module), Text]),
    ("cuModuleLoadData", &[New(Module), Image]),
    ("cuModuleUnload", &[Handle(Module)]),
    (
        "cuModuleGetFunction",
        &[New(Function), Handle(Module), Text],
    ),
    (
        "cuModuleGetGlobal_v2",
        &[New(Memory), Result, Handle(Module), Text],
    ),
    ("cuFuncGetAttribute", &[Result, Small, Handle(Function)]),
    ("cuFuncSetAttribute", &[Handle(Function), Small, Size]),
    ("cuFuncSetCacheConfig", &[Handle(Function), Small]),
    (
        "cuLaunchKernel",
        &[
            Handle(Function),
            Extent,
            Extent,
            Extent,
            Extent,
            Extent,
            Extent,
            Small,
            Handle(Stream),
            Parameters,
            Null,
        ],
    ),
    (
        "cuLaunchCooperativeKernel",
        &[
            Handle(Function),
            Extent,
            Extent,
            Extent,
            Extent,
            Extent,
            Extent,
            Size,
            Handle(Stream),
            Parameters,
        ],
    ),
    (
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        &[Result, Handle(Function), Size, Size],
    ),
    (
        "cuOccupancyMaxPotentialBlockSize",
        &[Result, Result, Handle(Function), Null, Size, Size],
    ),
    (
        "cuOccupancyAvailableDynamicSMemPerBlock",
        &[Result, Handle(Function), Size, Size],
    ),
    ("cuProfilerStart", &[]),
    ("cuCtxCreate_v2", &[New(Context), Small, Ordinal]),
    ("cuCtxEnablePeerAccess", &[Handle(Context), Small]),
    ("cuCtxDisablePeerAccess", &[Handle(Context)]),
    ("cuCtxGetFlags", &[Result]),
    ("cuCtxGetId", &[Handle(Context), Result]),
    ("cuCtxGetApiVersion", &[Handle(Context), Result]),
    ("cuCtxSetSharedMemConfig", &[Small]),
    ("cuDeviceCanAccessPeer", &[Result, Ordinal, Ordinal]),
    (
        "cuDeviceGetP2PAttribute",
        &[Result, Small, Ordinal, Ordinal],
    ),
    ("cuDeviceComputeCapability", &[Result, Result, Ordinal]),
    ("cuDeviceGetPCIBusId", &[Host, Bytes, Ordinal]),
    ("cuDeviceGetByPCIBusId", &[Result, Text]),
    ("cuDevicePrimaryCtxGetState", &[Ordinal, Result, Result]),
    ("cuDevicePrimaryCtxReset_v2", &[Ordinal]),
    ("cuGetProcAddress_v2", &[Text, Result, Size, Small, Result]),
    ("cuPointerGetAttribute", &[Result, Small, Address]),
    ("cuPointerSetAttribute", &[Host, Small, Address]),
    ("cuMemGetAddressRange_v2", &[Result, Result, Address]),
    ("cuMemAdvise", &[Address, Size, Small, Small]),
    (
        "cuMemPrefetchAsync",
        &[Address, Size, Small, Handle(Stream)],
    ),
    ("cuMemAllocHost_v2", &[New(HostMemory), Size]),
    (
        "cuMemAllocPitch_v2",
        &[New(Memory), Result, Size, Small, Small],
    ),
    ("cuMemHostRegister_v2", &[Host, Bytes, Small]),
    ("cuMemHostUnregister", &[Host]),
    ("cuMemHostGetFlags", &[Result, Handle(HostMemory)]),
    ("cuMemcpy", &[Address, Host, Copied]),
    ("cuMemcpyAsync", &[Host, Address, Copied, Handle(Stream)]),
    ("cuMemcpy2D_v2", &[Rows]),
    ("cuMemcpy2DAsync_v2", &[Rows, Handle(Stream)]),
    ("cuMemcpy3DAsync_v2", &[Slices, Handle(Stream)]),
    ("cuMemsetD2D8_v2", &[Address, Size, Small, Size, Size]),
    (
        "cuMemsetD2D32Async",
        &[Address, Size, Small, Size, Small, Handle(Stream)],
    ),
    ("cuMemPoolGetAccess", &[Result, Handle(Pooled), Host]),
    ("cuStreamGetFlags", &[Handle(Stream), Result]),
    ("cuStreamGetCtx", &[Handle(Stream), Result]),
    (
        "cuStreamAddCallback",
        &[Handle(Stream), Callback, Null, Small],
    ),
    (
        "cuStreamGetCaptureInfo_v2",
        &[Handle(Stream), Result, Result, Result, Null, Result],
    ),
    (
        "cuEventRecordWithFlags",
        &[Handle(Event), Handle(Stream), Small],
    ),
    (
        "cuLibraryLoadData",
        &[New(Library), Image, Null, Null, Null, Null, Null, Null],
    ),
    ("cuLibraryUnload", &[Handle(Library)]),
    ("cuLibraryGetKernel", &[New(Kernel), Handle(Library), Text]),
    ("cuLibraryGetModule", &[New(Module), Handle(Library)]),
    (
        "cuLibraryGetGlobal",
        &[New(Memory), Result, Handle(Library), Text],
    ),
    ("cuLibraryGetKernelCount", &[Result, Handle(Library)]),
    ("cuKernelGetFunction", &[New(Function), Handle(Kernel)]),
    ("cuKernelGetLibrary", &[Result, Handle(Kernel)]),
    ("cuKernelGetName", &[Result, Handle(Kernel)]),
    (
        "cuKernelGetAttribute",
        &[Result, Small, Handle(Kernel), Ordinal],
    ),
    (
        "cuKernelSetAttribute",
        &[Small, Size, Handle(Kernel), Ordinal],
    ),
    (
        "cuKernelGetParamInfo",
        &[Handle(Kernel), Small, Result, Result],
    ),
    ("cuFuncGetName", &[Result, Handle(Function)]),
    ("cuFuncGetModule", &[Result, Handle(Function)]),
    (
        "cuFuncGetParamInfo",
        &[Handle(Function), Small, Result, Result],
    ),
    ("cuModuleGetFunctionCount", &[Result, Handle(Module)]),
    (
        "cuLaunchKernel",
        &[
            Handle(Kernel),
            Extent,
            Extent,
            Extent,
            Extent,
            Extent,
            Extent,
            Small,
            Handle(Stream),
            Parameters,
            Null,
        ],
    ),
    ("cuLinkCreate_v2", &[Null, Null, Null, New(Linker)]),
    (
        "cuLinkAddData_v2",
        &[Handle(Linker), Small, Image, Four, Null, Null, Null, Null],
    ),
    (
        "cuLinkAddFile_v2",
        &[Handle(Linker), Small, Text, Null, Null, Null],
    ),
    ("cuLinkComplete", &[Handle(Linker), Result, Result]),
    ("cuLinkDestroy", &[Handle(Linker)]),
    ("cuGraphCreate", &[New(Graph), Small]),
    ("cuGraphClone", &[New(Graph), Handle(Graph)]),
    (
        "cuGraphAddEmptyNode",
        &[New(Node), Handle(Graph), Nodes, Few],
    ),
    (
        "cuGraphAddKernelNode",
        &[New(Node), Handle(Graph), Nodes, Few, KernelNode],
    ),
    (
        "cuGraphAddMemcpyNode",
        &[
            New(Node),
            Handle(Graph),
            Nodes,
            Few,
            Slices,
            Handle(Context),
        ],
    ),
    (
        "cuGraphAddMemsetNode",
        &[
            New(Node),
            Handle(Graph),
            Nodes,
            Few,
            MemsetNode,
            Handle(Context),
        ],
    ),
    (
        "cuGraphAddHostNode",
        &[New(Node), Handle(Graph), Nodes, Few, HostNode],
    ),
    (
        "cuGraphAddDependencies",
        &[Handle(Graph), Nodes, Nodes, Few],
    ),
    ("cuGraphDestroyNode", &[Handle(Node)]),
    ("cuGraphGetNodes", &[Handle(Graph), Null, Result]),
    ("cuGraphNodeGetType", &[Handle(Node), Result]),
    (
        "cuGraphInstantiate_v2",
        &[New(Executable), Handle(Graph), Result, Null, Null],
    ),
    ("cuGraphKernelNodeSetParams", &[Handle(Node), KernelNode]),
    (
        "cuGraphExecKernelNodeSetParams",
        &[Handle(Executable), Handle(Node), KernelNode],
    ),
    (
        "cuGraphExecMemcpyNodeSetParams",
        &[Handle(Executable), Handle(Node), Slices, Handle(Context)],
    ),
];

const IMAGE: &[u8] = b".version 7.0\n.target sm_75\n.address_size 64\n.global .u32 g[16];\n\
    .visible .entry t(.param .u64 p, .param .u32 n)\n{\n.reg .b32 %r<3>;\n.reg .b64 %d;\n\
    ld.param.u64 %d, [p];\nld.param.u32 %r0, [n];\natom.global.add.u32 %r1, [%d], %r0;\nret;\n}\n\
    .visible .entry loop()\n{\nagain:\nbra again;\n}\n\0";

/// What the threads of one case share.
type Pools = Mutex<Vec<(Pool, u64)>>;

/// Memory of the host that the driver may read and write at any time: it is never freed, and nothing else looks at it.
fn host() -> u64 {
    static HOST: OnceLock<u64> = OnceLock::new();
    *HOST.get_or_init(|| Box::leak(vec![0u64; 8192].into_boxed_slice()).as_mut_ptr() as u64)
}

const HOST_BYTES: u64 = 8 * 8192;

extern "C" fn returns(_: *mut std::ffi::c_void) {
    // From a callback, every call is refused.
    call("cuCtxSynchronize", &[]);
}

pub fn case(seed: u64) {
    let random = &mut Random::new(seed);
    let threads = if random.one_in(3) { 1 } else { 3 };
    let pools = Pools::default();
    let before = free_memory();
    thread::scope(|scope| {
        for thread in 0..threads {
            let (pools, seed) = (&pools, random.bits());
            let spawned = thread::Builder::new().name(format!("fuzz {thread}"));
            spawned
                .spawn_scoped(scope, move || calls(pools, seed))
                .unwrap();
        }
    });
    clean_up(&pools.into_inner().unwrap_or_else(PoisonError::into_inner));
    // What a thread makes in a context while another destroys it stays: such a program is wrong.
    assert!(
        threads > 1 || free_memory() == before,
        "memory is left over"
    );
}

/// One thread records an event in a stream, and another lets the same stream wait for it: a stream that waited for a
/// record behind the wait would never end.
pub fn record_and_wait() {
    let (mut context, mut stream, mut event) = (0u64, 0u64, 0u64);
    let done = |code| assert_eq!(code, 0);
    done(call(
        "cuDevicePrimaryCtxRetain",
        &[&raw mut context as u64, 0],
    ));
    done(call("cuCtxSetCurrent", &[context]));
    done(call("cuStreamCreate", &[&raw mut stream as u64, 1]));
    done(call("cuEventCreate", &[&raw mut event as u64, 0]));
    // With a callback, the stream gets a queue.
    let callback = returns as extern "C" fn(_) as usize as u64;
    done(call("cuLaunchHostFunc", &[stream, callback, 0]));
    thread::scope(|scope| {
        let repeat = |name, arguments: [u64; 2]| {
            move || {
                done(call("cuCtxSetCurrent", &[context]));
                (0..300_000).for_each(|_| done(call(name, &arguments)));
            }
        };
        scope.spawn(repeat("cuEventRecord", [event, stream]));
        scope.spawn(repeat("cuStreamWaitEvent", [stream, event]));
    });
    done(call("cuStreamSynchronize", &[stream]));
    done(call("cuDevicePrimaryCtxRelease_v2", &[0]));
}

fn calls(pools: &Pools, seed: u64) {
    let random = &mut Random::new(seed);
    cuda_sim::set_budget(Some(2_000));
    let mut context = 0u64;
    if call("cuDevicePrimaryCtxRetain", &[&raw mut context as u64, 0]) == 0 {
        lock(pools).push((Context, context));
        call("cuCtxSetCurrent", &[context]);
    }
    let mut stale = Vec::new();
    for step in 0..250 {
        // A module early on, without which half of the calls have nothing to work on.
        let by_name = |wanted: &str| CALLS.iter().find(|(name, _)| *name == wanted).unwrap();
        let &(name, arguments) = match step {
            0 => by_name("cuModuleLoadData"),
            1 => by_name("cuModuleGetFunction"),
            2 => by_name("cuMemAlloc_v2"),
            3 => by_name("cuStreamCreate"),
            _ => usual(random),
        };
        one_call(random, pools, &mut stale, name, arguments);
    }
}

/// Any function, but rarely one after which all handles are of another context or gone.
fn usual(random: &mut Random) -> &'static (&'static str, &'static [Of]) {
    loop {
        let picked = random.pick(CALLS);
        let ends = [
            "PrimaryCtx",
            "cuCtxCreate",
            "cuCtxDestroy",
            "CtxSetCurrent",
            "PushCurrent",
            "PopCurrent",
        ];
        if !ends.iter().any(|word| picked.0.contains(word)) || random.one_in(12) {
            return picked;
        }
    }
}

fn lock(pools: &Pools) -> std::sync::MutexGuard<'_, Vec<(Pool, u64)>> {
    pools.lock().unwrap_or_else(PoisonError::into_inner)
}

fn one_call(
    random: &mut Random,
    pools: &Pools,
    stale: &mut Vec<u64>,
    name: &'static str,
    arguments: &[Of],
) {
    let mut outs = [0u64; 4];
    let results = [0u64; 4];
    // Of a kernel's parameters, the first is an address.
    let parameters = [address(random, pools), random.number()];
    let pointers = [
        &raw const parameters[0] as u64,
        &raw const parameters[1] as u64,
    ];
    let properties = [[1u32, 0, 1, 0].map(|x| {
        if random.one_in(4) {
            random.number() as u32
        } else {
            x
        }
    })]
    .concat();
    let properties = [properties, vec![0; 60]].concat();
    let nodes = [(); 2].map(|()| handle(random, pools, stale, Node));
    let function = handle(random, pools, stale, Function);
    let shape = [1u32, 1, 1, 2, 1, 1, 0].map(|x| {
        if random.one_in(40) {
            random.number() as u32
        } else {
            x
        }
    });
    let [a, b, c, d, e, f, g] = shape.map(u64::from);
    let pair = |low: u64, high: u64| low | high << 32;
    let kernel_node = [
        function,
        pair(a, b),
        pair(c, d),
        pair(e, f),
        g,
        pointers.as_ptr() as u64,
        0,
    ];
    let memset_node = [address(random, pools), 4, pair(7, 4), 2, 2];
    let host_node = [returns as extern "C" fn(_) as usize as u64, 0];
    let (rows, slices) = (copy(random, pools, false), copy(random, pools, true));
    let texts: [&[u8]; 6] = [b"t\0", b"t\0", b"loop\0", b"g\0", b"/dev/null\0", b"\xff\0"];
    let mut values = Vec::new();
    for (at, of) in arguments.iter().enumerate() {
        let null = random.one_in(80);
        values.push(match *of {
            New(_) | Result | Text | Image | Parameters | Properties | Callback if null => 0,
            New(_) => &raw mut outs[at % 4] as u64,
            Result => results.as_ptr() as u64,
            Handle(pool) => handle(random, pools, stale, pool),
            Address => address(random, pools),
            Bytes if random.one_in(3) => random.number() % (HOST_BYTES + 1),
            Bytes => 16,
            Copied if random.one_in(6) => {
                *random.pick(&[1 << 40, 1 << 63, u64::MAX - 15, u64::MAX])
            }
            Copied if random.one_in(3) => random.number() % (HOST_BYTES + 1),
            Copied => 16,
            Size if random.one_in(3) => random.number(),
            Size => *random.pick(&[16, 64, 256]),
            Host => host(),
            Ordinal if random.one_in(20) => random.number(),
            Ordinal => 0,
            Small if random.one_in(20) => random.number(),
            Small => *random.pick(&[0, 0, 0, 1, 1, 2, 3, 4]),
            Extent if random.one_in(30) => *random.pick(&[0, 1 << 31, u64::MAX]),
            Extent => *random.pick(&[1, 1, 2, 3]),
            Text => random.pick(&texts).as_ptr() as u64,
            Image => random
                .pick(&[IMAGE, IMAGE, IMAGE, b"\x7fELF\0", b"\0\0\0\0", b"no PTX\0"])
                .as_ptr() as u64,
            Callback => returns as extern "C" fn(_) as usize as u64,
            Parameters => pointers.as_ptr() as u64,
            Properties => properties.as_ptr() as u64,
            Nodes => nodes.as_ptr() as u64,
            Few => random.below(3) as u64,
            KernelNode => kernel_node.as_ptr() as u64,
            MemsetNode => memset_node.as_ptr() as u64,
            HostNode => host_node.as_ptr() as u64,
            Rows => rows.as_ptr() as u64,
            Slices => slices.as_ptr() as u64,
            Four => 4,
            Null => 0,
        });
    }
    let code = call(name, &values);
    for (at, of) in arguments.iter().enumerate() {
        match *of {
            New(pool) if code == 0 && outs[at % 4] != 0 => lock(pools).push((pool, outs[at % 4])),
            Handle(_) | Address
                if code == 0
                    && ["Destroy", "Free", "LibraryUnload"]
                        .iter()
                        .any(|word| name.contains(word)) =>
            {
                stale.push(values[at]);
                lock(pools).retain(|entry| entry.1 != values[at]);
            }
            _ => {}
        }
    }
}

/// Mostly a handle that was given out for the kind asked for, and that lately.
fn handle(random: &mut Random, pools: &Pools, stale: &[u64], pool: Pool) -> u64 {
    let pools = lock(pools);
    match random.below(30) {
        0 => random.below(4) as u64,
        1 => random.bits(),
        2 if !stale.is_empty() => *random.pick(stale),
        3 if !pools.is_empty() => random.pick(&pools).1,
        _ => {
            let fitting = pools.iter().rev().filter(|entry| entry.0 == pool);
            let fitting: Vec<u64> = fitting.take(4).map(|entry| entry.1).collect();
            if fitting.is_empty() {
                0
            } else {
                *random.pick(&fitting)
            }
        }
    }
}

/// `CUDA_MEMCPY2D` or `CUDA_MEMCPY3D`. What it reads or writes of the host lies in the host's buffer.
fn copy(random: &mut Random, pools: &Pools, slices: bool) -> Vec<u64> {
    const HOST: u64 = 1;
    const DEVICE: u64 = 2;
    const ARRAY: u64 = 3;
    let kinds = [(); 2].map(|()| *random.pick(&[HOST, DEVICE, DEVICE, DEVICE, DEVICE, ARRAY, 9]));
    let wild = !kinds.contains(&HOST) && random.one_in(4);
    let mut number = |most: usize| match wild && random.one_in(3) {
        true => random.number(),
        false => random.below(most) as u64,
    };
    let mut fields = Vec::new();
    for kind in kinds {
        let (x, y, z) = (number(3), number(3), number(2));
        let (pitch, height) = (16 + number(16), 4 + number(4));
        match slices {
            false => fields.extend([x, y, kind, host(), 0, 0, pitch]),
            true => fields.extend([x, y, z, 0, kind, host(), 0, 0, 0, pitch, height]),
        }
    }
    fields.extend([number(16), number(3)]);
    if slices {
        fields.push(number(3));
    }
    let (first, second) = if slices { (6, 17) } else { (4, 11) };
    fields[first] = address(random, pools);
    fields[second] = address(random, pools);
    fields
}

fn address(random: &mut Random, pools: &Pools) -> u64 {
    let base = handle(random, pools, &[], Memory);
    match random.below(8) {
        0 => base.wrapping_add(random.number()),
        _ => base,
    }
}

/// Ends all contexts, with all that belongs to them.
fn clean_up(pools: &[(Pool, u64)]) {
    for (_, context) in pools.iter().filter(|(pool, _)| *pool == Context) {
        call("cuCtxDestroy_v2", &[*context]);
    }
    while call("cuDevicePrimaryCtxRelease_v2", &[0]) == 0 {}
}

/// Device memory that nothing has, in bytes, when no context is in use.
fn free_memory() -> u64 {
    let (mut context, mut free, mut total) = (0u64, 0u64, 0u64);
    let done = |code| assert_eq!(code, 0);
    done(call(
        "cuDevicePrimaryCtxRetain",
        &[&raw mut context as u64, 0],
    ));
    done(call("cuCtxSetCurrent", &[context]));
    done(call(
        "cuMemGetInfo_v2",
        &[&raw mut free as u64, &raw mut total as u64],
    ));
    done(call("cuDevicePrimaryCtxRelease_v2", &[0]));
    free
}
