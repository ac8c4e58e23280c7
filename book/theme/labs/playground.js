"use strict";
// The playground: any kernel of the book, or the reader's own PTX, with a launch to edit; all that the simulated device says.
labs.lab("playground", ({ results, facts, host, kernel, refresh }) => {
    const { element, number, shown } = labs;
    const VALUES = 32; // elements of a buffer that are shown
    const BUDGET = 2_000_000; // instructions of a warp, so that an endless loop ends

    // A labelled control.
    let last = 0;
    const controls = host.querySelector(".controls");
    const field = (label, input, kind = "") => {
        input.id = `playground-${++last}`;
        const parts = [element("label", { htmlFor: input.id }, label), input];
        if (input.type === "checkbox") parts.reverse();
        controls.append(element("div", { className: `control ${kind}` }, ...parts));
        return input;
    };
    const text = (label, rows) => field(label, element("textarea", { rows, spellcheck: false, wrap: "off" }), "wide");
    const count = (label, value) => field(label, element("input", { type: "number", min: 0, value }));

    const groups = facts.groups.map(({ name, kernels }) => {
        const options = kernels.map((kernel) => element("option", { value: kernel }, kernel.split("-")[0]));
        return element("optgroup", { label: name }, ...options);
    });
    const chosen = field("Kernel", element("select", {}, ...groups), "wide");
    const launch = text("Launch, arguments and expected results", 4);
    const ptx = text("PTX", 12);
    const seed = field("Seed: another order of blocks and warps", element("input", { type: "number", min: 0, placeholder: "none" }));
    const traced = field("Trace one warp of the first launch", element("input", { type: "checkbox" }), "checkbox");
    const [block, warp, steps] = [count("Block of the trace, x", 0), count("Warp of the trace", 0), count("Steps of the trace", 200)];
    const run = element("button", { type: "button" }, "Run");
    const again = element("button", { type: "button" }, "Restore the kernel");
    controls.append(element("div", { className: "control wide" }, run, again));

    let sources = {};
    const load = async () => {
        host.setAttribute("aria-busy", "true");
        const loaded = await kernel(chosen.value);
        ({ sources } = loaded);
        launch.value = loaded.launch;
        ptx.value = loaded.ptx;
        refresh();
    };
    chosen.addEventListener("change", load);
    again.addEventListener("click", load);
    run.addEventListener("click", refresh);
    host.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) refresh();
    });

    // Parts of the results.
    const title = (said) => element("h3", {}, said);
    const pre = (said, kind = "") => element("pre", { className: kind, tabIndex: 0 }, said);
    const table = (head, rows) => {
        const cells = (name, row) => row.map((said) => element(name, {}, said));
        const body = rows.map((row) => element("tr", {}, ...cells("td", row)));
        return element("div", { className: "table-wrapper long", tabIndex: 0 }, element("table", {}, element("thead", {}, element("tr", {}, ...cells("th", head))), element("tbody", {}, ...body)));
    };
    // The lines around those that a fault names.
    const around = (places) => {
        const files = [...new Set(places.map(([file]) => file))].filter((file) => sources[file]);
        return files.map((file) => {
            const named = new Set(places.filter(([of]) => of === file).map(([, line]) => line));
            const lines = sources[file].split("\n").map((said, index) => [index + 1, said]);
            const near = lines.filter(([line]) => [...named].some((place) => Math.abs(place - line) <= 3));
            const shown = near.map(([line, said]) => element("div", { className: named.has(line) ? "fault" : "" }, `${String(line).padStart(3)}  ${said}`));
            return element("div", { className: "listing", tabIndex: 0, role: "region", ariaLabel: `Lines of ${file}` }, element("div", { className: "file" }, file), ...shown);
        });
    };
    const byLine = (lines) => {
        const quotient = (a, b) => (b ? number(a / b, 1) : "");
        return table(["line", "source", "instr", "issue", "lanes", "sectors", "bank"], lines.map((line) => {
            const { global_loads: loads, global_stores: stores, shared_loads: read, shared_stores: written } = line;
            const source = element("code", {}, (line.source ?? "").trim());
            return [
                `${line.file.split("/").at(-1)}:${line.line}`, source, number(line.warp_instructions), `${number(100 * line.issue_share, 1)} %`,
                quotient(line.lane_instructions, line.warp_instructions),
                quotient(loads.sectors + stores.sectors, loads.requests + stores.requests),
                quotient(read.wavefronts + written.wavefronts, read.ideal + written.ideal),
            ];
        }));
    };
    const stepped = (trace) => {
        const box = element("div");
        stepThrough(box, { recording: trace, sources: labs.named(trace, sources) });
        return box;
    };

    load();
    return async (_, attempt) => {
        if (!ptx.value) return "";
        const request = { values: VALUES, budget: BUDGET, ptx: ptx.value, sources };
        if (seed.value !== "") request.seed = Number(seed.value);
        if (traced.checked) request.trace = { block: [Number(block.value), 0, 0], warp: Number(warp.value), steps: Number(steps.value) };
        const { error, fault, launches, buffers, mismatches, printed, trace } = await attempt(chosen.value, launch.value, request);
        const shownParts = [];
        if (error) shownParts.push(pre(error, "report"));
        if (fault) shownParts.push(pre(fault.report, "report"), ...around(fault.places));
        if (mismatches.length) shownParts.push(title("Results that differ from those stated"), pre(mismatches.join("\n"), "report"));
        if (printed) shownParts.push(title("Printed"), pre(printed));
        if (trace?.steps.length) shownParts.push(title("Trace"), stepped(trace));
        if (buffers.length) {
            const rows = buffers.map(({ position, ty, count, values }) => [position, `${ty}[${number(count)}]`, values.join(" ") + (count > values.length ? " …" : "")]);
            shownParts.push(title("Buffers after the launch"), table(["argument", "type", "first elements"], rows));
        }
        for (const { title: name, figures, bound, lines } of launches) {
            const rows = Object.entries(figures).map(([key, figure]) => [key.replaceAll("_", " "), shown(figure)]);
            shownParts.push(title(`Counters of ${name}`), table(["figure", "counted"], [["bound by", bound], ...rows]), title("By line"), byLine(lines));
        }
        results.replaceChildren(...shownParts);
        if (error) return "The launch is refused.";
        if (fault) return `The simulator reports a fault: ${fault.report.split("\n")[0]}.`;
        if (mismatches.length) return "No fault, but results differ from those stated.";
        return `No fault. ${shown(launches[0].figures.warp_instructions)} warp instructions, ${shown(launches[0].figures.time)} modelled.`;
    };
});
