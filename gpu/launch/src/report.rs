//! A launch's profile as it is shown: figures of the whole launch, and source lines with their
//! counters.

use cuda_sim::{Class, Counters, LaunchProfile, LineProfile, Phase, Resource, Sectors, Wavefronts};
use serde_json::{Value, json};

use crate::numbers::{quotient, seconds};
use crate::sources::{self, Sources};

/// All that is shown of a launch.
pub struct Report {
    /// The kernel and its launch.
    pub title: String,
    /// The modelled device.
    pub device: String,
    /// Parts of the modelled time, in words.
    pub model: Vec<String>,
    /// Figures of the whole launch.
    pub figures: Vec<Figure>,
    /// Warp instructions by the name of their class, most first; classes without any are left out.
    pub classes: Vec<(&'static str, u64)>,
    /// Resource that limits the modelled time.
    pub bound: Resource,
    /// Work between barriers, from which the time is modelled.
    pub phases: Vec<Phase>,
    /// Seconds that each resource would take alone.
    pub parts: Vec<(Resource, f64)>,
    /// The counted lines and the short gaps between them, ordered by file and line.
    pub lines: Vec<Line>,
}

/// A number of the whole launch.
pub struct Figure {
    /// Its name in JSON.
    pub key: String,
    /// Its name in text.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// The number.
    pub value: f64,
    /// The same from Nsight Compute.
    pub measured: Option<f64>,
}

/// Notation of a figure.
#[derive(Clone, Copy, PartialEq)]
pub enum Unit {
    /// A whole number.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// A share of 1.
    Share,
    /// A quotient.
    Quotient,
}

/// A source line.
pub struct Line {
    /// The file, from the workspace's root.
    pub file: String,
    /// Its number, from 1.
    pub number: u32,
    /// Its text, if the source was found.
    pub source: Option<String>,
    /// Counters of its instructions; `None` if it has none.
    pub counters: Option<Counters>,
}

impl Report {
    /// The report of a launch, without what a GPU measured.
    pub fn new(title: String, launch: &LaunchProfile, sources: &Sources<'_>) -> Report {
        Report {
            title,
            device: launch.time.device.to_owned(),
            model: model(launch),
            figures: figures(launch),
            classes: classes(&launch.total),
            bound: launch.time.bound,
            phases: launch.phases.clone(),
            parts: launch.time.parts.clone(),
            lines: lines(&launch.lines, sources),
        }
    }

    /// Warp instructions of the whole launch, at least 1.
    pub fn warp_instructions(&self) -> u64 {
        let counted = self.lines.iter().filter_map(|line| line.counters.as_ref());
        let sum: u64 = counted.map(|counters| counters.warp_instructions).sum();
        sum.max(1)
    }

    /// The report for programs. Units are in the keys' values: `count`, `bytes`, `seconds`,
    /// `share`, `quotient`; the parts of the modelled time are in seconds.
    pub fn json(&self) -> Value {
        let figures = self.figures.iter().map(|figure| {
            let value = json!({
                "value": figure.value,
                "unit": figure.unit.name(),
                "ncu": figure.measured,
            });
            (figure.key.clone(), value)
        });
        let phases = (self.phases.iter()).map(|phase| {
            let figures = phase.figures();
            let figures = figures.map(|(name, value)| (name.to_owned(), value.into()));
            serde_json::Map::from_iter(figures)
        });
        let total = self.warp_instructions();
        let lines = self.lines.iter().filter_map(|line| line.json(total));
        let parts = self.parts.iter();
        let parts = parts.map(|(resource, seconds)| (resource.name().to_owned(), json!(seconds)));
        json!({
            "title": self.title,
            "device": self.device,
            "bound": self.bound.name(),
            "parts": serde_json::Map::from_iter(parts),
            "figures": serde_json::Map::from_iter(figures),
            "classes": by_name(&self.classes),
            "lines": lines.collect::<Vec<_>>(),
            "phases": phases.collect::<Vec<_>>(),
        })
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Seconds => "seconds",
            Unit::Share => "share",
            Unit::Quotient => "quotient",
        }
    }
}

