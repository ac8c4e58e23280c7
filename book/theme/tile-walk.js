"use strict";
// Walks the tiles of the fused kernel, and counts what each step loads. Without this script the page shows a picture in text.
(() => {
    const host = document.getElementById("tile-walk");
    if (!host) return;

    const D = 64;
    host.innerHTML = `
        <div class="fields">
            <label>Queries and keys, N <input type="number" id="tw-n" value="512" min="1" max="4096"></label>
            <label>Queries of a tile <input type="number" id="tw-q" value="64" min="1" max="4096"></label>
            <label>Keys of a tile <input type="number" id="tw-k" value="64" min="1" max="4096"></label>
            <label><input type="checkbox" id="tw-causal" checked> causal</label>
        </div>
        <div role="group" aria-label="Steps">
            <button type="button" id="tw-back">Back</button><button type="button" id="tw-next">Next tile</button><button type="button" id="tw-row">Next block</button><button type="button" id="tw-end">To the end</button><button type="button" id="tw-reset">Start again</button>
        </div>
        <p>Keys: → or n for the next tile, ← or p for the one before, r for the next block, End, Home (while the focus is in this box, outside a field).</p>
        <p class="problem" id="tw-problem" role="alert"></p>
        <div class="walk"><svg id="tw-tiles" class="figure" role="img" aria-label="Tiles of the score matrix"></svg></div>
        <p id="tw-state" aria-live="polite"></p>
        <div class="table-wrapper"><table><thead><tr><th>numbers moved, D = ${D}</th><th>so far</th><th>in all</th><th>stage 2, in all</th></tr></thead><tbody id="tw-counts"></tbody></table></div>`;
    host.tabIndex = 0;
    const at = (id) => document.getElementById(id);
    let step = 0;

    const read = () => {
        const [n, q, k] = ["tw-n", "tw-q", "tw-k"].map((id) => Number(at(id).value));
        if (![n, q, k].every((x) => Number.isInteger(x) && x >= 1 && x <= 4096)) return { problem: "Enter whole numbers from 1 to 4096." };
        const rows = Math.ceil(n / q), columns = Math.ceil(n / k);
        if (rows > 32 || columns > 32) return { problem: "More than 32 × 32 tiles cannot be drawn: choose larger tiles." };
        return { n, q, k, rows, columns, causal: at("tw-causal").checked };
    };

    // "masked", "full" or "mixed", by the corners of the tile.
    const kind = ({ n, q, k, causal }, row, column) => {
        if (!causal) return "full";
        const [first, last] = [row * q, Math.min(n, (row + 1) * q) - 1];
        const [begin, end] = [column * k, Math.min(n, (column + 1) * k) - 1];
        return begin > last ? "masked" : end <= first ? "full" : "mixed";
    };

    // The tiles that are computed, in order, each with what it adds to the counters.
    const walk = (sizes) => {
        const steps = [];
        for (let row = 0; row < sizes.rows; row++) {
            const queries = Math.min(sizes.n, (row + 1) * sizes.q) - row * sizes.q;
            for (let column = 0; column < sizes.columns; column++) {
                const what = kind(sizes, row, column);
                if (what === "masked") continue;
                const keys = Math.min(sizes.n, (column + 1) * sizes.k) - column * sizes.k;
                steps.push({ row, column, what, q: column === 0 ? queries * D : 0, kv: 2 * keys * D, scores: queries * keys, o: 0 });
            }
            steps.at(-1).o = queries * D;
        }
        return steps;
    };

    const sum = (steps, key) => steps.reduce((sum, step) => sum + step[key], 0);
    const shown = (x) => x.toLocaleString("en");

    const draw = () => {
        const sizes = read();
        at("tw-problem").textContent = sizes.problem ?? "";
        const steps = sizes.problem ? [] : walk(sizes);
        step = Math.min(step, steps.length);
        const now = steps[step - 1];
        const svg = at("tw-tiles");
        svg.replaceChildren();
        if (!sizes.problem) {
            const cell = Math.max(8, Math.floor(Math.min(36, 480 / Math.max(sizes.rows, sizes.columns))));
            svg.setAttribute("viewBox", `0 0 ${sizes.columns * cell} ${sizes.rows * cell}`);
            svg.setAttribute("width", sizes.columns * cell);
            svg.setAttribute("height", sizes.rows * cell);
            const past = new Set(steps.slice(0, step).map(({ row, column }) => row * 64 + column));
            for (let row = 0; row < sizes.rows; row++) {
                for (let column = 0; column < sizes.columns; column++) {
                    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
                    const what = kind(sizes, row, column);
                    const current = now && now.row === row && now.column === column;
                    rect.setAttribute("class", current ? "red" : past.has(row * 64 + column) ? "done" : { masked: "ghost", full: "blue", mixed: "orange" }[what]);
                    for (const [name, value] of Object.entries({ x: column * cell + 1, y: row * cell + 1, width: cell - 2, height: cell - 2 })) rect.setAttribute(name, value);
                    svg.append(rect);
                }
            }
        }
        const before = steps.slice(0, step);
        const computed = sum(before, "scores"), { n } = sizes;
        at("tw-state").textContent = sizes.problem ? "" : now
            ? `Step ${step} of ${steps.length}: block ${now.row}, tile ${now.column} of the keys, ${now.what}. ${shown(computed)} of ${shown(n * n)} scores computed; at any time at most ${shown(sizes.q * sizes.k)} exist.`
            : `${steps.length} of ${sizes.rows * sizes.columns} tiles will be computed.`;
        const rows = sizes.problem ? [] : [
            ["q, read", sum(before, "q"), sum(steps, "q"), n * D],
            ["k and v, read", sum(before, "kv"), sum(steps, "kv"), 2 * n * D],
            ["scores, written and read", 0, 0, 6 * n * n],
            ["o, written", sum(before, "o"), sum(steps, "o"), n * D],
        ];
        if (rows.length) rows.push(["together", ...[1, 2, 3].map((column) => rows.reduce((sum, row) => sum + row[column], 0))]);
        at("tw-counts").replaceChildren(...rows.map(([name, ...values]) => {
            const row = document.createElement("tr");
            for (const text of [name, ...values.map(shown)]) {
                const cell = document.createElement("td");
                cell.textContent = text;
                row.append(cell);
            }
            return row;
        }));
        at("tw-back").disabled = step === 0;
        for (const id of ["tw-next", "tw-row", "tw-end"]) at(id).disabled = step >= steps.length;
        return steps;
    };

    const go = (to) => { step = Math.max(0, to); draw(); };
    const nextBlock = () => {
        const steps = draw();
        const row = steps[step]?.row;
        const next = steps.findIndex((entry, index) => index >= step && entry.row !== row);
        go(next < 0 ? steps.length : next);
    };
    at("tw-next").addEventListener("click", () => go(step + 1));
    at("tw-back").addEventListener("click", () => go(step - 1));
    at("tw-row").addEventListener("click", nextBlock);
    at("tw-end").addEventListener("click", () => go(Infinity));
    at("tw-reset").addEventListener("click", () => go(0));
    for (const id of ["tw-n", "tw-q", "tw-k", "tw-causal"]) at(id).addEventListener("input", () => go(0));
    host.addEventListener("keydown", (event) => {
        if (event.altKey || event.ctrlKey || event.metaKey) return;
        event.stopPropagation(); // mdBook turns pages by arrow keys
        if (event.target.tagName === "INPUT") return;
        const act = {
            ArrowRight: () => go(step + 1), n: () => go(step + 1), ArrowLeft: () => go(step - 1), p: () => go(step - 1),
            r: nextBlock, End: () => go(Infinity), Home: () => go(0),
        }[event.key];
        if (!act) return;
        event.preventDefault();
        act();
    });
    draw();
})();
