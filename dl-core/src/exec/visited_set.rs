//! Which nodes a walk has visited: a table that need not be cleared between walks.

#[derive(Default)]
pub(crate) struct VisitedSet {
    /// For each entry, the last walk that has visited it.
    last: Vec<u32>,
    walk: u32,
}

impl VisitedSet {
    pub(super) fn room(&self) -> usize {
        self.last.capacity()
    }

    /// A new walk over so many entries begins.
    pub(super) fn begin(&mut self, entries: usize) {
        self.walk = self.walk.wrapping_add(1);
        if self.walk == 0 {
            self.last.clear();
            self.walk = 1;
        }
        if self.last.len() < entries {
            self.last.resize(entries, 0);
        }
    }

    /// Visits an entry. Says whether it is the first time.
    pub(crate) fn visit(&mut self, index: u32) -> bool {
        std::mem::replace(&mut self.last[index as usize], self.walk) != self.walk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_traversal_begins_unvisited() {
        let mut visits = VisitedSet::default();
        for _ in 0..3 {
            visits.begin(2);
            assert_eq!([visits.visit(1), visits.visit(1), visits.visit(0)], [true, false, true]);
        }
    }
}
