"use strict";
// The lab on split decoding: the number of parts, blocks and waves, and the modelled time of both kernels.
labs.lab("split", ({ range, select, picture, table, facts }) => {
    const { shape, stated, shown, number } = labs;
    const MOST = 32, HEAD_DIM = 64, KV_HEADS = 2, MOST_WARPS = 64; // an SM of an H100 holds 64 warps
    const HEADS = [2, 8, 32];
    const parts = range("Parts", { min: 1, max: MOST, value: 8 });
    const keys = range("Keys", { values: [64, 128, 256, 512, 1024, 2048], value: 512 });
    const heads = select("Heads of q", HEADS.map(String), 1);
    const [WIDTH, HEIGHT, LEFT, BOTTOM] = [480, 250, 56, 40];
    const draw = picture(WIDTH, HEIGHT, 280);
    const rows = table(["chosen", "split", "combine", "together"]);
    const times = new Map(); // of both kernels, by keys, heads and parts

    const run = async (ask, parts) => {
        const [n, h] = [keys(), HEADS[heads()]];
        const cache = `f32[${KV_HEADS * n * HEAD_DIM}]=random`;
        const [partial, sums] = [`f32[${h * parts * HEAD_DIM}]`, `f32[${h * parts}]`];
        const split = await ask("2_split", stated({ grid: h * parts, block: 128 }, [
            `f32[${h * HEAD_DIM}]=random`, cache, cache, `i32[1]={${n}}`, `${partial}=uninit`, `${sums}=uninit`,
            `i32=${h}`, `i32=${h / KV_HEADS}`, "i32=1", `i32=${n}`, `i32=${HEAD_DIM}`, "f32=0.125", `i32=${parts}`,
        ]));
        const combine = await ask("combine", stated({ grid: h, block: 128 }, [
            `${partial}=random`, `${sums}=random`, `f32[${h * HEAD_DIM}]=uninit`, `f32[${h}]=uninit`, `i32=${HEAD_DIM}`, `i32=${parts}`,
        ]));
        return [split, combine].map((answer) => answer.launches[0]);
    };
    const time = (profile) => profile.figures.time.value;
    const key = (parts) => [keys(), heads(), parts].join();

    // A bar for each number of parts that has been run, split below and combine above.
    const plot = (chosen) => {
        const done = Array.from({ length: MOST }, (_, index) => times.get(key(index + 1)));
        const most = Math.max(...done.flatMap((both) => (both ? [both[0] + both[1]] : [])));
        const [step, height] = [(WIDTH - LEFT - 6) / MOST, HEIGHT - BOTTOM - 20];
        const y = (seconds) => HEIGHT - BOTTOM - seconds / most * height;
        const note = (x, y, said, anchor) => shape("text", { x, y, "text-anchor": anchor, class: "note" }, said);
        const bars = done.flatMap((both, index) => {
            if (!both) return [];
            const x = LEFT + index * step;
            const bar = (kind, from, to) => shape("rect", { class: kind, x: x + 1, y: y(to), width: step - 3, height: y(from) - y(to) });
            return [bar(index + 1 === chosen ? "red" : "blue", 0, both[0]), bar("orange", both[0], both[0] + both[1])];
        });
        const marks = [1, 8, 16, 24, 32].map((parts) => note(LEFT + (parts - 0.5) * step, HEIGHT - BOTTOM + 16, parts, "middle"));
        const axis = [note(LEFT - 6, y(most) + 4, shown({ value: most, unit: "seconds" }), "end"), note(LEFT - 6, y(0), "0", "end"), note((LEFT + WIDTH) / 2, HEIGHT - 6, "parts. Blue: split. Red: the chosen one. Orange: combine", "middle")];
        const best = done.reduce((best, both, index) => (both && (best < 0 || both[0] + both[1] < done[best][0] + done[best][1]) ? index : best), -1) + 1;
        draw(`Modelled time over the number of parts, 1 to ${MOST}. The fastest has ${best} parts.`, [...bars, ...marks, ...axis]);
        return best;
    };

    return async (ask) => {
        const chosen = parts();
        const [split, combine] = await run(ask, chosen);
        times.set(key(chosen), [time(split), time(combine)]);
        const blocks = HEADS[heads()] * chosen;
        const places = facts.device.sms * Math.floor(Math.round(split.figures.occupancy.value * MOST_WARPS) / 4);
        const both = (what) => [what(split), what(combine)];
        const [a, b] = both(time);
        rows([
            ["blocks", number(blocks), number(HEADS[heads()]), ""],
            ["waves on an H100", String(Number((blocks / places).toPrecision(3))), "", ""],
            ["keys of a part", number(Math.ceil(keys() / chosen)), "", ""],
            ["sectors loaded", ...both(({ figures }) => shown(figures.global_load_sectors)), ""],
            ["bound by", split.bound, combine.bound, ""],
            ["modelled time", shown(split.figures.time), shown(combine.figures.time), shown({ value: a + b, unit: "seconds" })],
        ]);
        plot(chosen);
        for (let count = 1; count <= MOST; count++) {
            if (times.has(key(count))) continue;
            times.set(key(count), (await run(ask, count)).map(time));
            plot(chosen);
        }
        return `${chosen} part${chosen === 1 ? "" : "s"}: ${shown({ value: a + b, unit: "seconds" })} modelled. The fastest of these has ${plot(chosen)} parts.`;
    };
});
