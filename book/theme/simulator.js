"use strict";
// The simulated device in a page: `simulator(request, signal)` promises the answer, both as `gpu/web/src` has them. The device runs in
// a worker, so that a long kernel stops nothing, and is loaded with the first request. Nothing comes from a server.
const simulator = (() => {
    const packed = new URL("simulator-wasm.js", document.currentScript.src).href;

    // The worker. Its first message is the WebAssembly module, packed or not, which it gives back unpacked; the others are requests.
    const body = () => {
        const unpacked = async (text) => {
            const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
            const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
            return WebAssembly.compile(await new Response(stream).arrayBuffer());
        };
        let device;
        const answer = (data) => {
            const { memory, room, answer_request, answer_text } = device.exports;
            const request = new TextEncoder().encode(JSON.stringify(data));
            const at = room(request.length);
            new Uint8Array(memory.buffer, at, request.length).set(request);
            const length = answer_request();
            return JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, answer_text(), length)));
        };
        onmessage = async ({ data }) => {
            try {
                if (device) return postMessage({ answer: answer(data) });
                const module = typeof data === "string" ? await unpacked(data) : data;
                device = await WebAssembly.instantiate(module, {});
                postMessage({ answer: module });
            } catch (error) {
                postMessage({ error: String(error) });
            }
        };
    };

    const source = URL.createObjectURL(new Blob([`(${body})()`], { type: "text/javascript" }));

    // The packed module is a script, which a page from a disk may load, where it may not fetch.
    const script = (url) => new Promise((resolve, reject) => {
        const element = document.createElement("script");
        element.src = url;
        element.onload = () => resolve(globalThis.simulatorModule);
        element.onerror = () => reject(new Error("the simulator is not part of this copy of the book"));
        document.head.append(element);
    });

    let worker; // answers one request at a time
    let module;
    // Sends a message and promises the answer. A worker that is stopped or has failed is not used again.
    const send = (message, signal) => new Promise((resolve, reject) => {
        signal?.throwIfAborted();
        const made = worker;
        const stop = () => {
            made.terminate();
            worker = undefined;
            reject(signal.reason);
        };
        signal?.addEventListener("abort", stop);
        const fail = (error) => {
            signal?.removeEventListener("abort", stop);
            made.terminate(); // after a trap its memory is in doubt
            worker = undefined;
            reject(new Error(error));
        };
        made.onmessage = ({ data: { answer, error } }) => {
            if (error !== undefined) return fail(error);
            signal?.removeEventListener("abort", stop);
            resolve(answer);
        };
        made.onerror = ({ message }) => fail(message);
        made.postMessage(message);
    });
    const answered = async (request, signal) => {
        if (!worker) {
            module ??= await script(packed);
            signal?.throwIfAborted();
            worker = new Worker(source);
            module = await send(module, signal);
        }
        return send(request, signal);
    };

    let last = Promise.resolve();
    return (request, signal) => {
        const answer = last.then(() => answered(request, signal));
        last = answer.catch(() => {});
        return answer;
    };
})();
