//! Pages of a pool: which are free, and how many page tables hold each of the others.

/// Free list and reference counts. A page is free exactly if its count is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pages {
    /// Page tables that hold the page, by page.
    references: Vec<u32>,
    /// Free pages; the last is taken next, so that a page just freed is used again
    /// while it is in the cache.
    free: Vec<u32>,
}

impl Pages {
    /// `count` free pages, taken in ascending order.
    pub(super) fn new(count: u32) -> Self {
        Self {
            references: vec![0; count as usize],
            free: (0..count).rev().collect(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.references.len()
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// The reference count of `page`.
    pub(super) fn references(&self, page: u32) -> u32 {
        self.references[page as usize]
    }

    /// Takes a free page. Its reference count becomes 1.
    pub(super) fn take(&mut self) -> Option<u32> {
        let page = self.free.pop()?;
        self.references[page as usize] = 1;
        Some(page)
    }

    /// Adds a reference to a page in use.
    pub(super) fn share(&mut self, page: u32) {
        self.references[page as usize] += 1;
    }

    /// Drops a reference to a page in use. The page is free after the last.
    pub(super) fn release(&mut self, page: u32) {
        let references = &mut self.references[page as usize];
        *references -= 1;
        if *references == 0 {
            self.free.push(page);
        }
    }
}
