// How much the pages simulate for a change, which is bounded here, and how long a reader waits for it, which is printed.

// Warp instructions of the smallest and of the largest run of each lab that a visit makes. 100 ms are about 500,000 of them, or
// 25,000 of a kernel on tensor cores.
const MOST = {
    sectors: [20, 20],
    banks: [200, 300],
    barriers: [400, 400],
    threads: [1_500, 550_000],
    product: [80_000, 1_200_000],
    softmax: [40_000, 1_600_000],
    "first-rung": [40_000, 40_000],
    split: [20_000, 9_500_000],
    playground: [100, 600_000],
    predictions: [300, 250_000],
};

const seen = new Map(); // runs by lab: the slowest, the smallest and the largest

// Notes the runs of a lab behind a change.
export function worked(lab, runs) {
    for (const { answer, milliseconds } of runs) {
        const before = seen.get(lab) ?? { slowest: 0, smallest: Infinity, largest: 0 };
        const counts = answer.launches.map(({ figures }) => figures.warp_instructions.value);
        const sum = counts.reduce((a, b) => a + b, 0);
        seen.set(lab, {
            slowest: Math.max(before.slowest, milliseconds),
            smallest: sum ? Math.min(before.smallest, sum) : before.smallest, // a fault counts nothing
            largest: Math.max(before.largest, sum),
        });
    }
}

// A finding for each lab whose runs exceed their bounds.
export function excesses() {
    return [...seen].flatMap(([lab, { smallest, largest }]) => {
        const [least, most] = MOST[lab] ?? [0, 0];
        const said = (which, count, bound) => (count > bound ? [`${lab}: its ${which} run has ${count} warp instructions, of at most ${bound}`] : []);
        return [...said("smallest", smallest, least), ...said("largest", largest, most)];
    });
}

// The runs of all labs, in a line.
export function waits() {
    const all = [...seen].map(([lab, { slowest, smallest, largest }]) => `${lab} ${smallest} to ${largest} (${slowest.toFixed(0)} ms)`);
    return `warp instructions of a change, and the longest wait: ${all.join(", ")}`;
}
