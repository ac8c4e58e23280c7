//! Rungs 8 to 10 of stage 4, recorded: which warps wait for whom.
//!
//! The recordings give the order of each warp. The times are computed from it, by the rates of
//! `cuda-sim/MODEL.md` for an H100: each action begins as early as those before it and what it
//! waits for allow.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result, bail, ensure};
use gpu_recording::{At, Canvas, Picture, Recording, Scalar, Step};

use super::{Recorded, drawn};
use crate::devices;

pub const FIGURES: &[Recorded] = &[
    Recorded {
        name: "tma-roles",
        recordings: &["tma-consumer", "tma-producer"],
        description: "A timeline of rung 8 over four tiles. The producer starts the copies of q and of tiles 0 and 1 at once, then waits for empty[0]. Warps 0 to 3 wait for q and tile 0, and compute s, softmax and pv of one tile after the other. When they have read tile 0, the wait for empty[0] ends and the copy of tile 2 starts in the same stage; when they have read tile 1, that of tile 3. Each of these copies is done long before its tile is needed.",
        caption: "Rung 8 at D = 64: one block, four tiles of 64 keys. Orange: copies in flight. Dark grey: a tile in shared memory, until all warps have read it. Light grey: a wait, with an arrow from what ends it. s is q kᵀ. The order of the producer and of warp 0 is recorded; warps 1 to 3 do the same. The times are not measured. They are computed from this order by the rates of the model of an H100, as early as it allows: a product of a tile takes 384 clocks, its exponentials 512, a copy 265 and one for each 64 bytes of it and of those ahead of it. Everything else is left out.",
        draw: picture,
    },
    Recorded {
        name: "wgmma-roles",
        recordings: &["wgmma-consumer-0", "wgmma-consumer-1", "wgmma-producer"],
        description: "A timeline of rung 9 over four tiles. The tensor cores carry out s of warpgroup 0, then s of warpgroup 1. Then both warpgroups compute their softmax, and the tensor cores rest until that of warpgroup 0 is done. pv of both follows, and s of both for the next tile, and again the tensor cores rest. There are four rests, each as long as two products.",
        caption: "Rung 9 at D = 64: one block, four tiles of 128 keys. Blue is warpgroup 0, green warpgroup 1; thin bars are their products in flight, s above pv. The order of the producer and of a warp of each warpgroup is recorded. The times are computed from it as for rung 8, not measured: a product of a warpgroup takes 256 clocks, its exponentials 512, and where both warpgroups compute exponentials, each has half of the rate. An assumption: the tensor cores carry out one product after the other, in the order of their commits.",
        draw: picture,
    },
    Recorded {
        name: "ping-pong-roles",
        recordings: &[
            "ping-pong-consumer-0",
            "ping-pong-consumer-1",
            "ping-pong-producer",
        ],
        description: "A timeline of rung 10 over four tiles. The tensor cores rest once, during the first softmax. From then on each softmax of warpgroup 0 lies over pv of warpgroup 0 and s of warpgroup 1, and each softmax of warpgroup 1 over its own pv and s of warpgroup 0. The turn goes back and forth between the warpgroups. The block takes about three quarters of the clocks of rung 9.",
        caption: "Rung 10 with the same tiles, at the same scale; its order is recorded and its times are computed as for rung 9, not measured. Dashed orange lines: the turn, from the warpgroup that passes it to the one that takes it.",
        draw: picture,
    },
];

/// Tiles of k and of v that shared memory has room for.
const STAGES: u64 = 2;
/// Scores of four warps in a tile: of 128 queries and 64 keys in rung 8, of 64 and 128 in the
/// others.
const SCORES: f64 = 8192.0;
const HEAD_DIM: f64 = 64.0;
/// Clocks from the start of a copy to its first bytes, and bytes in a clock from then on.
const LATENCY: u64 = 265;
const COPIED: u64 = 64;
/// Warps of a recording: the one that is recorded, and three that do the same on the other
/// schedulers.
const WARPS: u64 = 4;

/// An mbarrier: the name of its array, and its index there, which is the stage.
type Barrier<'a> = (&'a str, u64);

const NONE: Barrier<'_> = ("", 0);
const Q: Barrier<'_> = ("q_full", 0);

