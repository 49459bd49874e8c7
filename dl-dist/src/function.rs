//! The functions that other ranks can call, by name.

use crate::server::Placement;
use dl_core::parts::{PartSum, PassContext, Wire};
use dl_core::{Data, DeltaNumbers, Differentiable, Do, Error, Layer, Numbers, Result, Stored, Tape};
use dl_nd::ndarray::Ix2;
use dl_nd::{Element, Nd, NdLayer, Rank};
use dl_nn::Block;
use futures::future::BoxFuture;
use std::any::type_name;
use std::sync::Arc;

/// A [`Block`] that can be evaluated on another rank: it is registered by name in every program that
/// has it. [`remote`](crate::remote) implements it.
///
/// ```
/// use dl_dist::{RemoteBlock, remote};
/// use dl_macros::Module;
/// use dl_nd::{NdLayer, ops::*};
/// use dl_nn::{Block, Linear};
///
/// #[derive(Clone, Module)]
/// # #[module(crate = dl_core)]
/// struct Expert(Linear);
///
/// #[remote(crate = dl_dist)]
/// impl Block for Expert {
///     fn of(&self, x: &NdLayer) -> NdLayer {
///         self.0.of(x).relu()
///     }
/// }
///
/// assert!(Expert::NAME.ends_with("Expert as Block"));
/// ```
///
/// An argument that cannot be sent is an error of the compiler, at its type:
///
/// ```compile_fail,E0277
/// # use dl_dist::remote;
/// # use dl_nd::NdLayer;
/// # use dl_nn::{Block, Linear};
/// # #[derive(Clone, dl_macros::Module)]
/// # #[module(crate = dl_core)]
/// # struct Expert(Linear);
/// #[remote(crate = dl_dist)]
/// impl Block for Expert {
///     fn of(&self, x: &dyn Fn() -> NdLayer) -> NdLayer { // `&dyn Fn() -> NdLayer` cannot be sent
///         self.0.of(x())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be evaluated on another rank",
    label = "its `impl Block` has no `#[remote]`",
    note = "write `#[dl::dist::remote]` before `impl Block<{D}, {A}> for {Self}`"
)]
pub trait RemoteBlock<D: Rank = Ix2, A: Element = f32>: Block<D, A> + Sized + 'static {
    /// The name of the function.
    const NAME: &'static str;

    /// Calls the block, at its own place in the source.
    #[doc(hidden)]
    fn of_caller(&self, x: &NdLayer<D, A>) -> NdLayer<D, A>;

    /// The function, for the registry.
    #[doc(hidden)]
    const FUNCTION: RemoteFunction = RemoteFunction {
        name: Self::NAME,
        types: type_name::<fn(&Nd<A, D>) -> Nd<A, D>>,
        evaluate: evaluate_block::<Self, D, A>,
    };
}

/// A function that other ranks can call.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct RemoteFunction {
    name: &'static str,
    types: fn() -> &'static str,
    pub(crate) evaluate: Evaluate,
}

inventory::collect!(RemoteFunction);

/// An argument that can be sent to another rank.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent to another rank",
    label = "not a layer of numbers",
    note = "an argument of a remote function is a reference to a layer of `f32`, `f64` or a tensor of these"
)]
pub trait RemoteArgument {}

impl<T: Stored> RemoteArgument for &Layer<T> {}

/// Evaluates a function of a module for an argument as bytes.
type Evaluate = fn(Arc<Placement>, PassContext, &[u8]) -> Result<Running<Evaluated>>;

/// A computation in passes of its own.
type Running<T> = BoxFuture<'static, Result<T>>;

pub(crate) struct Evaluated {
    /// The value as bytes.
    pub(crate) value: Box<[u8]>,
    /// The call, if its values are kept for a backward.
    pub(crate) open: Option<Arc<dyn Open>>,
}

/// A call with values that are kept for a backward.
pub(crate) trait Open: Send + Sync {
    /// The derivative with respect to the argument, and the deltas of the weights.
    fn back(&self, delta: DeltaNumbers) -> Result<Running<(DeltaNumbers, PartSum)>>;
}

/// The registered functions: their names, and their types. They are the same on ranks that run the
/// same build.
pub(crate) fn functions() -> Vec<(String, String)> {
    let functions = inventory::iter::<RemoteFunction>.into_iter();
    let mut all: Vec<_> = functions.map(|function| (function.name.to_owned(), (function.types)().to_owned())).collect();
    all.sort_unstable();
    all
}

/// The function with this name.
///
/// # Errors
/// If there is none.
pub(crate) fn function(name: &str) -> Result<&'static RemoteFunction> {
    let found = inventory::iter::<RemoteFunction>.into_iter().find(|function| function.name == name);
    found.ok_or_else(|| Error::invalid(format!("this rank has no function `{name}`: it may run another build")))
}

fn evaluate_block<M, D, A>(
    placement: Arc<Placement>,
    context: PassContext,
    argument: &[u8],
) -> Result<Running<Evaluated>>
where
    M: RemoteBlock<D, A>,
    D: Rank,
    A: Element,
{
    let module = placement.module.downcast_ref::<M>();
    let module = module.ok_or_else(|| Error::invalid("the module on this rank is of another type"))?;
    evaluate::<Nd<A, D>, Nd<A, D>>(context, argument, |x| module.of_caller(x))
}

fn evaluate<T: Stored, U: Stored>(
    context: PassContext,
    argument: &[u8],
    function: impl FnOnce(&Layer<T>) -> Layer<U>,
) -> Result<Running<Evaluated>> {
    let (shape, numbers) = <(Vec<usize>, Numbers)>::from_bytes(argument)?;
    let x = Layer::constant(T::from_numbers(&shape, numbers)?);
    let y = context.build(|| function(&x));
    // In no other pass: the pass of the call must have the settings of the caller.
    Ok(Box::pin(async move {
        if !context.keeps_values() {
            let value = context.applied(y.predict()).await?;
            return Ok(Evaluated { value: bytes_of(&value), open: None });
        }
        let tape: Tape<U, U::Delta> = context.applied(y.forward()).await?;
        let value = bytes_of(tape.data());
        Ok(Evaluated { value, open: Some(Arc::new(OpenTape { tape, x })) })
    }))
}

fn bytes_of<U: Stored>(value: &U) -> Box<[u8]> {
    (value.shape(), value.numbers()).to_bytes().into()
}

struct OpenTape<T: Data, U: Data> {
    tape: Tape<U, U::Delta>,
    x: Layer<T>,
}

impl<T: Stored, U: Stored> Open for OpenTape<T, U> {
    fn back(&self, delta: DeltaNumbers) -> Result<Running<(DeltaNumbers, PartSum)>> {
        let delta = U::delta_from_numbers(delta)?;
        let (effects, dx) = self.tape.pull(Do::now(delta), &self.x);
        Ok(Box::pin(async move {
            let deltas = PartSum::of(effects).await?;
            let dx = T::delta_numbers(&dx.predict().await?);
            let dx = dx.ok_or_else(|| Error::invalid("the derivative of the argument has no numbers"))?;
            Ok((dx, deltas))
        }))
    }
}
