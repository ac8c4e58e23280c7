//! The suites: everything that an implementation of a stage must do, in one call.
//!
//! `all`, or `judge` with the parts to run, runs all tasks of a stage; `attention` is stage 4's, in
//! f32 or in half precision, and `backward` its backward pass. The other functions run one task,
//! for an implementation that has only that one. The suites of stages 1 and 3 share the checks of
//! attention on host arrays, in `host.rs`. Dropout has functions of its own, because no exercise is
//! asked for it.
//!
//! | part | stage 1 | stage 2 | stage 3 | stage 4 | stage 5 | stage 6 |
//! |---|---|---|---|---|---|---|
//! | [`Table`](crate::Part::Table) | attention, multi-head layer | all operations | both passes | both passes | both tasks | checkpoints, stories |
//! | [`Strided`](crate::Part::Strided) | attention | products, attention | forward pass | attention | both tasks | |
//! | [`Random`](crate::Part::Random) | attention | softmax, products, attention | both passes | both passes | decode | both tasks |
//! | [`Arguments`](crate::Part::Arguments) | all | all | both passes | both passes | both tasks | both phases |
//! | [`Schedules`](crate::Part::Schedules) | | seeds, all operations | host threads, both passes | seeds, both passes | seeds, both tasks | seeds |
//! | [`Counted`](crate::Part::Counted) | | sectors and FLOPs of softmax and products | memory of both passes | sectors, FLOPs, bytes written, of both passes | sectors, bytes written | |

mod host;
pub mod stage1;
pub mod stage2;
pub mod stage3;
pub mod stage4;
pub mod stage5;
pub mod stage6;
