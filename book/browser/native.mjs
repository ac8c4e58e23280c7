// Runs of the simulator in a page, beside the same runs of the native program.
//
// The variable GPU_PROGRAM names the program. Without it, it is target/debug/gpu.

import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const built = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "debug", "gpu");
const program = process.env.GPU_PROGRAM ?? (existsSync(built) ? built : undefined);
const folder = mkdtempSync(join(tmpdir(), "book-native-"));
const profiles = new Map(); // by request, as promises

// The profile of a request by the native program.
async function native({ ptx, launch }) {
    const file = join(folder, `${profiles.size}.ptx`);
    writeFileSync(file, `${launch}\n${ptx}`);
    const { stdout } = await promisify(execFile)(program, ["profile", file, "--json", "-"], { maxBuffer: 1 << 26 });
    return JSON.parse(stdout);
}

// Compares each run of a page with one launch to the native program, figure by figure.
export async function compare(runs, found) {
    if (!program) return found("there is no native program to compare with: cargo build -p gpu-tool, or name one by GPU_PROGRAM");
    for (const { request, answer } of runs) {
        const key = request.launch + request.ptx;
        if (!profiles.has(key)) profiles.set(key, native(request));
        const { figures } = await profiles.get(key);
        for (const [name, { value }] of Object.entries(figures)) {
            const counted = answer.launches[0]?.figures[name]?.value;
            if (counted !== value) found(`${request.name}: ${name} is ${counted}, natively ${value}`);
        }
    }
}

// What is printed after a visit.
export function compared() {
    return program ? `${profiles.size} launches compared with ${program}` : `${built} is not built: no launch was compared`;
}
