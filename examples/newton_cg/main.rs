//! Newton's method for softmax regression on the handwritten digits. The Hessian is never formed:
//! each step solves `H·s = −g` by conjugate gradients, which need Hessian-vector products only:
//! `loss.hvp(&net, &direction)`.
//!
//! ```sh
//! cargo run --release --example newton_cg
//! ```

mod newton;

use newton::{Softmax, minimise};

fn main() -> dl::Result<()> {
    let (images, labels) = newton::digits::tensors()?;
    let net = Softmax::zeros();
    println!("{} images, loss = cross entropy + λ/2 · |weights|², λ = {}", labels.len(), newton::LAMBDA);
    println!("step       loss   |gradient|  products");
    let steps = minimise(&net, &net.loss(&images, &labels), 1e-8, |number, step| {
        println!("{number:>4} {:>10.7} {:>12.3e} {:>9}", step.loss, step.norm, step.products);
    })?;
    let accuracy = net.accuracy(&images, &labels).wait()?;
    println!("\naccuracy on the training images {:.2} %", 100.0 * accuracy);
    println!("newton_steps={}", steps.len() - 1);
    assert!(steps.len() <= 11 && accuracy > 0.94, "Newton's method takes few steps");
    Ok(())
}
