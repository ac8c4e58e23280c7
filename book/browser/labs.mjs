// The boxes that run kernels in a page: each function does what a reader would do by mouse and keyboard.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { opened } from "./box.mjs";
import { compare } from "./native.mjs";
import { playground, stopping } from "./playground.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

async function sectors(page, found) {
    const { at, settled, cell, state, first } = await opened(page, found, "sectors");
    if ((await cell("sectors")) !== "4") found(`neighbours: ${await cell("sectors")} sectors`);
    await compare(first, found);
    await at("Stride").focus();
    await page.keyboard.press("End");
    const runs = await settled();
    if (!(await state()).startsWith("32 sectors")) found(`a stride of 32: ${await state()}`);
    await compare(runs, found);
    await at("Stride").fill("1");
    await at("Offset").focus();
    await page.keyboard.press("ArrowRight");
    await settled();
    if (!(await state()).startsWith("5 sectors")) found(`an offset of 1: ${await state()}`);
    if (!page.url().endsWith("memory.html")) found("a key left the page");
}

async function banks(page, found) {
    const { at, host, settled, toggle, state, first } = await opened(page, found, "banks");
    if (!(await state()).startsWith("32 wavefronts")) found(`rows of 32 words: ${await state()}`);
    await compare(first, found);
    if ((await host.locator("svg .red").count()) !== 32) found("the words of one bank are not marked");
    await at("Words from row to row").focus();
    await page.keyboard.press("ArrowRight");
    await compare(await settled(), found);
    if (!(await state()).startsWith("1 wavefront:")) found(`rows of 33 words: ${await state()}`);
    await at("Words from row to row").fill("32");
    await toggle("swizzle");
    await settled();
    if (!(await state()).startsWith("1 wavefront:")) found(`swizzled: ${await state()}`);
}

async function barriers(page, found) {
    const { at, host, settled, toggle, cell, state, first } = await opened(page, found, "barriers");
    await compare(first, found);
    if (Number(await cell("first sum")) !== 128 || Number(await cell("second sum")) !== 256) found(`sums: ${await cell("first sum")}, ${await cell("second sum")}`);
    const source = readFileSync(join(root, "gpu/kernels/lab_barriers.cu"), "utf8").split("\n");
    const line = (text) => source.findIndex((line) => line.includes(text)) + 1;
    await toggle("3: before overwriting");
    await settled();
    const marked = (await host.locator(".listing .fault").allTextContents()).map((text) => Number.parseInt(text, 10));
    const wanted = [line("smem[threadIdx.x] = x;"), line("float sum = smem[0];")];
    if (marked.join() !== wanted.join()) found(`the lines ${marked} are marked, not ${wanted}`);
    await toggle("3: before overwriting");
    for (const barrier of ["1: before reading", "2: between the steps"]) {
        await toggle(barrier);
        await settled();
        if (!(await state()).includes("fault")) found(`${barrier} is missing, and no fault is reported`);
        await toggle(barrier);
    }
}

async function threads(page, found) {
    const { at, settled, cell, first } = await opened(page, found, "threads");
    await compare(first, found);
    if ((await cell("blocks")) !== "4" || (await cell("without an element")) !== "24") found(`1000 elements: ${await cell("blocks")} blocks`);
    await at("Border").focus();
    await page.keyboard.press("Home");
    await settled();
    if ((await cell("divergent branches")) !== "1") found(`without a border: ${await cell("divergent branches")} divergent branches`);
    await at("Threads of a block").selectOption({ label: "96" });
    await compare(await settled(), found);
    if ((await cell("blocks")) !== "11") found(`blocks of 96: ${await cell("blocks")}`);
    await at("Elements").focus();
    await page.keyboard.press("End");
    await settled();
    if ((await cell("waves")) !== "1.50" && !(Number(await cell("waves")) > 1)) found(`waves of the largest size: ${await cell("waves")}`);
}

