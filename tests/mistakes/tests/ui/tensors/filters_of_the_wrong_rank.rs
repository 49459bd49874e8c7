use dl::prelude::*;

fn features(images: &NdLayer<Ix4>, filters: &NdWeight<Ix2>) -> NdLayer<Ix4> {
    images.conv2d(filters, Conv::new())
}

fn main() {}
