use dl::prelude::*;

fn features(image: &NdLayer<Ix2>, filters: &NdWeight<Ix4>) -> NdLayer<Ix4> {
    image.conv2d(filters, Conv::new())
}

fn main() {}
