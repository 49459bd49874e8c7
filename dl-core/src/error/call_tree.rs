//! The calling context tree of all chains of calls (Ammons, Ball, Larus: *Exploiting hardware
//! performance counters with flow and context sensitive profiling*, 1997).
//!
//! Each thread caches its last lookups, so that the tree is locked only for other calls. The tree
//! never shrinks. Recursion is cut out of the chains, so their number is bounded by the number of
//! paths from `main` in the call graph; [`MAX_CHAINS`] is a limit beyond that.

use crate::error::call_stack::{Call, Calls};
use dl_parallel::sync::thread_local;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{LazyLock, PoisonError, RwLock};

/// The maximum depth of a chain.
const MAX_DEPTH: u32 = 64;
/// The maximum number of chains.
const MAX_CHAINS: usize = 1 << 16;
/// The number of entries in the cache of a thread.
const CACHE_SIZE: usize = 64;

/// The identity of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    pub(crate) scope: FunctionScope,
    pub(crate) name: &'static str,
}

/// The module or type that a function belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FunctionScope {
    Module(&'static str),
    Type(&'static str),
}

impl FunctionScope {
    fn name(self) -> &'static str {
        let (FunctionScope::Module(name) | FunctionScope::Type(name)) = self;
        name
    }
}

/// The chain `outer`, extended by a call of this function. Looks into the cache of the thread
/// first.
#[inline]
pub(super) fn within(outer: Calls, function: Function, from: &'static Location<'static>) -> Calls {
    CALL_CACHE.with(|last| {
        let known = &last[((std::ptr::from_ref(from).addr() / 8) ^ outer.0 as usize) % CACHE_SIZE];
        if known.matches(outer, function, from) { known.inner.get() } else { known.look_up(outer, function, from) }
    })
}

/// The calls of a chain, the innermost first.
pub(super) fn frames(calls: Calls) -> Vec<Call> {
    let tree = TREE.read().unwrap_or_else(PoisonError::into_inner);
    std::iter::successors(tree.frame(calls), |frame| tree.frame(frame.outer)).map(|frame| frame.call).collect()
}

/// The chain `calls`, which contains or extends `from`, with `to` in place of `from`.
pub(super) fn rebased(calls: Calls, from: Calls, to: Calls) -> Calls {
    let mut inner = Vec::new();
    let mut at = calls;
    {
        let tree = TREE.read().unwrap_or_else(PoisonError::into_inner);
        while at != from {
            let Some(frame) = tree.frame(at) else { return calls };
            inner.push((frame.function, frame.call.from));
            at = frame.outer;
        }
    }
    inner.into_iter().rev().fold(to, |outer, (function, place)| within(outer, function, place))
}

/// The name of the innermost function.
pub(super) fn innermost(calls: Calls) -> Option<&'static str> {
    TREE.read().unwrap_or_else(PoisonError::into_inner).frame(calls).map(|frame| frame.call.function)
}

/// The same in the tree, without the cache.
fn look_up(outer: Calls, function: Function, from: &'static Location<'static>) -> Calls {
    if let Some(known) = TREE.read().unwrap_or_else(PoisonError::into_inner).find(outer, function, from) {
        return known;
    }
    TREE.write().unwrap_or_else(PoisonError::into_inner).insert(outer, function, from)
}

/// An entry of the cache of a thread: the last lookup with this hash. Strings and locations are
/// compared by address. Equal ones at different addresses cause a lookup in the tree.
struct CachedCall {
    outer: Cell<Calls>,
    inner: Cell<Calls>,
    name: Cell<&'static str>,
    scope: Cell<&'static str>,
    from: Cell<Option<&'static Location<'static>>>,
}

impl CachedCall {
    const fn empty() -> CachedCall {
        let none = Cell::new(Calls(0));
        CachedCall {
            outer: none,
            inner: Cell::new(Calls(0)),
            name: Cell::new(""),
            scope: Cell::new(""),
            from: Cell::new(None),
        }
    }

    #[inline]
    fn matches(&self, outer: Calls, function: Function, from: &'static Location<'static>) -> bool {
        self.outer.get() == outer
            && self.from.get().map_or(std::ptr::null(), std::ptr::from_ref) == std::ptr::from_ref(from)
            && self.name.get().as_ptr() == function.name.as_ptr()
            && self.scope.get().as_ptr() == function.scope.name().as_ptr()
    }

    #[cold]
    #[inline(never)]
    fn look_up(&self, outer: Calls, function: Function, from: &'static Location<'static>) -> Calls {
        let inner = look_up(outer, function, from);
        self.outer.set(outer);
        self.inner.set(inner);
        self.name.set(function.name);
        self.scope.set(function.scope.name());
        self.from.set(Some(from));
        inner
    }
}

thread_local! {
    static CALL_CACHE: [CachedCall; CACHE_SIZE] = const { [const { CachedCall::empty() }; CACHE_SIZE] };
}

static TREE: LazyLock<RwLock<Tree>> = LazyLock::new(RwLock::default);

#[derive(Default)]
struct Tree {
    /// The nodes. `Calls(n)` is at index `n - 1`; `Calls(0)` is the empty chain.
    frames: Vec<Frame>,
    /// The children of the nodes.
    numbers: HashMap<(Calls, Function, &'static Location<'static>), Calls>,
    /// The names of functions in messages.
    names: HashMap<Function, &'static str>,
}

