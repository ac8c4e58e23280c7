// How much the pages simulate for a change, which is bounded here, and how long a reader waits for it, which is printed.

// Warp instructions of the smallest and of the largest run of each lab that a visit makes. 100 ms are about 500,000 of them, or
// 25,000 of a kernel on tensor cores.
const MOST = {
    sectors: [20, 20],
    banks: [200, 300],
    barriers: [400, 400],
    threads: [1_500, 550_000],
    product: [85_000, 1_200_000],
    softmax: [40_000, 1_600_000],
    "first-rung": [40_000, 40_000],
    split: [20_000, 9_500_000],
    playground: [100, 600_000],
    predictions: [300, 250_000],
};

const seen = new Map(); // runs by lab: how long the first took, and the smallest and the largest of the others

// Notes the runs of a lab behind a change. The first of a page also starts the simulator.
export function worked(lab, runs, { isFirst = false } = {}) {
    for (const { answer, milliseconds } of runs) {
        const counts = answer.launches.map(({ figures }) => figures.warp_instructions.value);
        const run = { sum: counts.reduce((a, b) => a + b, 0), milliseconds };
        const { first, smallest, largest } = seen.get(lab) ?? {};
        seen.set(lab, {
            first: isFirst ? Math.max(first ?? 0, milliseconds) : first,
            smallest: isFirst || !run.sum ? smallest : slower(run, smallest, run.sum < smallest?.sum), // a fault counts nothing
            largest: isFirst ? largest : slower(run, largest, run.sum > largest?.sum),
        });
    }
}

// The run, if there is none before it, if it is more extreme, or if it took longer for the same count.
function slower(run, before, isMore) {
    return !before || isMore || (run.sum === before.sum && run.milliseconds > before.milliseconds) ? run : before;
}

// A finding for each lab whose runs exceed their bounds.
export function excesses() {
    return [...seen].flatMap(([lab, { smallest, largest }]) => {
        const [least, most] = MOST[lab] ?? [0, 0];
        const said = (which, run, bound) => (run?.sum > bound ? [`${lab}: its ${which} run has ${run.sum} warp instructions, of at most ${bound}`] : []);
        return [...said("smallest", smallest, least), ...said("largest", largest, most)];
    });
}

// The runs of all labs, a line each.
export function waits() {
    const said = (run) => (run?.sum ? `${run.sum} in ${run.milliseconds.toFixed(0)} ms` : "only faults");
    const start = (first) => (first ? `; ${first.toFixed(0)} ms` : "");
    const lines = [...seen].map(([lab, { first, smallest, largest }]) => `  ${lab}: ${said(smallest)}, ${said(largest)}${start(first)}`);
    return ["the longest waits for the smallest and the largest change, in warp instructions; and for the first run, which starts the simulator:", ...lines].join("\n");
}
