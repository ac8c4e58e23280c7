"use strict";
// What the labs share: boxes whose controls change a launch, and which show what the simulated device counts then. `{{lab NAME}}`
// puts a box into a page; `labs.lab(NAME, build)` fills it. Without this script the box says what would be there.
const labs = (() => {
    const folder = new URL("../kernels/", document.currentScript.src);

    // A new element, with properties or attributes, and what it holds.
    const element = (name, attributes = {}, ...content) => {
        const made = document.createElement(name);
        for (const [key, value] of Object.entries(attributes)) {
            if (key in made) made[key] = value;
            else made.setAttribute(key, value);
        }
        made.append(...content);
        return made;
    };

    // The same for SVG.
    const shape = (name, attributes = {}, ...content) => {
        const made = document.createElementNS("http://www.w3.org/2000/svg", name);
        for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
        made.append(...content);
        return made;
    };

    // A kernel with its launch and its sources, loaded once, as a script: a page from a disk may fetch nothing.
    const loaded = new Map();
    const kernel = (name) => {
        if (!loaded.has(name)) {
            loaded.set(name, new Promise((resolve, reject) => {
                const script = element("script", { src: new URL(`${name}.js`, folder).href });
                script.onload = () => resolve(globalThis.kernels[name]);
                script.onerror = () => reject(new Error(`the kernel ${name} is not part of this copy of the book`));
                document.head.append(script);
            }));
        }
        return loaded.get(name);
    };

    // The comments that state a launch: its settings, such as { grid: 1, block: 32 }, and its arguments.
    const stated = (settings, args) => {
        const words = Object.entries(settings).map(([key, value]) => `${key}=${value}`);
        return `// launch: ${words.join(" ")}\n// args: ${args.join(" ")}`;
    };

    const number = (value, digits = 0) => value.toLocaleString("en", { maximumFractionDigits: digits });

    // A figure of a profile in words.
    const shown = ({ value, unit }) => {
        if (unit === "share") return `${number(100 * value, 1)} %`;
        if (unit === "bytes") return `${number(value)} bytes`;
        if (unit === "quotient") return number(value, 2);
        if (unit !== "seconds") return number(value);
        const [scale, name] = value < 1e-6 ? [1e9, "ns"] : value < 1e-3 ? [1e6, "µs"] : [1e3, "ms"];
        return `${(value * scale).toPrecision(3)} ${name}`;
    };

    // Ends an update whose controls have changed meanwhile.
    const stale = new Error("stale");

    // A box. `build` makes its controls and gives the function that is called after each change. That function asks the device by
    // its argument, shows the answers, and gives a sentence for the state line.
    const lab = (name, build) => {
        const host = document.querySelector(`[data-lab="${name}"]`);
        if (!host) return;
        const controls = element("div", { className: "controls" });
        const state = element("p", { className: "state" });
        state.setAttribute("aria-live", "polite");
        const problem = element("pre", { className: "report", tabIndex: 0, hidden: true });
        problem.setAttribute("aria-label", "Report of the simulator");
        const results = element("div", { className: "results" });
        host.replaceChildren(controls, state, problem, results);
        host.addEventListener("keydown", (event) => event.stopPropagation()); // mdBook turns pages by arrow keys

        let changed = false, running = false;
        // Runs a kernel, and gives the whole answer, also that of a wrong kernel.
        const attempt = async (name, launch, more = {}) => {
            const { ptx, sources } = await kernel(name);
            const request = { ptx, launch, sources, name, ...more };
            const begin = performance.now();
            const answer = await simulator(request);
            if (changed) throw stale;
            host.runs.push({ request, answer, milliseconds: performance.now() - begin });
            return answer;
        };
        // Runs a kernel that must be right.
        const ask = async (...request) => {
            const answer = await attempt(...request);
            const wrong = answer.error ?? answer.fault?.report;
            if (wrong) throw new Error(wrong);
            return answer;
        };
        const refresh = async () => {
            changed = true;
            host.setAttribute("aria-busy", "true");
            if (running) return;
            running = true;
            while (changed) {
                await new Promise((resolve) => setTimeout(resolve, 0)); // the events of a drag that have come already
                changed = false;
                host.runs = [];
                try {
                    const sentence = await update(ask, attempt);
                    problem.hidden = true;
                    state.textContent = sentence ?? "";
                } catch (error) {
                    if (error === stale || changed) continue;
                    problem.hidden = false;
                    problem.textContent = error.message;
                    state.textContent = "Nothing was counted. The reason:";
                }
            }
            running = false;
            host.removeAttribute("aria-busy");
        };

        // Controls: a label, the native control, and its value in words.
        let last = 0;
        const control = (label, input, said) => {
            input.id = `lab-${name}-${++last}`;
            const output = element("output", { htmlFor: input.id });
            const show = () => {
                output.textContent = said();
                input.setAttribute("aria-valuetext", said());
            };
            input.addEventListener("input", () => { show(); refresh(); });
            const labelled = element("label", { htmlFor: input.id }, label);
            const parts = input.type === "checkbox" ? [input, labelled] : [labelled, input];
            if (input.type === "range") { show(); parts.push(output); }
            controls.append(element("div", { className: `control ${input.type}` }, ...parts));
            return input;
        };
        // A slider over numbers, from `min` to `max` or over a list of values.
        const range = (label, { min = 0, max, step = 1, values, value, unit = "" }) => {
            const at = (input) => (values ? values[Number(input.value)] : Number(input.value));
            const attributes = values ? { min: 0, max: values.length - 1, value: values.indexOf(value) } : { min, max, step, value };
            const input = element("input", { type: "range", ...attributes });
            control(label, input, () => `${number(at(input))}${unit}`);
            return () => at(input);
        };
        const select = (label, options, chosen = 0) => {
            const input = element("select", {}, ...options.map((text, index) => element("option", { value: index, selected: index === chosen }, text)));
            control(label, input, () => options[input.value]);
            return () => Number(input.value);
        };
        const checkbox = (label, checked) => {
            const input = element("input", { type: "checkbox", checked });
            control(label, input, () => (input.checked ? "on" : "off"));
            return () => input.checked;
        };

        // Results: pictures, tables, listings.
        const picture = (width, height, minimum = width) => {
            const svg = shape("svg", { class: "figure", role: "img", "aria-label": "Not drawn yet", viewBox: `0 0 ${width} ${height}` });
            Object.assign(svg.style, { minWidth: `${minimum}px`, maxWidth: `${1.3 * width}px` });
            results.append(element("div", { className: "walk", tabIndex: 0, role: "region", ariaLabel: "Picture" }, svg));
            return (description, shapes, tall = height) => {
                svg.setAttribute("viewBox", `0 0 ${width} ${tall}`);
                svg.setAttribute("aria-label", description);
                svg.replaceChildren(...shapes);
            };
        };
        const table = (head) => {
            const body = element("tbody");
            const titles = head.map((text) => element("th", { scope: "col" }, text));
            const box = element("div", { className: "table-wrapper" }, element("table", {}, element("thead", {}, element("tr", {}, ...titles)), body));
            results.append(box);
            return (rows) => {
                box.hidden = rows.length === 0;
                body.replaceChildren(...rows.map((row) => element("tr", {}, ...row.map((text) => element("td", {}, text)))));
            };
        };
        // Lines of a source file, without anchors and what the preprocessor takes out. `mark` puts a class and a note on lines.
        const listing = (file, text, anchor) => {
            const box = element("div", { className: "listing", tabIndex: 0, role: "region", ariaLabel: `Lines of ${file}` });
            const all = text.split("\n");
            const first = all.findIndex((line) => line.includes(`ANCHOR: ${anchor}`));
            const end = all.findIndex((line) => line.includes(`ANCHOR_END: ${anchor}`));
            const lines = new Map();
            all.slice(first + 1, end).forEach((line, index) => {
                if (/^\s*(#|\/\/ ANCHOR)/.test(line)) return;
                const number = first + 2 + index;
                lines.set(number, element("div", {}, `${String(number).padStart(3)}  ${line}`));
            });
            box.append(element("div", { className: "file" }, file), ...lines.values());
            results.append(box);
            return (classes) => {
                for (const [number, line] of lines) line.className = classes(number, line.textContent);
            };
        };

        let update;
        const facts = JSON.parse(host.dataset.facts);
        const begin = async () => {
            try {
                update = await build({ range, select, checkbox, picture, table, listing, results, facts, kernel, host, refresh });
                refresh();
            } catch (error) {
                state.textContent = `Nothing can be shown: ${error.message}.`;
            }
        };
        // The simulator is loaded when the box comes into sight.
        new IntersectionObserver((seen, observer) => {
            if (!seen.some((entry) => entry.isIntersecting)) return;
            observer.disconnect();
            state.textContent = "The simulator is being loaded.";
            begin();
        }, { rootMargin: "300px" }).observe(host);
        state.textContent = "The simulator is loaded when this box comes into sight.";
    };

    return { lab, element, shape, stated, shown, number, kernel };
})();
