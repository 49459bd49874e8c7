//! Activation maximisation: a small convolutional network learns the digits; then the *image* is
//! optimised. Gradient ascent on the logit of a class draws the image that the network assigns to
//! this class with the highest confidence.
//!
//! ```sh
//! cargo run --release --example activation_maximisation       # draws target/activation_maximisation.svg
//! ```
//!
//! The image is a weight like any other, and the network is frozen. The first row of the picture
//! shows a real digit of each class, the second the optimised image, the third the saliency of the
//! real digit: the pixels with the largest gradient of the logit.

#[path = "common/digits.rs"]
mod digits;

use dl::nd::init;
use dl::prelude::*;
use plotters::prelude::*;
use rand::{SeedableRng, seq::SliceRandom};
use std::error::Error;

type Images = Nd<f32, Ix4>;
type Labels = Nd<usize, Ix1>;

/// The weights of the penalties on bright pixels and on edges.
const BRIGHTNESS: f32 = 0.02;
const EDGES: f32 = 0.15;
/// The standard deviation of the noise on training images. It makes the network learn robust
/// features.
const NOISE: f64 = 0.4;

struct Net {
    filters: [NdWeight<Ix4>; 2],
    output: NdWeight,
}

impl Net {
    fn new(rng: &mut impl rand::Rng) -> Self {
        Net {
            filters: [[16, 1, 3, 3], [32, 16, 3, 3]].map(|shape| Weight::new(init::he_normal(shape, rng))),
            output: Weight::new(init::he_normal([32 * 4 * 4, 10], rng)),
        }
    }

    /// `[batch, 1, 8, 8] → [batch, 10]`.
    fn logits(&self, images: impl NdExpression<Ix4>) -> NdLayer {
        let fine = images.conv2d(&self.filters[0], Conv::new().padding(1)).tanh().avg_pool2d(Pool::new(2));
        fine.conv2d(&self.filters[1], Conv::new().padding(1)).tanh().flatten_rows().dropout(0.3).matmul(&self.output)
    }

    fn freeze(&self) {
        self.filters.iter().for_each(Weight::freeze);
        self.output.freeze();
    }
}

fn train(net: &Net, images: &Images, labels: &Labels, rng: &mut impl rand::Rng) -> dl::Result<f32> {
    let adam = Adam::new(0.003);
    let mut order: Vec<usize> = (0..labels.len()).collect();
    for epoch in 0..20 {
        order.shuffle(rng);
        for (step, batch) in order.chunks(32).enumerate() {
            let noise: Images = init::normal([batch.len(), 1, 8, 8], 0.0, NOISE, rng);
            let images = images.index_select(0, batch) + noise;
            let labels: Vec<usize> = batch.iter().map(|&image| labels[image]).collect();
            net.logits(images).cross_entropy(labels).train(&adam).seed(epoch * 1000 + step as u64).wait()?;
        }
    }
    net.logits(images).argmax(-1).equal(labels).to_floats::<f32>().mean().predict().wait()
}

/// Optimises an image for this class, with penalties on brightness and edges.
fn maximise(net: &Net, class: usize) -> dl::Result<(Images, f32)> {
    // The sigmoid keeps pixels between 0 and 1.
    let raw = Weight::new(Nd::full([1, 1, 8, 8], -2.0));
    let image = raw.sigmoid();
    let logits = net.logits(&image);
    let edges = (image.slice_axis(2, 1..) - image.slice_axis(2, ..-1)).square().sum()
        + (image.slice_axis(3, 1..) - image.slice_axis(3, ..-1)).square().sum();
    // The log-probability of the class.
    let log_probability = logits.log_softmax(-1).index_select(1, [class]).sum();
    let loss =
        EDGES * edges + BRIGHTNESS * image.sum() - 4.0 * &log_probability - logits.index_select(1, [class]).sum();
    let adam = Adam::new(0.05);
    for _ in 0..400 {
        loss.train(&adam).mode(Mode::Evaluate).wait()?;
    }
    Do::predict((image, log_probability.exp())).wait()
}

/// The saliency of this image for its class: the absolute gradient of the logit with respect to the
/// input, relative to its maximum.
fn saliency(net: &Net, image: &Images, class: usize) -> dl::Result<Images> {
    let input = Layer::constant(image.clone());
    let slope = net.logits(&input).index_select(1, [class]).sum().gradient(&input).abs();
    (&slope / slope.amax()).predict().wait()
}

fn draw(rows: &[Vec<Images>], file: &str) -> Result<(), Box<dyn Error>> {
    const PIXEL: i32 = 8;
    const CELL: i32 = 9 * PIXEL;
    let size = (rows[0].len() as u32 * CELL as u32 + 8, rows.len() as u32 * CELL as u32 + 8);
    let area = SVGBackend::new(file, size).into_drawing_area();
    area.fill(&WHITE)?;
    for (row, images) in rows.iter().enumerate() {
        for (column, image) in images.iter().enumerate() {
            for ((_, _, y, x), &bright) in image.view().indexed_iter() {
                let grey = 255 - (bright.clamp(0.0, 1.0) * 255.0) as u8;
                let corner = (8 + column as i32 * CELL + x as i32 * PIXEL, 8 + row as i32 * CELL + y as i32 * PIXEL);
                let cell =
                    Rectangle::new([corner, (corner.0 + PIXEL, corner.1 + PIXEL)], RGBColor(grey, grey, grey).filled());
                area.draw(&cell)?;
            }
        }
    }
    area.present()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (images, labels) = digits::tensors::<f32>()?;
    let images: Images = images.reshape([labels.len(), 1, 8, 8]).predict().wait()?;
    let rng = &mut rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let net = Net::new(rng);
    println!("accuracy on the training images {:.2} %", 100.0 * train(&net, &images, &labels, rng)?);
    net.freeze();

    let mut rows: Vec<Vec<Images>> = vec![Vec::new(); 3];
    for class in 0..10 {
        let example = labels.view().iter().position(|&label| label == class).expect("every digit is there");
        let real = images.index_select(0, &[example]).predict().wait()?;
        let (best, probability) = maximise(&net, class)?;
        println!("class {class}: probability of the optimised image {:.2} %", 100.0 * probability);
        assert!(probability > 0.9, "the network does not classify the optimised image as {class}");
        rows[1].push(best);
        rows[2].push(saliency(&net, &real, class)?);
        rows[0].push(real);
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/target/activation_maximisation.svg");
    draw(&rows, file)?;
    println!("drawn: {file}");
    Ok(())
}
