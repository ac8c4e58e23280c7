"use strict";
// The lab on the first rung: a block and a warp of the fused kernel, step by step, with what each lane holds.
labs.lab("first-rung", async ({ range, checkbox, results }) => {
    const { element, stated, kernel } = labs;
    const NAME = "1_flash-BLOCK_KV_32-BLOCK_Q_32-HEAD_DIM_16-THREADS_256";
    const KEYS = 64, SIZE = KEYS * 16;
    const block = range("Block, of 32 queries", { max: 1, value: 0 });
    const warp = range("Warp, of 4 of these queries", { max: 7, value: 0 });
    const causal = checkbox("causal", false);
    const { sources } = await kernel(NAME);
    return async (ask) => {
        const buffer = `f32[${SIZE}]`;
        const launch = stated({ grid: 2, block: 256 }, [
            `${buffer}=iota`, `${buffer}=iota`, `${buffer}=iota`, `${buffer}=uninit`, `f32[${KEYS}]=uninit`,
            `i32=${KEYS}`, `i32=${KEYS}`, "f32=0", `i32=${Number(causal())}`,
        ]);
        const { trace } = await ask(NAME, launch, { trace: { block: [block(), 0, 0], warp: warp(), steps: 600 } });
        const box = element("div", { className: "steps" });
        results.replaceChildren(box);
        stepThrough(box, { recording: trace, sources: labs.named(trace, sources), widths: { q_smem: 16, k_smem: 17, v_smem: 16, p_smem: 32 } });
        return `${trace.steps.length} steps of warp ${warp()} of block ${block()}.`;
    };
});
