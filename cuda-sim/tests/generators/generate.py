"""Writes the PTX files of this folder: kernels of this file, as other code generators translate them.

    pip install triton==3.9.0 numba==0.68.1 numba-cuda==0.30.4 llvmlite==0.50.0 nvidia-cuda-nvrtc==13.5.37 nvidia-cuda-nvcc==13.5.37 ziglang==0.17.1
    python generate.py

No GPU is needed. NVRTC 12.4 is that of `cargo gpu fetch-nvrtc`; clang is that of ziglang.
"""

import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent

CUDA = r"""
struct Pair { float low, high; };
__constant__ float weights[4] = {0.5f, 1.0f, 1.5f, 2.0f};
__device__ unsigned counter = 7;
__device__ const float* aliases[2] = {weights, weights + 1};
extern __shared__ float scratch[];

__device__ __noinline__ Pair split(float x, Pair p) { return {x * p.low, x + p.high}; }

template <int N> __global__ void __launch_bounds__(128, 2) sums(const float* x, float* y, int n, Pair p) {
    __shared__ __align__(16) float tile[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Pair s = split(i < n ? x[i] : 0.0f, p);
    tile[threadIdx.x] = s.low * weights[threadIdx.x % 4] + s.high;
    __syncthreads();
    float sum = tile[threadIdx.x ^ 1];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    switch (i % N) {
        case 0: sum = sqrtf(sum); break;
        case 1: sum = __expf(sum); break;
        case 2: sum = sinf(sum); break;
        case 3: sum = aliases[1][0]; break;
        default: asm volatile("{ .reg .pred p; setp.lt.f32 p, %0, 0f00000000; @p neg.f32 %0, %0; }" : "+f"(sum));
    }
    if (i < n) y[i] = sum;
    if (threadIdx.x == 0) atomicAdd(&counter, 1);
}
template __global__ void sums<5>(const float*, float*, int, Pair);

extern "C" __global__ void add(const float4* x, float4* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 a = x[i], b = y[i];
    y[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    scratch[threadIdx.x] = a.x;
}
"""


