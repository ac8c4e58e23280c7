//! Copies of the tensor memory accelerator: `cp.async.bulk`, `cp.reduce.async.bulk`,
//! `cp.async.bulk.prefetch`, their forms for tensors, and `prefetch.tensormap`.

use super::async_copy::number;
use super::operands::{Mods, Operands, given, items};
use crate::program::instruction::Constant;
use crate::program::lower::Lowering;
use crate::program::op::{
    Address, Atomic, BulkCopy, Extent, HalfAtomic, IntBinary, MemorySpace, NO_MASK, Op, R,
    Reducing, Route, Side, Type,
};
use crate::ptx::Operand;

impl<'a> Lowering<'a> {
    /// `cp.async.bulk` and `cp.reduce.async.bulk`, whose words up to `bulk` are taken.
    pub(super) fn bulk_copy(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
        reduces: bool,
    ) -> Option<Op> {
        if !reduces && mods.take("commit_group") {
            return Some(Op::BulkCommit);
        }
        if !reduces && mods.take("wait_group") {
            let only_reads = mods.take("read");
            return Some(Op::BulkWait {
                newest: number(operands.get(0)?)?,
                only_reads,
            });
        }
        let prefetches = !reduces && mods.take("prefetch");
        let rank = match mods.take("tensor") {
            true => Some(mods.pick([("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)])?),
            false => None,
        };
        let (route, to_cluster) = match prefetches {
            true => (prefetch_route(mods)?, false),
            false => route(mods)?,
        };
        if let (Route::Within, Some(_)) = (route, rank) {
            return None;
        }
        let is_tile = rank.is_some();
        let of_pixels = is_tile
            && match route {
                Route::Load | Route::Prefetch => mods.take("im2col"),
                Route::Store => mods.take("im2col_no_offs"),
                Route::Within => false,
            };
        let _ = is_tile && !of_pixels && mods.take("tile");
        let multicasts = to_cluster && route == Route::Load && mods.take("multicast::cluster");
        let has_policy = route != Route::Within && mods.take("L2::cache_hint");
        let has_barrier = matches!(route, Route::Load | Route::Within);
        if let Some(completion) = match route {
            Route::Load | Route::Within => Some("mbarrier::complete_tx::bytes"),
            Route::Store => Some("bulk_group"),
            Route::Prefetch => None,
        } {
            mods.take(completion).then_some(())?;
        }
        let reduction = match reduces {
            true => Some(reducing(mods, route, is_tile)?),
            false => None,
        };
        if reduces && route == Route::Load {
            return None;
        }
        // The operands, in their order.
        let mut at = 0;
        let mut next = || {
            at += 1;
            operands.get(at - 1)
        };
        let (source, target, mut extent) = match (rank, route) {
            (Some(rank), Route::Load) => {
                let target = self.shared_side(next()?)?;
                let (map, extent) = self.tile(next()?, rank)?;
                (map, target, Some(extent))
            }
            (Some(rank), Route::Store) => {
                let (map, extent) = self.tile(next()?, rank)?;
                (self.shared_side(next()?)?, map, Some(extent))
            }
            (Some(rank), _) => {
                let (map, extent) = self.tile(next()?, rank)?;
                (map, map, Some(extent))
            }
            (None, Route::Load) => {
                let target = self.shared_side(next()?)?;
                (self.side(next()?, "global")?, target, None)
            }
            (None, Route::Store) => {
                let target = self.side(next()?, "global")?;
                (self.shared_side(next()?)?, target, None)
            }
            (None, Route::Within) => {
                let target = self.shared_side(next()?)?;
                (self.shared_side(next()?)?, target, None)
            }
            (None, Route::Prefetch) => {
                let source = self.side(next()?, "global")?;
                (source, source, None)
            }
        };
        if extent.is_none() {
            extent = Some(Extent::Bytes(self.source(next()?, Type::U32)?));
        }
        let barrier = given(has_barrier.then(&mut next), |at| self.shared_side(at?))?;
        if of_pixels {
            let offsets = (route != Route::Store).then(&mut next);
            extent = Some(self.pixels(extent?, offsets)?);
        }
        let blocks = given(multicasts.then(&mut next), |mask| {
            self.source(mask?, Type::U16)
        })?;
        given(has_policy.then(&mut next), |policy| {
            self.source(policy?, Type::U64)
        })?;
        let no_mask = self.number(NO_MASK);
        Some(Op::BulkCopy(BulkCopy {
            route,
            source,
            target,
            extent: extent?,
            reduction,
            barrier,
            blocks: blocks.unwrap_or(no_mask),
            site: 0,
        }))
    }

    /// `prefetch.tensormap`, whose first modifier is taken.
    pub(super) fn prefetch_tensor_map(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        let is_global = mods.parts.contains(&"global");
        let map = self.address(mods, operands.get(0)?)?;
        let map = self.without_offset(map);
        let known = !is_global
            && matches!(
                map.space,
                MemorySpace::Generic | MemorySpace::Global | MemorySpace::Param
            );
        known.then_some(Op::BulkCopy(BulkCopy {
            route: Route::Prefetch,
            source: map,
            target: map,
            extent: Extent::Map,
            reduction: None,
            barrier: None,
            blocks: self.number(NO_MASK),
            site: 0,
        }))
    }

    /// An address in a space that the instruction names.
    fn side(&mut self, operand: &Operand<'a>, space: &'a str) -> Option<Side> {
        let mut named = Mods { parts: vec![space] };
        let address = self.address(&mut named, operand)?;
        Some(self.without_offset(address))
    }

    /// An address in a register, to which its offset is added before.
    fn without_offset(&mut self, address: Address) -> Side {
        let Address {
            space,
            base,
            wide,
            offset,
        } = address;
        if offset == 0 {
            return Side { base, space, wide };
        }
        let (ty, constant) = match wide {
            true => (Type::U64, Constant::Wide(i64::from(offset) as u64)),
            false => (Type::U32, Constant::Narrow(offset as u32)),
        };
        let d = self.scratch(wide);
        let b = self.constant(constant);
        self.emit_before(Op::IntBinary {
            op: IntBinary::Add,
            ty,
            d,
            a: base,
            b,
        });
        Side {
            base: d,
            space,
            wide,
        }
    }

    /// An address in shared memory, of the cluster or the block: they are the same here.
    fn shared_side(&mut self, operand: &Operand<'a>) -> Option<Side> {
        self.side(operand, "shared")
    }

    /// `[tensorMap, {coordinates}]`, by a generic address.
    fn tile(&mut self, operand: &Operand<'a>, rank: u8) -> Option<(Side, Extent)> {
        let Operand::Texel {
            base,
            offset,
            place,
        } = operand
        else {
            return None;
        };
        let map = Operand::Address {
            base: *base,
            offset: *offset,
        };
        let map = self.address(&mut Mods { parts: Vec::new() }, &map)?;
        let map = self.without_offset(map);
        let [place] = &place[..] else { return None };
        let places = items(place);
        if places.len() != usize::from(rank) {
            return None;
        }
        let mut coordinates = [R(0); 5];
        for (coordinate, place) in coordinates.iter_mut().zip(places) {
            *coordinate = self.source(place, Type::S32)?;
        }
        let extent = Extent::Tile {
            rank,
            pixels: false,
            coordinates,
        };
        Some((map, extent))
    }

    /// The pixels of an im2col copy: `extent` has the coordinates, an operand the offsets.
    fn pixels(&mut self, extent: Extent, offsets: Option<Option<&Operand<'a>>>) -> Option<Extent> {
        let Extent::Tile {
            rank: rank @ 3..,
            mut coordinates,
            ..
        } = extent
        else {
            return None;
        };
        let spatial = &mut coordinates[1..usize::from(rank) - 1];
        let mut above = vec![self.number(0); spatial.len()];
        if let Some(offsets) = offsets {
            let offsets = items(offsets?);
            if offsets.len() != spatial.len() {
                return None;
            }
            for (above, offset) in above.iter_mut().zip(offsets) {
                *above = self.source(offset, Type::U16)?;
            }
        }
        for (coordinate, above) in spatial.iter_mut().zip(above) {
            let d = self.scratch(true);
            let low = *coordinate;
            self.emit_before(Op::Pack {
                bits: 32,
                count: 2,
                d,
                parts: [low, above, low, low],
            });
            *coordinate = d;
        }
        Some(Extent::Tile {
            rank,
            pixels: true,
            coordinates,
        })
    }
}

/// The route of a copy, by the state spaces of its target and its source, and whether the target is
/// the cluster's shared memory.
fn route(mods: &mut Mods<'_>) -> Option<(Route, bool)> {
    let mut space = || {
        mods.pick([
            ("shared::cluster", Space::Cluster),
            ("shared::cta", Space::Block),
            ("global", Space::Global),
        ])
    };
    match (space()?, space()?) {
        (Space::Cluster, Space::Global) => Some((Route::Load, true)),
        (Space::Block, Space::Global) => Some((Route::Load, false)),
        (Space::Global, Space::Block) => Some((Route::Store, false)),
        (Space::Cluster, Space::Block) => Some((Route::Within, true)),
        _ => None,
    }
}

/// State spaces between which bulk copies go.
#[derive(Clone, Copy)]
enum Space {
    Cluster,
    Block,
    Global,
}

fn prefetch_route(mods: &mut Mods<'_>) -> Option<Route> {
    let known = mods.take("L2") && mods.take("global");
    known.then_some(Route::Prefetch)
}

/// Operation and type of a reduction, of which PTX has not every pair.
fn reducing(mods: &mut Mods<'_>, route: Route, is_tile: bool) -> Option<Reducing> {
    let op = mods.pick([
        ("add", Atomic::Add),
        ("min", Atomic::Min),
        ("max", Atomic::Max),
        ("inc", Atomic::Increment),
        ("dec", Atomic::Decrement),
        ("and", Atomic::And),
        ("or", Atomic::Or),
        ("xor", Atomic::Xor),
    ])?;
    if is_tile {
        return Some(Reducing { op, ty: None });
    }
    let keeps_subnormals = mods.take("noftz");
    if let Some((ty, false)) = mods.half() {
        let is_sum = op == Atomic::Add;
        let reducing = half_reducing(op, ty)?;
        let allowed = route == Route::Store && keeps_subnormals == is_sum;
        return allowed.then_some(reducing);
    }
    let is_bits = mods.parts.iter().any(|part| matches!(*part, "b32" | "b64"));
    let ty = mods.ty()?;
    let in_device_memory = route == Route::Store;
    let allowed = match op {
        Atomic::And | Atomic::Or | Atomic::Xor => is_bits && (ty == Type::U32 || in_device_memory),
        _ if is_bits => false,
        Atomic::Add => match ty {
            Type::U32 | Type::S32 | Type::U64 => true,
            Type::F32 | Type::F64 => in_device_memory,
            _ => false,
        },
        Atomic::Min | Atomic::Max => match ty {
            Type::U32 | Type::S32 => true,
            Type::U64 | Type::S64 => in_device_memory,
            _ => false,
        },
        Atomic::Increment | Atomic::Decrement => ty == Type::U32,
        Atomic::Exchange | Atomic::CompareSwap | Atomic::Half { .. } => false,
    };
    (allowed && !keeps_subnormals).then_some(Reducing { op, ty: Some(ty) })
}

/// A sum, minimum or maximum of 16-bit floats.
fn half_reducing(op: Atomic, ty: Type) -> Option<Reducing> {
    let half = match op {
        Atomic::Add => HalfAtomic::Add,
        Atomic::Min => HalfAtomic::Min,
        Atomic::Max => HalfAtomic::Max,
        _ => return None,
    };
    let bf16 = ty == Type::Bf16;
    Some(Reducing {
        op: Atomic::Half { op: half, bf16 },
        ty: Some(Type::U16),
    })
}