/// One of the two products.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Product {
    Scores,
    Output,
}

/// An action of four warps, of which one is recorded, or of the producer.
#[derive(Clone, Copy, Debug)]
enum Action<'a> {
    /// Starts the copies that the present phase of the barrier waits for.
    Copy(Barrier<'a>),
    /// Waits until this many phases of the barrier are over.
    Wait(Barrier<'a>, u64),
    /// Arrives once for each warp, of so many arrivals of a phase.
    Arrive(Barrier<'a>, u64),
    /// Makes a group of the instructions of a product, which take so many clocks together.
    Commit(Product, u64),
    /// Waits for the oldest group. A recording does not tell N of `wait_group N`, but has as many
    /// waits as commits.
    WaitForGroup,
    /// Computes the exponentials of a tile, which take so many clocks if no other warps compute
    /// theirs.
    Softmax(u64),
    WaitForTurn,
    PassTurn,
}

/// What a span of time is spent with.
#[derive(Clone, Copy, PartialEq, Debug)]
enum What {
    /// The bytes that a barrier waits for are in flight.
    Copy,
    /// A tile is in shared memory, until the last consumer has read it.
    Held,
    /// The tensor cores carry out a group of products.
    Product(Product),
    /// It is in flight, from its commit to its end.
    Flight(Product),
    Softmax,
    /// Warps wait: for the phase of a barrier, for products or for their turn.
    Wait,
}

/// A span of time, in clocks.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Span<'a> {
    what: What,
    /// The warps, by the index of their recording.
    warps: usize,
    /// The barrier that a copy ends a phase of, or that is waited for; `products`, `turn`.
    barrier: Barrier<'a>,
    tile: u64,
    from: u64,
    to: u64,
}

/// A row of the picture.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lane<'a> {
    Copies(Barrier<'a>),
    Warps(usize),
    Flight(usize),
    Tensor,
}

/// The end of a wait: what ended it, and when; the warps that waited, and when they went on. A turn
/// may be passed long before.
struct Wake<'a> {
    by: Lane<'a>,
    at: u64,
    warps: usize,
    goes_on: u64,
}

/// What happens in a block.
#[derive(Default)]
struct Schedule<'a> {
    spans: Vec<Span<'a>>,
    wakes: Vec<Wake<'a>>,
}

/// The mbarrier that a step accesses. Of its state there, as the simulator keeps it: how many
/// arrivals a phase has, and the parity of the present one.
fn barrier<'a>(recording: &'a Recording, step: &Step) -> Result<(Barrier<'a>, u64, u64)> {
    let access = step.accesses.first().context("it accesses no mbarrier")?;
    let Some(Scalar::Whole(state)) = access.values[0].first() else {
        bail!("an mbarrier is no number");
    };
    let array = &recording.arrays[access.arrays[0]];
    let barrier = (&*array.name, access.offsets[0] / 8);
    Ok((
        barrier,
        (state >> 20 & 0xf_ffff).cast_unsigned(),
        (state >> 40 & 1).cast_unsigned(),
    ))
}

