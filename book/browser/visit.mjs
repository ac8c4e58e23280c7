// Visits every page of the built book at two widths and in two themes, and steps through the interactive page.
//
//     cargo book build && cd book/browser && npm ci && node visit.mjs
//
// Finds errors in the console, files that are missing, anything loaded from the network, pages that scroll sideways, pictures
// without description, text of pictures with too little contrast. With a folder as argument it saves pictures of all pages.

import { readdirSync, existsSync, mkdirSync } from "node:fs";
import { join, relative, dirname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import headless from "@sparticuz/chromium";
import { chromium } from "playwright-core";

const html = join(dirname(fileURLToPath(import.meta.url)), "..", "html");
const pictures = process.argv[2];
const widths = { desktop: [1280, 900], phone: [375, 740] };
const themes = ["light", "navy"];
const findings = [];

const pages = readdirSync(html, { recursive: true })
    .filter((file) => file.endsWith(".html") && !["toc.html", "404.html", "print.html"].includes(file))
    .sort();
if (pages.length < 10) throw new Error(`${pages.length} pages in ${html}: run \`cargo book build\``);

// CHROMIUM names another browser than the one that npm has installed.
const executablePath = process.env.CHROMIUM ?? (await headless.executablePath());
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader"] });
for (const [width, [w, h]] of Object.entries(widths)) {
    for (const theme of themes) {
        const context = await browser.newContext({ viewport: { width: w, height: h }, colorScheme: theme === "light" ? "light" : "dark" });
        await context.addInitScript((theme) => localStorage.setItem("mdbook-theme", theme), theme);
        for (const file of pages) {
            const page = await context.newPage();
            const found = (what) => findings.push(`${file} (${width}, ${theme}): ${what}`);
            page.on("console", (message) => ["error", "warning"].includes(message.type()) && found(`console: ${message.text()}`));
            page.on("pageerror", (error) => found(`error: ${error.message}`));
            page.on("request", (request) => {
                const url = new URL(request.url());
                if (url.protocol === "file:") {
                    if (!existsSync(fileURLToPath(url.origin === "null" ? `file://${url.pathname}` : url))) found(`missing ${url.pathname}`);
                } else if (url.protocol !== "data:") {
                    found(`loads ${url.href}`);
                }
            });
            await page.goto(pathToFileURL(join(html, file)).href);
            await page.waitForLoadState("load");
            for (const what of await page.evaluate(inspect)) found(what);
            if (pictures) {
                mkdirSync(pictures, { recursive: true });
                const name = `${relative(".", file).replaceAll(/[/.]/g, "-").replace(/-html$/, "")}-${width}-${theme}.png`;
                await page.screenshot({ path: join(pictures, name), fullPage: true });
            }
            await page.close();
        }
        await context.close();
    }
}
await stepper();
await walk();
await search();
await browser.close();

for (const finding of findings) console.error(finding);
console.log(`${pages.length} pages, ${Object.keys(widths).length} widths, ${themes.length} themes: ${findings.length} findings`);
process.exit(findings.length ? 1 : 0);

// Runs in the page.
function inspect() {
    const findings = [];
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) findings.push(`scrolls sideways: ${root.scrollWidth} > ${root.clientWidth}`);
    const main = document.querySelector("main");
    for (const element of main.querySelectorAll("p, h1, h2, h3, li, math, .source, .stepper")) {
        const wide = element.getBoundingClientRect();
        const scroller = element.closest(".formula, .table-wrapper, .drawing, pre");
        if (!scroller && wide.width > 0 && wide.right > main.getBoundingClientRect().right + 2) {
            findings.push(`wider than the page: ${element.textContent.trim().slice(0, 60)}`);
        }
    }
    const luminance = (colour) => {
        const [r, g, b] = colour.match(/[\d.]+/g).map(Number).map((x) => x / 255).map((x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
    const background = getComputedStyle(root).backgroundColor;
    for (const svg of main.querySelectorAll("svg.figure")) {
        if (!svg.getAttribute("aria-label")) findings.push("a picture without description");
        const label = svg.getAttribute("aria-label")?.slice(0, 40);
        const texts = svg.querySelectorAll("text");
        for (const text of texts) {
            const box = text.getBBox();
            const view = svg.viewBox.baseVal;
            if (box.x < -1 || box.y < -1 || box.x + box.width > view.width + 1 || box.y + box.height > view.height + 1) {
                findings.push(`text beyond the picture "${label}": ${text.textContent}`);
            }
        }
        if (!texts.length) continue;
        const colour = getComputedStyle(texts[0]).fill;
        for (const shape of svg.querySelectorAll("rect")) {
            const fill = getComputedStyle(shape).fill;
            const ratio = contrast(colour, fill === "none" ? background : fill);
            if (ratio < 4.5) findings.push(`contrast ${ratio.toFixed(1)} on ${shape.getAttribute("class")} in "${label}"`);
        }
    }
    return [...new Set(findings)];
}

// The page on online softmax: buttons, keys and numbers do what they say.
async function stepper() {
    const page = await browser.newPage();
    const found = (what) => findings.push(`online softmax: ${what}`);
    await page.goto(pathToFileURL(join(html, "stage3", "online-softmax.html")).href);
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
    await page.close();
}

// The page on tiles: the walk ends, and its counters are those of the formulas.
async function walk() {
    const page = await browser.newPage();
    const found = (what) => findings.push(`tiles: ${what}`);
    await page.goto(pathToFileURL(join(html, "stage3", "tiles.html")).href);
    const state = () => page.locator("#tw-state").textContent();
    const total = async (row) => (await page.locator("#tw-counts tr").nth(row).locator("td").allTextContents()).slice(1).map((text) => Number(text.replaceAll(",", "")));
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
    await page.close();
}

// Search finds a word, with no server.
async function search() {
    const page = await browser.newPage();
    await page.goto(pathToFileURL(join(html, "index.html")).href);
    await page.keyboard.press("s");
    await page.waitForTimeout(1000); // the index is loaded now
    await page.locator("#mdbook-searchbar").pressSequentially("wavefront");
    const hit = page.locator("#mdbook-searchresults a").first();
    await hit.waitFor({ timeout: 10000 }).catch(() => findings.push("search: nothing found"));
    await page.close();
}
