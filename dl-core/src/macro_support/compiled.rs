//! The arguments of a compiled function, dispatched by type, in the way of `kind`.
//!
//! ```text
//! argument(&x).add_to(..):  AnyArgument (made of layers and numbers) -> ModuleArgument -> PlainArgument (`Hash + Eq`)
//!                           -> UnknownArgument (error)
//! ```

use crate::api::compiled::{CompiledArgument, CompiledResult, ResultLayers};
use crate::module::Module;
use crate::plan::key::Arguments;
use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::Deref;

/// The bound for arguments of unsupported types. No type implements it, so that the compiler prints
/// its message.
#[diagnostic::on_unimplemented(
    message = "a compiled function cannot have an argument of type `{Self}`",
    label = "neither made of layers, nor a module, nor a plain value",
    note = "it has layers, weights, modules (`#[derive(Module)]`), numbers, texts, collections of these, and values that implement `Hash`, `Eq` \
            and `Clone`: a plan is kept for each value"
)]
pub trait ArgumentOfCompiled {}

/// An argument.
pub fn argument<A: ?Sized>(argument: &A) -> AnyArgument<'_, A> {
    AnyArgument(ModuleArgument(PlainArgument(UnknownArgument(argument))))
}

pub struct AnyArgument<'a, A: ?Sized>(ModuleArgument<'a, A>);
pub struct ModuleArgument<'a, A: ?Sized>(PlainArgument<'a, A>);
pub struct PlainArgument<'a, A: ?Sized>(UnknownArgument<'a, A>);
pub struct UnknownArgument<'a, A: ?Sized>(&'a A);

macro_rules! chain {
    ($($First:ident => $Second:ident;)*) => {$(
        impl<'a, A: ?Sized> Deref for $First<'a, A> {
            type Target = $Second<'a, A>;
            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }
    )*};
}

chain! {
    AnyArgument => ModuleArgument;
    ModuleArgument => PlainArgument;
    PlainArgument => UnknownArgument;
}

impl<A: CompiledArgument + ?Sized> AnyArgument<'_, A> {
    /// Adds the argument to the list.
    pub fn add_to(&self, arguments: &mut Arguments) {
        self.0.0.0.0.add_to(arguments);
    }

    /// The same for a field.
    pub fn add_field_to(&self, arguments: &mut Arguments) {
        self.add_to(arguments);
    }
}

impl<A: Module + ?Sized> ModuleArgument<'_, A> {
    /// Adds the argument to the list.
    pub fn add_to(&self, arguments: &mut Arguments) {
        self.0.0.0.compiled_arguments(arguments);
    }

    /// The same for a field.
    pub fn add_field_to(&self, arguments: &mut Arguments) {
        self.add_to(arguments);
    }
}

impl<A: Hash + Eq + Clone + Send + Sync + 'static> PlainArgument<'_, A> {
    /// Adds the argument to the list.
    pub fn add_to(&self, arguments: &mut Arguments) {
        arguments.plain(self.0.0);
    }

    /// The same for a field.
    pub fn add_field_to(&self, arguments: &mut Arguments) {
        self.add_to(arguments);
    }
}

impl<A: ?Sized> UnknownArgument<'_, A> {
    /// Does not compile.
    pub fn add_to(&self, _: &mut Arguments)
    where
        A: ArgumentOfCompiled,
    {
        unreachable!("nothing implements `ArgumentOfCompiled`")
    }

    /// Says that functions of the struct with this field cannot be compiled.
    pub fn add_field_to(&self, arguments: &mut Arguments) {
        arguments.refuse(std::any::type_name::<A>());
    }
}

/// The part of a result with this type.
pub fn result_of<R>() -> ResultOf<R> {
    ResultOf(ResultOfOther(PhantomData))
}

pub struct ResultOf<R>(ResultOfOther<R>);
pub struct ResultOfOther<R>(PhantomData<fn() -> R>);

impl<R> Deref for ResultOf<R> {
    type Target = ResultOfOther<R>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<R: CompiledResult> ResultOf<R> {
    /// Adds the layers of the part to the list.
    pub fn layers(&self, part: &R, list: &mut ResultLayers) {
        part.layers(list);
    }

    /// The same part with the next layers of the list.
    pub fn with_layers(&self, list: &mut ResultLayers) -> R {
        R::with_layers(list)
    }
}

/// For fields that are not made of layers: the derive has another error for them.
impl<R> ResultOfOther<R> {
    /// Adds nothing.
    pub fn layers(&self, _: &R, _: &mut ResultLayers) {}

    /// Is never called.
    pub fn with_layers(&self, _: &mut ResultLayers) -> R {
        unreachable!("the parts of a result are made of layers")
    }
}
