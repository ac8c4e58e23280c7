// The walk of a block of the causal kernel, whose elements of q, k and v tell where they come from. With the scale 0, each
// weight is 1, or 0 if its key is hidden.
macro_rules! causal_walk {
    ($block:literal) => {
        concat!(
            "trace stage4-flash-cuda/kernels/1_flash.cu -D HEAD_DIM=16 --grid 4 --block-index ",
            $block,
            " --arg 'f32[2048]=iota' --arg 'f32[2048]=iota' --arg 'f32[2048]=iota' --arg 'f32[2048]=uninit' --arg 'f32[128]=uninit' --arg i32=128 --arg i32=128 --arg f32=0 --arg i32=1 --line 119"
        )
    };
}

// One step of a line of the fused kernel, with one tile.
macro_rules! flash_lanes {
    ($line:literal) => {
        concat!(
            "trace stage4-flash-cuda/kernels/1_flash.cu --grid 1 --arg 'f32[2048]=zeros' --arg 'f32[2048]=zeros' --arg 'f32[2048]=zeros' --arg 'f32[2048]=uninit' --arg 'f32[32]=uninit' --arg i32=32 --arg i32=32 --arg f32=0.125 --arg i32=0 --steps 1 --line ",
            $line
        )
    };
}

// A launch of a rung in f16 with one tile of 64 queries and keys, at D = 16, whose elements tell where they come from.
macro_rules! one_tile {
    ($kernel:literal, $lines:literal) => {
        concat!(
            "trace stage4-flash-cuda/kernels/",
            $kernel,
            " -D HEAD_DIM=16 --grid 1 --arg 'f16[1024]=iota' --arg 'f16[1024]=iota' --arg 'f16[1024]=iota' --arg 'f16[1024]=uninit' --arg 'f32[64]=uninit' --arg i32=64 --arg i32=64 --arg f32=0 --arg i32=0 ",
            $lines
        )
    };
}

// The same at D = 64, where a row takes all banks.
macro_rules! one_tile_of_64 {
    ($kernel:literal, $lines:literal) => {
        concat!(
            "trace stage4-flash-cuda/kernels/",
            $kernel,
            " --grid 1 --arg 'f16[4096]=zeros' --arg 'f16[4096]=zeros' --arg 'f16[4096]=zeros' --arg 'f16[4096]=uninit' --arg 'f32[64]=uninit' --arg i32=64 --arg i32=64 --arg f32=0.125 --arg i32=0 ",
            $lines
        )
    };
}

// The same with three tiles of keys, at D = 16.
macro_rules! three_tiles {
    ($kernel:literal, $lines:literal) => {
        concat!(
            "trace stage4-flash-cuda/kernels/",
            $kernel,
            " -D HEAD_DIM=16 --grid 1 --arg 'f16[1024]=zeros' --arg 'f16[3072]=zeros' --arg 'f16[3072]=zeros' --arg 'f16[1024]=uninit' --arg 'f32[64]=uninit' --arg i32=64 --arg i32=192 --arg f32=0.25 --arg i32=0 ",
            $lines
        )
    };
}

// The order in which a warp of a rung for Hopper waits, copies, multiplies and computes
// exponentials: one block, 128 queries, four tiles of keys, D = 64.
macro_rules! order {
    ($kernel:literal, $warp:literal, $keys:literal, $tile:literal, $elements:literal, $lines:literal) => {
        concat!(
            "trace stage4-flash-cuda/kernels/",
            $kernel,
            " --grid 1 --warp ",
            $warp,
            " --arg 'f16[8192]=zeros' --arg 'f16[",
            $elements,
            "]=zeros' --arg 'f16[",
            $elements,
            "]=zeros' --arg 'tensormap{0,64x128x1,box=64x128x1,swizzle=128}' --arg 'tensormap{1,64x",
            $keys,
            "x1,box=64x",
            $tile,
            "x1,swizzle=128}' --arg 'tensormap{2,64x",
            $keys,
            "x1,box=64x",
            $tile,
            "x1,swizzle=128}' --arg 'f16[8192]=uninit' --arg 'f32[128]=uninit' --arg i32=128 --arg i32=",
            $keys,
            " --arg f32=0.125 --arg i32=0 --line hopper.cuh:31 --line hopper.cuh:36 --line hopper.cuh:50 --line hopper.cuh:62 --line prelude.cuh:17 ",
            $lines
        )
    };
}

