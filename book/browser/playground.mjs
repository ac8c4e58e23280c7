// The playground: planted bugs, launches and PTX of the reader, and runs that are stopped.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { opened } from "./box.mjs";
import { compare } from "./native.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

export async function playground(page, found) {
    const { at, host, settled, toggle, state, first } = await opened(page, found, "playground");
    await compare(first, found);
    const bugs = ["out_of_bounds_ragged_tail", "shared_race_tree_loop", "divergent_barrier_loop_trips", "uninitialised_shared_halo", "endless_loop_stride_zero", "missing_proxy_fence_tensor_store"];
    for (const bug of bugs.map((bug) => `bug_${bug}`)) {
        await at("Kernel").selectOption(bug);
        const [{ answer }] = await settled();
        const lines = readFileSync(join(root, `kernel-corpus/kernels/${bug}.cu`), "utf8").split("\n");
        const [[, line] = []] = answer.fault?.places ?? [];
        if (!lines[line - 1]?.includes("// BUG")) found(`${bug}: ${answer.fault ? `line ${line}` : (answer.error ?? "nothing")} is reported`);
        if (!(await host.locator(".listing .fault").first().textContent()).includes("// BUG")) found(`${bug}: the line is not marked`);
    }
    for (const gradient of await at("Kernel").locator("optgroup[label='Stage 4: gradients'] option").all()) {
        await at("Kernel").selectOption(await gradient.getAttribute("value"));
        const [{ request, answer }] = await settled();
        if (answer.error ?? answer.fault) found(`${request.name}: ${answer.error ?? answer.fault.report}`);
    }
    await at("Kernel").selectOption("vector_add");
    await settled();
    await toggle("Trace one warp");
    await at("Launch, arguments").fill("// launch: grid=1 block=64\n// args: f32[40]=iota f32[40]=ones f32[40]=uninit i32=40\n// expect 2: f32 7");
    await host.getByRole("button", { name: "Run" }).click();
    await settled();
    if (!(await state()).includes("differ")) found(`a wrong result is stated: ${await state()}`);
    if (!(await host.locator("#ws-state").textContent()).startsWith("Step 1 of ")) found("there is no trace");
    await at("PTX").fill("no PTX");
    await host.getByRole("button", { name: "Run" }).click();
    await settled();
    if (!(await state()).includes("refused")) found(`a text that is no PTX: ${await state()}`);
    const refusal = await host.locator(".report").last().textContent();
    if (/--\w/.test(refusal)) found(`a page has no flags: ${refusal}`);
}

// A long run is stopped by the keyboard, and dropped when another kernel is chosen. The worker ends both times.
export async function stopping(page, found) {
    const { at, host, settled, state } = await opened(page, found, "playground");
    await page.evaluate(() => {
        globalThis.made = 0;
        globalThis.Worker = class extends Worker {
            constructor(...given) {
                super(...given);
                globalThis.made++;
            }
        };
    });
    const stop = host.getByRole("button", { name: "Stop" });
    const long = async () => {
        await at("Kernel").selectOption("vector_add");
        await settled();
        await at("Launch, arguments").fill("// launch: grid=1000000 block=1024\n// args: f32[8]=ones f32[8]=ones f32[8]=uninit i32=8");
        await host.getByRole("button", { name: "Run" }).focus();
        await page.keyboard.press("Enter");
        await stop.waitFor();
    };
    await long();
    if (!(await state()).includes("runs")) found(`while a kernel runs: ${await state()}`);
    for (let presses = 0; presses < 3; presses++) {
        await page.keyboard.press("Tab");
        if (await stop.evaluate((button) => button === document.activeElement)) break;
    }
    await page.keyboard.press("Enter");
    await stop.waitFor({ state: "hidden" });
    if (!(await state()).startsWith("Stopped")) found(`a run is stopped: ${await state()}`);
    if (!(await host.locator(".state").evaluate((state) => state === document.activeElement))) found("the focus is lost with the button");
    await long();
    await at("Kernel").selectOption("divergence");
    await settled();
    if (!(await state()).startsWith("No fault.")) found(`after a dropped run: ${await state()}`);
    const made = await page.evaluate(() => globalThis.made);
    if (made !== 2) found(`${made} new workers after a run that is stopped and one that is dropped`);
}
