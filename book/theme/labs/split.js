"use strict";
// The lab on split decoding: the number of parts, blocks and waves, and the modelled time of both kernels.
labs.lab("split", ({ range, select, picture, table, facts }) => {
    const { shape, stated, shown, number } = labs;
    const HEAD_DIM = 64, KV_HEADS = 2, MOST_WARPS = 64; // an SM of an H100 holds 64 warps
    const HEADS = [2, 8, 32];
    const PARTS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
    const ORDER = [1, 64, 8, 24, 4, 32, 2, 16, 48, 12, 6, 3]; // in which they are run: the shape first
    const parts = range("Parts", { values: PARTS, value: 8 });
    const keys = range("Keys", { values: [64, 128, 256, 512, 1024], value: 128 });
    const heads = select("Heads of q", HEADS.map(String), 2);
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

    // A bar for each number of parts that has been run, split below and combine above. Gives the fastest number.
    const plot = (chosen) => {
        const done = PARTS.map((count) => times.get(key(count)));
        const sums = done.map((both) => (both ? both[0] + both[1] : Infinity));
        const least = sums.indexOf(Math.min(...sums));
        const most = Math.max(...sums.filter(Number.isFinite));
        const [step, height] = [(WIDTH - LEFT - 6) / PARTS.length, HEIGHT - BOTTOM - 20];
        const x = (index) => LEFT + index * step;
        const y = (seconds) => HEIGHT - BOTTOM - seconds / most * height;
        const note = (x, y, said, anchor) => shape("text", { x, y, "text-anchor": anchor, class: "note" }, said);
        const bars = done.flatMap((both, index) => {
            if (!both) return [];
            const bar = (kind, from, to) => shape("rect", { class: kind, x: x(index) + 2, y: y(to), width: step - 4, height: y(from) - y(to) });
            return [bar(PARTS[index] === chosen ? "red" : "blue", 0, both[0]), bar("orange", both[0], sums[index])];
        });
        const marks = PARTS.map((count, index) => note(x(index + 0.5), HEIGHT - BOTTOM + 16, count, "middle"));
        const lowest = note(x(least + 0.5), y(sums[least]) - 5, "least", "middle");
        const axis = [note(LEFT - 6, y(most) + 4, shown({ value: most, unit: "seconds" }), "end"), note(LEFT - 6, y(0), "0", "end"), note((LEFT + WIDTH) / 2, HEIGHT - 6, "parts. Blue: split. Red: the chosen one. Orange: combine", "middle")];
        draw(`Modelled time over the number of parts, ${PARTS.join(", ")}. The fastest has ${PARTS[least]} parts.`, [...bars, ...marks, lowest, ...axis]);
        return PARTS[least];
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
        for (const count of ORDER) {
            if (times.has(key(count))) continue;
            times.set(key(count), (await run(ask, count)).map(time));
            plot(chosen);
        }
        const fastest = plot(chosen);
        const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
        return `${plural(chosen, "part")}: ${shown({ value: a + b, unit: "seconds" })} modelled. The fastest of these has ${plural(fastest, "part")}: ${plural(HEADS[heads()] * fastest, "block")} for ${facts.device.sms} SMs.`;
    };
});
