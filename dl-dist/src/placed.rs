//! Modules that are on one rank and are called from all of them.

use crate::communication::rank_of;
use crate::elsewhere::{Elsewhere, RemoteCall, Token};
use crate::function::RemoteBlock;
use crate::message::Kind;
use crate::uses::{Uses, UsesByModule, sum};
use dl_core::parts::{ElsewhereEntry, PassContext, Wire};
use dl_core::{
    At, Data, DeltaNumbers, Deltas, Differentiable, Do, Error, Layer, Module, Nothing, Numbers, Primitive, Result,
    Stored, Visitor, Weight, with_rule,
};
use dl_nd::{Element, Nd, NdLayer, Rank};
use dl_nn::Block;
use std::fmt;
use std::iter::once;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

/// A module on its owner, and a handle to it on every other rank: see
/// [`Cluster::place`](crate::Cluster::place).
///
/// It is a [`Block`] if the module is one with [`#[remote]`](crate::remote). On other ranks than the
/// owner, the call is evaluated by the owner, and its derivatives, too. A training step changes the
/// module together with the weights of the caller, or nothing changes. Nothing is sent for a module
/// that no sample of the batch has chosen.
///
/// It is a [`Module`] with the same paths on all ranks. Where it is a handle, its entries have a
/// [`rank`](dl_core::Entry::rank): they can be read, but not set. The module lives as long as the
/// cluster, even if all handles were dropped, because another rank may still call it.
///
/// The layers of a call are built in a body of their own, so that they draw the same random numbers
/// on any rank.
///
/// ```
/// use dl_core::{Module, Weight};
/// let paths = dl_dist::Cluster::run_on(2, |cluster| {
///     let placed = cluster.place(1, || Ok([1.0_f32, 2.0].map(Weight::new)))?;
///     assert_eq!(placed.entry("1")?.rank(), if cluster.rank() == 1 { None } else { Some(1) });
///     Ok(placed.names())
/// })?;
/// assert_eq!(paths, [["0", "1"], ["0", "1"]]);
/// # dl_core::Result::Ok(())
/// ```
pub struct Placed<M> {
    owner: usize,
    module: Place<M>,
}

enum Place<M> {
    Here(Arc<M>),
    Elsewhere(Arc<Handle>),
}

/// A handle to a module on another rank.
struct Handle {
    /// Its value has the number of the module.
    stand_in: Weight<Elsewhere>,
    at: Elsewhere,
    entries: Vec<Arc<ElsewhereEntry>>,
}

impl<M> Placed<M> {
    pub(crate) fn here(owner: usize, module: Arc<M>) -> Self {
        Placed { owner, module: Place::Here(module) }
    }

    pub(crate) fn elsewhere(stand_in: Weight<Elsewhere>, entries: Vec<Arc<ElsewhereEntry>>) -> Self {
        let at = stand_in.value();
        Placed { owner: rank_of(at.module), module: Place::Elsewhere(Arc::new(Handle { stand_in, at, entries })) }
    }

    /// The rank that has the module.
    ///
    /// ```
    /// let owners = dl_dist::Cluster::run_on(2, |cluster| {
    ///     let placed = cluster.spread(0..3, |n| Ok(dl_core::Weight::new(n as f64)))?;
    ///     Ok(placed.iter().map(|placed| placed.owner()).collect::<Vec<_>>())
    /// })?;
    /// assert_eq!(owners, [[0, 1, 0], [0, 1, 0]]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn owner(&self) -> usize {
        self.owner
    }

    /// The module, on its owner.
    ///
    /// ```
    /// let there = dl_dist::Cluster::run_on(2, |cluster| {
    ///     Ok(cluster.place(1, || Ok(dl_core::Weight::new(2.0_f64)))?.get().is_some())
    /// })?;
    /// assert_eq!(there, [false, true]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn get(&self) -> Option<&M> {
        match &self.module {
            Place::Here(module) => Some(module),
            Place::Elsewhere(_) => None,
        }
    }
}

impl<M> Clone for Placed<M> {
    fn clone(&self) -> Self {
        let module = match &self.module {
            Place::Here(module) => Place::Here(module.clone()),
            Place::Elsewhere(handle) => Place::Elsewhere(handle.clone()),
        };
        Placed { owner: self.owner, module }
    }
}

impl<M> fmt::Debug for Placed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placed").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl<M: Module> Module for Placed<M> {
    fn visit(&self, visitor: &mut Visitor) {
        match &self.module {
            Place::Here(module) => module.visit(visitor),
            Place::Elsewhere(handle) => handle.entries.iter().for_each(|entry| visitor.elsewhere(entry)),
        }
    }
}

impl<D: Rank, A: Element, M: RemoteBlock<D, A>> Block<D, A> for Placed<M> {
    #[track_caller]
    fn of(&self, x: &NdLayer<D, A>) -> NdLayer<D, A> {
        match &self.module {
            Place::Here(module) => {
                let (module, x) = (module.clone(), x.clone());
                Layer::dynamic(move || {
                    let (module, x) = (module.clone(), x.clone());
                    async move { Ok(module.of(&x)) }
                })
            }
            Place::Elsewhere(handle) => handle.call::<Nd<A, D>, Nd<A, D>>(M::NAME, x),
        }
    }
}

