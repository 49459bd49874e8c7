use dl::prelude::*;

struct Matrix;

impl std::ops::Mul<f64> for Matrix {
    type Output = Matrix;
    fn mul(self, _: f64) -> Matrix {
        self
    }
}

#[differentiable]
fn twice(matrix: Matrix) -> (Matrix, Matrix) {
    (matrix * 2.0, matrix * 3.0)
}

fn main() {}
