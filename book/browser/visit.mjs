// Visits every page of the built book at two widths and in two themes, and uses the interactive ones.
//
//     cargo book build && cd book/browser && npm ci && node visit.mjs [FOLDER]
//
// Finds errors in the console, files that are missing, anything loaded from the network, and what inspect.mjs looks for. With a
// folder as argument it saves pictures of all pages there.

import { existsSync, mkdirSync, readFileSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { launch } from "./chromium.mjs";
import { inspect } from "./inspect.mjs";
import { interactive } from "./interactive.mjs";
import { compared } from "./native.mjs";
import { prediction } from "./predictions.mjs";
import { excesses, waits } from "./work.mjs";

const html = join(dirname(fileURLToPath(import.meta.url)), "..", "html");
const pictures = process.argv[2];
const widths = { desktop: [1280, 900], phone: [375, 740] };
const themes = { light: "light", navy: "dark" };
const unread = ["toc.html", "404.html", "print.html"]; // parts of mdBook's pages, and all chapters once more

const pages = readdirSync(html, { recursive: true }).filter((file) => file.endsWith(".html") && !unread.includes(file)).sort();
if (pages.length < 10) throw new Error(`${pages.length} pages in ${html}: run \`cargo book build\``);

const browser = await launch();
const findings = [];
const MOST_BYTES = 3e6; // of a page with all that it loads
let largest = { bytes: 0 };
const looks = Object.keys(widths).flatMap((width) => Object.keys(themes).map((theme) => [width, theme]));
// What reacts is used at each width and in each theme, by two of the visits. Each prediction is judged by one of the two.
const using = [["desktop", "light"], ["phone", "navy"]].map(String);
const asking = pages.filter((file) => readFileSync(join(html, file), "utf8").includes("data-questions"));
const judged = (use) => asking.filter((_, index) => index % using.length === use).map((file) => ({ name: `prediction: ${file}`, file, use: prediction }));
const reacting = (look) => (using.includes(String(look)) ? [...interactive, ...judged(using.indexOf(String(look)))] : []);
const visits = looks.map((look) => visit(...look, reacting(look)));
for (const use of await Promise.all(visits)) await use(); // one after the other: how long a page computes is printed
await browser.close();

findings.push(...excesses());
for (const finding of findings) console.error(finding);
console.log(compared());
console.log(waits());
console.log(`the largest page is ${(largest.bytes / 1e6).toFixed(2)} MB: ${largest.name}`);
console.log(`${pages.length} pages, ${Object.keys(widths).length} widths, ${Object.keys(themes).length} themes, ${interactive.length} parts that react, ${asking.length} predictions: ${findings.length} findings`);
process.exit(findings.length ? 1 : 0);

// All pages at one width in one theme. Gives a function that uses the parts that react.
async function visit(width, theme, reacting) {
    const [w, h] = widths[width];
    const context = await browser.newContext({ viewport: { width: w, height: h }, colorScheme: themes[theme] });
    context.setDefaultTimeout(300_000); // a busy machine is no finding
    await context.addInitScript((theme) => localStorage.setItem("mdbook-theme", theme), theme);
    const open = async (file, name) => {
        const page = await context.newPage();
        let [bytes, kernel] = [0, 0];
        const found = (what) => findings.push(`${name} (${width}, ${theme}): ${what}`);
        page.on("console", (message) => ["error", "warning"].includes(message.type()) && found(`console: ${message.text()}`));
        page.on("pageerror", (error) => found(`error: ${error.message}`));
        page.on("request", (request) => {
            const url = new URL(request.url());
            if (url.protocol === "file:") {
                const path = fileURLToPath(`file://${url.pathname}`);
                if (!existsSync(path)) return found(`missing ${url.pathname}`);
                const { size } = statSync(path);
                if (file === "playground.html" && path.includes("/kernels/")) kernel = Math.max(kernel, size); // a test chooses many
                else bytes += size;
            } else if (!["data:", "blob:"].includes(url.protocol)) { // the worker of the simulator is a blob
                found(`loads ${url.href}`);
            }
        });
        await page.goto(pathToFileURL(join(html, file)).href);
        await page.evaluate(() => document.fonts.ready.then(() => undefined)); // formulas are drawn again when their font is there
        page.on("close", () => {
            if (bytes + kernel > MOST_BYTES) found(`it loads ${bytes + kernel} bytes`);
            if (bytes + kernel > largest.bytes) largest = { bytes: bytes + kernel, name };
        });
        return { page, found };
    };
    for (const file of pages) {
        const { page, found } = await open(file, file);
        for (const what of await page.evaluate(inspect)) found(what);
        if (pictures) {
            mkdirSync(pictures, { recursive: true });
            const name = `${file.replaceAll(/[/.]/g, "-").replace(/-html$/, "")}-${width}-${theme}.png`;
            await page.screenshot({ path: join(pictures, name), fullPage: true });
        }
        await page.close();
    }
    return async () => {
        for (const { name, file, use } of reacting) {
            const { page, found } = await open(file, name);
            await use(page, found).catch((error) => found(`it does not react: ${error.message.split("\n")[0]}`));
            for (const what of await page.evaluate(inspect)) found(what); // what has been drawn meanwhile
            await page.close();
        }
        await context.close();
    };
}