/// What recorded warps do, in their order.
fn actions(recording: &Recording) -> Result<Vec<Action<'_>>> {
    let mut actions = Vec::new();
    let mut announced = None;
    let mut over = BTreeMap::new(); // phases that were waited for
    let rate: f64 = devices::figure("h100", "tensor core multiply-adds, f16")?.parse()?;
    let of_mma: f64 = devices::figure("h100", "share of them for `mma.sync`, but f64")?.parse()?;
    let exponentials: f64 = devices::figure("h100", "special function lanes")?.parse()?;
    let clocks = |rate: f64| (SCORES * HEAD_DIM / rate).round() as u64;
    let mut last = Product::Output;
    for step in &recording.steps {
        let says = |text| step.source.contains(text);
        if says("mbarrier.arrive.expect_tx") {
            announced = Some(barrier(recording, step)?.0);
        } else if says("\"l\"(&tensor)") {
            actions.push(Action::Copy(announced.context("a copy of no barrier")?));
        } else if says("\"r\"(parity)") {
            // The parity of the present phase is the number of those that are over, modulo 2.
            let (barrier, _, parity) = barrier(recording, step)?;
            let phases: &mut u64 = over.entry(barrier).or_default();
            *phases += (*phases ^ parity) & 1;
            actions.push(Action::Wait(barrier, *phases));
        } else if says("mbarrier.arrive") && !step.accesses.is_empty() {
            let (barrier, of_phase, _) = barrier(recording, step)?;
            actions.push(Action::Arrive(barrier, of_phase));
        } else if says("\"f\"(c[0])") {
            // Products of mma.sync are waited for by the next instruction that reads them.
            last = match last {
                Product::Scores => Product::Output,
                Product::Output => Product::Scores,
            };
            actions.extend([
                Action::Commit(last, clocks(rate * of_mma)),
                Action::WaitForGroup,
            ]);
        } else if says("ROWS(") {
            last = Product::Scores;
        } else if says("COLUMNS_64(") {
            last = Product::Output;
        } else if says("commit_group") {
            actions.push(Action::Commit(last, clocks(rate)));
        } else if says("wait_group") {
            actions.push(Action::WaitForGroup);
        } else if says("ex2.approx") {
            actions.push(Action::Softmax((SCORES / exponentials) as u64));
        } else if says("bar.sync") {
            actions.push(Action::WaitForTurn);
        } else if says("bar.arrive") {
            actions.push(Action::PassTurn);
        }
    }
    Ok(actions)
}

/// Bytes of the copies that end a phase of a barrier.
fn bytes(barrier: Barrier<'_>, warpgroups: bool) -> u64 {
    let keys = if warpgroups { 128 } else { 64 };
    let rows = match barrier.0 {
        "q_full" => 128,
        "full" => 2 * keys,
        _ => keys,
    };
    rows * HEAD_DIM as u64 * 2
}

/// Where some warps are in their order.
#[derive(Default)]
struct Warps {
    next: usize,
    /// When they came to the next action.
    since: Option<u64>,
    /// When the groups end that they have not waited for.
    groups: VecDeque<u64>,
    /// Clocks of the special function units that their exponentials still need.
    exponentials: u64,
    /// When the turn was passed to them.
    turn: Option<u64>,
}

/// A block on an SM.
#[derive(Default)]
struct Block<'a> {
    warps: Vec<Warps>,
    /// By barrier, when its phases end, and what ends them.
    phases: BTreeMap<Barrier<'a>, Vec<(u64, Lane<'a>)>>,
    arrivals: BTreeMap<Barrier<'a>, u64>,
    /// When the last of the copies that were started has been read from L2, and when the last of
    /// the products is done.
    copied: u64,
    multiplied: u64,
    schedule: Schedule<'a>,
}

impl<'a> Block<'a> {
    /// The number of spans like these.
    fn count(&self, what: What, warps: usize, barrier: Barrier<'_>) -> u64 {
        let same =
            |span: &&Span<'_>| (span.what, span.warps, span.barrier) == (what, warps, barrier);
        self.schedule.spans.iter().filter(same).count() as u64
    }

