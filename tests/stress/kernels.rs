//! The operations of a graph as primitives of the library.

use super::graph::{Effort, Fault, LENGTH};
use super::ledger::{Counted, Token};
use dl::prelude::{Ix1, Nd};
use dl::{At, Error, Layer, Primitive, Result};

/// A tensor of the graph.
pub(crate) type Many = Nd<f64, Ix1>;

/// The common part of all operations: a declared cost, and the ledger that counts evaluations.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) effort: Effort,
    /// An operation without a token counts in the ledger of its operand.
    pub(crate) token: Option<Token>,
}

impl Work {
    fn run(&self) {
        if let Some(token) = &self.token {
            token.ledger.kernel_runs();
        }
        for _ in 0..self.effort.spins {
            std::hint::spin_loop();
        }
    }
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $Name:ident $name:literal { $($field:ident: $T:ty),* } ($($A:ty),+) -> $Out:ty:
        |$this:ident, $values:pat_param| $value:expr, |$at:ident| $deltas:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone)]
        pub(crate) struct $Name {
            pub(crate) work: Work,
            $(pub(crate) $field: $T,)*
        }

        impl Primitive for $Name {
            type Operands = ($(Layer<$A>,)+);
            type Output = $Out;

            fn name(&self) -> &'static str {
                $name
            }

            fn value(&self, $values: ($(&$A,)+)) -> Result<$Out> {
                let $this = self;
                $this.work.run();
                $value
            }

            fn pullback(&self, $at: &At<'_, Self>) -> ($(Option<Layer<$A>>,)+) {
                let $this = self;
                let _ = $this;
                $deltas
            }

            fn cost(&self, _: ($(&$A,)+)) -> f64 {
                self.work.effort.nanoseconds
            }
        }
    )*};
}

kernels! {
    Scale "scale" { factor: f64 } (f64) -> f64:
        |this, (x,)| Ok(this.factor * x),
        |at| (Some(Layer::apply(this.clone(), (at.delta.clone(),))),);
    Blend "blend" {} (f64, f64) -> f64:
        |this, (a, b)| Ok(a * b + a),
        |at| (Some(at.delta * &at.operands.1 + at.delta), Some(at.delta * &at.operands.0));
    Fused "fused" {} (f64, f64, f64) -> f64:
        |this, (a, b, c)| Ok(a * b + c),
        |at| (Some(at.delta * &at.operands.1), None, Some(at.delta.clone()));
    Widen "widen" {} (f32) -> f64:
        |this, (x,)| Ok(f64::from(*x)),
        |at| (Some(Layer::apply(Narrow { work: this.work.clone() }, (at.delta.clone(),))),);
    Narrow "narrow" {} (f64) -> f32:
        |this, (x,)| Ok(*x as f32),
        |at| (Some(Layer::apply(Widen { work: this.work.clone() }, (at.delta.clone(),))),);
    Enter "enter" { token: Token } (f64) -> Counted:
        |this, (x,)| Ok(Counted::new(*x, &this.token.ledger)),
        |at| (Some(Layer::apply(Leave { work: this.work.clone() }, (at.delta.clone(),))),);
    Leave "leave" {} (Counted) -> f64:
        |this, (x,)| Ok(x.number),
        |at| {
            let enter = Enter { work: this.work.clone(), token: at.values.0.token.clone() };
            (Some(Layer::apply(enter, (at.delta.clone(),))),)
        };
    Mix "mix" {} (Counted, Counted) -> Counted:
        |this, (a, b)| Ok(a.with(a.number * 0.5 + b.number)),
        |at| {
            let half = Stretch { work: this.work.clone(), factor: 0.5 };
            (Some(Layer::apply(half, (at.delta.clone(),))), Some(at.delta.clone()))
        };
    Stretch "stretch" { factor: f64 } (Counted) -> Counted:
        |this, (x,)| {
            if this.work.token.is_none() {
                x.token.ledger.kernel_runs();
            }
            Ok(x.with(this.factor * x.number))
        },
        |at| (Some(Layer::apply(this.clone(), (at.delta.clone(),))),);
    Spread "spread" {} (f64) -> Many:
        |this, (x,)| Ok((0..LENGTH).map(|i| x / (i + 1) as f64).collect::<Vec<_>>().into()),
        |at| (Some(Layer::apply(Total { work: this.work.clone() }, (at.delta.clone(),))),);
    Total "total" {} (Many) -> f64:
        |this, (x,)| Ok(x.view().iter().enumerate().fold(0.0, |sum, (i, x)| sum + x / (i + 1) as f64)),
        |at| (Some(Layer::apply(Spread { work: this.work.clone() }, (at.delta.clone(),))),);
    Faulty "faulty" { number: usize, fault: Fault } (f64) -> f64:
        |this, (x,)| match this.fault {
            Fault::ValueFails => Err(failure(this.number)),
            Fault::ValuePanics => panic!("{}", planned(this.number)),
            _ => Ok(*x),
        },
        |at| match this.fault {
            Fault::PullbackPanics => panic!("{}", planned(this.number)),
            Fault::DeltaFails | Fault::DeltaPanics => {
                let delta = FaultyDelta { work: this.work.clone(), number: this.number, fault: this.fault };
                (Some(Layer::apply(delta, (at.delta.clone(),))),)
            }
            _ => (Some(at.delta.clone()),),
        };
    FaultyDelta "faulty_delta" { number: usize, fault: Fault } (f64) -> f64:
        |this, _| match this.fault {
            Fault::DeltaPanics => panic!("{}", planned(this.number)),
            _ => Err(failure(this.number)),
        },
        |at| (Some(at.delta.clone()),);
}

/// The weighted sum of its operands.
pub(crate) struct Gather {
    pub(crate) work: Work,
    pub(crate) factors: Vec<f64>,
}

impl Primitive for Gather {
    type Operands = Vec<Layer<f64>>;
    type Output = f64;

    fn name(&self) -> &'static str {
        "gather"
    }

    fn value(&self, operands: Vec<&f64>) -> Result<f64> {
        self.work.run();
        Ok(self.factors.iter().zip(operands).fold(0.0, |sum, (factor, x)| sum + factor * x))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<f64>>> {
        self.factors.iter().map(|&factor| (factor != 0.0).then(|| at.delta * factor)).collect()
    }

    fn cost(&self, _: Vec<&f64>) -> f64 {
        self.work.effort.nanoseconds
    }
}

/// The sum of counted numbers.
pub(crate) struct Sum {
    pub(crate) effort: Effort,
}

impl Primitive for Sum {
    type Operands = Vec<Layer<Counted>>;
    type Output = Counted;

    fn name(&self) -> &'static str {
        "sum"
    }

    fn value(&self, terms: Vec<&Counted>) -> Result<Counted> {
        terms[0].token.ledger.kernel_runs();
        Ok(terms[0].with(terms[1..].iter().fold(terms[0].number, |sum, term| sum + term.number)))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Counted>>> {
        vec![Some(at.delta.clone()); at.operands.len()]
    }

    fn cost(&self, _: Vec<&Counted>) -> f64 {
        self.effort.nanoseconds
    }
}

/// The message of this fault.
pub(crate) fn planned(number: usize) -> String {
    format!("planned fault {number}.")
}

pub(crate) fn failure(number: usize) -> Error {
    Error::invalid(planned(number))
}
