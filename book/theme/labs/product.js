"use strict";
// The lab on matrix products: a rung of stage 2, sizes, counters and a point under the roofline.
labs.lab("product", ({ range, select, picture, table, facts }) => {
    const { stated } = labs;
    const RUNGS = [
        { name: "1: plain", file: "1_gemm_plain", block: "32,8", tile: [32, 8] },
        { name: "2: tiled", file: "2_gemm_tiled", block: "16,16", tile: [16, 16] },
        { name: "3: register-tiled", file: "3_gemm_register_tiled", block: "16,16", tile: [64, 64] },
    ];
    const rung = select("Kernel", RUNGS.map(({ name }) => name));
    const transposed = select("Product", ["NN: c = a b", "NT: c = a bᵀ"], 1);
    const [m, n, k] = [["m: rows of c", 100], ["n: columns of c", 72], ["k: inner dimension", 40]].map(([label, value]) => range(label, { min: 4, max: 192, step: 4, value }));
    const point = labs.roofline(picture, facts.device);
    const rows = table(["one launch", "counted"]);
    return async (ask) => {
        const { file, block, tile: [across, down] } = RUNGS[rung()];
        const [height, width, inner] = [m(), n(), k()];
        const grid = [1, Math.ceil(width / across), Math.ceil(height / down)].join();
        const launch = stated({ grid, block }, [
            `f32[${height * inner}]=random`, `f32[${width * inner}]=random`, `f32[${height * width}]=uninit`,
            `i32=${height}`, `i32=${width}`, `i32=${inner}`,
        ]);
        const { launches: [profile] } = await ask(`${file}-TRANSPOSED_${transposed()}`, launch);
        rows(labs.counted(profile, point(profile)));
        const { global_load_sectors: sectors, global_load_requests: requests, time } = profile.figures;
        return `${labs.number(sectors.value / requests.value, 2)} sectors for each request, ${labs.shown(time)} modelled, bound by ${profile.bound}.`;
    };
});