    /// Carries out an action of some warps. `None` if they must wait.
    fn act(&mut self, w: usize, action: Action<'a>, clock: u64) -> Option<()> {
        let warps = &mut self.warps[w];
        let since = *warps.since.get_or_insert(clock);
        let mut span = None;
        let mut by = None;
        match action {
            Action::Copy(barrier) => {
                self.copied =
                    self.copied.max(clock) + bytes(barrier, self.warps.len() > 2) / COPIED;
                let end = self.copied + LATENCY;
                let phases = self.phases.entry(barrier).or_default();
                phases.push((end, Lane::Copies(barrier)));
                let tile = STAGES * self.count(What::Copy, w, barrier) + barrier.1;
                span = Some((What::Copy, barrier, tile, clock, end));
            }
            Action::Wait(barrier, phases) => {
                if let Some(last) = phases.checked_sub(1) {
                    let ends = self.phases.get(&barrier)?;
                    by = Some(*ends.get(last as usize).filter(|(end, _)| *end <= clock)?);
                    span = Some((What::Wait, barrier, phases, since, clock));
                }
            }
            Action::Arrive(barrier, of_phase) => {
                let arrivals = self.arrivals.entry(barrier).or_default();
                *arrivals += WARPS;
                if arrivals.is_multiple_of(of_phase) {
                    let phases = self.phases.entry(barrier).or_default();
                    phases.push((clock, Lane::Warps(w)));
                }
            }
            Action::Commit(product, clocks) => {
                let from = self.multiplied.max(clock);
                self.multiplied = from + clocks;
                warps.groups.push_back(self.multiplied);
                let tile = self.count(What::Product(product), w, NONE);
                let flight = (What::Flight(product), NONE, tile, clock, self.multiplied);
                self.span(w, flight);
                span = Some((What::Product(product), NONE, tile, from, self.multiplied));
            }
            Action::WaitForGroup => {
                let end = *warps.groups.front().filter(|end| **end <= clock)?;
                warps.groups.pop_front();
                by = Some((end, Lane::Tensor));
                span = Some((What::Wait, ("products", 0), 0, since, clock));
            }
            Action::Softmax(clocks) => {
                if since == clock {
                    warps.exponentials = clocks;
                }
                if warps.exponentials > 0 {
                    return None;
                }
                let tile = self.count(What::Softmax, w, NONE);
                span = Some((What::Softmax, NONE, tile, since, clock));
            }
            Action::WaitForTurn => {
                by = Some((warps.turn.take()?, Lane::Warps(1 - w)));
                span = Some((What::Wait, ("turn", 0), 0, since, clock));
            }
            Action::PassTurn => self.warps[1 - w].turn = Some(clock),
        }
        if let Some(span) = span {
            self.span(w, span);
        }
        let has_waited = since < clock || matches!(action, Action::WaitForTurn);
        if let Some((at, by)) = by.filter(|_| has_waited) {
            let wake = Wake {
                by,
                at,
                warps: w,
                goes_on: clock,
            };
            self.schedule.wakes.push(wake);
        }
        let warps = &mut self.warps[w];
        warps.next += 1;
        warps.since = None;
        Some(())
    }

    fn span(&mut self, warps: usize, span: (What, Barrier<'a>, u64, u64, u64)) {
        let (what, barrier, tile, from, to) = span;
        self.schedule.spans.push(Span {
            what,
            warps,
            barrier,
            tile,
            from,
            to,
        });
    }
}

/// The times of the actions of a block, of which each warp begins one in a clock.
fn schedule(recordings: &[Recording]) -> Result<Schedule<'_>> {
    let orders: Vec<Vec<Action<'_>>> = recordings.iter().map(actions).collect::<Result<_>>()?;
    let mut block = Block::default();
    block.warps.resize_with(orders.len(), Warps::default);
    let mut served = 0;
    let mut clock = 0;
    while (0..orders.len()).any(|w| block.warps[w].next < orders[w].len()) {
        ensure!(clock < 100_000, "the warps wait for each other for ever");
        for (w, order) in orders.iter().enumerate() {
            if let Some(&action) = order.get(block.warps[w].next) {
                block.act(w, action, clock);
            }
        }
        // A clock of the special function units is for one warp of each scheduler. Those that want
        // it take turns.
        let mut others = (1..=orders.len()).map(|next| (served + next) % orders.len());
        if let Some(w) = others.find(|w| block.warps[*w].exponentials > 0) {
            block.warps[w].exponentials -= 1;
            served = w;
        }
        clock += 1;
    }
    let waited = block.warps.iter().all(|warps| warps.groups.is_empty());
    ensure!(waited, "a group of products is not waited for");
    // A stage is held until the phase of `empty` ends that the next copy waits for, or to the end.
    let Schedule { mut spans, wakes } = block.schedule;
    let copies = spans.iter().filter(|span| span.what == What::Copy);
    let held = copies.map(|copy| {
        let empty = copy.barrier.0.replace("full", "empty");
        let ends = block.phases.get(&(&*empty, copy.barrier.1));
        let end = ends.and_then(|ends| ends.get((copy.tile / STAGES) as usize));
        Span {
            what: What::Held,
            from: copy.to,
            to: end.map_or(clock, |end| end.0),
            ..*copy
        }
    });
    let held: Vec<Span<'_>> = held.collect();
    spans.extend(held);
    Ok(Schedule { spans, wakes })
}

