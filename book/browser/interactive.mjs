// The parts of the book that react: each function does what a reader would do, and reports what is not as it should be.

import { controlsAreReachable } from "./controls.mjs";
import { labs } from "./labs.mjs";

// The page on online softmax: buttons, keys and numbers do what they say.
async function stepper(page, found) {
    const rows = () => page.locator("#os-rows tr").count();
    const state = () => page.locator("#os-state").textContent();
    if ((await rows()) !== 0) found("it begins with a step");
    await page.click("#os-next");
    if ((await rows()) !== 1) found("the button takes no step");
    await page.focus("#softmax-stepper");
    await page.keyboard.press("ArrowRight");
    if ((await rows()) !== 2) found("the key takes no step");
    await page.keyboard.press("p");
    if ((await rows()) !== 1) found("the key takes no step back");
    await page.fill("#os-scores", "1, 3, 2, 5");
    await page.focus("#softmax-stepper");
    await page.keyboard.press("n");
    await page.keyboard.press("n");
    if (!(await state()).includes("1.2034")) found(`the sum of 1, 3, 2, 5 is wrong: ${await state()}`);
    await page.fill("#os-scores", "-inf, -inf");
    await page.click("#os-next");
    if (!(await state()).includes("lse = m + ln l = −∞")) found(`a masked row is wrong: ${await state()}`);
    await page.fill("#os-scores", "1, x");
    if (!(await page.locator("#os-problem").textContent())) found("letters are no problem");
    if (!page.url().endsWith("online-softmax.html")) found("a key left the page");
    await controlsAreReachable(page, found, page.locator("#softmax-stepper"));
}

// The page on tiles: the walk ends, and its counters are those of the formulas.
async function walk(page, found) {
    const state = () => page.locator("#tw-state").textContent();
    const total = async (row) => {
        const cells = await page.locator("#tw-counts tr").nth(row).locator("td").allTextContents();
        return cells.slice(1).map((text) => Number(text.replaceAll(",", "")));
    };
    if (!(await state()).startsWith("36 of 64 tiles")) found(`512 in tiles of 64, causal: ${await state()}`);
    await page.click("#tw-next");
    await page.focus("#tile-walk");
    await page.keyboard.press("ArrowRight");
    if (!(await state()).startsWith("Step 2 of 36: block 1, tile 0 of the keys, full")) found(`two steps: ${await state()}`);
    await page.keyboard.press("r");
    if (!(await state()).startsWith("Step 3 ")) found(`the rest of a block: ${await state()}`);
    await page.keyboard.press("End");
    const [so_far, in_all] = await total(1);
    if (so_far !== in_all || in_all !== 36 * 2 * 64 * 64) found(`k and v: ${so_far} of ${in_all}`);
    await page.uncheck("#tw-causal");
    if (!(await state()).startsWith("64 of 64 tiles")) found(`not causal: ${await state()}`);
    await page.fill("#tw-n", "100");
    await page.click("#tw-end");
    if ((await total(0))[0] !== 100 * 64) found("q of a ragged size is not read once");
    await page.fill("#tw-q", "0");
    if (!(await page.locator("#tw-problem").textContent())) found("a tile of 0 queries is no problem");
    await controlsAreReachable(page, found, page.locator("#tile-walk"));
}

// The page that steps through a warp: lanes and words are those of a reduction over 128 threads.
async function warp(page, found) {
    const state = () => page.locator("#ws-state").textContent();
    const cells = (row, kind) => page.locator(`#${row} .${kind}`).count();
    if (!(await state()).startsWith("Step 1 of ")) found(`it begins elsewhere: ${await state()}`);
    if (!(await state()).includes("reads argument 0, elements 0 to 31: 4 sectors")) found(`the first step loads the row: ${await state()}`);
    if ((await cells("ws-lanes", "blue")) !== 32) found("at first all lanes are active");
    if ((await cells("ws-words", "ghost")) !== 128) found("at first no word is written");
    await page.click("#ws-next");
    if ((await cells("ws-words", "orange")) !== 32) found("the second step stores 32 words");
    await page.focus("#warp-step");
    await page.keyboard.press("b");
    if (!(await state()).includes("The warp waits at the barrier.")) found(`b goes to a barrier: ${await state()}`);
    await page.keyboard.press("ArrowRight");
    if ((await cells("ws-words", "ghost")) !== 0) found("behind the barrier the words of the other warps are there");
    const stores = [];
    while (!(await page.isDisabled("#ws-next"))) {
        await page.keyboard.press("n");
        const active = await cells("ws-lanes", "blue");
        if ((await cells("ws-words", "orange")) && stores.at(-1) !== active) stores.push(active);
    }
    // Two reductions: the steps of 64 and 32 threads, and the first store of the second, have all lanes.
    if (stores.join() !== "32,16,8,4,2,1,32,16,8,4,2,1") found(`lanes that store: ${stores}`);
    await page.keyboard.press("ArrowLeft");
    if (await page.isDisabled("#ws-next")) found("the key takes no step back");
    await page.keyboard.press("Home");
    if (!(await state()).startsWith("Step 1 of ")) found("Home is not the first step");
    await page.click("#ws-end");
    if (!(await page.isDisabled("#ws-barrier"))) found("something comes after the end");
    if ((await page.locator("#ws-source .now").count()) !== 1) found("not one line is marked");
    if (!(await page.locator("#ws-words .words").getAttribute("aria-label"))) found("the words have no description");
    if (!page.url().endsWith("softmax.html")) found("a key left the page");
    await controlsAreReachable(page, found, page.locator("#warp-step"));
}

// Search finds a word, with no server.
async function search(page, found) {
    await page.waitForFunction(() => document.getElementById("mdbook-searchbar"));
    await page.keyboard.press("s");
    await page.locator("#mdbook-searchbar").pressSequentially("wavefront", { delay: 50 });
    const hit = page.locator("#mdbook-searchresults a").first();
    await hit.waitFor({ timeout: 20000 }).catch(() => found("nothing found"));
}

// A fold opens by a key.
async function fold(page, found) {
    const fold = page.locator("main details").first();
    if (await fold.evaluate((element) => element.open)) found("a fold is open already");
    await fold.locator("summary").focus();
    await page.keyboard.press("Enter");
    if (!(await fold.evaluate((element) => element.open))) found("the key does not open it");
}

export const interactive = [
    { name: "online softmax", file: "stage3/online-softmax.html", use: stepper },
    { name: "tiles", file: "stage3/tiles.html", use: walk },
    { name: "a warp", file: "stage2/softmax.html", use: warp },
    { name: "search", file: "index.html", use: search },
    { name: "folds", file: "gpu/threads.html", use: fold },
    ...labs,
];