macro_rules! tma_order {
    ($warp:literal) => {
        order!("8_tma.cu", $warp, 256, 64, 16384, "--line mma.cuh:32")
    };
}

macro_rules! wgmma_order {
    ($warp:literal) => {
        order!("9_wgmma.cu", $warp, 512, 128, 32768, "--line wgmma.cuh:38 --line wgmma.cuh:45 --line wgmma.cuh:109 --line wgmma.cuh:119")
    };
}

macro_rules! ping_pong_order {
    ($warp:literal) => {
        order!(
            "10_ping_pong.cu",
            $warp,
            512,
            128,
            32768,
            "--line wgmma.cuh:38 --line wgmma.cuh:45 --line wgmma.cuh:109 --line wgmma.cuh:119 --line wgmma.cuh:67 --line wgmma.cuh:73"
        )
    };
}

// The blocks. A block that no chapter shows, or that is stale, fails `cargo book check`.
const BLOCKS: &[Block] = &[
    // The chapter on how a GPU runs a kernel.
    output("vector-add-run", "gpu", "run gpu/kernels/vector_add.cu"),
    lines("vector-add-lines", "profile gpu/kernels/vector_add.cu", " line  issue", "sectors  32-byte"),
    counters("vector-add", "profile gpu/kernels/vector_add.cu"),
    output(
        "vector-add-fault",
        "gpu",
        "check gpu/kernels/vector_add.cu --arg 'f32[1000]=iota' --arg 'f32[1000]=ones' --arg 'f32[992]=uninit' --arg i32=1000",
    ),
    recorded("coalescing", "trace gpu/kernels/coalescing.cu --line 19 --line 20"),
    recorded("column-layouts", "trace gpu/kernels/bank_conflicts.cu --line 32 --line 33 --line 34"),
    recorded(
        "vector-loads",
        "trace gpu/kernels/vector_loads.cu --line 34 --line 35 --line 36 --line 37",
    ),
    recorded("divergence", "trace gpu/kernels/divergence.cu --line 17 --line 18 --line 20 --line 22"),
    output("fault-divergent-barrier", "gpu", "check kernel-corpus/kernels/bug_divergent_barrier_in_branch.cu"),
    // Stage 2.
    output("fault-tree", "gpu", "check kernel-corpus/kernels/bug_shared_race_tree_loop.cu"),
    output(
        "softmax-large",
        "gpu",
        "run stage2-naive-cuda/kernels/1_softmax_tree.cu --grid 1 --arg 'f32[4]={100,101,102,103}' --arg 'f32[1]=uninit' --arg i32=4",
    ),
    output(
        "softmax-large-wrong",
        "gpu",
        "run stage2-naive-cuda/kernels/wrong_softmax_without_max.cu --grid 1 --arg 'f32[4]={100,101,102,103}' --arg 'f32[1]=uninit' --arg i32=4",
    ),
    output(
        "softmax-small",
        "gpu",
        "run stage2-naive-cuda/kernels/1_softmax_tree.cu --grid 1 --arg 'f32[3]={1,0,2}' --arg 'f32[1]=uninit' --arg i32=3",
    ),
    counters(
        "softmax-rows",
        "profile stage2-naive-cuda/kernels/library/softmax.cu --grid 64 --arg 'f32[32768]=random' --arg 'f32[64]=uninit' --arg i32=512 --arg i32=1",
    ),
    counters(
        "softmax-columns",
        "profile stage2-naive-cuda/kernels/library/softmax.cu --grid 64 --arg 'f32[32768]=random' --arg 'f32[64]=uninit' --arg i32=512 --arg i32=64",
    ),
    recorded(
        "reduction",
        "trace stage2-naive-cuda/kernels/1_softmax_tree.cu --grid 1 --arg 'f32[128]=zeros' --arg 'f32[1]=uninit' --arg i32=128 --line block_reduce.cuh:22 --line block_reduce.cuh:26",
    ),
    recorded(
        "softmax-warp",
        "trace stage2-naive-cuda/kernels/1_softmax_tree.cu --grid 1 --arg 'f32[128]=random' --arg 'f32[1]=uninit' --arg i32=128 --line 38 --line 48 --line 49 --line 58 --line 61 --line block_reduce.cuh:22 --line block_reduce.cuh:23 --line block_reduce.cuh:25 --line block_reduce.cuh:26 --line block_reduce.cuh:28 --line block_reduce.cuh:30 --line block_reduce.cuh:31",
    ),
    recorded(
        "nn-lanes",
        "trace stage2-naive-cuda/kernels/1_gemm_plain.cu -DTRANSPOSED=0 --grid 1 --arg 'f32[64]=iota' --arg 'f32[256]=iota' --arg 'f32[256]=uninit' --arg i32=8 --arg i32=32 --arg i32=8 --line 43",
    ),
    recorded(
        "nt-lanes",
        "trace stage2-naive-cuda/kernels/1_gemm_plain.cu --grid 1 --arg 'f32[64]=iota' --arg 'f32[256]=iota' --arg 'f32[256]=uninit' --arg i32=8 --arg i32=32 --arg i32=8 --line 43",
    ),
    recorded(
        "nt-banks",
        "trace stage2-naive-cuda/kernels/2_gemm_tiled.cu --grid 1 --arg 'f32[256]=iota' --arg 'f32[256]=iota' --arg 'f32[256]=uninit' --arg i32=16 --arg i32=16 --arg i32=16 --line 54 --steps 1",
    ),
    recorded(
        "product-tiles",
        "trace stage2-naive-cuda/kernels/2_gemm_tiled.cu -DTRANSPOSED=0 --grid 1,2,2 --block-index 0,1,1 --arg 'f32[1536]=iota' --arg 'f32[1536]=iota' --arg 'f32[1024]=uninit' --arg i32=32 --arg i32=32 --arg i32=48 --line 49 --line 56 --line 63 --line 70",
    ),
    counters("gemm-nt-naive", "profile stage2-naive-cuda/kernels/1_gemm_plain.cu"),
    counters("gemm-nt-tiled", "profile stage2-naive-cuda/kernels/2_gemm_tiled.cu"),
    counters("gemm-nn-naive", "profile stage2-naive-cuda/kernels/1_gemm_plain.cu -DTRANSPOSED=0"),
    counters("gemm-nn-tiled", "profile stage2-naive-cuda/kernels/2_gemm_tiled.cu -DTRANSPOSED=0"),
    lines("gemm-nt-naive-lines", "profile stage2-naive-cuda/kernels/1_gemm_plain.cu", "float sum = 0.0f", "// ANCHOR: write"),
    lines("gemm-nt-tiled-lines", "profile stage2-naive-cuda/kernels/2_gemm_tiled.cu", "float sum = 0.0f", "// ANCHOR: write"),
    output("fault-gemm", "gpu", "check kernel-corpus/kernels/bug_shared_race_gemm_before_overwrite.cu"),
    output("fault-gemm-edge", "gpu", "check kernel-corpus/kernels/bug_uninitialised_shared_gemm_edge.cu"),
    // Stage 4.
    output("ladder", "stage4-flash-cuda", "ladder"),
    counters("flash", "profile stage4-flash-cuda/kernels/1_flash.cu"),
    recorded(
        "flash-walk",
        "trace stage4-flash-cuda/kernels/1_flash.cu -D HEAD_DIM=16 --grid 4 --block-index 1 --arg 'f32[2048]=iota' --arg 'f32[2048]=iota' --arg 'f32[2048]=iota' --arg 'f32[2048]=uninit' --arg 'f32[128]=uninit' --arg i32=128 --arg i32=128 --arg f32=0.5 --arg i32=0 --line 96 --line 126",
    ),
    recorded("causal-0", causal_walk!(0)),
    recorded("causal-1", causal_walk!(1)),
    recorded("causal-2", causal_walk!(2)),
    recorded("causal-3", causal_walk!(3)),
    recorded("scores-lanes", flash_lanes!(81)),
    recorded("output-lanes", flash_lanes!(109)),
    recorded(
        "register-lanes",
        "trace stage4-flash-cuda/kernels/2_register_tiles.cu -D HEAD_DIM=16 --grid 1 --arg 'f32[1024]=zeros' --arg 'f32[1024]=zeros' --arg 'f32[1024]=zeros' --arg 'f32[1024]=uninit' --arg 'f32[64]=uninit' --arg i32=64 --arg i32=64 --arg f32=0.25 --arg i32=0 --steps 10 --line 94 --line 97",
    ),
    counters("backward-dk-dv", "profile stage4-flash-cuda/kernels/backward/1_recompute_dk_dv.cu"),
    counters("backward-dq", "profile stage4-flash-cuda/kernels/backward/1_recompute_dq.cu"),
    output("tune", "grade", "tune"),
    // The rungs of stage 4 on tensor cores.
    output("ladder-f16", "stage4-flash-cuda", "ladder --f16"),
    recorded("rounding", "trace gpu/kernels/rounding.cu --line 33 --line 34 --line 35"),
    recorded("rounded-sums", "trace gpu/kernels/rounded_sums.cu --line 22 --line 23 --line 24"),
    recorded("rounded-attention", "trace gpu/kernels/rounded_attention.cu --line 64 --line 65 --line 66"),
    recorded("mma-lanes", one_tile!("4_mma.cu", "--line 56 --line 149")),
    recorded("mma-banks", one_tile_of_64!("4_mma.cu", "--line 56 --steps 1")),
    recorded("swizzle-lanes", one_tile!("5_swizzle.cu", "--line mma.cuh:47 --line mma.cuh:55 --steps 10")),
    recorded("swizzle-banks", one_tile_of_64!("5_swizzle.cu", "--line mma.cuh:47 --steps 16")),
    recorded(
        "swizzle-steps",
        three_tiles!("5_swizzle.cu", "--line 63 --line 93 --line 145 --line mma.cuh:47 --line mma.cuh:55"),
    ),
    recorded(
        "pipeline-steps",
        three_tiles!("6_pipeline.cu", "--line 115 --line 132 --line 176 --line 195 --line mma.cuh:47 --line mma.cuh:55 --line mma.cuh:61 --line mma.cuh:72"),
    ),
    recorded(
        "reuse-lanes",
        "trace stage4-flash-cuda/kernels/7_reuse.cu -D HEAD_DIM=16 --grid 1 --shared 8192 --arg 'f16[2048]=zeros' --arg 'f16[1024]=zeros' --arg 'f16[1024]=zeros' --arg 'f16[2048]=uninit' --arg 'f32[128]=uninit' --arg i32=128 --arg i32=64 --arg f32=0.25 --arg i32=0 --line mma.cuh:47 --steps 6",
    ),
    ordered("tma-consumer", tma_order!(0)),
    ordered("tma-producer", tma_order!(4)),
    ordered("wgmma-consumer-0", wgmma_order!(0)),
    ordered("wgmma-consumer-1", wgmma_order!(4)),
    ordered("wgmma-producer", wgmma_order!(8)),
    ordered("ping-pong-consumer-0", ping_pong_order!(0)),
    ordered("ping-pong-consumer-1", ping_pong_order!(4)),
    ordered("ping-pong-producer", ping_pong_order!(8)),
    output("fault-fragment-columns", "gpu", "check kernel-corpus/kernels/bug_global_race_mma_fragment_columns.cu"),
    output("fault-matrix-row", "gpu", "check kernel-corpus/kernels/bug_misaligned_ldmatrix_row.cu"),
    output("fault-group-count", "gpu", "check kernel-corpus/kernels/bug_copy_in_flight_wrong_count.cu"),
    output("fault-copy-barrier", "gpu", "check kernel-corpus/kernels/bug_shared_race_copy_without_barrier.cu"),
    output("fault-dynamic", "gpu", "check stage4-flash-cuda/kernels/7_reuse.cu --shared 16384"),
    output("fault-copy-read", "gpu", "check kernel-corpus/kernels/bug_shared_race_bulk_load_not_waited.cu"),
    output("fault-expect-tx", "gpu", "check kernel-corpus/kernels/bug_deadlock_expect_tx_too_many.cu"),
    output("fault-product", "gpu", "check kernel-corpus/kernels/bug_product_in_flight_sums_read.cu"),
    output("fault-proxy", "gpu", "check kernel-corpus/kernels/bug_missing_proxy_fence_wgmma.cu"),
    output("fault-pool", "gpu", "check kernel-corpus/kernels/bug_setmaxnreg_beyond_the_pool.cu"),
    output("fault-warp-rows", "gpu", "check kernel-corpus/kernels/bug_shared_race_warp_rows.cu"),
    output("fault-misaligned", "gpu", "check kernel-corpus/kernels/bug_misaligned_row.cu"),
    // Stage 5.
    output(
        "update-cache",
        "gpu",
        "run stage5-decode/kernels/update_cache.cu --grid 1 --arg 'f32[2]={5,6}' --arg 'f32[2]={7,8}' --arg 'f32[8]=zeros' --arg 'f32[8]=zeros' --arg 'i32[1]={3}' --arg 'i32[1]={1}' --arg i32=1 --arg i32=1 --arg i32=4 --arg i32=2 --arg i32=1",
    ),
    counters("decode-naive", "profile stage5-decode/kernels/1_decode.cu"),
    output(
        "combine",
        "gpu",
        "run stage5-decode/kernels/combine.cu --grid 1 --arg 'f32[4]={1,0,0,1}' --arg 'f32[2]={0,1.0986123}' --arg 'f32[2]=uninit' --arg 'f32[1]=uninit' --arg i32=2 --arg i32=2",
    ),
    output("decode-lengths", "stage5-decode", "bench --tables lengths --batch 1,64 --context 512,8192,65536"),
    output("decode-pages", "stage5-decode", "bench --tables pages"),
    // Results.
    output(
        "results-lengths",
        "stage4-flash-cuda",
        "bench --dim 64 --modes tiled,flash,library --seq 256,1024,4096,16384",
    ),
    output("results-assignment", "stage4-flash-cuda", "bench --assignment --modes tiled,library"),
    output("results-decode", "stage5-decode", "bench --tables assignment"),
    // Debugging.
    output("fault-missing-lanes", "gpu", "check kernel-corpus/kernels/bug_missing_lanes_branches.cu"),
    // Mistakes in launches of the stages' kernels.
    output(
        "fault-scores",
        "gpu",
        "check stage2-naive-cuda/kernels/2_gemm_tiled.cu --arg 'f32[8000]=random' --arg 'f32[5760]=random' --arg 'f32[7200]=uninit' --arg i32=100 --arg i32=72 --arg i32=40",
    ),
    output(
        "fault-stride",
        "gpu",
        "check stage4-flash-cuda/kernels/library/attention.cu --arg 'f32[12800]=random' --arg 'f32[8320]=random' --arg 'f32[8320]=random' --arg null --arg null --arg null --arg 'f32[12800]=uninit' --arg 'f32[200]=uninit' --arg '{{i64=12800,6500,64}, {i64=8320,8320,64}, {i64=8320,8320,64}, {i64=12800,6400,64}, {i64=0,0,0}, {i64=0,0,0}, i32=2,2, 100,130, 64, -100,30, f32=0.125}'",
    ),
    output(
        "fault-empty-cache",
        "gpu",
        "check stage5-decode/kernels/1_decode.cu --arg 'f32[160]=random' --arg 'f32[6400]=uninit' --arg 'f32[6400]=uninit' --arg 'i32[2]={80,37}' --arg 'f32[160]=uninit' --arg 'f32[4]=uninit' --arg i32=2 --arg i32=2 --arg i32=1 --arg i32=80 --arg i32=40 --arg f32=0.158",
    ),
    output(
        "fault-empty-part",
        "gpu",
        "check stage5-decode/kernels/combine.cu --grid 1 --arg 'f32[4]=uninit' --arg 'f32[2]={0,1.0986123}' --arg 'f32[2]=uninit' --arg 'f32[1]=uninit' --arg i32=2 --arg i32=2",
    ),
    output(
        "fault-group",
        "gpu",
        "check stage5-decode/kernels/1_decode.cu --arg 'f32[160]=random' --arg 'f32[6400]=random' --arg 'f32[6400]=random' --arg 'i32[2]={80,37}' --arg 'f32[160]=uninit' --arg 'f32[4]=uninit' --arg i32=2 --arg i32=1 --arg i32=1 --arg i32=80 --arg i32=40 --arg f32=0.158",
    ),
    output(
        "fault-page",
        "gpu",
        "check stage5-decode/kernels/library/split.cu -D ELEMENT=f32 -D HEAD_MAX=64 --grid 4 --arg 'f32[160]=random' --arg 'f32[6400]=random' --arg 'f32[6400]=random' --arg 'i32[2]={80,37}' --arg 'i32[10]={0,1,2,3,4,5,6,10,8,9}' --arg 'f32[160]=uninit' --arg 'f32[4]=uninit' --arg '{{i64=80,40,40}, {i64=80,40,40}, {i32=1,80,40,5,16}, i32=2,2,1,1,50,f32=0.158}'",
    ),
    output(
        "fault-positions",
        "gpu",
        "check stage6-pipeline/kernels/rope.cu --arg 'f32[360]=random' --arg 'f32[12]=random' --arg 'i32[3]=uninit' --arg f32=1 --arg i32=4 --arg i32=24 --arg i32=120",
    ),
    output("fault-logits", "gpu", "check stage6-pipeline/kernels/argmax.cu --arg 'i32[3]=uninit' --arg 'f32[900]=uninit' --arg i32=300"),
    // Counters of single kernels.
    counters("scale-and-mask", "profile stage2-naive-cuda/kernels/scale_and_mask.cu"),
    counters("options-causal", "profile stage4-flash-cuda/kernels/library/attention.cu"),
    counters(
        "options-full",
        "profile stage4-flash-cuda/kernels/library/attention.cu --arg 'f32[12800]=random' --arg 'f32[8320]=random' --arg 'f32[8320]=random' --arg null --arg null --arg null --arg 'f32[12800]=uninit' --arg 'f32[200]=uninit' --arg '{{i64=12800,6400,64}, {i64=8320,8320,64}, {i64=8320,8320,64}, {i64=12800,6400,64}, {i64=0,0,0}, {i64=0,0,0}, i32=2,2, 100,130, 64, -100,130, f32=0.125}'",
    ),
    counters(
        "block-mask-full",
        "profile stage4-flash-cuda/kernels/library/attention.cu --grid 8 --arg 'f32[32768]=random' --arg 'f32[32768]=random' --arg 'f32[32768]=random' --arg null --arg null --arg null --arg 'f32[32768]=uninit' --arg 'f32[512]=uninit' --arg '{{i64=32768,32768,64}, {i64=32768,32768,64}, {i64=32768,32768,64}, {i64=32768,32768,64}, {i64=0,0,0}, {i64=0,0,1}, i32=1,1, 512,512, 64, -512,512, f32=0.125}'",
    ),
    counters(
        "block-mask-causal",
        "profile stage4-flash-cuda/kernels/library/attention.cu --grid 8 --arg 'f32[32768]=random' --arg 'f32[32768]=random' --arg 'f32[32768]=random' --arg null --arg null --arg null --arg 'f32[32768]=uninit' --arg 'f32[512]=uninit' --arg '{{i64=32768,32768,64}, {i64=32768,32768,64}, {i64=32768,32768,64}, {i64=32768,32768,64}, {i64=0,0,0}, {i64=0,0,1}, i32=1,1, 512,512, 64, -512,0, f32=0.125}'",
    ),
    counters(
        "block-mask-seen",
        "profile stage4-flash-cuda/kernels/library/attention.cu --grid 8 --arg 'f32[32768]=random' --arg 'f32[32768]=random' --arg 'f32[32768]=random' --arg null --arg null --arg 'u32[8]={1,3,7,13,25,49,97,193}' --arg 'f32[32768]=uninit' --arg 'f32[512]=uninit' --arg '{{i64=32768,32768,64}, {i64=32768,32768,64}, {i64=32768,32768,64}, {i64=32768,32768,64}, {i64=0,0,0}, {i64=0,0,1}, i32=1,1, 512,512, 64, -512,512, f32=0.125}'",
    ),
    counters("update-cache-counters", "profile stage5-decode/kernels/update_cache.cu"),
    counters(
        "group-split",
        "profile stage5-decode/kernels/2_split.cu --grid 24 --arg 'f32[320]=random' --arg 'f32[6400]=random' --arg 'f32[6400]=random' --arg 'i32[2]={80,37}' --arg 'f32[960]=uninit' --arg 'f32[24]=uninit' --arg i32=4 --arg i32=4 --arg i32=1 --arg i32=80 --arg i32=40 --arg f32=0.158 --arg i32=3",
    ),
    counters(
        "group-grouped",
        "profile stage5-decode/kernels/3_grouped.cu --grid 6 --arg 'f32[320]=random' --arg 'f32[6400]=random' --arg 'f32[6400]=random' --arg 'i32[2]={80,37}' --arg 'f32[960]=uninit' --arg 'f32[24]=uninit' --arg i32=4 --arg i32=4 --arg i32=1 --arg i32=80 --arg i32=40 --arg f32=0.158 --arg i32=3",
    ),
    output("decode-step", "stage6-pipeline", "bench --prompt-tokens 32 --tokens 4 --launches"),
    counters("gemv", "profile stage6-pipeline/kernels/gemv.cu"),
    counters("argmax", "profile stage6-pipeline/kernels/argmax.cu"),
    lines("profile-head", "profile stage2-naive-cuda/kernels/1_gemm_plain.cu", "modelled time", " line  issue"),
    // The grader's output.
    verdict("grade-mha", "1/mha", Submission::Solution),
    verdict("grade-mha-wrong", "1/mha", Submission::Wrong("mha_top_left")),
    verdict("grade-softmax", "2/softmax", Submission::Solution),
    verdict("grade-softmax-wrong", "2/softmax", Submission::Wrong("softmax_no_max")),
    verdict("grade-gemm", "2/gemm", Submission::Solution),
    verdict("grade-gemm-wrong", "2/gemm", Submission::Wrong("gemm_last_tile")),
    verdict("grade-attention", "2/attention", Submission::Solution),
    verdict("grade-attention-wrong", "2/attention", Submission::Wrong("attention_no_scale")),
    verdict("grade-flash3", "3/flash", Submission::Solution),
    verdict("grade-flash3-wrong", "3/flash", Submission::Wrong("flash3_o_not_rescaled")),
    verdict("grade-flash3-tail-wrong", "3/flash", Submission::Wrong("flash3_last_tile_dropped")),
    verdict("grade-flash4", "4/flash", Submission::Solution),
    verdict("grade-flash4-wrong", "4/flash", Submission::Wrong("flash4_no_barrier")),
    verdict("grade-mma", "4/mma", Submission::Solution),
    verdict("grade-mma-wrong", "4/mma", Submission::Wrong("mma_quadrants")),
    verdict("grade-swizzle", "4/swizzle", Submission::Solution),
    verdict("grade-swizzle-wrong", "4/swizzle", Submission::Wrong("swizzle_stored_plain")),
    verdict("grade-pipeline", "4/pipeline", Submission::Solution),
    verdict("grade-pipeline-wrong", "4/pipeline", Submission::Wrong("pipeline_no_wait")),
    verdict("grade-wgmma", "4/wgmma", Submission::Solution),
    verdict("grade-wgmma-wrong", "4/wgmma", Submission::Wrong("wgmma_step_in_elements")),
    verdict("grade-backward", "4/backward", Submission::Solution),
    verdict("grade-backward-wrong", "4/backward", Submission::Wrong("backward_no_delta_in_dq")),
    verdict("grade-tune", "4/tune", Submission::Solution),
    verdict("grade-tune-wrong", "4/tune", Submission::Wrong("tune_library_tile")),
    verdict("grade-update_cache", "5/update_cache", Submission::Solution),
    verdict("grade-update_cache-wrong", "5/update_cache", Submission::Wrong("update_cache_one_slot_late")),
    verdict("grade-decode", "5/decode", Submission::Solution),
    verdict("grade-decode-wrong", "5/decode", Submission::Wrong("decode_misses_newest")),
    verdict("grade-split", "5/split", Submission::Solution),
    verdict("grade-split-wrong", "5/split", Submission::Starter),
    verdict("grade-forward", "6/forward", Submission::Solution),
    verdict("grade-forward-wrong", "6/forward", Submission::Wrong("forward_positions")),
    verdict("grade-demo", "6/demo", Submission::Solution),
    verdict("grade-demo-wrong", "6/demo", Submission::Wrong("demo_end_in_text")),
    output("grade-story", "grade", "story --solution"),
];