async function product(page, found) {
    const { at, settled, cell, first } = await opened(page, found, "product");
    await compare(first, found);
    const plain = Number(await cell("sectors loaded"));
    await at("Kernel").selectOption({ index: 1 });
    await compare(await settled(), found);
    if (!(Number(await cell("sectors loaded")) < plain / 5)) found(`tiles do not save loads: ${await cell("sectors loaded")} of ${plain}`);
    for (const size of ["m:", "n:", "k:"]) {
        await at(size).focus();
        await page.keyboard.press("End");
    }
    for (const index of [0, 1, 2]) {
        await at("Kernel").selectOption({ index });
        await settled();
    }
}

async function softmax(page, found) {
    const { at, settled, cell, first } = await opened(page, found, "softmax");
    await compare(first, found);
    await at("Kernel").selectOption({ index: 1 });
    await compare(await settled(), found);
    if ((await cell("barriers")) !== "0") found(`a warp for each row has ${await cell("barriers")} barriers`);
    await at("Rows").focus();
    await page.keyboard.press("End");
    await at("Numbers of a row").focus();
    await page.keyboard.press("End");
    for (const index of [0, 1]) {
        await at("Kernel").selectOption({ index });
        await settled();
    }
}

async function firstRung(page, found) {
    const { at, host, settled } = await opened(page, found, "first-rung");
    const step = () => host.locator("#ws-state").textContent();
    const first = await step();
    if (!first.startsWith("Step 1 of ")) found(`it begins elsewhere: ${first}`);
    await host.locator(".steps").focus();
    await page.keyboard.press("b");
    if (!(await step()).includes("The warp waits at the barrier.")) found(`b goes to a barrier: ${await step()}`);
    await at("Warp,").fill("3");
    await settled();
    const names = new Set();
    for (let step = 1; step < 250; step += 12) {
        await host.getByLabel("Step", { exact: true }).fill(String(step));
        for (const name of await host.locator("#ws-words .of").allTextContents()) names.add(name.split(",")[0]);
    }
    if ([...names].sort().join() !== "k_smem,p_smem,q_smem,v_smem") found(`arrays that are shown: ${[...names]}`);
}

async function split(page, found) {
    const { at, host, settled, cell, state, first } = await opened(page, found, "split");
    await compare(first.slice(0, 2), found);
    if ((await host.locator("svg .red").count()) !== 1 || (await host.locator("svg .blue").count()) !== 11) found("not every number of parts has a bar");
    if (!(await state()).includes("The fastest of these has 24 parts")) found(`the minimum is not within: ${await state()}`);
    await at("Parts").focus();
    await page.keyboard.press("Home");
    await settled();
    if ((await cell("blocks")) !== "32") found(`one part of 32 heads: ${await cell("blocks")} blocks`);
    if (!(await state()).startsWith("1 part:")) found(`one part: ${await state()}`);
    await at("Keys").focus();
    await page.keyboard.press("End");
    await settled();
}

const all = [
    { name: "lab: sectors", file: "gpu/memory.html", use: sectors },
    { name: "lab: banks", file: "gpu/memory.html", use: banks },
    { name: "lab: barriers", file: "gpu/barriers.html", use: barriers },
    { name: "lab: threads", file: "gpu/threads.html", use: threads },
    { name: "lab: product", file: "stage2/gemm.html", use: product },
    { name: "lab: softmax", file: "stage2/softmax.html", use: softmax },
    { name: "lab: first rung", file: "stage4/first-rung.html", use: firstRung },
    { name: "lab: split", file: "stage5/split.html", use: split },
    { name: "playground", file: "playground.html", use: playground },
    { name: "playground: stopping", file: "playground.html", use: stopping },
];

// A book that was built without the WebAssembly target shows its figures alone.
const simulator = join(root, "book/html/theme/simulator-wasm.js");
export const labs = existsSync(simulator) ? all : [];
if (!labs.length) console.log("note: this copy of the book has no simulator, so its labs are not used");
