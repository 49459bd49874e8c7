//! Reproducible input numbers, equal in all programs.

/// Counter-based uniform random numbers (splitmix64): the n-th list of a seed is equal in all
/// programs.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Numbers(seed << 32)
    }

    /// The next list: `count` numbers between `±bound`.
    pub fn uniform(&mut self, count: usize, bound: f32) -> Vec<f32> {
        self.0 += 1 << 24;
        (0..count as u64).map(|at| number(self.0 + at) * bound).collect()
    }

    /// The next weight `[inputs, outputs]`, between `±1 / √inputs`.
    pub fn weight(&mut self, inputs: usize, outputs: usize) -> Vec<f32> {
        self.uniform(inputs * outputs, 1.0 / (inputs as f32).sqrt())
    }
}

/// A number between -1 and 1 from the highest 24 bits.
fn number(at: u64) -> f32 {
    let z = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 40) as f32 / 8_388_608.0 - 1.0
}

/// The coarse labels of a mini-batch, all equal.
pub fn coarse_labels(batch: usize) -> Vec<usize> {
    vec![batch; 16]
}

/// The fine labels of a mini-batch.
pub fn fine_labels(batch: usize) -> Vec<usize> {
    (0..16).map(|sample| (batch * 7 + sample * 3) % 5).collect()
}

/// Labels of 10 classes.
pub fn labels(samples: usize) -> Vec<usize> {
    (0..samples).map(|sample| sample * 7 % 10).collect()
}

/// Questions and answers of `guessNextNumber`.
pub const SAMPLES: [([f32; 3], f32); 4] =
    [([0.0, 0.1, 0.2], 0.3), ([0.3, 0.6, 0.9], 1.2), ([1.3, 1.5, 1.7], 1.9), ([0.2, 0.5, 0.8], 1.1)];

/// Its initial weights, and the bias.
pub const WEIGHTS: [f32; 4] = [0.1, 0.2, 0.3, 0.0];

/// Products `[m, k] · [k, n]`, as `[m, k, n]`.
pub const PRODUCTS: [[usize; 3]; 4] = [[64, 64, 64], [256, 256, 256], [1024, 1024, 1024], [16, 3072, 64]];

/// A node of a tree.
#[derive(Clone, Copy)]
pub enum Node {
    /// The index of the leaf.
    Leaf(usize),
    /// The indices of its children.
    Inner(usize, usize),
}

/// A random binary tree, with children before their parents and the root last.
pub fn tree(seed: u32, leaves: usize) -> Vec<Node> {
    let mut growing = Growing { random: seed.wrapping_mul(2_654_435_761), leaves: 0, nodes: Vec::new() };
    growing.grow(leaves);
    growing.nodes
}

struct Growing {
    random: u32,
    leaves: usize,
    nodes: Vec<Node>,
}

impl Growing {
    /// Appends a tree of this many leaves and returns the index of its root.
    fn grow(&mut self, leaves: usize) -> usize {
        let node = if leaves == 1 {
            self.leaves += 1;
            Node::Leaf(self.leaves - 1)
        } else {
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let left = 1 + (self.random >> 8) as usize % (leaves - 1);
            let left_at = self.grow(left);
            Node::Inner(left_at, self.grow(leaves - left))
        };
        self.nodes.push(node);
        self.nodes.len() - 1
    }
}
