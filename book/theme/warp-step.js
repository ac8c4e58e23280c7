"use strict";
// Steps through a recording of one warp, line by line: active lanes, what they access, and the shared arrays.
// Without this script the page shows the picture of the same kernel.

// `host` is an empty box. `sources` are the lines that the recording names: for each file its name, its first line and the lines.
// `widths` has the words of a row of shared arrays by name: of these, the rows that the warp touches are shown. Of others, all words
// are shown, 32 in a line, one for each bank.
const stepThrough = (host, { recording, sources, widths = {} }) => {
    const steps = recording.steps;
    const isShared = (array) => recording.arrays[array]?.space === "shared";
    const arrays = recording.arrays.map((_, index) => index).filter(isShared);

    host.innerHTML = `
        <div role="group" aria-label="Steps">
            <button type="button" id="ws-back">Back</button><button type="button" id="ws-next">Next step</button><button type="button" id="ws-barrier">To the next barrier</button><button type="button" id="ws-end">To the end</button><button type="button" id="ws-reset">Start again</button>
        </div>
        <p>Keys: → or n for the next step, ← or p for the one before, b for the next barrier, End, Home (while the focus is in this box).</p>
        <input type="range" id="ws-step" aria-label="Step" min="1" max="${steps.length}" value="1">
        <p id="ws-state" aria-live="polite"></p>
        <div id="ws-source" class="listing" role="region" aria-label="Source" tabindex="0"></div>
        <div class="walk" tabindex="0" role="region" aria-label="Lanes and shared memory">
            <div class="of" id="ws-held"></div>
            <div id="ws-lanes" class="lanes" role="img"></div>
            <div id="ws-values" class="lanes" role="img"></div>
            <div id="ws-words"></div>
        </div>
        <p class="key"><span class="blue">active lane, word read</span> <span class="orange">word written</span> <span class="ghost">inactive lane, word that nobody has written</span></p>`;
    host.tabIndex = 0;
    const at = (id) => host.querySelector(`#${id}`);
    // Where all values are whole, so are those shown.
    const wholes = steps.every(({ before, after }) => [...before, ...after].every(([, , value]) => Number.isInteger(value)));
    const sorted = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);
    let step = 0;

    // The rows of each array with a width that this warp touches.
    const touched = new Map(arrays.map((array) => {
        const width = widths[recording.arrays[array].name];
        const offsets = steps.flatMap(({ accesses }) => accesses.flatMap((access) => access.offsets.filter((_, index) => access.arrays[index] === array)));
        return [array, width ? sorted(offsets.map((offset) => Math.floor(offset / 4 / width))) : []];
    }));

    // The content of a shared array after a step.
    const content = (array, step) => {
        const words = new Map();
        for (const { before, after } of steps.slice(0, step + 1)) {
            for (const [of, word, value] of [...before, ...after]) if (of === array) words.set(word, value);
        }
        return words;
    };

    const shown = (value) => typeof value !== "number" ? value : Number.isInteger(value) && wholes ? value : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
    const range = (numbers) => numbers.length === 0 ? "none" : numbers.length === numbers.at(-1) - numbers[0] + 1 && numbers.length > 1
        ? `${numbers[0]} to ${numbers.at(-1)}` : numbers.join(", ");
    const cost = (access) => (access.space === "shared" ? access.passes.reduce((sum, pass) => sum + pass.wavefronts, 0) : access.sector_count);
    const nameOf = (access) => recording.arrays[access.arrays[0]]?.name ?? "memory";
    const verb = { load: "reads", store: "writes", atomic: "changes" };
    // Accesses of one kind to one array, in words.
    const said = (accesses) => {
        const [{ kind, space }] = accesses;
        const elements = sorted(accesses.flatMap(({ offsets, bytes, elements }) => offsets.map((offset) => offset * elements / bytes)));
        const count = accesses.reduce((sum, access) => sum + cost(access), 0);
        const unit = space === "shared" ? "wavefront" : "sector";
        const which = range(elements).length > 60 ? `${elements.length} elements from ${elements[0]} to ${elements.at(-1)}`
            : `element${elements.length > 1 ? "s" : ""} ${range(elements)}`;
        return `${verb[kind]} ${nameOf(accesses[0])}, ${which}: ${count} ${unit}${count === 1 ? "" : "s"}`;
    };
    const alike = (accesses) => {
        const groups = new Map();
        for (const access of accesses) {
            const key = access.kind + nameOf(access);
            groups.set(key, [...(groups.get(key) ?? []), access]);
        }
        return [...groups.values()];
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
            if (text.includes("// ANCHOR")) return;
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
        const shared = ({ accesses }) => accesses.filter((access) => access.space === "shared");
        const accessed = shared(now);
        const last = steps.slice(0, step + 1).findLast((step) => shared(step).length);
        const watched = last ? sorted(shared(last).flatMap((access) => access.arrays)) : arrays.slice(0, 1);
        const active = new Set(now.active);
        // The last access whose lanes have elements of their own, else the last.
        const own = ({ offsets }) => new Set(offsets).size > 1;
        const held = now.accesses.findLast(own) ?? now.accesses.at(-1);
        const values = new Map(held?.lanes.map((lane, index) => [lane, held.values?.[index]?.[0]]));
        at("ws-held").textContent = held ? `lanes; below each, what it ${held.kind === "load" ? "loads from" : "stores to"} ${nameOf(held)}` : "lanes";
        cells(at("ws-lanes"), 32, (lane) => lane, (lane) => active.has(lane) ? "blue" : "ghost");
        cells(at("ws-values"), 32, (lane) => shown(values.get(lane) ?? ""), (lane) => values.has(lane) ? "plain" : "ghost");
        at("ws-lanes").setAttribute("aria-label", `Active lanes: ${range(now.active)}`);
        at("ws-values").setAttribute("aria-label", values.size ? "Values that the lanes load or store" : "The lanes load and store nothing");
        at("ws-words").replaceChildren(...watched.map((array) => {
            const { name, bytes } = recording.arrays[array];
            const of = (kind) => sorted(accessed.filter((access) => access.kind === kind)
                .flatMap((access) => access.offsets.filter((_, index) => access.arrays[index] === array).map((offset) => Math.floor(offset / 4))));
            const [read, written] = [of("load"), [...of("store"), ...of("atomic")]];
            const after = content(array, step);
            const [box, title, grid] = Array.from({ length: 3 }, () => document.createElement("div"));
            title.className = "of";
            const width = widths[name] ?? 32;
            const shownRows = widths[name] ? touched.get(array) : Array.from({ length: Math.ceil(bytes / 4 / width) }, (_, row) => row);
            title.textContent = widths[name] ? `${name}, rows ${range(shownRows)}` : `${name}, 32 words in each line, one for each bank`;
            grid.className = `lanes words${widths[name] ? " rows" : ""}`;
            grid.setAttribute("role", "img");
            grid.style.setProperty("--words", width);
            const inGrid = (index) => shownRows[Math.floor(index / width)] * width + index % width;
            const count = Math.min(shownRows.length * width, bytes / 4);
            const kind = (word) => (written.includes(word) ? "orange" : read.includes(word) ? "blue" : after.has(word) ? "plain" : "ghost");
            cells(grid, count, (index) => shown(after.get(inGrid(index)) ?? ""), (index) => kind(inGrid(index)));
            grid.setAttribute("aria-label", `Shared array ${name}. Words read: ${range(read)}. Words written: ${range(written)}.`);
            box.append(title, grid);
            return box;
        }));
        const others = now.before.filter(([array]) => isShared(array)).length;
        const parts = [`Step ${step + 1} of ${steps.length}, line ${now.line}: ${now.active.length} active lane${now.active.length === 1 ? "" : "s"}.`];
        if (others) parts.push(`Other warps have written ${others} words meanwhile.`);
        if (now.barrier) parts.push("The warp waits at the barrier.");
        for (const accesses of alike(now.accesses)) parts.push(`It ${said(accesses)}.`);
        at("ws-state").textContent = parts.join(" ");
        at("ws-step").value = step + 1;
        at("ws-back").disabled = step === 0;
        for (const id of ["ws-next", "ws-barrier", "ws-end"]) at(id).disabled = step === steps.length - 1;
    };

    const go = (to) => { step = Math.min(Math.max(0, to), steps.length - 1); draw(); };
    const barrier = () => {
        const next = steps.findIndex((entry, index) => index > step && entry.barrier);
        go(next < 0 ? steps.length - 1 : next);
    };
    at("ws-step").addEventListener("input", () => go(Number(at("ws-step").value) - 1));
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
};

(() => {
    const host = document.getElementById("warp-step");
    const data = document.getElementById("warp-recording");
    if (host && data) stepThrough(host, JSON.parse(data.textContent));
})();