/// The rows from top to bottom: lane, name, upper end and height.
fn rows<'a>(schedule: &Schedule<'a>, recordings: usize) -> Vec<(Lane<'a>, String, f64, f64)> {
    let consumers = match recordings {
        2 => vec![(Lane::Warps(0), "warps 0 to 3", 26.0, 4.0)],
        _ => vec![
            (Lane::Warps(0), "warpgroup 0", 26.0, 4.0),
            (Lane::Flight(0), "in flight", 11.0, 10.0),
            (Lane::Tensor, "tensor cores", 26.0, 10.0),
            (Lane::Flight(1), "in flight", 11.0, 10.0),
            (Lane::Warps(1), "warpgroup 1", 26.0, 10.0),
        ],
    };
    let producer = (Lane::Warps(recordings - 1), "producer", 18.0, 24.0);
    let warps = consumers.into_iter().chain([producer]);
    let warps = warps.map(|(lane, name, height, gap)| (lane, name.to_owned(), height, gap));
    let copies = schedule.spans.iter().filter(|span| span.what == What::Copy);
    let mut barriers: Vec<Barrier<'_>> = copies.map(|copy| copy.barrier).collect();
    barriers.sort_unstable_by_key(|barrier| (*barrier == Q, *barrier));
    barriers.dedup();
    let copies = barriers.into_iter().map(|barrier| {
        let name = match barrier {
            Q => "q".to_owned(),
            ("full", stage) => format!("k, v: stage {stage}"),
            (name, stage) => format!("{}: stage {stage}", &name[..1]),
        };
        (Lane::Copies(barrier), name, 18.0, 5.0)
    });
    let mut bottom = 0.0;
    let placed = warps.chain(copies).map(|(lane, name, height, gap)| {
        bottom += gap + height;
        (lane, name, bottom - height, height)
    });
    placed.collect()
}

/// The colour of a span, and what it may say, the first if it fits.
fn look(span: &Span<'_>) -> (&'static str, [String; 2]) {
    let tile = span.tile;
    let numbered = |name: &str| [format!("{name} {tile}"), name.to_owned()];
    let of_warps = ["blue", "green"][span.warps % 2];
    match (span.what, span.barrier) {
        (What::Copy, Q) => ("orange", ["copy of q", "copy"].map(str::to_owned)),
        (What::Copy, _) => ("orange", numbered("copy")),
        (What::Held, Q) => ("done", Default::default()),
        (What::Held, _) => ("done", numbered("tile")),
        (What::Softmax, _) => (of_warps, numbered("softmax")),
        (What::Product(Product::Scores), _) => (of_warps, [format!("s{tile}"), "s".to_owned()]),
        (What::Product(Product::Output), _) => (of_warps, [format!("pv{tile}"), "pv".to_owned()]),
        (What::Flight(_), _) => (of_warps, Default::default()),
        (What::Wait, ("products" | "turn", _)) => ("plain", Default::default()),
        (What::Wait, Q) => ("plain", ["waits for q_full", "q_full"].map(str::to_owned)),
        (What::Wait, (name, stage)) => {
            let name = format!("{name}[{stage}]");
            ("plain", [format!("waits for {name}"), name])
        }
    }
}

/// A rectangle (x, y, width, height) with the first text that fits into it.
fn bar(c: &mut Canvas, class: &str, at: (f64, f64, f64, f64), texts: &[String]) {
    let (left, top, width, height) = at;
    c.rect(class, left, top, width, height);
    let fits = |text: &&String| 6.4 * text.len() as f64 <= width;
    if let Some(text) = texts.iter().find(fits) {
        c.note(
            At::Middle,
            left + width / 2.0,
            top + height / 2.0 + 4.0,
            text,
        );
    }
}

