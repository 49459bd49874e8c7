//! Tensors of a device as operands of the formulas of optimizers.

use crate::tensor::{Element, Expr, Nd, Rank};
use dl_core::{Binary, Error, LaterNumber, Lazy, LazyNumbers, Result, Unary};

impl<A: Element, D: Rank> LazyNumbers for Nd<A, D> {
    fn unary(&self, op: Unary) -> Lazy {
        Lazy::new(Expr::Unary(op, self.clone()).of_shape(self.dim()))
    }

    fn binary(&self, op: Binary, right: &Lazy) -> Lazy {
        let Some(right) = right.downcast_ref::<Self>().filter(|right| right.shape() == self.shape()) else {
            Error::invalid("a formula of an optimizer has operands of different weights").raise()
        };
        Lazy::new(Expr::Binary(op, self.clone(), right.clone()).of_shape(self.dim()))
    }

    fn with_number(&self, op: Binary, number: f64, left: bool) -> Lazy {
        Lazy::new(Expr::WithNumber { op, number: A::of(number), left, x: self.clone() }.of_shape(self.dim()))
    }

    fn norm(&self) -> Result<LaterNumber> {
        self.0.on_device()?.expect("the numbers of a lazy chunk lie on a device").norm()
    }
}
