"use strict";
// Results in a box: pictures, tables, listings. Each of them gives a function that shows new ones.
labs.results = (box) => {
    const { element, shape } = labs;
    const picture = (width, height, minimum = width) => {
        const svg = shape("svg", { class: "figure", role: "img", "aria-label": "Not drawn yet", viewBox: `0 0 ${width} ${height}` });
        Object.assign(svg.style, { minWidth: `${minimum}px`, maxWidth: `${1.3 * width}px` });
        box.append(element("div", { className: "walk", tabIndex: 0, role: "region", ariaLabel: "Picture" }, svg));
        return (description, shapes, tall = height) => {
            svg.setAttribute("viewBox", `0 0 ${width} ${tall}`);
            svg.setAttribute("aria-label", description);
            svg.replaceChildren(...shapes);
        };
    };
    const table = (head) => {
        const body = element("tbody");
        const titles = head.map((text) => element("th", { scope: "col" }, text));
        const whole = element("div", { className: "table-wrapper" }, element("table", {}, element("thead", {}, element("tr", {}, ...titles)), body));
        box.append(whole);
        return (rows) => {
            whole.hidden = rows.length === 0;
            body.replaceChildren(...rows.map((row) => element("tr", {}, ...row.map((text) => element("td", {}, text)))));
        };
    };
    // Lines of a source file between anchors. The function takes one that gives the class of a line.
    const listing = (file, text, anchor) => {
        const whole = element("div", { className: "listing", tabIndex: 0, role: "region", ariaLabel: `Lines of ${file}` });
        const all = text.split("\n");
        const first = all.findIndex((line) => line.includes(`ANCHOR: ${anchor}`));
        const end = all.findIndex((line) => line.includes(`ANCHOR_END: ${anchor}`));
        const lines = all.slice(first + 1, end).map((line, index) => {
            const number = first + 2 + index;
            return [number, element("div", {}, `${String(number).padStart(3)}  ${line}`)];
        });
        whole.append(element("div", { className: "file" }, file), ...lines.map(([, line]) => line));
        box.append(whole);
        return (classes) => {
            for (const [number, line] of lines) line.className = classes(number);
        };
    };
    return { picture, table, listing };
};