fn picture(recordings: &[Recording]) -> Result<Picture> {
    const LEFT: f64 = 96.0;
    let schedule = schedule(recordings)?;
    let rows = rows(&schedule, recordings.len());
    let find = |lane: Lane<'_>| {
        let row = rows.iter().find(|row| row.0 == lane);
        row.map(|row| (row.2, row.3))
    };
    // Products of mma.sync have no row of their own: their warps do nothing else meanwhile.
    let place = |lane: Lane<'_>| find(lane).or(find(Lane::Warps(0))).context("no consumers");
    let end = schedule.spans.iter().map(|span| span.to).max();
    let end = end.context("nothing happens")?;
    let per_clock = if recordings.len() == 2 { 0.109 } else { 0.0895 };
    let x = |clock: u64| LEFT + per_clock * clock as f64;
    let mut c = Canvas::new();
    for (_, name, top, height) in &rows {
        c.note(At::End, LEFT - 10.0, top + height / 2.0 + 4.0, name);
    }
    for wake in &schedule.wakes {
        let (by, warps) = (place(wake.by)?, place(Lane::Warps(wake.warps))?);
        let (from, to) = if by.0 < warps.0 {
            (by.0 + by.1, warps.0)
        } else {
            (by.0, warps.0 + warps.1)
        };
        let (from, to) = ((x(wake.at), from), (x(wake.goes_on), to));
        match wake.by {
            Lane::Warps(_) if wake.warps + 1 < recordings.len() => c.line("mark", from, to),
            _ if by == warps => {}
            _ => c.arrow(from, to),
        }
    }
    let is_wait = |span: &&Span<'_>| span.what == What::Wait;
    let waits = schedule.spans.iter().filter(is_wait);
    for span in waits.chain(schedule.spans.iter().filter(|span| !is_wait(span))) {
        let lane = match span.what {
            What::Copy | What::Held => Lane::Copies(span.barrier),
            What::Product(_) => Lane::Tensor,
            What::Flight(_) if recordings.len() == 2 => continue,
            What::Flight(_) => Lane::Flight(span.warps),
            What::Softmax | What::Wait => Lane::Warps(span.warps),
        };
        let (mut top, mut height) = place(lane)?;
        if let What::Flight(product) = span.what {
            height = 5.0;
            top += if product == Product::Output { 6.0 } else { 0.0 };
        }
        let (left, width) = (x(span.from), x(span.to) - x(span.from));
        if width < 1.0 {
            continue;
        }
        let (class, texts) = look(span);
        bar(&mut c, class, (left, top, width, height), &texts);
    }
    if let Some((top, height)) = find(Lane::Tensor) {
        for (from, to) in rests(&schedule) {
            let width = x(to) - x(from) - 4.0;
            let at = (x(from) + 2.0, top, width, height);
            bar(&mut c, "next", at, &["rest".to_owned()]);
        }
    }
    let last = rows.last().context("no rows")?;
    let axis = last.2 + last.3 + 14.0;
    c.arrow((LEFT, axis), (x(end) + 12.0, axis));
    for thousands in 0..=end / 1000 {
        let x = x(1000 * thousands);
        c.line("arrow", (x, axis), (x, axis + 5.0));
        let text = if thousands == 0 {
            "0".to_owned()
        } else {
            format!("{thousands},000")
        };
        c.note(At::Middle, x, axis + 18.0, &text);
    }
    c.note(At::End, LEFT - 10.0, axis + 4.0, "clocks");
    Ok(drawn(c, (760, axis as u32 + 24)))
}

fn products<'a, 's>(schedule: &'s Schedule<'a>) -> impl Iterator<Item = &'s Span<'a>> {
    let spans = schedule.spans.iter();
    spans.filter(|span| matches!(span.what, What::Product(_)))
}

