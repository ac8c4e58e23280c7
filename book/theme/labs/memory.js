"use strict";
// The labs on memory: sectors of a load from global memory, banks of a load from shared memory.
(() => {
    const { lab, shape, stated, shown } = labs;
    const LANES = 32;
    const CELL = 22;

    // The access of the recorded warp to an array.
    const access = (trace, array) => {
        const accesses = trace.steps.flatMap((step) => step.accesses);
        return accesses.find((access) => access.kind === "load" && trace.arrays[access.arrays[0]].name === array);
    };

    // Words of memory in rows of 32, from a corner. `kind` gives the class of a word, `text` what stands in it.
    const words = (x, y, count, kind, text) => Array.from({ length: count }, (_, word) => {
        const [left, top] = [x + (word % 32) * CELL, y + Math.floor(word / 32) * CELL];
        const box = shape("rect", { x: left + 1, y: top + 1, width: CELL - 2, height: CELL - 2, class: kind(word) });
        const said = text(word);
        return said === "" ? [box] : [box, shape("text", { x: left + CELL / 2, y: top + CELL / 2 + 4, "text-anchor": "middle", class: "note" }, said)];
    }).flat();

    lab("sectors", ({ range, picture, table }) => {
        const stride = range("Stride: floats from lane to lane", { max: 32, value: 1 });
        const offset = range("Offset: float of lane 0", { max: 31, value: 0 });
        const draw = picture(32 * CELL + 4, 36 * CELL, 520);
        const rows = table(["one request of the warp", "counted"]);
        return async (ask) => {
            const count = 31 * stride() + offset() + 1;
            const launch = stated({ grid: 1, block: LANES, kernel: "global_loads" }, [`f32[${count}]=iota`, "f32[32]=uninit", `i32=${stride()}`, `i32=${offset()}`]);
            const { launches: [{ figures }], trace } = await ask("lab_memory", launch, { trace: { steps: 100 } });
            const { offsets, sectors, sector_count } = access(trace, "argument 0");
            const lanes = new Map(offsets.map((offset, lane) => [offset / 4, lane]));
            const moved = new Set(sectors);
            const lines = Math.ceil((Math.max(...sectors) + 1) * 8 / 32);
            const title = shape("text", { x: 2, y: 14, class: "note" }, "a row: 32 floats, which are 4 sectors; a number: the lane that reads this float");
            const kind = (word) => (lanes.has(word) ? "orange" : moved.has(Math.floor(word / 8)) ? "blue" : "ghost");
            const frames = [...moved].map((sector) => shape("rect", { class: "outline", x: 2 + (sector % 4) * 8 * CELL, y: CELL + Math.floor(sector / 4) * CELL, width: 8 * CELL, height: CELL }));
            const said = `${sector_count} sectors are moved for ${lanes.size} floats.`;
            draw(`Floats in memory. ${said}`, [title, ...words(2, CELL, lines * 32, kind, (word) => lanes.get(word) ?? ""), ...frames], (lines + 1) * CELL + 2);
            const figure = (key) => shown(figures[key]);
            rows([
                ["requests of loads", figure("global_load_requests")],
                ["sectors", figure("global_load_sectors")],
                ["bytes that the lanes ask for", figure("global_load_bytes")],
                ["bytes that move, 32 for each sector", shown({ value: 32 * figures.global_load_sectors.value, unit: "bytes" })],
                ["coalescing: asked for / moved", figure("global_load_coalescing")],
            ]);
            return said;
        };
    });

    lab("banks", ({ range, checkbox, picture, table }) => {
        const pitch = range("Words from row to row", { min: 32, max: 40, value: 32 });
        const swizzled = checkbox("swizzle: column ^ row", false);
        const column = range("Column that the warp reads", { max: 31, value: 0 });
        const draw = picture(32 * CELL + 4, 44 * CELL, 520);
        const rows = table(["one request of the warp", "counted"]);
        return async (ask) => {
            const launch = stated({ grid: 1, block: LANES, kernel: "shared_loads" }, ["f32[32]=uninit", `i32=${pitch()}`, `i32=${Number(swizzled())}`, `i32=${column()}`]);
            const { launches: [{ figures }], trace } = await ask("lab_memory", launch, { trace: { steps: 1000 } });
            const { offsets } = access(trace, "tile");
            const lanes = new Map(offsets.map((offset, lane) => [offset / 4, lane]));
            const depth = Array.from({ length: 32 }, () => 0); // words of each bank
            const place = new Map();
            for (const word of [...lanes.keys()].sort((a, b) => a - b)) place.set(word, depth[word % 32]++);
            const wavefronts = figures.shared_load_wavefronts.value;
            const lines = Math.ceil((31 * pitch() + 32) / 32);
            const top = 2.2 * CELL;
            const kind = (word) => (place.has(word) ? (depth[word % 32] > 1 ? "red" : "orange") : word % pitch() >= 32 ? "ghost" : "plain");
            const heads = depth.map((_, bank) => shape("text", { x: 2 + (bank + 0.5) * CELL, y: 1.8 * CELL, "text-anchor": "middle", class: "note" }, bank));
            const title = shape("text", { x: 2, y: 14, class: "note" }, "the banks, 0 to 31; below, the words of the tile; a number: the lane that reads this word; dashed: padding");
            const said = `${wavefronts} wavefront${wavefronts === 1 ? "" : "s"}: the busiest bank delivers ${Math.max(...depth)} word${Math.max(...depth) === 1 ? "" : "s"}.`;
            draw(`Words of shared memory in 32 banks. ${said}`, [title, ...heads, ...words(2, top, lines * 32, kind, (word) => lanes.get(word) ?? "")], top + lines * CELL + 2);
            rows([
                ["wavefronts of the load", shown(figures.shared_load_wavefronts)],
                ["of these by bank conflicts", shown(figures.shared_load_conflicts)],
                ["banks that deliver a word", `${depth.filter((count) => count > 0).length} of 32`],
                ["words that the tile takes", shown({ value: 31 * pitch() + 32 })],
            ]);
            return said;
        };
    });
})();
