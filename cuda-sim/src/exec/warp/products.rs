//! Products of warpgroups in flight: which of their registers no other instruction may touch, and
//! what `wgmma.fence` must come before.
//!
//! Between a `wgmma.mma_async` and the `wgmma.wait_group` that covers its group, the tensor core
//! may write its accumulators and read its A registers. Products of one shape may follow each other
//! on the same accumulators. A product that nobody has committed is in no group, and no wait covers
//! it.
//!
//! Compilers copy the operands of inline assembly from register to register. So a plain `mov` is no
//! access: what is known of a register goes on to its copy.

use super::Warp;
use crate::exec::checks::async_proxy::AsyncOperation;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{OtherSide, WarpFault};
use crate::exec::lane_mask::FULL;
use crate::fault::{FaultKind, ProductRegister, RegisterInFlight};
use crate::program::Kernel;
use crate::program::op::{LeftFactor, Op, R, Use, WarpgroupProduct};

/// Products of a warp, and what is known of the registers that products have as operands.
#[derive(Debug, Default)]
pub(super) struct Products {
    /// Groups that were committed; a product that begins now will be in the group of this number.
    commits: u64,
    /// Groups that were waited for: those with lower numbers.
    waited: u64,
    /// Number of `wgmma.fence` instructions so far.
    fences: u32,
    /// By plane. Empty until there is something to know.
    registers: Vec<Known>,
    /// Those in flight, with their groups.
    in_flight: Vec<(u64, AsyncOperation)>,
}

/// What is known of a register.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    product: Option<Operand>,
    /// The last ordinary access.
    access: Option<LastAccess>,
}

#[derive(Debug, Clone, Copy)]
struct LastAccess {
    pc: u32,
    write: bool,
    fences: u32,
}

/// An operand of a product.
#[derive(Debug, Clone, Copy)]
struct Operand {
    pc: u32,
    group: u64,
    fences: u32,
    which: ProductRegister,
    /// The register is a copy of that operand.
    is_copy: bool,
}

impl Operand {
    fn is_accumulator(&self) -> bool {
        matches!(self.which, ProductRegister::Accumulator(_))
    }
}

impl Products {
    pub(super) fn start(&mut self) {
        (self.commits, self.waited, self.fences) = (0, 0, 0);
        self.registers.clear();
        self.in_flight.clear();
    }

    fn known(&mut self, r: R) -> &mut Known {
        let at = r.0 as usize;
        if self.registers.len() <= at {
            self.registers.resize(at + 1, Known::default());
        }
        &mut self.registers[at]
    }

    /// The product of which the register is an operand, if it is in flight.
    fn in_flight(&mut self, r: R) -> Option<Operand> {
        let waited = self.waited;
        self.known(r).product.filter(|p| p.group >= waited)
    }

    /// An instruction accesses a register in flight.
    fn fault(&self, operand: Operand, write: bool) -> (FaultKind, u32) {
        let kind = FaultKind::ProductInFlight(RegisterInFlight {
            register: operand.which,
            write,
            committed: operand.group < self.commits,
            product: None,
        });
        (kind, operand.pc)
    }

    /// An ordinary operation accesses registers. The fault and the other instruction, if it may
    /// not.
    fn follow(&mut self, kernel: &Kernel, op: &Op, pc: u32) -> Result<(), (FaultKind, u32)> {
        let concerns = |r: R| kernel.product_registers[r.0 as usize];
        match *op {
            Op::Accumulators(_) | Op::WarpgroupProduct(_) | Op::Track(_) => return Ok(()),
            Op::Move { wide: false, d, a } => {
                return if concerns(d) {
                    let from = match concerns(a) {
                        true => *self.known(a),
                        false => Known::default(),
                    };
                    self.copy(from, d)
                } else {
                    Ok(())
                };
            }
            _ => {}
        }
        let (mut op, mut found) = (*op, Ok(()));
        op.for_each_register(&mut |usage, r| {
            if found.is_ok() && concerns(*r) {
                found = self.access(*r, usage, pc);
            }
        });
        found
    }

    fn access(&mut self, r: R, usage: Use, pc: u32) -> Result<(), (FaultKind, u32)> {
        let write = usage == Use::Write;
        if let Some(operand) = self.in_flight(r) {
            let is_allowed = match (operand.is_accumulator(), operand.is_copy) {
                (true, true) => write,
                (true, false) => false,
                (false, _) => !write,
            };
            if !is_allowed {
                return Err(self.fault(operand, write));
            }
        }
        let fences = self.fences;
        let known = self.known(r);
        let wrote = known.access.is_some_and(|a| a.write && a.fences == fences);
        if write {
            known.product = None;
        }
        if write || !wrote {
            known.access = Some(LastAccess { pc, write, fences });
        }
        Ok(())
    }

    /// A copy of what `from` is known of.
    fn copy(&mut self, from: Known, d: R) -> Result<(), (FaultKind, u32)> {
        let waited = self.waited;
        let copied = from.product.filter(Operand::is_accumulator);
        if let Some(operand) = self.in_flight(d).filter(|operand| !operand.is_copy) {
            // A loop takes the accumulators of its last turn back to where its first product has
            // them.
            let of_same = copied.filter(|from| from.group >= waited && from.which == operand.which);
            if of_same.is_none() {
                return Err(self.fault(operand, true));
            }
        }
        *self.known(d) = Known {
            product: copied.map(|operand| Operand {
                is_copy: true,
                ..operand
            }),
            access: from.access,
        };
        Ok(())
    }

