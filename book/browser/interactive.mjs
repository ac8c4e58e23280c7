// The parts of the book that react: each function does what a reader would do, and reports what is not as it should be.

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
    { name: "search", file: "index.html", use: search },
    { name: "folds", file: "gpu/threads.html", use: fold },
];
