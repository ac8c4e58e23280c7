"use strict";
// The lab on softmax: a rung of stage 2, sizes, counters and a point under the roofline.
labs.lab("softmax", ({ range, select, picture, table, facts }) => {
    const { stated } = labs;
    const rung = select("Kernel", ["1: a block for each row, a tree", "2: a warp for each row, shuffles"]);
    const rows = range("Rows", { values: [1, 4, 20, 64, 132, 256, 528, 1056], value: 64 });
    const columns = range("Numbers of a row", { min: 32, max: 1024, step: 16, value: 512 });
    const point = labs.roofline(picture, facts.device);
    const show = table(["one launch", "counted"]);
    return async (ask) => {
        const [height, width] = [rows(), columns()];
        const buffers = [`f32[${height * width}]=random`, `f32[${height}]=uninit`];
        const launches = [
            ["1_softmax_tree", stated({ grid: height, block: 128 }, [...buffers, `i32=${width}`])],
            ["2_softmax_warp", stated({ grid: Math.ceil(height / 4), block: "32,4" }, [...buffers, `i32=${height}`, `i32=${width}`])],
        ];
        const { launches: [profile] } = await ask(...launches[rung()]);
        show(labs.counted(profile, point(profile)));
        const { barriers, time } = profile.figures;
        return `${labs.shown(barriers)} barriers, ${labs.shown(time)} modelled, bound by ${profile.bound}.`;
    };
});
