"use strict";
// The runs of a box: one update at a time. A newer value drops the requests of an older one, and a button stops them.

labs.Interrupted = class extends Error {};

// `update` is called after each change with a function that asks the simulator. It shows the answers and gives a sentence for
// `state`, a paragraph; `failed` is called with an error, or with nothing behind an update that went well. The result is the function
// to call after a change.
labs.runs = (host, state, update, failed) => {
    const PATIENCE = 200; // milliseconds; most updates end before, and a button would flicker
    const stop = labs.element("button", { type: "button", hidden: true }, "Stop");
    state.after(stop);
    state.tabIndex = -1; // takes the focus from the button
    const [outdated, stopped] = [new labs.Interrupted("outdated"), new labs.Interrupted("stopped")];
    let changed = false;
    let running = false;
    let current; // ends the update that runs

    stop.addEventListener("click", () => {
        changed = false;
        current.abort(stopped);
    });

    const run = async (request) => {
        const begin = performance.now();
        const answer = await simulator(request, current.signal);
        if (changed) throw outdated;
        host.runs.push({ request, answer, milliseconds: performance.now() - begin });
        return answer;
    };
    const once = async () => {
        current = new AbortController();
        host.runs = [];
        const lasting = setTimeout(() => {
            stop.hidden = false;
            state.textContent = "The kernel runs.";
        }, PATIENCE);
        try {
            state.textContent = await update(run) ?? "";
            failed();
        } catch (error) {
            if (error === stopped) state.textContent = "Stopped.";
            else if (!changed) failed(error);
        }
        clearTimeout(lasting);
        if (document.activeElement === stop) state.focus();
        stop.hidden = true;
        current = undefined;
    };
    return async () => {
        changed = true;
        host.setAttribute("aria-busy", "true");
        const older = current;
        if (older) setTimeout(() => older.abort(outdated), PATIENCE); // a new worker costs more than a short wait
        if (running) return;
        running = true;
        while (changed) {
            await new Promise((resolve) => setTimeout(resolve, 0)); // the events of a drag that have come already
            changed = false;
            await once();
        }
        running = false;
        host.removeAttribute("aria-busy");
    };
};
