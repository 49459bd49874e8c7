//! Statistics of the tested graphs, which show whether the test covers all kinds of cases.

use super::expected::Expected;
use super::graph::{Graph, Op, Scope};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[derive(Default)]
pub(crate) struct Statistics {
    graphs: AtomicUsize,
    nodes: AtomicUsize,
    dynamic: AtomicUsize,
    tokens: AtomicUsize,
    roots: AtomicUsize,
    failing: AtomicUsize,
    /// Results that are not finite. They test little.
    not_finite: AtomicUsize,
    /// Steps that were dropped before completion.
    pub(crate) cancelled: AtomicUsize,
}

impl Statistics {
    pub(crate) fn count(&self, graph: &Graph, expected: &[Expected], tokens: usize) {
        let (nodes, dynamic) = size(&graph.scope);
        self.graphs.fetch_add(1, Relaxed);
        self.nodes.fetch_add(nodes, Relaxed);
        self.dynamic.fetch_add(dynamic, Relaxed);
        self.tokens.fetch_add(tokens, Relaxed);
        self.roots.fetch_add(expected.len(), Relaxed);
        for expected in expected {
            match &expected.trained {
                Err(_) => self.failing.fetch_add(1, Relaxed),
                Ok(trained) => {
                    let values = trained.deltas.iter().map(|(_, delta)| delta).chain([&trained.value]);
                    let finite = values.flat_map(|value| value.elements()).all(f64::is_finite);
                    self.not_finite.fetch_add(usize::from(!finite), Relaxed)
                }
            };
        }
    }

    /// Prints the statistics. After a large run, checks that all kinds of cases have occurred.
    pub(crate) fn report(&self) {
        let [graphs, nodes, dynamic, tokens, roots, failing, not_finite, cancelled] = [
            &self.graphs,
            &self.nodes,
            &self.dynamic,
            &self.tokens,
            &self.roots,
            &self.failing,
            &self.not_finite,
            &self.cancelled,
        ]
        .map(|counter| counter.load(Relaxed));
        println!(
            "{graphs} graphs of {nodes} nodes, {dynamic} of them dynamic; {tokens} tokens were released; {cancelled} steps were cancelled; \
             of {roots} roots {failing} fail and {not_finite} are not finite"
        );
        if graphs >= 500 {
            assert!(dynamic > graphs / 2 && cancelled > graphs / 20, "too few dynamic nodes, or cancelled steps");
            assert!(failing > roots / 50 && failing < roots / 2, "too few failing passes, or too many");
            assert!(not_finite < roots / 10, "too few numbers are finite");
        }
    }
}

/// The number of nodes in a scope, those in bodies included, and the number of dynamic ones.
fn size(scope: &Scope) -> (usize, usize) {
    scope.nodes.iter().fold((0, 0), |(nodes, dynamic), node| {
        let (inner, inner_dynamic) = match &node.op {
            Op::Dynamic(body) => {
                let sizes = body.scopes().into_iter().map(size);
                sizes.fold((0, 1), |sum, size| (sum.0 + size.0, sum.1 + size.1))
            }
            _ => (0, 0),
        };
        (nodes + 1 + inner, dynamic + inner_dynamic)
    })
}