impl Handle {
    /// The value of a function of the module, with the derivatives that the owner computes.
    #[track_caller]
    fn call<T: Stored, U: Stored>(&self, function: &'static str, x: &Layer<T>) -> Layer<U> {
        let (at, argument) = (self.at.clone(), x.clone());
        let reply: Layer<Reply<U>> = Layer::from(Do::from_fn(move || {
            let (at, argument) = (at.clone(), argument.clone());
            async move { at.call(function, argument).await }
        }));
        let (at, place) = (self.at.clone(), Location::caller());
        let with_derivatives = with_rule(
            (x.clone(), self.stand_in.layer()),
            |_| reply,
            move |(x, _), reply, delta| {
                let (at, reply, of_reply) = (at.clone(), reply.clone(), delta.clone());
                let back: Layer<Back<T>> = Layer::from(Do::from_fn(move || {
                    let (at, reply, delta) = (at.clone(), reply.clone(), of_reply.clone());
                    async move {
                        let back = at.back(reply.extract().await?, delta.extract().await?).await;
                        back.map_err(|error| error.context(format_args!("derivatives of the call at {place}")))
                    }
                }));
                let dx = Layer::apply(TakeDerivative(PhantomData), (back.clone(),));
                let dx = with_rule(
                    (x.clone(), delta.clone()),
                    |_| dx,
                    move |_, _, _| (Some(fails(place)), Some(fails(place))),
                );
                (Some(dx), Some(Layer::apply(TakeToken(PhantomData), (back,))))
            },
        );
        Layer::apply(TakeValue(PhantomData), (with_derivatives,))
    }
}

/// The derivative of a derivative.
fn fails<T: Data>(place: &'static Location<'static>) -> Layer<T> {
    Layer::from(Do::<T>::fail(Error::invalid(format!(
        "a second derivative through the function on another rank that is called at {place} was requested: place the module on this rank"
    ))))
}

impl Elsewhere {
    async fn call<T: Stored, U: Stored>(self, function: &'static str, x: Layer<T>) -> Result<Reply<U>> {
        let context = PassContext::current().ok_or_else(|| Error::invalid("a call is evaluated in a pass"))?;
        let x = x.extract().await?;
        let mut body = (self.module, function.to_owned(), context).to_bytes();
        (x.shape(), x.numbers()).write(&mut body);
        let to = rank_of(self.module);
        let answer = self.communication.request::<(Vec<usize>, Numbers)>(to, Kind::Call, body);
        let id = answer.id;
        let (shape, numbers) = answer.await?;
        let call = || Arc::new(RemoteCall { communication: self.communication, to, id });
        let call = context.keeps_values().then(call);
        Ok(Reply { value: U::from_numbers(&shape, numbers)?, call })
    }

    async fn back<T: Stored, U: Stored>(self, reply: Reply<U>, delta: U::Delta) -> Result<Back<T>> {
        let call = reply.call.ok_or_else(|| Error::invalid("the values of this call were not kept"))?;
        let delta = U::delta_numbers(&delta).ok_or_else(|| Error::invalid("the delta of a call has no numbers"))?;
        let answer = self.communication.request::<(DeltaNumbers, UsesByModule)>(
            call.to,
            Kind::Back,
            (call.id, delta).to_bytes(),
        );
        let own = Uses::Call { call: call.id, back: answer.id };
        let (dx, nested) = answer.await?;
        let uses = sum(once((self.module, own)).chain(nested));
        let token = Token { uses, calls: vec![call], norms: Arc::default() };
        Ok(Back { dx: T::delta_from_numbers(dx)?, token })
    }
}

/// The value of a call, and the call.
#[derive(Clone)]
struct Reply<U> {
    value: U,
    /// `None` in a pass that keeps no values.
    call: Option<Arc<RemoteCall>>,
}

impl<U: Data> Data for Reply<U> {
    type Delta = U::Delta;

    fn one(&self) -> U::Delta {
        self.value.one()
    }

    fn check_delta(&self, delta: &U::Delta) -> Result<()> {
        self.value.check_delta(delta)
    }

    fn bytes(&self) -> usize {
        self.value.bytes()
    }
}

/// The derivatives of a call.
#[derive(Clone)]
struct Back<T: Data> {
    dx: T::Delta,
    token: Token,
}

impl<T: Data> Data for Back<T> {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }
}

struct TakeValue<U>(PhantomData<fn() -> U>);

impl<U: Data> Primitive for TakeValue<U> {
    type Operands = (Layer<Reply<U>>,);
    type Output = U;

    fn name(&self) -> &'static str {
        "call of another rank"
    }

    fn value(&self, (reply,): (&Reply<U>,)) -> Result<U> {
        Ok(reply.value.clone())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()),)
    }
}

struct TakeDerivative<T>(PhantomData<fn() -> T>);

impl<T: Data> Primitive for TakeDerivative<T> {
    type Operands = (Layer<Back<T>>,);
    type Output = T::Delta;

    fn name(&self) -> &'static str {
        "derivative of a call of another rank"
    }

    fn value(&self, (back,): (&Back<T>,)) -> Result<T::Delta> {
        Ok(back.dx.clone())
    }

    fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
        (None,)
    }
}

struct TakeToken<T>(PhantomData<fn() -> T>);

impl<T: Data> Primitive for TakeToken<T> {
    type Operands = (Layer<Back<T>>,);
    type Output = Token;

    fn name(&self) -> &'static str {
        "deltas of a call of another rank"
    }

    fn value(&self, (back,): (&Back<T>,)) -> Result<Token> {
        Ok(back.token.clone())
    }

    fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
        (None,)
    }
}
