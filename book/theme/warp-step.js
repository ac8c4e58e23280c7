"use strict";
// Steps through a recording of one warp, line by line: active lanes, what they access, and the shared array.
// Without this script the page shows the picture of the same kernel.
(() => {
    const host = document.getElementById("warp-step");
    const data = document.getElementById("warp-recording");
    if (!host || !data) return;
    const { recording, sources } = JSON.parse(data.textContent);
    const steps = recording.steps;
    const shared = recording.arrays.findIndex((array) => array.space === "shared");
    const words = recording.arrays[shared].bytes / 4;

    host.innerHTML = `
        <div role="group" aria-label="Steps">
            <button type="button" id="ws-back">Back</button><button type="button" id="ws-next">Next step</button><button type="button" id="ws-barrier">To the next barrier</button><button type="button" id="ws-end">To the end</button><button type="button" id="ws-reset">Start again</button>
        </div>
        <p>Keys: → or n for the next step, ← or p for the one before, b for the next barrier, End, Home (while the focus is in this box).</p>
        <p id="ws-state" aria-live="polite"></p>
        <div id="ws-source" class="listing" role="region" aria-label="Source" tabindex="0"></div>
        <div class="walk" tabindex="0" role="region" aria-label="Lanes and shared memory">
            <div id="ws-lanes" class="lanes" role="img"></div>
            <div id="ws-words" class="lanes" role="img"></div>
        </div>
        <p class="key"><span class="blue">active lane, word read</span> <span class="orange">word written</span> <span class="ghost">inactive lane, word that nobody has written</span></p>`;
    host.tabIndex = 0;
    const at = (id) => document.getElementById(id);
    let step = 0;

    // The content of the shared array before each step, and after the last.
    const contents = [new Map()];
    for (const { before, after } of steps) {
        const now = new Map(contents.at(-1));
        contents[contents.length - 1] = now;
        for (const [array, word, value] of before) if (array === shared) now.set(word, value);
        const then = new Map(now);
        for (const [array, word, value] of after) if (array === shared) then.set(word, value);
        contents.push(then);
    }

    const shown = (value) => typeof value !== "number" ? value : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
    const range = (numbers) => numbers.length === 0 ? "none" : numbers.length === numbers.at(-1) - numbers[0] + 1 && numbers.length > 1
        ? `${numbers[0]} to ${numbers.at(-1)}` : numbers.join(", ");
    const sorted = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);
    const cost = (access) => {
        const [count, unit] = access.space === "shared"
            ? [access.passes.reduce((sum, pass) => sum + pass.wavefronts, 0), "wavefront"] : [access.sector_count, "sector"];
        return `${count} ${unit}${count === 1 ? "" : "s"}`;
    };
    const verb = { load: "reads", store: "writes", atomic: "changes" };
    const said = (access) => {
        const size = access.bytes / access.elements;
        const elements = sorted(access.offsets.map((offset) => offset / size));
        return `${verb[access.kind]} ${recording.arrays[access.arrays[0]].name}, element${elements.length > 1 ? "s" : ""} ${range(elements)}: ${cost(access)}`;
    };

    const cells = (parent, count, text, kind) => {
        parent.replaceChildren(...Array.from({ length: count }, (_, index) => {
            const cell = document.createElement("span");
            cell.className = kind(index);
            cell.textContent = text(index);
            return cell;
        }));
    };

    // The lines of the files, once.
    const listing = at("ws-source");
    for (const { file, first, lines } of sources) {
        const name = document.createElement("div");
        name.className = "file";
        name.textContent = file;
        listing.append(name);
        lines.forEach((text, index) => {
            const line = document.createElement("div");
            line.dataset.place = `${file}:${first + index}`;
            line.textContent = `${String(first + index).padStart(3)}  ${text}`;
            listing.append(line);
        });
    }

    const draw = () => {
        const now = steps[step];
        const place = `${now.file}:${now.line}`;
        for (const line of listing.children) {
            const here = line.dataset.place === place;
            line.classList.toggle("now", here);
            if (here) {
                line.setAttribute("aria-current", "step");
                listing.scrollTop = line.offsetTop - listing.offsetTop - listing.clientHeight / 2;
            } else line.removeAttribute("aria-current");
        }
        const of = (kind) => sorted(now.accesses.filter((access) => access.space === "shared" && (access.kind === kind))
            .flatMap((access) => access.offsets.map((offset) => offset / 4)));
        const [read, written] = [of("load"), of("store")];
        const active = new Set(now.active);
        const after = contents[step + 1];
        cells(at("ws-lanes"), 32, (lane) => lane, (lane) => active.has(lane) ? "blue" : "ghost");
        at("ws-lanes").setAttribute("aria-label", `Active lanes: ${range(now.active)}`);
        cells(at("ws-words"), words, (word) => after.has(word) ? shown(after.get(word)) : "", (word) =>
            written.includes(word) ? "orange" : read.includes(word) ? "blue" : after.has(word) ? "plain" : "ghost");
        at("ws-words").setAttribute("aria-label", `Shared array ${recording.arrays[shared].name}, 32 banks wide. Words read: ${range(read)}. Words written: ${range(written)}.`);
        const others = now.before.filter(([array]) => array === shared).length;
        const parts = [`Step ${step + 1} of ${steps.length}, line ${now.line}: ${now.active.length} active lane${now.active.length === 1 ? "" : "s"}.`];
        if (others) parts.push(`Other warps have written ${others} words meanwhile.`);
        if (now.barrier) parts.push("The warp waits at the barrier.");
        for (const access of now.accesses) parts.push(`It ${said(access)}.`);
        at("ws-state").textContent = parts.join(" ");
        at("ws-back").disabled = step === 0;
        for (const id of ["ws-next", "ws-barrier", "ws-end"]) at(id).disabled = step === steps.length - 1;
    };

    const go = (to) => { step = Math.min(Math.max(0, to), steps.length - 1); draw(); };
    const barrier = () => {
        const next = steps.findIndex((entry, index) => index > step && entry.barrier);
        go(next < 0 ? steps.length - 1 : next);
    };
    at("ws-next").addEventListener("click", () => go(step + 1));
    at("ws-back").addEventListener("click", () => go(step - 1));
    at("ws-barrier").addEventListener("click", barrier);
    at("ws-end").addEventListener("click", () => go(steps.length));
    at("ws-reset").addEventListener("click", () => go(0));
    host.addEventListener("keydown", (event) => {
        if (event.altKey || event.ctrlKey || event.metaKey) return;
        event.stopPropagation(); // mdBook turns pages by arrow keys
        const act = {
            ArrowRight: () => go(step + 1), n: () => go(step + 1), ArrowLeft: () => go(step - 1), p: () => go(step - 1),
            b: barrier, End: () => go(steps.length), Home: () => go(0),
        }[event.key];
        if (!act) return;
        event.preventDefault();
        act();
    });
    draw();
})();
