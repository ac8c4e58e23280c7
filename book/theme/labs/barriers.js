"use strict";
// The lab on barriers: takes barriers out of two sums over a block, and shows what the simulator reports.
labs.lab("barriers", async ({ checkbox, listing, table, results, kernel }) => {
    const { element, shown, withoutBarrier } = labs;
    const FILE = "gpu/kernels/lab_barriers.cu";
    const { ptx, launch, sources } = await kernel("lab_barriers");
    const lines = sources[FILE].split("\n");
    const barriers = ["1: before reading", "2: between the steps", "3: before overwriting"].map((hazard) => ({
        there: checkbox(`Barrier ${hazard}`, true),
        line: lines.findIndex((line) => line.includes(`__syncthreads();  // ${hazard[0]}`)) + 1,
    }));
    const mark = listing(FILE, sources[FILE], "kernel");
    const report = element("pre", { className: "report", tabIndex: 0 });
    report.setAttribute("aria-label", "Report of the simulator");
    results.append(report);
    const rows = table(["with all barriers", "counted"]);
    return async (_, attempt) => {
        const gone = barriers.filter(({ there }) => !there()).map(({ line }) => line);
        const edited = gone.reduce((ptx, line) => withoutBarrier(ptx, FILE, line), ptx);
        const { fault, launches: [profile], buffers } = await attempt("lab_barriers", launch, { ptx: edited, values: 256 });
        const places = new Set(fault?.places.filter(([file]) => file === FILE).map(([, line]) => line));
        mark((line) => [places.has(line) ? "fault" : "", gone.includes(line) ? "gone" : ""].join(" ").trim());
        report.hidden = !fault;
        report.textContent = fault?.report ?? "";
        if (fault) {
            rows([]);
            return `The simulator reports a fault. ${places.size === 1 ? "The line" : "The lines"} ${[...places].join(" and ")} ${places.size === 1 ? "is" : "are"} marked.`;
        }
        const { figures } = profile;
        const sums = buffers.at(-1).values;
        rows([
            ["first sum, of 128 ones", sums[0]],
            ["second sum, of 128 twos", sums[128]],
            ["barriers, once for each warp", shown(figures.barriers)],
            ["wavefronts of loads from shared memory", shown(figures.shared_load_wavefronts)],
            ["warp instructions", shown(figures.warp_instructions)],
            ["divergent branches", shown(figures.divergent_branches)],
        ]);
        return "No fault: every pair of conflicting accesses is ordered.";
    };
});
