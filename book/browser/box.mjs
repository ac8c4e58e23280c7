// A box that runs kernels, as its tests use it.

import { controlsAreReachable } from "./controls.mjs";
import { worked } from "./work.mjs";

// What the tests of a lab need. All of them begin here: the box comes into sight, and its first answer is there.
export async function opened(page, found, name) {
    const host = page.locator(`[data-lab="${name}"]`);
    await host.scrollIntoViewIfNeeded();
    const at = (label) => host.locator(".controls").getByLabel(label);
    // The runs behind the last change.
    const settled = async (when) => {
        const runs = await page.waitForFunction((name) => {
            const host = document.querySelector(`[data-lab="${name}"]`);
            return host.runs?.length > 0 && !host.hasAttribute("aria-busy") && host.runs;
        }, name).then((handle) => handle.jsonValue());
        worked(name, runs, when);
        return runs;
    };
    const toggle = async (label) => {
        await at(label).focus();
        await page.keyboard.press("Space");
    };
    const cell = async (row) => (await host.locator("tr", { hasText: row }).locator("td").nth(1).textContent()).replaceAll(",", "");
    const state = () => host.locator(".state").textContent();
    const first = await settled({ isFirst: true });
    await controlsAreReachable(page, found, host);
    return { host, at, first, settled, toggle, cell, state };
}
