"use strict";
// Boxes whose controls change a launch, and which show what the simulated device counts then. `{{lab NAME}}` puts a box into a
// page; `labs.lab(NAME, build)` fills it. Without this script the box says what would be there.

// `build` makes the controls of the box and gives the function that is called after each change. That function asks the device by
// its argument, shows the answers, and gives a sentence for the state line.
labs.lab = (name, build) => {
    const { element, kernel } = labs;
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

    let update;
    const refresh = labs.runs(host, state, (run) => {
        // Runs a kernel, and gives the whole answer, also that of a wrong kernel.
        const attempt = async (name, launch, more = {}) => {
            const { ptx, sources } = await kernel(name);
            return run({ ptx, launch, sources, name, ...more });
        };
        // Runs a kernel that must be right.
        const ask = async (...request) => {
            const answer = await attempt(...request);
            const wrong = answer.error ?? answer.fault?.report;
            if (wrong) throw new Error(wrong);
            return answer;
        };
        return update(ask, attempt);
    }, (error) => {
        problem.hidden = !error;
        problem.textContent = error?.message ?? "";
        if (error) state.textContent = "Nothing was counted. The reason:";
    });

    const begin = async () => {
        const facts = JSON.parse(host.dataset.facts);
        try {
            update = await build({ ...labs.controls(name, controls, refresh), ...labs.results(results), results, facts, kernel, host, refresh });
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
