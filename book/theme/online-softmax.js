"use strict";
// Steps through online softmax with the reader's numbers. Without this script the page shows a worked example in text.
(() => {
    const host = document.getElementById("softmax-stepper");
    if (!host) return;

    host.innerHTML = `
        <label>Scores of a row <input type="text" id="os-scores" value="1, 3, 2, 5, 4, 0" spellcheck="false"></label>
        <label>Scores per tile <input type="number" id="os-tile" value="2" min="1" max="16"></label>
        <div role="group" aria-label="Steps">
            <button type="button" id="os-back">Back</button><button type="button" id="os-next">Next tile</button><button type="button" id="os-reset">Start again</button>
        </div>
        <p>Keys: → or n for the next tile, ← or p for the one before, Home to start again (while the focus is in this box, outside a field).</p>
        <p class="problem" id="os-problem" role="alert"></p>
        <ul class="scores" id="os-list" aria-label="Scores"></ul>
        <div class="table-wrapper"><table><thead><tr><th>tile</th><th>m′</th><th>exp(m − m′)</th><th>sum of exp(s − m′)</th><th>l</th></tr></thead><tbody id="os-rows"></tbody></table></div>
        <p id="os-state" aria-live="polite"></p>`;
    host.tabIndex = 0;
    const at = (id) => document.getElementById(id);
    let step = 0;

    const read = () => {
        const scores = at("os-scores").value.split(/[\s,;]+/).filter((word) => word !== "")
            .map((word) => (/^[-−]inf$/i.test(word) ? -Infinity : Number(word.replace("−", "-"))));
        const tile = Number(at("os-tile").value);
        if (scores.length === 0 || scores.length > 64) return { problem: "Enter 1 to 64 numbers." };
        if (scores.some(Number.isNaN) || scores.includes(Infinity)) return { problem: "Enter numbers, or -inf for a masked score." };
        if (!Number.isInteger(tile) || tile < 1) return { problem: "A tile has at least one score." };
        return { scores, tile };
    };

    // One entry per tile: the algorithm of stage 3 and of every kernel from stage 4 on.
    const run = ({ scores, tile }) => {
        const steps = [];
        let m = -Infinity, l = 0;
        for (let begin = 0; begin < scores.length; begin += tile) {
            const part = scores.slice(begin, begin + tile);
            const max = Math.max(m, ...part);
            const shift = max === -Infinity ? 0 : max;
            const shrink = Math.exp(m - shift);
            const sum = part.reduce((sum, s) => sum + Math.exp(s - shift), 0);
            l = l * shrink + sum;
            m = max;
            steps.push({ m, shrink, sum, l });
        }
        return steps;
    };

    const shown = (x) => (x === -Infinity ? "−∞" : String(Number(x.toPrecision(5))).replace("-", "−"));

    const draw = () => {
        const input = read();
        at("os-problem").textContent = input.problem ?? "";
        const steps = input.problem ? [] : run(input);
        step = Math.min(step, steps.length);
        at("os-list").replaceChildren(...(input.scores ?? []).map((score, index) => {
            const item = document.createElement("li");
            const tile = Math.floor(index / input.tile);
            item.textContent = shown(score);
            item.className = [tile === step - 1 ? "now" : tile < step - 1 ? "done" : "", index % input.tile === 0 && index > 0 ? "tile" : ""].join(" ").trim();
            return item;
        }));
        at("os-rows").replaceChildren(...steps.slice(0, step).map((entry, index) => {
            const row = document.createElement("tr");
            for (const text of [index + 1, entry.m, entry.shrink, entry.sum, entry.l]) {
                const cell = document.createElement("td");
                cell.textContent = shown(text);
                row.append(cell);
            }
            return row;
        }));
        at("os-back").disabled = step === 0;
        at("os-next").disabled = step >= steps.length;
        const last = steps[step - 1];
        if (!last) {
            at("os-state").textContent = steps.length ? "Before the first tile: m = −∞, l = 0." : "";
        } else if (step < steps.length) {
            at("os-state").textContent = `After tile ${step}: m = ${shown(last.m)}, l = ${shown(last.l)}.`;
        } else {
            const max = Math.max(...input.scores);
            const at_once = input.scores.reduce((sum, s) => sum + Math.exp(s - (max === -Infinity ? 0 : max)), 0);
            at("os-state").textContent = `All tiles: m = ${shown(last.m)}, l = ${shown(last.l)}, lse = m + ln l = ${shown(last.l === 0 ? -Infinity : last.m + Math.log(last.l))}. At once, the sum is ${shown(at_once)}.`;
        }
    };

    const go = (to) => { step = Math.max(0, to); draw(); };
    at("os-next").addEventListener("click", () => go(step + 1));
    at("os-back").addEventListener("click", () => go(step - 1));
    at("os-reset").addEventListener("click", () => go(0));
    for (const id of ["os-scores", "os-tile"]) at(id).addEventListener("input", () => go(0));
    host.addEventListener("keydown", (event) => {
        if (event.altKey || event.ctrlKey || event.metaKey) return;
        const to = { ArrowRight: step + 1, n: step + 1, ArrowLeft: step - 1, p: step - 1, Home: 0 }[event.key];
        event.stopPropagation(); // mdBook turns pages by arrow keys
        if (event.target.tagName === "INPUT" || to === undefined) return;
        event.preventDefault();
        go(to);
    });
    draw();
})();
