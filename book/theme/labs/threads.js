"use strict";
// The lab on threads: a size, a block and a branch; idle threads, divergence and waves.
labs.lab("threads", ({ range, select, picture, table, facts }) => {
    const { shape, stated, shown, number } = labs;
    const SIZES = [1, 10, 31, 32, 33, 64, 100, 200, 256, 257, 500, 1000, 1024, 1025, 2000, 10_000, 50_000, 135_168, 200_000, 270_336, 270_337, 400_000];
    const BLOCKS = [32, 64, 96, 128, 256, 512, 1024];
    const MOST_WARPS = 64; // threads of an H100's SM: 64 warps
    const size = range("Elements, n", { values: SIZES, value: 1000 });
    const threads = select("Threads of a block", BLOCKS.map(String), 4);
    const border = range("Border: lanes before it take the first side", { max: 32, value: 12 });
    const CELL = 16, LEFT = 120, SHOWN = 32;
    const draw = picture(LEFT + 32 * CELL + 4, 200, 300);
    const rows = table(["launch", "counted"]);

    // The warps that are drawn: all, or the first and the last.
    const drawn = (warps) => {
        const all = Array.from({ length: Math.min(warps, SHOWN) }, (_, index) => index);
        return warps <= SHOWN ? all : [...all.slice(0, SHOWN / 2), -1, ...all.slice(0, SHOWN / 2).map((index) => warps - SHOWN / 2 + index)];
    };

    return async (ask) => {
        const [n, block] = [size(), BLOCKS[threads()]];
        const blocks = Math.ceil(n / block);
        const launch = stated({ grid: blocks, block }, [`f32[${n}]=ones`, `f32[${n}]=uninit`, `i32=${n}`, `i32=${border()}`]);
        const { launches: [{ figures }] } = await ask("lab_threads", launch);
        const places = facts.device.sms * Math.floor(Math.round(figures.occupancy.value * MOST_WARPS) / (block / 32));
        const idle = blocks * block - n;
        const lines = drawn(blocks * block / 32);
        const shapes = lines.flatMap((warp, line) => {
            const y = 4 + line * CELL;
            if (warp < 0) return [shape("text", { x: LEFT, y: y + 12, class: "note" }, "…")];
            const cells = Array.from({ length: 32 }, (_, lane) => {
                const kind = warp * 32 + lane >= n ? "ghost" : lane < border() ? "blue" : "orange";
                return shape("rect", { class: kind, x: LEFT + lane * CELL, y, width: CELL - 2, height: CELL - 2 });
            });
            const name = `block ${number(Math.floor(warp / (block / 32)))}, warp ${warp % (block / 32)}`;
            return [shape("text", { x: 0, y: y + 11, class: "note" }, name), ...cells];
        });
        draw(`Lanes of ${lines.length} warps. Blue lanes take the first side of the branch, orange ones the second; dashed lanes have no element.`, shapes, 8 + lines.length * CELL);
        rows([
            ["blocks", number(blocks)],
            ["threads without an element", number(idle)],
            ["warp instructions", shown(figures.warp_instructions)],
            ["threads per warp instruction, of 32", shown(figures.lanes)],
            ["divergent branches", shown(figures.divergent_branches)],
            ["occupancy", shown(figures.occupancy)],
            ["waves on an H100", String(Number((blocks / places).toPrecision(3)))],
            ["modelled time", shown(figures.time)],
        ]);
        return `${number(blocks)} block${blocks === 1 ? "" : "s"}, ${number(idle)} thread${idle === 1 ? "" : "s"} without an element, ${shown(figures.lanes)} threads per warp instruction.`;
    };
});