def nvrtc(library, architecture):
    lib = ctypes.CDLL(str(library))
    program = ctypes.c_void_p()
    check = lambda code: code == 0 or sys.exit(f"NVRTC returns {code}")
    check(lib.nvrtcCreateProgram(ctypes.byref(program), CUDA.encode(), b"/k/generators.cu", 0, None, None))
    options = [f"--gpu-architecture={architecture}".encode(), b"--generate-line-info"]
    check(lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)))
    size = ctypes.c_size_t()
    check(lib.nvrtcGetPTXSize(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    check(lib.nvrtcGetPTX(program, text))
    return text.value.decode()


LLVM = r"""
target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
@table = internal addrspace(4) constant [4 x float] [float 1.0, float 2.0, float 3.0, float 4.0], align 16
@cells = internal addrspace(3) global [128 x float] undef, align 16
@pointers = internal addrspace(1) global [2 x ptr addrspace(4)] [ptr addrspace(4) @table, ptr addrspace(4) getelementptr (i8, ptr addrspace(4) @table, i64 4)]
@total = addrspace(1) global float 0.0
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare void @llvm.nvvm.barrier0()
declare <2 x float> @llvm.fma.v2f32(<2 x float>, <2 x float>, <2 x float>)
declare i32 @printf(ptr, ptr)

define internal { float, i64 } @split(float %x, { float, i64 } %p) noinline !dbg !10 {
  %a = extractvalue { float, i64 } %p, 0
  %b = fmul float %x, %a, !dbg !11
  %r = insertvalue { float, i64 } %p, float %b, 0
  ret { float, i64 } %r, !dbg !11
}

define ptx_kernel void @add(ptr addrspace(1) noalias align 16 %x, ptr addrspace(1) align 16 %y, i32 %n, ptr byval({ float, i64 }) align 8 %p) !dbg !12 {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !dbg !13
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %width = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %base = mul i32 %block, %width
  %i = add i32 %base, %tid
  %in = icmp slt i32 %i, %n
  br i1 %in, label %work, label %done
work:
  %at = getelementptr <4 x float>, ptr addrspace(1) %x, i32 %i
  %v = load <4 x float>, ptr addrspace(1) %at, align 16, !dbg !13
  %bt = getelementptr <4 x float>, ptr addrspace(1) %y, i32 %i
  %w = load <4 x float>, ptr addrspace(1) %bt, align 16
  %sum = fadd <4 x float> %v, %w, !dbg !14
  %first = extractelement <4 x float> %sum, i32 0
  %struct = load { float, i64 }, ptr %p
  %split = call { float, i64 } @split(float %first, { float, i64 } %struct), !dbg !14
  %scaled = extractvalue { float, i64 } %split, 0
  %cell = getelementptr float, ptr addrspace(3) @cells, i32 %tid
  store float %scaled, ptr addrspace(3) %cell
  call void @llvm.nvvm.barrier0()
  %back = load float, ptr addrspace(3) %cell
  %index = and i32 %tid, 3
  %entry = getelementptr float, ptr addrspace(4) @table, i32 %index
  %scale = load float, ptr addrspace(4) %entry
  %out = fmul float %back, %scale
  %result = insertelement <4 x float> %sum, float %out, i32 0
  store <4 x float> %result, ptr addrspace(1) %bt, align 16, !dbg !14
  switch i32 %index, label %done [ i32 0, label %done  i32 1, label %more  i32 2, label %more ]
more:
  %old = atomicrmw fadd ptr addrspace(1) @total, float 1.0 syncscope("device") monotonic
  br label %done
done:
  ret void, !dbg !15
}

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !1, producer: "own", isOptimized: true, emissionKind: FullDebug)
!1 = !DIFile(filename: "generators.cu", directory: "/k")
!2 = !{i32 2, !"Dwarf Version", i32 2}
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = !DISubroutineType(types: !5)
!5 = !{}
!10 = distinct !DISubprogram(name: "split", file: !1, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition | DISPFlagLocalToUnit)
!11 = !DILocation(line: 4, column: 5, scope: !10)
!12 = distinct !DISubprogram(name: "add", file: !1, line: 8, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!13 = !DILocation(line: 9, column: 5, scope: !12)
!14 = !DILocation(line: 12, column: 7, scope: !12)
!15 = !DILocation(line: 20, column: 1, scope: !12)
"""


def llvm(processor):
    import llvmlite.binding as binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu=processor, opt=2)
    module = binding.parse_assembly(LLVM)
    module.verify()
    return machine.emit_assembly(module)


CLANG = r"""
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))

struct Pair { float low, high; };
__constant__ float weights[4] = {0.5f, 1.0f, 1.5f, 2.0f};
__device__ int counter = 7;

__device__ __attribute__((noinline)) Pair split(float x, Pair p) { return {x * p.low, x + p.high}; }

extern "C" __global__ __attribute__((launch_bounds(128, 2))) void sums(const float* x, float* y, int n, Pair p) {
    __shared__ float tile[128];
    int thread = __nvvm_read_ptx_sreg_tid_x(), i = __nvvm_read_ptx_sreg_ctaid_x() * 128 + thread;
    Pair s = split(i < n ? x[i] : 0.0f, p);
    tile[thread] = s.low * weights[thread % 4] + s.high;
    __syncthreads();
    float sum = tile[thread ^ 1];
    for (int step = 16; step > 0; step /= 2) sum += __nvvm_shfl_sync_bfly_f32(0xffffffff, sum, step, 31);
    if (i < n) y[i] = sum;
    if (thread == 0) __nvvm_atom_add_gen_i(&counter, 1);
}
"""


def clang(processor, version):
    """clang's own CUDA front end, without CUDA's headers."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "generators.cu").write_text(CLANG)
        options = f"-x cuda --cuda-device-only --cuda-gpu-arch={processor} --cuda-feature=+{version} -nocudainc -nocudalib"
        command = f"{sys.executable} -m ziglang clang {options} -gline-tables-only -O2 -S generators.cu -o generators.ptx"
        subprocess.run(command.split(), cwd=folder, check=True)
        return (pathlib.Path(folder) / "generators.ptx").read_text()


def triton_kernels():
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget

    @triton.jit
    def add(x, y, z, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = i < n
        tl.store(z + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)

    @triton.jit
    def softmax(x, y, n, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, BLOCK)
        v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(y + row * n + i, e / tl.sum(e, axis=0), mask=i < n)

    @triton.jit
    def matmul(a, b, c, K, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        sum = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
        for k in range(0, K, BLOCK):
            at = k + tl.arange(0, BLOCK)
            sum = tl.dot(tl.load(a + i[:, None] * K + at[None, :]), tl.load(b + at[:, None] * K + j[None, :]), sum)
        tl.store(c + i[:, None] * K + j[None, :], sum)

    # Makes tensor maps on the device.
    @triton.jit
    def double(x, y, rows, columns, BLOCK: tl.constexpr):
        source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [BLOCK, BLOCK])
        target = tl.make_tensor_descriptor(y, [rows, columns], [columns, 1], [BLOCK, BLOCK])
        at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
        target.store(at, 2 * source.load(at))

    f32, f16 = "*fp32", "*fp16"
    kernels = [
        (add, {"x": f32, "y": f32, "z": f32, "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 256}, 80),
        (softmax, {"x": f32, "y": f32, "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 256}, 80),
        (matmul, {"a": f16, "b": f16, "c": f32, "K": "i32", "BLOCK": "constexpr"}, {"BLOCK": 32}, 80),
        (add, {"x": f32, "y": f32, "z": f32, "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 256}, 90),
        (double, {"x": f32, "y": f32, "rows": "i32", "columns": "i32", "BLOCK": "constexpr"}, {"BLOCK": 32}, 90),
    ]
    for kernel, signature, constants, capability in kernels:
        source = triton.compiler.ASTSource(fn=kernel, signature=signature, constexprs=constants)
        compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
        shared = f"// dynamic shared memory: {compiled.metadata.shared} bytes\n"
        yield f"triton-{kernel.__name__}-sm{capability}", shared + compiled.asm["ptx"]


def numba_kernels():
    from numba import cuda, float32, int32, void

    def add(x, y, z):
        i = cuda.grid(1)
        if i < x.size:
            z[i] = x[i] + y[i]

    def reduce(x, out):
        tile = cuda.shared.array(128, float32)
        i = cuda.grid(1)
        tile[cuda.threadIdx.x] = x[i] if i < x.size else 0.0
        cuda.syncthreads()
        step = 64
        while step > 0:
            if cuda.threadIdx.x < step:
                tile[cuda.threadIdx.x] += tile[cuda.threadIdx.x + step]
            cuda.syncthreads()
            step //= 2
        if cuda.threadIdx.x == 0:
            cuda.atomic.add(out, 0, tile[0])

    arrays = float32[:]
    for name, kernel, signature in [("add", add, void(arrays, arrays, arrays)), ("reduce", reduce, void(arrays, arrays))]:
        text, _ = cuda.compile_ptx(kernel, signature, cc=(8, 0), lineinfo=True)
        yield f"numba-{name}", text


def write(name, text):
    # No folder of the machine that it was made on.
    text = re.sub(r'"/[^"]*/([^"/]+)"', r'"/k/\1"', text)
    (HERE / f"{name}.ptx").write_text(text)
    print(name, len(text), "bytes")


if __name__ == "__main__":
    write("nvrtc-12", nvrtc(sys.argv[1], "compute_75"))
    write("nvrtc-13", nvrtc(sys.argv[2], "compute_80"))
    for processor in ["sm_75", "sm_90"]:
        write(f"llvm-{processor}", llvm(processor))
    for processor, version in [("sm_75", "ptx70"), ("sm_90", "ptx80")]:
        write(f"clang-{processor}", clang(processor, version))
    for name, text in triton_kernels():
        write(name, text)
    for name, text in numba_kernels():
        write(name, text)
