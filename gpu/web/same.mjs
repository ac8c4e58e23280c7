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
const wanted = run("answers", requests.join("\n"));

const { instance } = await WebAssembly.instantiate(readFileSync(module), {});
const { memory, room, answer_request, answer_text } = instance.exports;
const answered = (request) => {
    const bytes = new TextEncoder().encode(request);
    const at = room(bytes.length);
    new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
    const length = answer_request();
    return new TextDecoder().decode(new Uint8Array(memory.buffer, answer_text(), length));
};

let [different, faults, printed] = [0, 0, 0];
for (const [number, request] of requests.entries()) {
    const answer = JSON.parse(answered(request));
    const native = JSON.parse(wanted[number]);
    faults += native.fault !== null;
    // The native program prints where the page keeps the text.
    printed += answer.printed !== "";
    answer.printed = native.printed;
    const [here, there] = [answer, native].map((value) => JSON.stringify(value));
    if (here === there) continue;
    different += 1;
    const { name, seed } = JSON.parse(request);
    console.error(`${name}, seed ${seed}:\n  native ${there.slice(0, 400)}\n  web    ${here.slice(0, 400)}`);
}
console.log(`${requests.length} requests, ${faults} faults, ${printed} with output: ${different} different answers`);
process.exit(different || faults < 100 ? 1 : 0);