/// When the tensor cores rest between two products, for longer than it takes to start one.
fn rests(schedule: &Schedule<'_>) -> Vec<(u64, u64)> {
    let mut products: Vec<_> = products(schedule)
        .map(|product| (product.from, product.to))
        .collect();
    products.sort_unstable();
    let gaps = products.windows(2).map(|pair| (pair[0].1, pair[1].0));
    gaps.filter(|(from, to)| to - from > 100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated;

    /// The recordings of rung 8, 9 or 10.
    fn recordings(rung: usize) -> Vec<Recording> {
        let names = FIGURES[rung - 8].recordings.iter();
        names
            .map(|name| generated::recording(name).unwrap())
            .collect()
    }

    /// The span of some warps and a tile.
    fn span<'a>(schedule: &Schedule<'a>, what: What, warps: usize, tile: u64) -> Span<'a> {
        let mut spans = schedule.spans.iter();
        let found = spans.find(|span| (span.what, span.warps, span.tile) == (what, warps, tile));
        *found.unwrap()
    }

    #[test]
    fn nothing_begins_before_what_it_waits_for_has_ended() {
        for rung in 8..=10 {
            let recordings = recordings(rung);
            let schedule = schedule(&recordings).unwrap();
            let [scores, output] = [Product::Scores, Product::Output].map(What::Product);
            let consumers = 0..recordings.len() - 1;
            let copies = schedule.spans.iter().filter(|span| span.what == What::Copy);
            for copy in copies.filter(|copy| copy.barrier != Q) {
                // The first and the last product that reads what is copied.
                let (first, last) = match copy.barrier.0 {
                    "full" => (scores, output),
                    "k_full" => (scores, scores),
                    _ => (output, output),
                };
                for w in consumers.clone() {
                    assert!(
                        span(&schedule, first, w, copy.tile).from >= copy.to,
                        "{copy:?}"
                    );
                    if let Some(before) = copy.tile.checked_sub(STAGES) {
                        assert!(span(&schedule, last, w, before).to <= copy.from, "{copy:?}");
                    }
                }
            }
            for (w, tile) in consumers.flat_map(|w| (0..4).map(move |tile| (w, tile))) {
                let softmax = span(&schedule, What::Softmax, w, tile);
                assert!(span(&schedule, scores, w, tile).to <= softmax.from);
                assert!(softmax.to <= span(&schedule, output, w, tile).from);
            }
            // The producer runs ahead by the number of stages, and then waits for each tile.
            let waits = schedule.spans.iter().filter(|span| span.what == What::Wait);
            let waits = waits.filter(|wait| wait.warps + 1 == recordings.len());
            let last_wait = waits.map(|wait| wait.to).collect::<Vec<_>>();
            for copy in schedule.spans.iter().filter(|span| span.what == What::Copy) {
                if copy.tile < STAGES {
                    assert!(copy.from < 20, "{copy:?}");
                } else {
                    assert!(
                        last_wait
                            .iter()
                            .any(|end| (1..4).contains(&(copy.from - end))),
                        "{copy:?}"
                    );
                }
            }
        }
    }

    /// The share of the clocks of exponentials in which the tensor cores work, behind the first
    /// tile.
    fn covered(schedule: &Schedule<'_>) -> f64 {
        let (mut covered, mut all) = (0, 0);
        for softmax in schedule
            .spans
            .iter()
            .filter(|span| span.what == What::Softmax && span.tile > 0)
        {
            all += softmax.to - softmax.from;
            for product in products(schedule) {
                let (from, to) = (softmax.from.max(product.from), softmax.to.min(product.to));
                covered += to.saturating_sub(from);
            }
        }
        covered as f64 / all as f64
    }

    #[test]
    fn products_never_overlap_and_run_under_the_softmax_in_rung_10() {
        let shares = [8, 9, 10].map(|rung| {
            let recordings = recordings(rung);
            let schedule = schedule(&recordings).unwrap();
            let mut products: Vec<_> = products(&schedule).collect();
            products.sort_by_key(|product| product.from);
            assert_eq!(products.len(), 8 * (recordings.len() - 1));
            assert!(products.windows(2).all(|pair| pair[0].to <= pair[1].from));
            (rests(&schedule).len(), covered(&schedule))
        });
        let [(4, none), (4, some), (1, most)] = shares else {
            panic!("{shares:?}");
        };
        assert!(none == 0.0 && some < 0.4 && most > 0.9, "{shares:?}");
    }

    #[test]
    fn a_missing_arrival_or_turn_is_a_deadlock() {
        for (rung, source) in [
            (8, "mbarrier.arrive.shared"),
            (9, "mbarrier.arrive.shared"),
            (10, "bar.arrive"),
        ] {
            let mut recordings = recordings(rung);
            let consumer = recordings.len() - 2;
            let steps = &mut recordings[consumer].steps;
            let at = steps.iter().position(|step| step.source.contains(source));
            steps.remove(at.unwrap());
            let error = schedule(&recordings).err().unwrap();
            assert!(error.to_string().contains("for ever"), "{error}");
        }
    }
}
