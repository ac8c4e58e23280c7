"use strict";
// The simulated device in a page: `simulator(request)` promises the answer, both as `gpu/web/src` has them. The device runs in a
// worker, so that a long kernel stops nothing, and is loaded with the first request. Nothing comes from a server.
const simulator = (() => {
    const module = new URL("simulator-wasm.js", document.currentScript.src).href;

    // The worker: its first message is the WebAssembly module, packed; the others are requests.
    const body = () => {
        const unpacked = async (text) => {
            const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
            const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
            return new Response(stream).arrayBuffer();
        };
        let device;
        onmessage = async ({ data }) => {
            try {
                if (data.module) {
                    device = unpacked(data.module).then((bytes) => WebAssembly.instantiate(bytes, {}));
                    return;
                }
                const { memory, room, answer_request, answer_text } = (await device).instance.exports;
                const request = new TextEncoder().encode(JSON.stringify(data.request));
                const at = room(request.length);
                new Uint8Array(memory.buffer, at, request.length).set(request);
                const length = answer_request();
                const answer = new TextDecoder().decode(new Uint8Array(memory.buffer, answer_text(), length));
                postMessage({ id: data.id, answer: JSON.parse(answer) });
            } catch (error) {
                postMessage({ id: data.id, error: String(error) });
            }
        };
    };

    // The packed module is a script, which a page from a disk may load, where it may not fetch.
    const script = (url) => new Promise((resolve, reject) => {
        const element = document.createElement("script");
        element.src = url;
        element.onload = resolve;
        element.onerror = () => reject(new Error("the simulator is not part of this copy of the book"));
        document.head.append(element);
    });

    const waiting = new Map();
    let worker;
    const started = async () => {
        await script(module);
        const url = URL.createObjectURL(new Blob([`(${body})()`], { type: "text/javascript" }));
        const made = new Worker(url);
        made.postMessage({ module: globalThis.simulatorModule });
        made.onmessage = ({ data: { id, answer, error } }) => {
            const { resolve, reject } = waiting.get(id);
            waiting.delete(id);
            if (!error) return resolve(answer);
            made.terminate(); // after a trap its memory is in doubt
            worker = undefined;
            reject(new Error(error));
        };
        return made;
    };

    let last = 0;
    return async (request) => {
        worker ??= started();
        const id = ++last;
        const running = await worker;
        return new Promise((resolve, reject) => {
            waiting.set(id, { resolve, reject });
            running.postMessage({ id, request });
        });
    };
})();
