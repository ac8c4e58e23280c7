//! Pictures of the choice of a tile.

use gpu_recording::{At, Canvas};

use super::Figure;

pub const FIGURES: &[Figure] = &[
    Figure {
        name: "tile-blocks",
        description: "132 squares, one for each multiprocessor, three times. Of 32 heads with 128 queries, tiles of 32 queries make 128 blocks and fill all but 4 squares, tiles of 64 make 64 blocks and fill half of them, tiles of 128 make 32 and fill a quarter.",
        caption: "The multiprocessors of an H100 that have a block, for 32 heads with 128 queries. A larger tile reads k and v less often, and leaves multiprocessors idle.",
        size: (640, 250),
        draw: blocks,
    },
    Figure {
        name: "tile-roofline",
        description: "A part of the roofline of an H100 for f32, on logarithmic axes. At three intensities, one for each shape, all to the right of the bend, stand twelve dots below each other, the fastest tiles. The best of each is marked: at about half of the peak for the first shape, at nearly two thirds for the others.",
        caption: "The tiles of the tables under the roof of an H100: one column for each shape, by its name. Orange is the best tile without spills, blue the others.",
        size: (620, 330),
        draw: roofline,
    },
];

const MULTIPROCESSORS: usize = 132;

fn blocks(c: &mut Canvas) {
    const IN_A_ROW: usize = 44;
    const SIDE: f64 = 10.0;
    for (row, queries) in [32, 64, 128].into_iter().enumerate() {
        let (blocks, top) = (32 * 128 / queries, 20.0 + 78.0 * row as f64);
        c.text(At::Start, 10.0, top + 16.0, &format!("{queries} queries"));
        c.text(At::Start, 10.0, top + 36.0, &format!("{blocks} blocks"));
        for place in 0..MULTIPROCESSORS {
            let class = if place < blocks { "blue" } else { "plain" };
            let x = 110.0 + 12.0 * (place % IN_A_ROW) as f64;
            let y = top + 14.0 * (place / IN_A_ROW) as f64;
            c.rect(class, x, y, SIDE, SIDE);
        }
    }
}

/// What `cargo grade tune` prints.
const TABLES: &str = include_str!("../../generated/tune.txt");

fn roofline(c: &mut Canvas) {
    const PEAK: f64 = 66.9;
    const BANDWIDTH: f64 = 3.35;
    let x = |intensity: f64| 80.0 + 380.0 * (intensity / 10.0).log10();
    let y = |tflops: f64| 290.0 - 260.0 * (tflops / 10.0).log10();
    for intensity in [10.0, 20.0, 50.0, 100.0, 200.0] {
        c.line("guide", (x(intensity), 24.0), (x(intensity), 290.0));
        c.note(At::Middle, x(intensity), 306.0, &format!("{intensity:.0}"));
    }
    for tflops in [10.0, 20.0, 50.0, 100.0] {
        c.line("guide", (80.0, y(tflops)), (575.0, y(tflops)));
        c.note(At::End, 74.0, y(tflops) + 4.0, &format!("{tflops:.0}"));
    }
    c.note(At::Start, 8.0, 16.0, "TFLOP/s");
    c.note(At::Middle, 330.0, 324.0, "FLOP per byte of device memory");
    let ridge = PEAK / BANDWIDTH;
    let roof = [(10.0, 10.0 * BANDWIDTH), (ridge, PEAK), (200.0, PEAK)];
    c.chain("roof", &roof.map(|(at, height)| (x(at), y(height))));
    c.text(
        At::Start,
        x(ridge) + 8.0,
        y(PEAK) - 8.0,
        "66.9 TFLOP/s, f32",
    );
    for (place, shape) in shapes().iter().enumerate() {
        // The columns stand close, and the names are long.
        let name = 246.0 + 18.0 * place as f64;
        c.line(
            "mark",
            (x(shape.intensity), y(PEAK)),
            (x(shape.intensity), name - 12.0),
        );
        c.text(At::Middle, x(shape.intensity), name, shape.name);
        for &(is_best, tflops) in &shape.tiles {
            if !is_best {
                c.dot("blue", x(shape.intensity), y(tflops));
            }
        }
        for &(_, tflops) in shape.tiles.iter().filter(|(is_best, _)| *is_best) {
            c.dot("orange", x(shape.intensity), y(tflops));
        }
    }
}

/// The tiles at one shape.
struct Shape {
    name: &'static str,
    intensity: f64,
    /// If it is the best, and its speed.
    tiles: Vec<(bool, f64)>,
}

fn shapes() -> Vec<Shape> {
    let mut shapes: Vec<Shape> = Vec::new();
    for line in TABLES.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((sizes, _)) = line.split_once(" FLOP for each byte") {
            let intensity = sizes.rsplit(' ').next().and_then(|word| word.parse().ok());
            shapes.push(Shape {
                name: words[0].trim_end_matches(':'),
                intensity: intensity.expect("the tables have the intensity of a shape"),
                tiles: Vec::new(),
            });
        } else if words
            .first()
            .is_some_and(|word| word.parse::<u32>().is_ok())
        {
            let tflops = words[13]
                .parse()
                .expect("the tables have a speed for each tile");
            let shape = shapes.last_mut().expect("a tile is of a shape");
            shape.tiles.push((words.last() == Some(&"best"), tflops));
        }
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_has_tiles_below_the_roof_and_a_best_one() {
        let shapes = shapes();
        assert_eq!(shapes.len(), 3);
        for Shape { name, tiles, .. } in shapes {
            let best = tiles.iter().filter(|(is_best, _)| *is_best).count();
            assert!(tiles.len() >= 10 && best == 1, "{name}: {tiles:?}");
            assert!(tiles.iter().all(|(_, tflops)| (1.0..66.9).contains(tflops)));
        }
    }
}