    /// A product begins.
    fn begin(
        &mut self,
        kernel: &Kernel,
        product: &WarpgroupProduct,
        pc: u32,
        operation: AsyncOperation,
    ) -> Result<(), (FaultKind, u32)> {
        let fences = self.fences;
        if fences == 0 {
            return Err((
                FaultKind::MissingProductFence {
                    access: None,
                    register: None,
                },
                pc,
            ));
        }
        let missing = |register, at| {
            let kind = FaultKind::MissingProductFence {
                access: None,
                register: Some(register),
            };
            (kind, at)
        };
        if self.registers.len() < kernel.product_registers.len() {
            let planes = kernel.product_registers.len();
            self.registers.resize(planes, Known::default());
        }
        let has_shape = |at: u32| {
            let other = &kernel.code[at as usize].op;
            at == pc || matches!(other, Op::WarpgroupProduct(other) if other.has_shape_of(product))
        };
        let accumulators = &kernel.accumulators[product.number as usize];
        // The product that wrote them last, if it has the shape of this one.
        let mut alike = None;
        for (i, r) in accumulators.iter().enumerate() {
            let which = ProductRegister::Accumulator(i as u32);
            let known = &self.registers[r.0 as usize];
            if let Some(access) = known.access.filter(|access| access.fences == fences) {
                return Err(missing(which, access.pc));
            }
            let Some(last) = known.product else { continue };
            if last.which == which {
                if alike != Some(last.pc) && has_shape(last.pc) {
                    alike = Some(last.pc);
                }
                if alike == Some(last.pc) {
                    continue;
                }
            }
            if last.group >= self.waited {
                return Err(self.fault(last, true));
            }
            if last.is_accumulator() && last.fences == fences {
                return Err(missing(which, last.pc));
            }
        }
        let fragments = match &product.a {
            LeftFactor::Registers(a) => a.as_slice(),
            LeftFactor::Shared(_) => &[],
        };
        for (i, r) in fragments.iter().enumerate() {
            let which = ProductRegister::Fragment(i as u32);
            if let Some(operand) = self.in_flight(*r).filter(Operand::is_accumulator) {
                return Err(self.fault(operand, false));
            }
            let written = self.known(*r).access;
            if let Some(access) = written.filter(|a| a.write && a.fences == fences) {
                return Err(missing(which, access.pc));
            }
        }
        let group = self.commits;
        let operand = |which| Operand {
            pc,
            group,
            fences,
            which,
            is_copy: false,
        };
        for (i, r) in fragments.iter().enumerate() {
            let which = ProductRegister::Fragment(i as u32);
            self.registers[r.0 as usize].product = Some(operand(which));
        }
        for (i, r) in accumulators.iter().enumerate() {
            let which = ProductRegister::Accumulator(i as u32);
            self.registers[r.0 as usize].product = Some(operand(which));
        }
        self.in_flight.push((group, operation));
        Ok(())
    }
}

impl Warp {
    /// Follows an operation that the threads of `mask` are about to run.
    pub(super) fn follow_products(
        &mut self,
        kernel: &Kernel,
        pc: u32,
        mask: u32,
    ) -> Result<(), WarpFault> {
        let op = &kernel.code[pc as usize].op;
        let followed = self.products.follow(kernel, op, pc);
        followed.map_err(|(kind, other)| self.product_fault(kind, other, pc, mask))
    }

    /// The warp has come to a product with the others of its warpgroup.
    pub(crate) fn begin_product(
        &mut self,
        kernel: &Kernel,
        product: &WarpgroupProduct,
        pc: u32,
        operation: AsyncOperation,
    ) -> Result<(), WarpFault> {
        let begun = self.products.begin(kernel, product, pc, operation);
        begun.map_err(|(kind, other)| self.product_fault(kind, other, pc, FULL))
    }

    /// Runs `wgmma.fence`, `commit_group` or `wait_group`.
    pub(super) fn order_products(&mut self, worker: &mut HostThread<'_>, op: &Op) {
        if !worker.checks.enabled {
            return;
        }
        let products = &mut self.products;
        match *op {
            Op::ProductFence => products.fences += 1,
            Op::ProductCommit => products.commits += 1,
            Op::ProductWait { newest } => {
                let waited = products.commits.saturating_sub(newest.into());
                products.waited = products.waited.max(waited);
                let ended = |(group, _): &(u64, AsyncOperation)| *group < products.waited;
                let count = products.in_flight.iter().take_while(|p| ended(p)).count();
                if let Some((_, newest)) = products.in_flight.drain(..count).next_back() {
                    worker.checks.wait_async(&newest, self.number);
                }
            }
            _ => unreachable!("not an operation that orders products"),
        }
    }

    #[cold]
    fn product_fault(&self, kind: FaultKind, other: u32, pc: u32, mask: u32) -> WarpFault {
        let lane = mask.trailing_zeros() & 31;
        WarpFault {
            kind,
            pc,
            lane,
            mask,
            other: Some(OtherSide {
                pc: other,
                thread: Some(self.number as u32 * 32 + lane),
                block: None,
            }),
        }
    }
}
