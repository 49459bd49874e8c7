//! Newton's method with `hvp` on the digits: the figures of the example.

#[path = "../../examples/newton_cg/newton.rs"]
mod method;

#[test]
fn newton_method_converges_in_ten_steps() {
    let (images, labels) = method::digits::tensors().unwrap();
    let net = method::Softmax::zeros();
    let loss = net.loss(&images, &labels);
    let steps = method::minimise(&net, &loss, 1e-8, |_, _| ()).unwrap();
    let first = steps.first().unwrap();
    assert!((first.loss - 10.0_f64.ln()).abs() < 1e-12, "{}", first.loss);
    let last = steps.last().unwrap();
    assert!(last.norm <= 1e-8 && steps.len() <= 11, "{} after {} steps", last.norm, steps.len() - 1);
    assert!(steps.windows(2).all(|pair| pair[1].loss <= pair[0].loss && pair[1].products > 0));
}
