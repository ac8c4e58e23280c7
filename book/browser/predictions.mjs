// The predictions of the book: the text's answers are typed on every page, and the simulator must count the same.

import { controlsAreReachable } from "./controls.mjs";
import { compare } from "./native.mjs";
import { worked } from "./work.mjs";

// What is typed into the fields of a page: the answer of the text, or, for the first field, a wrong one.
async function type(host, questions, wrong) {
    for (const [index, { answer, options }] of questions.entries()) {
        const input = host.locator("input, select").nth(index);
        const typed = wrong && index === 0 ? (options ? options.find((option) => option !== answer) : answer + 1) : answer;
        await (options ? input.selectOption(String(typed)) : input.fill(String(typed)));
    }
}

// The fields say what has been counted, and the fold opens.
export async function prediction(page, found) {
    const host = page.locator("[data-questions]");
    const questions = JSON.parse(await host.getAttribute("data-questions"));
    await controlsAreReachable(page, found, host);
    const compared = async (wrong) => {
        await type(host, questions, wrong);
        await host.getByRole("button", { name: "Compare" }).focus();
        await page.keyboard.press("Enter");
        await page.waitForFunction(() => {
            const host = document.querySelector("[data-questions]");
            return host.querySelector("output").textContent && !host.hasAttribute("aria-busy");
        });
        return host.locator("output").allTextContents();
    };
    for (const [index, said] of (await compared(false)).entries()) {
        const { label, run } = questions[index];
        const judge = run ? /^The simulator (counted|reports): / : /^The text says: /;
        if (!judge.test(said) || !said.endsWith(", as you predicted")) found(`${label}: ${said}`);
    }
    const runs = await host.evaluate((host) => host.runs);
    worked("predictions", runs);
    await compare(runs.filter(({ answer }) => !answer.fault), found);
    if (!(await page.locator("[data-questions] ~ details").first().evaluate((fold) => fold.open))) found("the fold is closed");
    const [said] = await compared(true);
    if (!/You predicted: .+$/.test(said)) found(`a wrong prediction: ${said}`);
}