impl Line {
    fn json(&self, total: u64) -> Option<Value> {
        let counters = self.counters.as_ref()?;
        let sectors = |sectors: Sectors| json!({"requests": sectors.requests, "sectors": sectors.sectors, "bytes": sectors.bytes});
        let wavefronts = |shared: Wavefronts| json!({"requests": shared.requests, "wavefronts": shared.wavefronts, "ideal": shared.ideal, "bytes": shared.bytes});
        Some(json!({
            "file": self.file,
            "line": self.number,
            "source": self.source,
            "warp_instructions": counters.warp_instructions,
            "lane_instructions": counters.lane_instructions,
            "classes": by_name(&classes(counters)),
            "issue_share": counters.warp_instructions as f64 / total as f64,
            "flops_f32": counters.flops_f32,
            "flops_f64": counters.flops_f64,
            "flops_half": counters.flops_half,
            "flops_tensor": counters.flops_tensor,
            "flops_tensor_tf32": counters.flops_tensor_tf32,
            "flops_tensor_f64": counters.flops_tensor_f64,
            "flops_wgmma": counters.flops_wgmma,
            "ops_tensor_int8": counters.ops_tensor_int8,
            "global_loads": sectors(counters.global_loads),
            "global_stores": sectors(counters.global_stores),
            "global_atomics": sectors(counters.global_atomics),
            "local": sectors(counters.local),
            "cache_lines": counters.cache_lines,
            "shared_loads": wavefronts(counters.shared_loads),
            "shared_stores": wavefronts(counters.shared_stores),
            "shared_atomics": wavefronts(counters.shared_atomics),
            "branches": counters.branches,
            "divergent_branches": counters.divergent_branches,
            "barriers": counters.barriers,
        }))
    }
}

/// Lines without counters that are shown between two that have them; longer gaps are left out.
const LONGEST_GAP: usize = 4;

/// The counted lines, and the short gaps between them.
fn lines(counted: &[LineProfile], sources: &Sources<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut last: Option<&LineProfile> = None;
    for profile in counted {
        let line = |number: u32, counters| {
            let source = sources::line(sources, &profile.file, number);
            Line {
                file: profile.file.clone(),
                number,
                source: source.map(str::to_owned),
                counters,
            }
        };
        if let Some(last) = last.filter(|last| last.file == profile.file) {
            let between = last.line.saturating_add(1)..profile.line;
            if between.len() <= LONGEST_GAP {
                lines.extend(between.map(|number| line(number, None)));
            }
        }
        lines.push(line(profile.line, Some(profile.counters)));
        last = Some(profile);
    }
    lines
}

/// The figures of a launch. Those of memory that it does not touch are left out.
fn figures(launch: &LaunchProfile) -> Vec<Figure> {
    let total = &launch.total;
    let mut figures = Figures(Vec::new());
    use Unit::{Bytes, Quotient, Seconds, Share};
    figures.add("time", "modelled time", Seconds, launch.time.seconds);
    figures.add("occupancy", "occupancy", Share, launch.time.occupancy);
    if let Some(resources) = launch.resources {
        let spills = resources.spill_stores + resources.spill_loads;
        let registers = resources.registers;
        figures.count("registers", "registers per thread", registers.into());
        figures.add("spills", "spills per thread", Bytes, spills.into());
    }
    let (warps, lanes) = (total.warp_instructions, total.lane_instructions);
    figures.count("warp_instructions", "warp instructions", warps);
    figures.count("lane_instructions", "thread instructions", lanes);
    let lanes = total.lanes_per_instruction();
    figures.add("lanes", "threads per warp instruction", Quotient, lanes);
    figures.count_if_any("flops_f32", "f32 operations", total.flops_f32);
    figures.count_if_any("flops_f64", "f64 operations", total.flops_f64);
    figures.count_if_any("flops_half", "f16, bf16 operations", total.flops_half);
    figures.count_if_any("flops_tensor", "tensor operations", total.flops_tensor);
    figures.count_if_any("flops_tensor_tf32", "  of tf32", total.flops_tensor_tf32);
    figures.count_if_any("flops_tensor_f64", "  of f64", total.flops_tensor_f64);
    figures.count_if_any("flops_wgmma", "  by wgmma", total.flops_wgmma);
    let label = "tensor operations, int8";
    figures.count_if_any("ops_tensor_int8", label, total.ops_tensor_int8);

    figures.sectors("global_load", "global loads", total.global_loads);
    figures.sectors("global_store", "global stores", total.global_stores);
    figures.sectors("global_atomic", "global atomics", total.global_atomics);
    figures.sectors("local", "local memory", total.local);
    let label = "cache lines of 128 bytes";
    figures.count_if_any("cache_lines", label, total.cache_lines);
    let bytes = |bytes: u64| bytes as f64;
    let (read, written) = (launch.compulsory_read_bytes, launch.compulsory_write_bytes);
    figures.add("dram_read", "DRAM bytes read, at least", Bytes, bytes(read));
    let label = "DRAM bytes written, at least";
    figures.add("dram_write", label, Bytes, bytes(written));
    figures.wavefronts("shared_load", "shared loads", total.shared_loads);
    figures.wavefronts("shared_store", "shared stores", total.shared_stores);
    figures.wavefronts("shared_atomic", "shared atomics", total.shared_atomics);

    figures.count("branches", "branches", total.branches);
    let divergent = total.divergent_branches;
    figures.count("divergent_branches", "  divergent", divergent);
    figures.count("barriers", "barriers, once per warp", total.barriers);
    figures.0
}

