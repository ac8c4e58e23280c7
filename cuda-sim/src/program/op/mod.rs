//! The decoded instruction set, which the warp executor runs.
//!
//! PTX has one opcode per operation, type and modifier. Here they are folded into families, one
//! handler file each in `exec`; what remains is a flat list that is matched without a wildcard, so
//! that a new operation does not compile until every pass knows it.

mod accesses;
mod arithmetic;
mod async_copy;
mod bulk_copy;
mod class;
mod dispatch_form;
mod half;
mod matrix;
mod mbarrier;
mod memory;
mod operands;
mod operation;
mod register_uses;
mod tracking;
mod warp;
mod warpgroup;

pub(crate) use arithmetic::*;
pub(crate) use async_copy::{AsyncCopy, CopySide};
pub(crate) use bulk_copy::{BulkCopy, Extent, NO_MASK, Reducing, Route, Side};
pub use class::Class;
pub(crate) use class::TensorUnit;
pub(crate) use dispatch_form::{Form, with_forms};
pub(crate) use half::{
    ByteConversion, ByteType, BytesFrom, Clamp, HalfMode, HalfOp, NarrowType, Narrowing,
};
pub(crate) use matrix::{
    Columns, Factors, Layout, MatrixProduct, MatrixProduct64, MatrixRows, MatrixStart,
    ProductShape, QuadPairProducts, Sums,
};
pub(crate) use mbarrier::{Arrival, Mbarrier, MbarrierOp};
pub use memory::AccessKind;
pub(crate) use memory::*;
pub(crate) use operands::{Condition, P, R};
pub(crate) use operation::{
    Op, between_lanes, matrix_operations, on_general_registers, on_registers, warp_operations,
};
pub(crate) use register_uses::Use;
pub(crate) use tracking::*;
pub(crate) use warp::*;
pub(crate) use warpgroup::{Accumulators, LeftFactor, WarpgroupProduct};
