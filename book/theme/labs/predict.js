"use strict";
// Fields for predictions, before the fold with the answer: the simulator counts, or the answer of the text is compared. The fold opens
// then. `book/src/predict.rs` writes the questions. Without this script the fold stands alone.
(() => {
    const { element, number, kernel, withoutBarrier } = labs;

    // What a name in a count stands for, beside numbers and the figures of the profile.
    const NAMES = {
        class: ({ launches: [{ classes }] }, name) => classes[name],
        value: ({ buffers }, argument, at) => Number(buffers.find(({ position }) => position === argument).values[at]),
        // The first element of a buffer with a value.
        place: ({ buffers }, argument, value) => buffers.find(({ position }) => position === argument).values.indexOf(value),
        // Sectors of the first load that warp 0 makes from an argument.
        sectors: ({ trace }, argument) => {
            const accesses = trace.steps.flatMap((step) => step.accesses);
            return accesses.find(({ kind, arrays }) => kind === "load" && trace.arrays[arrays[0]].name === `argument ${argument}`).sector_count;
        },
    };
    const named = (answer, word) => {
        if (word !== "" && !Number.isNaN(Number(word))) return Number(word);
        const [name, ...rest] = word.split(":");
        return NAMES[name] ? NAMES[name](answer, ...rest) : answer.launches[0].figures[name].value;
    };
    // A sum of products: `1024 - global_store_bytes / 4`.
    const computed = (answer, text) => `+ ${text}`.split(/ (?=[+-] )/).reduce((sum, term) => {
        const [sign, first, ...factors] = term.split(" ");
        let product = named(answer, first);
        for (let at = 0; at < factors.length; at += 2) {
            const factor = named(answer, factors[at + 1]);
            product = factors[at] === "*" ? product * factor : product / factor;
        }
        return sign === "+" ? sum + product : sum - product;
    }, 0);

    // What the simulator finds for a question: a number, or one of the options.
    const found = async ({ options, run }, ask) => {
        const { ptx, sources, launch } = await kernel(run.kernel);
        const request = { name: run.kernel, sources, launch: run.launch || launch, values: 256 };
        request.ptx = run.without ? withoutBarrier(ptx, ...run.without) : ptx;
        if (run.count.includes("sectors:")) request.trace = { steps: 60 };
        const answer = await ask(request);
        const [report] = (answer.fault?.report ?? "no fault").split("\n");
        if (run.count === "report") return options.find((option) => report.includes(option)) ?? report;
        if (run.count === "line") return options.find((option) => option.startsWith(`${answer.fault.places[0][1]}: `));
        if (answer.error ?? answer.fault) throw new Error(answer.error ?? report);
        return computed(answer, run.count);
    };

    // Whole numbers are exact. Others are rounded in the text, and some counts contain a little more than the question asks for.
    const agree = (typed, right) => typeof right !== "number" ? typed === right
        : Math.abs(Number(typed) - right) <= (Number.isInteger(right) ? 0 : 0.025 * Math.abs(right));

    const field = (question, id) => {
        const { label, options } = question;
        const input = options
            ? element("select", { id }, ...["", ...options].map((option) => element("option", { value: option }, option || "choose")))
            : element("input", { type: "number", step: "any", id });
        const output = element("output", { htmlFor: id });
        const show = (counted) => {
            const right = counted ?? question.answer;
            const said = typeof right === "number" ? number(right, 3) : right;
            const agrees = input.value !== "" && agree(input.value, right);
            const whose = right !== counted ? "The text says" : typeof right === "number" ? "The simulator counted" : "The simulator reports";
            output.textContent = `${whose}: ${said}${input.value === "" ? "" : agrees ? ", as you predicted" : `. You predicted: ${input.value}`}`;
            output.className = agrees ? "right" : "";
        };
        return { question, show, row: element("div", { className: "control" }, element("label", { htmlFor: id }, label), input, output) };
    };

    for (const [page, host] of document.querySelectorAll("[data-questions]").entries()) {
        const fields = JSON.parse(host.dataset.questions).map((question, index) => field(question, `predict-${page}-${index}`));
        const state = element("p", { className: "state" });
        state.setAttribute("aria-live", "polite");
        const button = element("button", { type: "submit" }, "Compare");
        const legend = element("legend", {}, "Your prediction");
        const form = element("form", {}, element("fieldset", {}, legend, ...fields.map(({ row }) => row), button, state));
        host.replaceChildren(form);
        host.hidden = false;
        host.addEventListener("keydown", (event) => event.stopPropagation()); // mdBook turns pages by arrow keys

        const refresh = labs.runs(host, state, async (ask) => {
            let reason = "";
            for (const { question, show } of fields) {
                const counted = question.run && await found(question, ask).catch((error) => {
                    if (error instanceof labs.Interrupted) throw error;
                    reason = ` The simulator counts nothing: ${error.message}.`;
                });
                show(counted);
            }
            let fold = host.nextElementSibling;
            while (fold && fold.tagName !== "DETAILS") fold = fold.nextElementSibling;
            if (fold) fold.open = true;
            return `The answer below is open.${reason}`;
        }, () => {});
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            refresh();
        });
    }
})();