struct Figures(Vec<Figure>);

impl Figures {
    fn add(&mut self, key: &str, label: &str, unit: Unit, value: f64) {
        self.0.push(Figure {
            key: key.to_owned(),
            label: label.to_owned(),
            unit,
            value,
            measured: None,
        });
    }

    fn count(&mut self, key: &str, label: &str, value: u64) {
        self.add(key, label, Unit::Count, value as f64);
    }

    fn count_if_any(&mut self, key: &str, label: &str, value: u64) {
        if value > 0 {
            self.count(key, label, value);
        }
    }

    fn sectors(&mut self, key: &str, label: &str, traffic: Sectors) {
        if traffic.requests > 0 {
            self.count(&format!("{key}_requests"), label, traffic.requests);
            self.count(&format!("{key}_sectors"), "  sectors", traffic.sectors);
            let (bytes, coalescing) = (traffic.bytes as f64, traffic.efficiency());
            let of_key = |name| format!("{key}_{name}");
            self.add(&of_key("bytes"), "  bytes asked for", Unit::Bytes, bytes);
            self.add(
                &of_key("coalescing"),
                "  coalescing",
                Unit::Share,
                coalescing,
            );
        }
    }

    fn wavefronts(&mut self, key: &str, label: &str, traffic: Wavefronts) {
        if traffic.requests > 0 {
            let conflicts = traffic.wavefronts.saturating_sub(traffic.ideal);
            self.count(&format!("{key}_requests"), label, traffic.requests);
            self.count(
                &format!("{key}_wavefronts"),
                "  wavefronts",
                traffic.wavefronts,
            );
            self.count(&format!("{key}_conflicts"), "  bank conflicts", conflicts);
        }
    }
}

/// Warp instructions by the name of their class, most first, without classes that have none.
fn classes(counters: &Counters) -> Vec<(&'static str, u64)> {
    let counts = Class::ALL.map(|class| (class.name(), counters.of(class)));
    let mut classes: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    classes.sort_by(|(_, a), (_, b)| b.cmp(a)); // stable: equal ones stay in the order of the classes
    classes
}

fn by_name(counts: &[(&'static str, u64)]) -> Value {
    counts
        .iter()
        .map(|&(name, count)| (name.to_owned(), count.into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Parts behind a head, five to a line, so that they fit.
pub fn listed(head: &str, parts: &[String]) -> Vec<String> {
    let width = head.len();
    let heads = [head].into_iter().chain(std::iter::repeat(""));
    let lines = heads.zip(parts.chunks(5));
    lines
        .map(|(head, parts)| format!("{head:width$} {}", parts.join(", ")))
        .collect()
}

/// The model's account of the time, in lines of words.
fn model(launch: &LaunchProfile) -> Vec<String> {
    let time = &launch.time;
    let mut parts: Vec<_> = time.parts.clone();
    parts.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(|(resource, alone)| format!("{} {}", resource.name(), seconds(*alone)))
        .collect();
    let mut bound = format!("bound by {}", time.bound.name());
    if time.bound != Resource::Launch {
        let [longest, second] = time.longest_two();
        bound += &format!("; the next takes {:.0}% as long", 100.0 * second / longest);
    }
    let mut lines = vec![bound];
    lines.extend(listed("alone:", &parts));
    let blocks = time.blocks_per_multiprocessor;
    lines.push(format!(
        "{blocks} {} per multiprocessor, {} waves",
        if blocks == 1 { "block" } else { "blocks" },
        quotient(time.waves)
    ));
    lines
}
