"use strict";
// What the labs share: elements, kernels with their launches, numbers in words.
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

    // PTX without the barriers of a source line.
    const withoutBarrier = (ptx, file, line) => {
        const lines = ptx.split("\n");
        const named = lines.find((text) => text.includes(".file") && text.includes(`"/k/${file}"`));
        const number = named.trim().split(/\s+/)[1];
        let here = false;
        return lines.filter((text) => {
            const place = text.match(/^\s*\.loc\s+(\d+) (\d+)/);
            if (place) here = place[1] === number && Number(place[2]) === line;
            return !(here && /^\s*(bar|barrier)\./.test(text));
        }).join("\n");
    };

    // Of the source files that a trace names, the lines from the first to the last, as `stepThrough` takes them.
    const named = ({ steps }, sources) => {
        const files = [...new Set(steps.map(({ file }) => file))].filter((file) => sources[file]);
        return files.map((file) => {
            const lines = steps.filter((step) => step.file === file).map(({ line }) => line);
            const [first, last] = [Math.min(...lines), Math.max(...lines)];
            return { file, first, lines: sources[file].split("\n").slice(first - 1, last) };
        });
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

    return { element, shape, kernel, withoutBarrier, named, stated, number, shown };
})();
