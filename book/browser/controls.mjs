// Controls for those who use a keyboard or a screen reader.

// Tab comes to every control. inspect.mjs looks for their names.
export async function controlsAreReachable(page, found, host) {
    const CONTROLS = ":is(input, select, textarea, button):enabled";
    await host.locator(CONTROLS).first().waitFor();
    await host.locator(CONTROLS).first().focus();
    const reached = () => host.evaluate((host, controls) => [...host.querySelectorAll(controls)].indexOf(document.activeElement), CONTROLS);
    const count = await host.locator(CONTROLS).evaluateAll((all) => all.filter((input) => input.checkVisibility()).length);
    const seen = new Set();
    for (let presses = 0; presses < 3 * count + 10 && seen.size < count; presses++) {
        const at = await reached();
        if (at >= 0) seen.add(at);
        await page.keyboard.press("Tab");
    }
    if (seen.size < count) found(`Tab comes to ${seen.size} of ${count} controls: ${[...seen]}`);
}
