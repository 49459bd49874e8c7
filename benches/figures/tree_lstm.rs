//! w7: a child-sum tree-LSTM, one tree of 16 leaves at a time: the graph has the shape of the tree.

use crate::common::{Bench, Node, Numbers, tree};
use crate::dense::{dense, uniform};
use dl::nd::ndarray::Axis;
use dl::nn::Linear;
use dl::prelude::*;

const HIDDEN: usize = 64;
const LEAVES: usize = 16;

/// The option of the functions for a leaf and for an inner node.
#[derive(Clone, Copy)]
enum Kind {
    Ordinary,
    Compiled,
    Grouped,
}

#[derive(Module)]
struct TreeLstm {
    leaf: Linear,
    inner: NdWeight,
    forget: Linear,
    output: Linear,
}

/// The state of a node, an input of its parent.
#[derive(Clone, Layers)]
struct State {
    hidden: NdLayer,
    cell: NdLayer,
}

impl TreeLstm {
    fn new(numbers: &mut Numbers) -> Self {
        TreeLstm {
            leaf: dense(numbers, HIDDEN, 3 * HIDDEN),
            inner: dense(numbers, HIDDEN, 3 * HIDDEN).weight,
            forget: dense(numbers, HIDDEN, HIDDEN),
            output: dense(numbers, HIDDEN, 5),
        }
    }

    fn state(&self, tree: &[Node], at: usize, leaf: &impl Fn(usize) -> State, kind: Kind) -> State {
        match tree[at] {
            Node::Leaf(word) => leaf(word),
            Node::Inner(left, right) => {
                let [left, right] = [left, right].map(|child| self.state(tree, child, leaf, kind));
                match kind {
                    Kind::Ordinary => self.inner(&left, &right),
                    Kind::Compiled => self.inner_compiled(&left, &right),
                    Kind::Grouped => self.inner_grouped(&left, &right),
                }
            }
        }
    }

    fn inner(&self, left: &State, right: &State) -> State {
        let bias = self.leaf.bias.as_ref().expect("there is a bias");
        let gates = (&left.hidden + &right.hidden).linear(&self.inner, bias);
        let [of_left, of_right] = [left, right].map(|child| self.forget.of(&child.hidden).sigmoid() * &child.cell);
        self.cell(&gates, Some(of_left + of_right))
    }

    #[differentiable(compiled)]
    fn inner_compiled(&self, left: &State, right: &State) -> State {
        self.inner(left, right)
    }

    #[differentiable(compiled(grouped))]
    fn inner_grouped(&self, left: &State, right: &State) -> State {
        self.inner(left, right)
    }

    fn cell(&self, gates: &NdLayer, remembered: Option<NdLayer>) -> State {
        let gates = gates.chunk(1, 3);
        let new = gates[0].sigmoid() * gates[2].tanh();
        let cell = match remembered {
            Some(remembered) => new + remembered,
            None => new,
        };
        State { hidden: gates[1].sigmoid() * cell.tanh(), cell }
    }

    /// The state of a leaf, or of a batch of leaves.
    fn leaf(&self, words: &NdLayer) -> State {
        self.cell(&self.leaf.of(words), None)
    }

    #[differentiable(compiled)]
    fn leaf_compiled(&self, words: &NdLayer) -> State {
        self.leaf(words)
    }

    #[differentiable(compiled(grouped))]
    fn leaf_grouped(&self, words: &NdLayer) -> State {
        self.leaf(words)
    }

    fn loss(&self, tree: &[Node], leaf: impl Fn(usize) -> State, label: usize, kind: Kind) -> Layer<f32> {
        self.output.of(&self.state(tree, tree.len() - 1, &leaf, kind).hidden).cross_entropy([label])
    }
}

pub(crate) fn measure(bench: &mut Bench) {
    // leaf by leaf; with all leaves in one batch, by hand; with one operation for each node of the tree; with one
    // for each level
    let variants = [
        ("treelstm", Kind::Ordinary),
        ("treelstm;leaves at once", Kind::Ordinary),
        ("treelstm;compiled", Kind::Compiled),
        ("treelstm;grouped", Kind::Grouped),
    ];
    for (variant, kind) in variants {
        let at_once = variant.ends_with("at once");
        let mut numbers = Numbers::new(7);
        let words: Nd = uniform(&mut numbers, [LEAVES, HIDDEN], 1.0);
        let each: Vec<Nd> =
            words.view().rows().into_iter().map(|word| word.to_owned().insert_axis(Axis(0)).into()).collect();
        let net = TreeLstm::new(&mut numbers);
        let trees: Vec<Vec<Node>> = (1..=64).map(|seed| tree(seed, LEAVES)).collect();
        let sgd = Sgd::new(0.01);
        let mut turns = trees.iter().cycle().zip((0..5).cycle());
        bench.training("w7", variant, || {
            let (tree, label) = turns.next().expect("a cycle does not end");
            let loss = if at_once {
                let State { hidden, cell } = net.leaf(&words.layer());
                let [hidden, cell] = [hidden, cell].map(|rows| rows.chunk(0, LEAVES));
                net.loss(tree, |word| State { hidden: hidden[word].clone(), cell: cell[word].clone() }, label, kind)
            } else {
                let leaf = |word: usize| match kind {
                    Kind::Ordinary => net.leaf(&each[word].layer()),
                    Kind::Compiled => net.leaf_compiled(&each[word].layer()),
                    Kind::Grouped => net.leaf_grouped(&each[word].layer()),
                };
                net.loss(tree, leaf, label, kind)
            };
            loss.train(&sgd).wait().expect("it succeeds").into()
        });
    }
}
