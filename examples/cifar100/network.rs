//! The network: feature columns, a classifier of coarse classes, and a classifier of fine classes
//! for each coarse class.

use dl::nn::Linear;
use dl::prelude::*;
use rand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const PIXELS: usize = 3 * 32 * 32;
const WIDTH: usize = 64;
pub(crate) const COARSE: usize = 20;
/// Fine classes per coarse class.
pub(crate) const FINE: usize = 5;

/// Images `[batch, 3, 32, 32]`.
pub(crate) type Images = Nd<f32, Ix4>;

#[derive(Clone, Module)]
struct Column(Linear, Linear);

impl Column {
    fn new(rng: &mut impl Rng) -> dl::Result<Self> {
        Ok(Column(Linear::new(PIXELS, WIDTH, rng)?, Linear::new(WIDTH, WIDTH, rng)?))
    }

    fn of(&self, pixels: &NdLayer) -> NdLayer {
        self.1.of(self.0.of(pixels).relu()).relu()
    }
}

/// Classifies the fine classes of one coarse class.
#[derive(Clone, Module)]
struct Fine {
    layers: [Linear; 3],
    #[module(skip)]
    built: Arc<AtomicUsize>,
}

impl Fine {
    fn new(rng: &mut impl Rng) -> dl::Result<Self> {
        let layers = [Linear::new(WIDTH, WIDTH, rng)?, Linear::new(WIDTH, WIDTH, rng)?, Linear::new(WIDTH, FINE, rng)?];
        Ok(Fine { layers, built: Arc::default() })
    }

    /// `[batch, 64] → [batch, 5]`.
    fn of(&self, features: &NdLayer) -> NdLayer {
        self.built.fetch_add(1, Ordering::Relaxed);
        let [first, second, last] = &self.layers;
        last.of(second.of(first.of(features).relu()).relu())
    }
}

#[derive(Clone, Module)]
pub(crate) struct Net {
    columns: Vec<Column>,
    coarse: Linear,
    fine: Vec<Fine>,
}

impl Net {
    pub(crate) fn new(columns: usize, rng: &mut impl Rng) -> dl::Result<Self> {
        Ok(Net {
            columns: (0..columns).map(|_| Column::new(rng)).collect::<dl::Result<_>>()?,
            coarse: Linear::new(WIDTH, COARSE, rng)?,
            fine: (0..COARSE).map(|_| Fine::new(rng)).collect::<dl::Result<_>>()?,
        })
    }

    /// The sum of the features of all columns, `[batch, 64]`.
    fn features(&self, images: &Images) -> NdLayer {
        let pixels = images.flatten_rows();
        let seen = self.columns.iter().map(|column| column.of(&pixels));
        seen.reduce(|sum, seen| sum + seen).expect("there are columns")
    }

    /// The loss of images of one coarse class: the sum of the losses of the coarse classifier and
    /// of the fine classifier of this class.
    pub(crate) fn loss(&self, images: &Images, coarse: usize, fine: &Nd<usize, Ix1>) -> Layer<f32> {
        let features = self.features(images);
        let loss = self.coarse.of(&features).cross_entropy(vec![coarse; fine.len()]);
        loss + self.fine[coarse].of(&features).cross_entropy(fine)
    }

    /// The number of times fine classifiers were built.
    pub(crate) fn fine_built(&self) -> usize {
        self.fine.iter().map(|fine| fine.built.load(Ordering::Relaxed)).sum()
    }
}

/// The coarse class of an image `[1, 3, 32, 32]` and the fine class within it. The coarse
/// prediction is extracted before the fine classifier is selected; the other fine classifiers are
/// never built.
#[differentiable]
pub(crate) fn classify(image: &Images, net: &Net) -> Do<(usize, usize)> {
    let features = net.features(image);
    let coarse = (!net.coarse.of(&features).argmax(1))[0];
    let fine = (!net.fine[coarse].of(&features).argmax(1))[0];
    Do::now((coarse, fine))
}
