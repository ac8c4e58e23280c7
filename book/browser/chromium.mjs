// Chromium, as npm has installed it: the version that package-lock.json pins, with the libraries that it needs beside glibc.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

// Starts a browser. The variable CHROMIUM names another one.
export async function launch() {
    const executablePath = process.env.CHROMIUM ?? (await unpacked());
    return chromium.launch({ executablePath, args: ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader"] });
}

// The package unpacks itself to the folder for temporary files and takes what lies there already, of whatever version. So it gets
// a folder of its own, which `npm ci` empties. It brings NSS, NSPR and expat too, if told that it runs where they are missing.
async function unpacked() {
    const folder = join(dirname(fileURLToPath(import.meta.url)), "node_modules", ".chromium");
    mkdirSync(folder, { recursive: true });
    process.env.TMPDIR = folder;
    process.env.AWS_LAMBDA_JS_RUNTIME ??= "nodejs24.x";
    process.env.FONTCONFIG_FILE = fonts(folder);
    const { default: headless } = await import("@sparticuz/chromium");
    return headless.executablePath();
}

// Writes the settings of fontconfig for the fonts that are unpacked to a folder. The package's own settings name /tmp, wherever it
// is unpacked.
function fonts(folder) {
    const settings = join(folder, "fonts.conf");
    const text = (path) => path.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    writeFileSync(
        settings,
        `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${text(join(folder, "fonts"))}</dir>
  <cachedir>${text(join(folder, "fonts-cache"))}</cachedir>
</fontconfig>
`,
    );
    return settings;
}
