// What is wrong with the page that is shown. Runs in the page: it can use nothing outside its own body.
export function inspect() {
    const findings = [];
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    const root = document.documentElement;
    const main = document.querySelector("main");
    const right = (element) => element.getBoundingClientRect().right;

    if (root.scrollWidth > root.clientWidth) findings.push(`scrolls sideways: ${root.scrollWidth} > ${root.clientWidth}`);
    for (const element of main.querySelectorAll("p, h1, h2, h3, li, math, .source, .stepper")) {
        const scroller = element.closest(".formula, .table-wrapper, .drawing, pre");
        if (!scroller && element.getBoundingClientRect().width > 0 && right(element) > right(main) + 2) {
            findings.push(`wider than the page: ${element.textContent.trim().slice(0, 60)}`);
        }
    }
    for (const box of main.querySelectorAll(".formula, .table-wrapper, .drawing, pre")) {
        if (right(box) > right(main) + 2) findings.push(`a box wider than the page: ${box.className || box.tagName}`);
    }
    const code = main.querySelector("pre code");
    if (code) {
        const [narrow, wide] = ["iiii", "mmmm"].map((text) => {
            const sample = code.appendChild(document.createElement("span"));
            sample.textContent = text;
            const { width } = sample.getBoundingClientRect();
            sample.remove();
            return width;
        });
        if (narrow !== wide) findings.push(`code in a proportional font: "iiii" is ${narrow} wide, "mmmm" ${wide}`);
    }
    for (const image of document.images) {
        if (!image.alt) findings.push(`an image without description: ${image.src}`);
        if (!image.naturalWidth) findings.push(`an image that is not shown: ${image.src}`);
    }

    for (const control of main.querySelectorAll("input, select, textarea, button")) {
        const name = control.ariaLabel || control.title || control.labels?.[0]?.textContent.trim() || (control.tagName === "BUTTON" && control.textContent.trim());
        if (!name) findings.push(`a control without a name: ${control.outerHTML.slice(0, 80)}`);
    }
    if (main.querySelector("#predict") && !main.querySelector("[data-questions] input, [data-questions] select")) findings.push("a prediction without fields");

    // Contrast as WCAG 2 defines it: 4.5 for text, 3 for what a shape is recognised by.
    const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
    const isClear = (colour) => colour === "none" || (numbers(colour).length === 4 && numbers(colour)[3] === 0);
    const luminance = (colour) => {
        const [r, g, b] = numbers(colour).map((x) => x / 255).map((x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
    // The colour of the page behind an element.
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (!isClear(colour)) return colour;
        }
        return "rgb(255, 255, 255)";
    };
    const demand = (least, colour, ground, what) => {
        const ratio = contrast(colour, ground);
        if (ratio < least) findings.push(`contrast ${ratio.toFixed(1)}: ${what}`);
    };
    for (const svg of main.querySelectorAll("svg.figure")) {
        const label = svg.getAttribute("aria-label");
        const name = `"${(label ?? "").slice(0, 40)}"`;
        if (!label) findings.push("a picture without description");
        const page = behind(svg.parentElement);
        const view = svg.viewBox.baseVal;
        const filled = []; // rectangles drawn so far, with their colours
        for (const shape of svg.querySelectorAll("text, rect, line, polyline, path, circle")) {
            const style = getComputedStyle(shape);
            const box = shape.getBBox();
            const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
            const under = filled.findLast(({ box }) => x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height);
            const ground = under?.colour ?? page;
            const kind = `${shape.tagName} "${shape.getAttribute("class")}" in ${name}`;
            if (shape.tagName === "text") {
                if (box.x < -1 || box.y < -1 || box.x + box.width > view.width + 1 || box.y + box.height > view.height + 1) {
                    findings.push(`text beyond the picture ${name}: ${shape.textContent}`);
                }
                demand(4.5, style.fill, ground, kind);
                continue;
            }
            const colours = [style.fill, style.stroke].filter((colour) => !isClear(colour));
            if (!colours.length) findings.push(`nothing is drawn: ${kind}`);
            else if (Math.max(...colours.map((colour) => contrast(colour, ground))) < 3) findings.push(`hard to see: ${kind}`);
            if (shape.tagName === "rect" && !isClear(style.fill)) filled.push({ box, colour: style.fill });
        }
    }
    for (const element of main.querySelectorAll("p, li, td, th, figcaption, summary, .source, button, label, legend, output, pre code")) {
        if (element.textContent.trim()) demand(4.5, getComputedStyle(element).color, behind(element), element.textContent.trim().slice(0, 40));
    }
    return [...new Set(findings)];
}
