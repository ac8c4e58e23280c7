"use strict";
// Fields for predictions whose answers the simulator counts. `{{lab predict-…}}` puts them before the fold with the answer; the fold
// opens behind the count. Without this script the fold stands alone.
(() => {
    const { element, stated, number, kernel } = labs;
    const ratio = ({ launches: [{ figures }] }, key) => figures[`${key}_sectors`].value / figures[`${key}_requests`].value;
    // Sectors of the first load that the recorded warp makes from an argument.
    const sectors = ({ trace }, argument) => {
        const accesses = trace.steps.flatMap((step) => step.accesses);
        return accesses.find(({ kind, arrays }) => kind === "load" && trace.arrays[arrays[0]].name === `argument ${argument}`).sector_count;
    };
    const load = (stride) => stated({ grid: 1, block: 32, kernel: "global_loads" }, [`f32[${31 * stride + 1}]=iota`, "f32[32]=uninit", `i32=${stride}`, "i32=0"]);

    const intensity = ({ launches: [{ figures }] }) => figures.flops_f32.value / (figures.dram_read.value + figures.dram_write.value);
    const square = (n) => stated({ grid: `1,${n / 32},${n / 8}`, block: "32,8" }, [...["random", "random", "uninit"].map((init) => `f32[${n * n}]=${init}`), ...Array(3).fill(`i32=${n}`)]);

    // What is asked: a kernel, its launch, and the number that is counted of the answer.
    const QUESTIONS = {
        "predict-memory": [["1. sectors", 1], ["2. sectors", 1024], ["3. sectors", 2], ["4. sectors", 0]].map(([label, stride]) => ({
            label, kernel: "lab_memory", launch: load(stride), count: (answer) => ratio(answer, "global_load"),
        })),
        "predict-threads": [{
            label: "Threads without an element", kernel: "vector_add",
            launch: stated({ grid: 4, block: 256 }, ["f32[1000]=iota", "f32[1000]=ones", "f32[1000]=uninit", "i32=1000"]),
            count: ({ launches: [{ figures }] }) => 4 * 256 - figures.global_store_bytes.value / 4,
        }],
        "predict-product": [["b in NN, sectors", 0, 1], ["b in NT, sectors", 1, 1], ["a, sectors", 1, 0]].map(([label, transposed, argument]) => ({
            label, kernel: `1_gemm_plain-TRANSPOSED_${transposed}`, launch: square(64), trace: { steps: 60 }, count: (answer) => sectors(answer, argument),
        })),
        "predict-bounds": [
            { label: "1. with n = 1024", kernel: "vector_add", launch: stated({ grid: 4, block: 256 }, ["f32[1024]=iota", "f32[1024]=ones", "f32[1024]=uninit", "i32=1024"]), count: intensity },
            { label: "2. with n = 96", kernel: "1_gemm_plain-TRANSPOSED_0", launch: square(96), count: intensity },
        ],
        "predict-tensor": [{
            label: "mma.sync of a warp", kernel: "4_mma-BLOCK_KV_64-BLOCK_Q_64-HEAD_DIM_64-THREADS_128",
            launch: stated({ grid: 1, block: 128 }, [...["random", "random", "random", "uninit"].map((init) => `f16[4096]=${init}`), "f32[64]=uninit", "i32=64", "i32=64", "f32=0.125", "i32=0"]),
            count: ({ launches: [{ classes }] }) => classes.tensor / 4, // of four warps
        }],
        "predict-softmax": [["Rows, sectors", 1], ["Columns, sectors", 64]].map(([label, inner]) => ({
            label, kernel: "softmax", launch: stated({ grid: 64, block: 128 }, ["f32[32768]=random", "f32[64]=uninit", "i32=512", `i32=${inner}`]),
            count: (answer) => ratio(answer, "global_load"),
        })),
    };

    for (const [name, questions] of Object.entries(QUESTIONS)) {
        const host = document.querySelector(`[data-lab="${name}"]`);
        if (!host) continue;
        const fields = questions.map(({ label }, index) => {
            const id = `${name}-${index}`;
            const input = element("input", { type: "number", step: "any", id });
            const output = element("output", { htmlFor: id });
            return { input, output, row: element("div", { className: "control" }, element("label", { htmlFor: id }, label), input, output) };
        });
        const state = element("p", { className: "state" });
        state.setAttribute("aria-live", "polite");
        const form = element("form", {}, ...fields.map(({ row }) => row), element("button", { type: "submit" }, "Count"), state);
        host.replaceChildren(form);
        host.addEventListener("keydown", (event) => event.stopPropagation()); // mdBook turns pages by arrow keys
        form.addEventListener("submit", async (event) => {
            event.preventDefault();
            state.textContent = "The kernel runs.";
            host.runs = [];
            try {
                for (const [index, question] of questions.entries()) {
                    const { ptx } = await kernel(question.kernel);
                    const request = { ptx, launch: question.launch, name: question.kernel, trace: question.trace };
                    const begin = performance.now();
                    const answer = await simulator(request);
                    if (answer.error ?? answer.fault) throw new Error(answer.error ?? answer.fault.report);
                    host.runs.push({ request, answer, milliseconds: performance.now() - begin });
                    const counted = question.count(answer);
                    const { input, output } = fields[index];
                    const typed = input.value === "" ? "" : Math.abs(Number(input.value) - counted) <= 0.01 * counted ? ", as you predicted" : `, not ${input.value}`;
                    output.textContent = `counted: ${number(counted, 3)}${typed}`;
                    output.className = typed.startsWith(", as") ? "right" : "";
                }
                state.textContent = "Counted. The answer below is open.";
                let fold = host.nextElementSibling;
                while (fold && fold.tagName !== "DETAILS") fold = fold.nextElementSibling;
                if (fold) fold.open = true;
            } catch (error) {
                state.textContent = `The simulator reports an error: ${error.message}`;
            }
        });
    }
})();
