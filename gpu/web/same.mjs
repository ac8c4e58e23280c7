// Holds the WebAssembly build against the native one: the same answers, byte for byte, to a request for each kernel of the corpus.
//
//     cargo build -p gpu-web --examples
//     cargo build -p gpu-web --lib --profile web --target wasm32-unknown-unknown
//     node gpu/web/same.mjs target/debug/examples target/wasm32-unknown-unknown/web/gpu_web.wasm

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [examples, module] = process.argv.slice(2);
const run = (name, input) => {
    const output = execFileSync(join(examples, name), { input, maxBuffer: 1 << 30 });
    return output.toString().trimEnd().split("\n");
};
const requests = run("requests");
// A kernel of the corpus prints nothing. This one does: the native program's own output has it before the answer.
const printing = JSON.stringify({
    ptx: readFileSync(new URL("../../cuda-sim/ptx/control.ptx", import.meta.url), "utf8"),
    launch: "// launch: grid=2 block=2 kernel=prints\n// args: i32[2]={0,-3}",
});
const wanted = run("answers", requests.join("\n"));
const printed = run("answers", printing).slice(0, -1).map((line) => `${line}\n`).join("");

const { instance } = await WebAssembly.instantiate(readFileSync(module), {});
const { memory, room, answer_request, answer_text } = instance.exports;
const answered = (request) => {
    const bytes = new TextEncoder().encode(request);
    const at = room(bytes.length);
    new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
    const length = answer_request();
    return new TextDecoder().decode(new Uint8Array(memory.buffer, answer_text(), length));
};

let [different, faults] = [0, 0];
for (const [number, request] of requests.entries()) {
    const answer = JSON.parse(answered(request));
    const native = JSON.parse(wanted[number]);
    faults += native.fault !== null;
    const [here, there] = [answer, native].map((value) => JSON.stringify(value));
    if (here === there) continue;
    different += 1;
    const { name, seed } = JSON.parse(request);
    console.error(`${name}, seed ${seed}:\n  native ${there.slice(0, 400)}\n  web    ${here.slice(0, 400)}`);
}
const text = JSON.parse(answered(printing)).printed;
if (text !== printed || printed.length < 100) {
    different += 1;
    console.error(`printed:\n  native ${JSON.stringify(printed)}\n  web    ${JSON.stringify(text)}`);
}
console.log(`${requests.length} requests, ${faults} faults: ${different} different answers`);
process.exit(different || faults < 100 ? 1 : 0);