struct Frame {
    outer: Calls,
    depth: u32,
    function: Function,
    call: Call,
}

impl Tree {
    fn frame(&self, calls: Calls) -> Option<&Frame> {
        self.frames.get((calls.0 as usize).checked_sub(1)?)
    }

    fn find(&self, outer: Calls, function: Function, from: &'static Location<'static>) -> Option<Calls> {
        self.numbers.get(&(self.without_recursion(outer, function), function, from)).copied()
    }

    fn insert(&mut self, outer: Calls, function: Function, from: &'static Location<'static>) -> Calls {
        if let Some(known) = self.find(outer, function, from) {
            return known;
        }
        let outer = self.without_recursion(outer, function);
        let depth = match self.frame(outer) {
            Some(frame) if (frame.function, frame.call.from) == (function, from) => return outer,
            Some(frame) => frame.depth + 1,
            None => 1,
        };
        if depth > MAX_DEPTH || self.frames.len() >= MAX_CHAINS {
            return outer;
        }
        let shown = *self.names.entry(function).or_insert_with(|| display_name(function));
        self.frames.push(Frame { outer, depth, function, call: Call { function: shown, from } });
        let inner = Calls(u32::try_from(self.frames.len()).expect("there are not that many"));
        self.numbers.insert((outer, function, from), inner);
        inner
    }

    /// The chain up to the outermost call of this function; the whole chain if it does not contain
    /// one.
    fn without_recursion(&self, calls: Calls, function: Function) -> Calls {
        let mut outermost = calls;
        let mut at = calls;
        while let Some(frame) = self.frame(at) {
            if frame.function == function {
                outermost = at;
            }
            at = frame.outer;
        }
        outermost
    }
}

/// The name of a function in messages: `Net::score` for a method, without the modules and the
/// generic arguments of the type.
fn display_name(function: Function) -> &'static str {
    let FunctionScope::Type(path) = function.scope else { return function.name };
    let path = path.split('<').next().unwrap_or(path);
    let ty = path.rsplit("::").next().unwrap_or(path);
    let is_name =
        ty.starts_with(|c: char| c.is_alphabetic() || c == '_') && ty.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_name { String::leak(format!("{ty}::{}", function.name)) } else { function.name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(calls: Calls) -> Vec<(&'static str, u32)> {
        frames(calls).into_iter().map(|call| (call.function, call.from.line())).collect()
    }

    #[track_caller]
    fn place() -> &'static Location<'static> {
        Location::caller()
    }

    #[test]
    fn recursive_calls_are_cut_out_of_chain() {
        let (first, again) = (place(), place());
        let third = place();
        let line = first.line();
        let mut calls = Calls::default().within("recursive", first);
        for _ in 0..1_000_000 {
            calls = calls.within("recursive", again);
        }
        assert_eq!(chain(calls), [("recursive", line), ("recursive", line)]);
        for _ in 0..1_000 {
            calls = calls.within("between", third).within("recursive", again);
            assert_eq!(chain(calls), [("recursive", line), ("recursive", line)]);
        }
        let between = calls.within("between", third);
        assert_eq!(chain(between), [("between", line + 1), ("recursive", line), ("recursive", line)]);
        assert_eq!(Calls::default().within("recursive", first).within("recursive", first).frames().count(), 1);
    }

    #[test]
    fn chain_depth_is_bounded() {
        let names: Vec<&'static str> = (0..200).map(|i| &*String::leak(format!("deep_{i}"))).collect();
        let here = place();
        let calls = names.iter().fold(Calls::default(), |calls, name| calls.within(name, here));
        assert_eq!(calls.frames().count(), MAX_DEPTH as usize);
        assert_eq!(calls.frames().last().map(|call| call.function), Some("deep_0"));
    }

    #[test]
    fn tree_size_is_bounded() {
        let mut tree = Tree::default();
        let here = place();
        let names: Vec<&'static str> = (0..MAX_CHAINS + 10).map(|i| &*String::leak(format!("wide_{i}"))).collect();
        let function = |name| Function { scope: FunctionScope::Module(""), name };
        let numbers: Vec<Calls> = names.iter().map(|name| tree.insert(Calls(0), function(name), here)).collect();
        assert_eq!(numbers.iter().filter(|calls| calls.is_empty()).count(), 10);
        assert_eq!(tree.insert(Calls(0), function(names[5]), here), numbers[5]);
    }

    #[test]
    fn chains_are_equal_on_all_threads() {
        let here = place();
        let count = || {
            let calls: Vec<Calls> = (0..200)
                .map(|i| Calls::default().within("shared", here).within(["a", "b", "c"][i % 3], here))
                .collect();
            calls
        };
        let others: Vec<_> = (0..4).map(|_| std::thread::spawn(count)).collect();
        let mine = count();
        for other in others {
            assert_eq!(other.join().unwrap(), mine);
        }
    }

    #[test]
    fn display_name_of_method_has_type_without_path() {
        let named = |scope, name| display_name(Function { scope: FunctionScope::Type(scope), name });
        assert_eq!(named("nets::deep::Net", "score"), "Net::score");
        assert_eq!(named("nets::Net<core::option::Option<f32>>", "score"), "Net::score");
        assert_eq!(named("(a::B, c::D)", "score"), "score");
        assert_eq!(named("[a::B]", "score"), "score");
        assert_eq!(display_name(Function { scope: FunctionScope::Module("nets::deep"), name: "score" }), "score");
    }
}
