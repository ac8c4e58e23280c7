"use strict";
// The roofline of a device, with a point for a launch: its modelled speed over its arithmetic intensity.
labs.roofline = (picture, { flops, bandwidth }) => {
    const { shape, number } = labs;
    const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [480, 300, 18, 40, 14, 20];
    const draw = picture(WIDTH, HEIGHT, 280);
    const [lowest, highest] = [-2, 3]; // powers of ten: FLOP per byte
    const [slowest, fastest] = [8, 14.2]; // FLOP/s
    const x = (intensity) => LEFT + (Math.log10(intensity) - lowest) / (highest - lowest) * (WIDTH - LEFT - RIGHT);
    const y = (speed) => HEIGHT - BOTTOM - (Math.log10(speed) - slowest) / (fastest - slowest) * (HEIGHT - BOTTOM - TOP);
    const inside = (value, low, high) => Math.min(Math.max(value, 10 ** low), 10 ** high);
    const text = (x, y, said, anchor, kind = "note") => shape("text", { x, y, "text-anchor": anchor, class: kind }, said);
    const line = (x1, y1, x2, y2, kind) => shape("line", { x1, y1, x2, y2, class: kind });

    const bend = flops / bandwidth;
    const axes = [];
    for (let power = lowest; power <= highest; power++) {
        axes.push(line(x(10 ** power), TOP, x(10 ** power), HEIGHT - BOTTOM, "guide"));
        axes.push(text(x(10 ** power), HEIGHT - BOTTOM + 16, number(10 ** power, 2), "middle"));
    }
    const speeds = { 8: "0.1 GFLOP/s", 9: "1", 10: "10", 11: "100", 12: "1 TFLOP/s", 13: "10", 14: "100" };
    for (const [power, said] of Object.entries(speeds)) {
        axes.push(line(LEFT, y(10 ** power), WIDTH - RIGHT, y(10 ** power), "guide"));
        axes.push(text(LEFT + 4, y(10 ** power) - 3, said, "start"));
    }
    axes.push(text((LEFT + WIDTH) / 2, HEIGHT - 6, "FLOP per byte of device memory", "middle"));
    const points = [[10 ** lowest, bandwidth * 10 ** lowest], [bend, flops], [10 ** highest, flops]];
    axes.push(shape("polyline", { class: "roof", points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" ") }));

    // `profile` is that of a launch. The hollow point has the time of the launch itself in it, the other one has not.
    return ({ figures, parts }) => {
        const work = figures.flops_f32?.value ?? 0;
        const bytes = figures.dram_read.value + figures.dram_write.value;
        const time = figures.time.value;
        const [intensity, alone] = [work / bytes, work / (time - (parts.launch ?? 0))];
        const at = x(inside(intensity, lowest, highest));
        const roof = Math.min(flops, intensity * bandwidth);
        const [high, low] = [y(inside(alone, slowest, fastest)), y(inside(work / time, slowest, fastest))];
        const [beside, side] = at > WIDTH - 120 ? [at - 10, "end"] : [at + 10, "start"];
        const dots = [
            line(at, y(inside(roof, slowest, fastest)), at, HEIGHT - BOTTOM, "mark"),
            shape("circle", { class: "outline", cx: at, cy: low, r: 6 }),
            text(beside, low + 14, "with the launch", side),
            shape("circle", { class: "spot", cx: at, cy: high, r: 6 }),
            text(beside, high - 6, "the kernel alone", side),
        ];
        const share = alone / roof;
        draw(`Roofline of an H100. The kernel has ${number(intensity, 2)} FLOP per byte and reaches ${number(100 * share, 1)} % of the roof there, without the launch.`, [...axes, ...dots]);
        return { intensity, share };
    };
};

// Rows of a table: the figures of a launch that the ladders of stage 2 are compared by.
labs.counted = ({ figures, bound, parts }, { intensity, share }) => {
    const { shown, number } = labs;
    const figure = (key) => (figures[key] ? shown(figures[key]) : "0");
    const longest = Object.entries(parts).sort(([, a], [, b]) => b - a).slice(0, 3);
    return [
        ["requests of global loads", figure("global_load_requests")],
        ["sectors loaded", figure("global_load_sectors")],
        ["sectors for each request", number(figures.global_load_sectors.value / figures.global_load_requests.value, 2)],
        ["shared loads, wavefronts", figure("shared_load_wavefronts")],
        ["bank conflicts of loads", figure("shared_load_conflicts")],
        ["barriers, once for each warp", figure("barriers")],
        ["f32 operations", figure("flops_f32")],
        ["device memory, read and written", shown({ value: figures.dram_read.value + figures.dram_write.value, unit: "bytes" })],
        ["FLOP per byte", number(intensity, 2)],
        ["modelled time", figure("time")],
        ["bound by", bound],
        ["longest parts alone", longest.map(([part, seconds]) => `${part} ${shown({ value: seconds, unit: "seconds" })}`).join(", ")],
        ["share of the roof, without the launch", `${number(100 * share, 1)} %`],
    ];
};
