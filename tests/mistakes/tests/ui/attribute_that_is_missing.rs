use dl::prelude::*;

fn relu(x: &Layer<f32>) -> Layer<f32> {
    if !x > 0.0 { x.clone() } else { Layer::constant(0.0) }
}

trait Block {
    fn of(&self, x: &Layer<f32>) -> Layer<f32> {
        x * !x
    }
}

struct Scale(Weight<f32>);

impl Scale {
    fn of(&self, x: Layer<f32>) -> Layer<f32> {
        let scale = !self.0;
        let value = !x;
        x * (scale + value)
    }
}

fn both(a: &Layer<f32>, b: &Layer<f32>) -> Layer<f32> {
    let larger = |a: &Layer<f32>| !a;
    let (x, y) = !(a, b);
    let z = !Do::now(1.0);
    a * larger(b) + x + y + z
}

fn main() {}
