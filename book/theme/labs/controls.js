"use strict";
// Controls of a box: a label, the native control, and its value in words. Each of them gives a function that reads the value.
labs.controls = (name, box, changed) => {
    const { element, number } = labs;
    let last = 0;
    const control = (label, input, said) => {
        input.id = `lab-${name}-${++last}`;
        const output = element("output", { htmlFor: input.id });
        const show = () => {
            output.textContent = said();
            input.setAttribute("aria-valuetext", said());
        };
        input.addEventListener("input", () => { show(); changed(); });
        const labelled = element("label", { htmlFor: input.id }, label);
        const parts = input.type === "checkbox" ? [input, labelled] : [labelled, input];
        if (input.type === "range") { show(); parts.push(output); }
        box.append(element("div", { className: `control ${input.type}` }, ...parts));
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
    return { range, select, checkbox };
};
