//! The drivers of a pass: the runs that wait for its values, usually one.
//!
//! A pass without drivers is at rest: nothing is started in it. It continues when a new driver
//! arrives, for instance a backward on a tape that holds the pass.

use std::task::Waker;

#[derive(Default)]
pub(super) struct DriverSet {
    present: Vec<Driver>,
    arrived: u32,
    /// The number of times that the last driver has left.
    rests: u32,
}

struct Driver {
    number: u32,
    /// Whether the driver works through the queue itself.
    works: bool,
    /// The waker of an idle driver.
    idle: Option<Waker>,
}

impl DriverSet {
    pub(super) fn reset(&mut self) {
        self.present.clear();
        (self.arrived, self.rests) = (0, 0);
    }

    /// The number of times that the last driver has left. If it changes, a poll that began before
    /// is void.
    pub(super) fn rests(&self) -> u32 {
        self.rests
    }

    /// The last driver has left.
    pub(super) fn rest(&mut self) {
        self.rests += 1;
    }

    pub(super) fn arrive(&mut self) -> u32 {
        self.arrived += 1;
        self.present.push(Driver { number: self.arrived, works: false, idle: None });
        self.arrived
    }

    pub(super) fn leave(&mut self, number: u32) {
        self.present.retain(|driver| driver.number != number);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// A thread that may compute, or not, polls this driver.
    pub(super) fn polled(&mut self, number: u32, works: bool) {
        if let Some(driver) = self.present.iter_mut().find(|driver| driver.number == number) {
            driver.works = works;
            driver.idle = None;
        }
    }

    pub(super) fn works(&self, number: u32) -> bool {
        self.present.iter().any(|driver| driver.number == number && driver.works)
    }

    pub(super) fn any_works(&self) -> bool {
        self.present.iter().any(|driver| driver.works)
    }

    pub(super) fn idle(&mut self, number: u32, waker: &Waker) {
        if let Some(driver) = self.present.iter_mut().find(|driver| driver.number == number) {
            driver.idle = Some(waker.clone());
        }
    }

    /// Whether a driver is idle.
    pub(super) fn any_idle(&self) -> bool {
        self.present.iter().any(|driver| driver.idle.is_some())
    }

    /// The waker of an idle driver.
    pub(super) fn take_idle(&mut self) -> Option<Waker> {
        self.present.iter_mut().find_map(|driver| driver.idle.take())
    }
}
