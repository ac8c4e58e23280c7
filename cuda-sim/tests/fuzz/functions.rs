//! The functions of the driver that cases of calls choose from, with what their arguments are made
//! of.

/// Kind of an argument. Pointers of the host are valid, as the driver API asks, or null.
#[derive(Debug, Clone, Copy)]
pub enum Of {
    /// Place for a new handle, of this pool.
    New(Pool),
    /// A handle of a pool, valid, stale, null or of another kind.
    Handle(Pool),
    /// Place for a result that nobody looks at.
    Result,
    /// A device address, and around it.
    Address,
    /// Bytes that the host's buffer has.
    Bytes,
    /// Bytes to copy to or from the host's buffer: those that it has, or more than there is device
    /// memory.
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
    /// Number of them: 0 to 2.
    Few,
    /// A list for nodes that are found.
    Found,
    /// The room of this list, where its length goes.
    Room,
    /// Parameters of a kernel node.
    KernelNode,
    /// A copy of rows, a copy of slices.
    Rows,
    Slices,
    /// The length of the call's image, in bytes.
    ImageBytes,
    /// Parameters of an instantiation.
    Instantiation,
    Null,
}

/// Pool of handles of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pool {
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
    UserObject,
}

use Of::*;
use Pool::*;

/// The functions and their arguments.
pub const CALLS: &[(&str, &[Of])] = &[
    ("cuCtxCreate_v4", &[New(Context), Null, Small, Ordinal]),
    ("cuCtxDestroy_v2", &[Handle(Context)]),
    ("cuCtxAttach", &[New(Context), Small]),
    ("cuCtxDetach", &[Handle(Context)]),
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
        "cuFuncSetBlockShape",
        &[Handle(Function), Extent, Extent, Extent],
    ),
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
    ("cuCtxGetApiVersion", &[Handle(Context), Result]),
    ("cuDeviceCanAccessPeer", &[Result, Ordinal, Ordinal]),
    ("cuDeviceComputeCapability", &[Result, Result, Ordinal]),
    ("cuDeviceGetPCIBusId", &[Host, Bytes, Ordinal]),
    ("cuDeviceGetByPCIBusId", &[Result, Text]),
    ("cuDevicePrimaryCtxGetState", &[Ordinal, Result, Result]),
    ("cuDevicePrimaryCtxReset_v2", &[Ordinal]),
    ("cuGetProcAddress_v2", &[Text, Result, Size, Small, Result]),
    ("cuPointerGetAttribute", &[Result, Small, Address]),
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
    ("cuMemPoolGetAccess", &[Result, Handle(Pooled), Host]),
    ("cuMemPoolSetAccess", &[Handle(Pooled), Properties, Few]),
    ("cuStreamGetId", &[Handle(Stream), Result]),
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
    ("cuKernelGetFunction", &[New(Function), Handle(Kernel)]),
    (
        "cuKernelGetAttribute",
        &[Result, Small, Handle(Kernel), Ordinal],
    ),
    (
        "cuKernelSetAttribute",
        &[Small, Size, Handle(Kernel), Ordinal],
    ),
    ("cuFuncGetName", &[Result, Handle(Function)]),
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
        &[
            Handle(Linker),
            Small,
            Image,
            ImageBytes,
            Null,
            Null,
            Null,
            Null,
        ],
    ),
    (
        "cuLinkAddFile_v2",
        &[Handle(Linker), Small, Text, Null, Null, Null],
    ),
    ("cuLinkComplete", &[Handle(Linker), Result, Result]),
    ("cuLinkDestroy", &[Handle(Linker)]),
    ("cuGraphCreate", &[New(Graph), Small]),
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
        "cuGraphInstantiateWithParams",
        &[New(Executable), Handle(Graph), Instantiation],
    ),
    (
        "cuGraphRetainUserObject",
        &[Handle(Graph), Handle(UserObject), Small, Small],
    ),
    (
        "cuGraphReleaseUserObject",
        &[Handle(Graph), Handle(UserObject), Small],
    ),
    (
        "cuUserObjectCreate",
        &[New(UserObject), Null, Callback, Small, Small],
    ),
    ("cuUserObjectRetain", &[Handle(UserObject), Small]),
    ("cuUserObjectRelease", &[Handle(UserObject), Small]),
    ("cuGraphGetNodes", &[Handle(Graph), Found, Room]),
    ("cuGraphNodeGetType", &[Handle(Node), Result]),
    (
        "cuGraphInstantiate_v2",
        &[New(Executable), Handle(Graph), Result, Null, Null],
    ),
    (
        "cuGraphExecKernelNodeSetParams",
        &[Handle(Executable), Handle(Node), KernelNode],
    ),
    (
        "cuGraphExecMemcpyNodeSetParams",
        &[Handle(Executable), Handle(Node), Slices, Handle(Context)],
    ),
];
