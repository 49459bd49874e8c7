//! Compiled functions: `#[differentiable(compiled)]`.
//!
//! The attribute turns the body of a function into a call of [`CompiledFunction::call`]. Its first
//! call with a key runs the body, which builds layers as usual, and keeps their operations; later
//! calls build one node. See [`plan`](crate::plan).

use crate::api::buffer::Buffer;
use crate::api::deferred::Do;
use crate::api::differentiable::Differentiable;
use crate::api::weight::Weight;
use crate::error::Error;
use crate::error::call_context::{self, Origin};
use crate::error::direction::Direction;
use crate::graph::data::{Data, Trainable};
use crate::graph::layer::Layer;
use crate::graph::node_ref::NodeRef;
use crate::graph::seed::Position;
use crate::plan::call::call;
use crate::plan::failed::refused;
use crate::plan::function::Function;
use crate::plan::grouping::Grouping;
use crate::plan::key::{Arguments, KeyPart};
use smallvec::SmallVec;
use std::any::{TypeId, type_name};
use std::cell::Cell;
use std::fmt::{self, Write};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// An argument of a compiled function: a layer or a weight, a number or a text, or a tuple, an
/// array, a slice, a `Vec`, or an `Option` of these.
///
/// Layers and weights are operands of the call. Everything else decides which operations the
/// function consists of: there is a plan for each value. An argument of another type must be a
/// [`Module`](crate::Module) with a derive, or implement `Hash`, `Eq` and `Clone`.
///
/// ```
/// use dl_core::{CompiledArgument, Layer, Weight};
/// fn is_argument<A: CompiledArgument>(_: A) {}
/// is_argument((Layer::constant(1.0_f64), vec![Weight::new(2.0_f32)], 3_usize, "relu"));
/// ```
pub trait CompiledArgument {
    /// Adds the argument to the list.
    fn add_to(&self, arguments: &mut Arguments);
}

impl<T: Data> CompiledArgument for Layer<T> {
    fn add_to(&self, arguments: &mut Arguments) {
        arguments.operand(self.any(), false);
    }
}

impl<T: Trainable> CompiledArgument for Weight<T> {
    fn add_to(&self, arguments: &mut Arguments) {
        arguments.operand(self.to_layer().any(), true);
    }
}

impl<T: Data> CompiledArgument for Buffer<T> {
    fn add_to(&self, arguments: &mut Arguments) {
        arguments.operand(self.layer().any(), true);
    }
}

/// It is evaluated by a run of its own, so a call with it cannot be compiled.
impl<T: 'static> CompiledArgument for Do<T> {
    fn add_to(&self, arguments: &mut Arguments) {
        arguments.refuse(type_name::<Self>());
    }
}

impl<A: CompiledArgument> CompiledArgument for [A] {
    fn add_to(&self, arguments: &mut Arguments) {
        arguments.bits(self.len() as u64);
        self.iter().for_each(|argument| argument.add_to(arguments));
    }
}

impl<A: CompiledArgument> CompiledArgument for Option<A> {
    fn add_to(&self, arguments: &mut Arguments) {
        arguments.bits(self.is_some().into());
        if let Some(argument) = self {
            argument.add_to(arguments);
        }
    }
}

macro_rules! by_deref {
    ($([$($generics:tt)*] $Pointer:ty;)*) => {$(
        impl<$($generics)*> CompiledArgument for $Pointer {
            fn add_to(&self, arguments: &mut Arguments) {
                (**self).add_to(arguments);
            }
        }
    )*};
}

by_deref! {
    [A: CompiledArgument + ?Sized] &A;
    [A: CompiledArgument + ?Sized] Box<A>;
    [A: CompiledArgument + ?Sized] Arc<A>;
    [A: CompiledArgument] Vec<A>;
}

impl<A: CompiledArgument, const N: usize> CompiledArgument for [A; N] {
    fn add_to(&self, arguments: &mut Arguments) {
        self[..].add_to(arguments);
    }
}

macro_rules! as_bits {
    ($($T:ty: $value:ident => $bits:expr;)*) => {$(
        impl CompiledArgument for $T {
            #[allow(clippy::cast_sign_loss, clippy::cast_lossless, reason = "any injective map to bits will do")]
            fn add_to(&self, arguments: &mut Arguments) {
                let $value = *self;
                arguments.bits($bits);
            }
        }
    )*};
}

as_bits! {
    bool: value => value as u64;
    char: value => value as u64;
    u8: value => value as u64;
    u16: value => value as u64;
    u32: value => value as u64;
    u64: value => value;
    usize: value => value as u64;
    i8: value => value as u64;
    i16: value => value as u64;
    i32: value => value as u64;
    i64: value => value as u64;
    isize: value => value as u64;
    f32: value => value.to_bits() as u64;
    f64: value => value.to_bits();
}

macro_rules! as_two_words {
    ($($T:ty),*) => {$(
        impl CompiledArgument for $T {
            #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "the two halves of the bits")]
            fn add_to(&self, arguments: &mut Arguments) {
                arguments.bits(*self as u64);
                arguments.bits((*self >> 64) as u64);
            }
        }
    )*};
}

as_two_words!(u128, i128);

impl CompiledArgument for str {
    fn add_to(&self, arguments: &mut Arguments) {
        arguments.text(self);
    }
}

impl CompiledArgument for String {
    fn add_to(&self, arguments: &mut Arguments) {
        arguments.text(self);
    }
}

impl CompiledArgument for () {
    fn add_to(&self, _: &mut Arguments) {}
}

impl<T: ?Sized> CompiledArgument for PhantomData<T> {
    fn add_to(&self, _: &mut Arguments) {}
}

/// The result of a compiled function: a layer, or a tuple or an array of results.
///
/// ```
/// use dl_core::{CompiledResult, Layer};
/// fn is_result<R: CompiledResult>(_: R) {}
/// is_result((Layer::constant(1.0_f64), [Layer::constant(2.0_f32), Layer::constant(3.0)]));
/// ```
#[diagnostic::on_unimplemented(
    message = "a compiled function cannot return a `{Self}`",
    note = "it returns a `Layer`, a tuple or an array of those, or a struct of them with `#[derive(Layers)]`"
)]
pub trait CompiledResult: Sized {
    /// Adds the layers of the result to the list.
    fn layers(&self, list: &mut ResultLayers);
    /// The same result with the next layers of the list.
    fn with_layers(list: &mut ResultLayers) -> Self;
}

/// The layers of a result, without their types.
#[derive(Default)]
pub struct ResultLayers {
    layers: SmallVec<[NodeRef; 2]>,
    next: usize,
    /// Whether a part of the result is no layer.
    has_other: bool,
}

/// It is no layer, so a function that returns it cannot be compiled.
impl<T: Send + 'static> CompiledResult for Do<T> {
    fn layers(&self, list: &mut ResultLayers) {
        list.has_other = true;
    }

    fn with_layers(_: &mut ResultLayers) -> Self {
        Do::from_fn(|| std::future::ready(Err(Error::invalid(RETURNS_NO_LAYER))))
    }
}

const RETURNS_NO_LAYER: &str = "a compiled function returns layers only, and no `Do`";

impl<T: Data> CompiledResult for Layer<T> {
    fn layers(&self, list: &mut ResultLayers) {
        list.layers.push(self.any().clone());
    }

    fn with_layers(list: &mut ResultLayers) -> Self {
        list.next += 1;
        Layer::from_any(list.layers[list.next - 1].clone())
    }
}

impl<R: CompiledResult, const N: usize> CompiledResult for [R; N] {
    fn layers(&self, list: &mut ResultLayers) {
        self.iter().for_each(|result| result.layers(list));
    }

    fn with_layers(list: &mut ResultLayers) -> Self {
        std::array::from_fn(|_| R::with_layers(list))
    }
}

macro_rules! tuples {
    ($($($X:ident $i:tt)+;)*) => {$(
        impl<$($X: CompiledArgument),+> CompiledArgument for ($($X,)+) {
            fn add_to(&self, arguments: &mut Arguments) {
                $(self.$i.add_to(arguments);)+
            }
        }

        impl<$($X: CompiledResult),+> CompiledResult for ($($X,)+) {
            fn layers(&self, list: &mut ResultLayers) {
                $(self.$i.layers(list);)+
            }

            fn with_layers(list: &mut ResultLayers) -> Self {
                ($($X::with_layers(list),)+)
            }
        }
    )*};
}

tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

/// How many plans a compiled function keeps.
const MOST_PLANS: usize = 64;

/// A function with the option `compiled`, as a static of its expansion.
pub struct CompiledFunction {
    name: &'static str,
    plans: Mutex<Plans>,
    /// An instance with operations that are all scalar arithmetic. A pass evaluates those without a
    /// queue, in less time than a call takes, so its calls run the body.
    of_numbers: OnceLock<TypeId>,
    /// The calls that ran the body for this reason. A counter, so relaxed.
    runs: AtomicU64,
    /// Whether it has the option `grouped`.
    is_grouped: bool,
    /// The calls that ran in a group. A counter, so relaxed.
    grouped: AtomicU64,
}

struct Plans {
    /// The last used one comes last.
    entries: Vec<Entry>,
    place: Option<&'static Location<'static>>,
    built: u64,
    reused: u64,
}

struct Entry {
    hash: u64,
    /// Of a generic function, which one: see [`Arguments::of`].
    instance: TypeId,
    key: SmallVec<[KeyPart; 24]>,
    plan: Option<Arc<Function>>,
    refused: String,
}

/// All compiled functions that have been called.
static FUNCTIONS: Mutex<Vec<&'static CompiledFunction>> = Mutex::new(Vec::new());

impl CompiledFunction {
    /// A function of this name.
    pub const fn new(name: &'static str) -> Self {
        Self::of(name, false)
    }

    /// A function of this name with the option `grouped`.
    pub const fn grouped(name: &'static str) -> Self {
        Self::of(name, true)
    }

    const fn of(name: &'static str, is_grouped: bool) -> Self {
        CompiledFunction {
            name,
            plans: Mutex::new(Plans { entries: Vec::new(), place: None, built: 0, reused: 0 }),
            of_numbers: OnceLock::new(),
            runs: AtomicU64::new(0),
            is_grouped,
            grouped: AtomicU64::new(0),
        }
    }

    /// The arguments of a call; `None` if its body is to run, because it is a part of the body of
    /// another compiled function, or because all operations of the function are scalar arithmetic.
    pub fn arguments<F: FnOnce(&mut Arguments)>(&self, add: F) -> Option<Arguments> {
        let instance = typeid::of::<F>();
        if IS_TRACING.get() {
            return None;
        }
        if self.of_numbers.get() == Some(&instance) {
            self.runs.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let mut arguments = Arguments::of(instance);
        add(&mut arguments);
        Some(arguments)
    }

    /// A call. `body` builds the layers, if there is no plan for these arguments yet.
    #[track_caller]
    pub fn call<R: CompiledResult>(&'static self, arguments: Option<Arguments>, body: impl FnOnce() -> R) -> R {
        match arguments {
            Some(arguments) => self.call_at(Location::caller(), arguments, body, false),
            None => body(),
        }
    }

    /// A call of a function of the library. Its operations have the place of the call. If it cannot
    /// be compiled, it remains an ordinary function.
    #[track_caller]
    pub fn call_in_library<R: CompiledResult>(
        &'static self,
        arguments: Option<Arguments>,
        body: impl FnOnce() -> R,
    ) -> R {
        let place = Location::caller();
        let body = || {
            let _placed = call_context::enter(Origin::here().of_rule(Direction::Forward), place);
            body()
        };
        match arguments {
            Some(arguments) => self.call_at(place, arguments, body, true),
            None => body(),
        }
    }

    fn call_at<R: CompiledResult>(
        &'static self,
        place: &'static Location<'static>,
        arguments: Arguments,
        body: impl FnOnce() -> R,
        is_of_library: bool,
    ) -> R {
        let hash = arguments.hash();
        let operands = &arguments.operands[..];
        let begin = Position::here();
        let found = self.with(|plans| plans.find(hash, &arguments));
        let function = match found {
            Some(None) if is_of_library => return body(),
            Some(Some(function)) if function.is_arithmetic() => return body(),
            Some(Some(function)) => {
                begin.after(function.positions).enter();
                function
            }
            _ => {
                let result = {
                    let _tracing = Tracing::enter();
                    body()
                };
                let mut layers = ResultLayers::default();
                result.layers(&mut layers);
                let built = match &arguments.refused {
                    Some(why) => Err(why.clone()),
                    None if layers.has_other => Err(RETURNS_NO_LAYER.to_owned()),
                    None => Function::of(self.name, &layers.layers, operands, begin, is_of_library)
                        .map_err(|refusal| format!("`{}`, at {}, {}", refusal.name, refusal.site.place, refusal.why)),
                };
                let (plan, why) = match built {
                    Ok(mut function) => {
                        if self.is_grouped {
                            function.grouping = Some(Grouping::of(&function, &arguments.is_shared, &self.grouped));
                        }
                        (Some(Arc::new(function)), String::new())
                    }
                    Err(why) => (None, why),
                };
                let refused = why.clone();
                let (instance, key) = (arguments.instance, arguments.key);
                let entry = Entry { hash, instance, key, plan: plan.clone(), refused };
                self.add(entry, place);
                let Some(function) = plan else {
                    return if is_of_library { result } else { self.refuse(&layers, &why, place) };
                };
                if function.is_arithmetic() {
                    if !function.is_empty() {
                        let _ = self.of_numbers.set(instance);
                    }
                    return result;
                }
                function
            }
        };
        let layers = call(&function, operands, begin, place);
        R::with_layers(&mut ResultLayers { layers, ..ResultLayers::default() })
    }

    /// Layers that fail, for a call that cannot be compiled.
    #[cold]
    fn refuse<R: CompiledResult>(&self, layers: &ResultLayers, why: &str, place: &'static Location<'static>) -> R {
        let why = format!(
            "`{}` has the option `compiled`, and cannot be compiled: {why}\n\
             help: build this layer in the function that calls `{}`, or remove the option",
            self.name, self.name
        );
        let layers = layers.layers.iter().map(|layer| refused(layer.vtable, &why, place)).collect();
        R::with_layers(&mut ResultLayers { layers, ..ResultLayers::default() })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Plans) -> T) -> T {
        look(&mut self.plans.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[cold]
    fn add(&'static self, entry: Entry, place: &'static Location<'static>) {
        let is_first = self.with(|plans| {
            let is_first = plans.place.replace(place).is_none();
            plans.entries.retain(|known| known.plan.is_some() || known.key != entry.key);
            if plans.entries.len() == MOST_PLANS {
                plans.entries.remove(0);
            }
            plans.entries.push(entry);
            plans.built += 1;
            is_first
        });
        if is_first {
            FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        }
    }
}

impl Plans {
    /// The plan for this key; `Some(None)` if the key is known to have none.
    fn find(&mut self, hash: u64, arguments: &Arguments) -> Option<Option<Arc<Function>>> {
        let is_same =
            |entry: &Entry| entry.hash == hash && entry.instance == arguments.instance && entry.key == arguments.key;
        let at = self.entries.iter().rposition(is_same)?;
        self.reused += u64::from(self.entries[at].plan.is_some());
        let plan = self.entries[at].plan.clone();
        if at + 1 < self.entries.len() {
            let entry = self.entries.remove(at);
            self.entries.push(entry);
        }
        Some(plan)
    }
}

thread_local! {
    /// Whether this thread runs the body of a compiled function, to lower it.
    static IS_TRACING: Cell<bool> = const { Cell::new(false) };
}

/// Guard: the body of a compiled function ends when it is dropped.
struct Tracing;

impl Tracing {
    fn enter() -> Tracing {
        IS_TRACING.set(true);
        Tracing
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        IS_TRACING.set(false);
    }
}

impl Plans {
    /// A warning if plans, or schedules of a plan, are built for most calls.
    fn churn(&self) -> Option<String> {
        let Plans { built, reused, .. } = *self;
        let of_plans = (built > MOST_PLANS as u64 && built > reused).then(|| {
            format!("{built} plans were built for {} calls: arguments that are no layers change often", built + reused)
        });
        of_plans.or_else(|| self.entries.iter().find_map(|entry| entry.plan.as_ref()?.churn()))
    }
}

/// What the library knows of a function with the option `compiled`: see [`compiled_functions`].
///
/// ```
/// assert!(dl_core::compiled_functions().is_empty()); // none has been called
/// ```
#[derive(Clone, Copy)]
pub struct CompiledPlans {
    function: &'static CompiledFunction,
}

/// The compiled functions that have been called in this program, in the order of their first calls.
///
/// ```
/// for function in dl_core::compiled_functions() {
///     println!("{}", function.explain());
/// }
/// ```
pub fn compiled_functions() -> Vec<CompiledPlans> {
    let functions = FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    functions.iter().map(|&function| CompiledPlans { function }).collect()
}

impl CompiledPlans {
    /// The name of the function.
    ///
    /// ```
    /// let names: Vec<&str> = dl_core::compiled_functions().iter().map(|function| function.name()).collect();
    /// assert!(names.is_empty()); // none has been called
    /// ```
    pub fn name(&self) -> &'static str {
        self.function.name
    }

    /// How many plans were built: one for each combination of arguments that are no layers.
    ///
    /// ```
    /// assert_eq!(dl_core::compiled_functions().iter().map(|function| function.built()).sum::<u64>(), 0);
    /// ```
    pub fn built(&self) -> u64 {
        self.function.with(|plans| plans.built)
    }

    /// How many calls used a plan that was built before, or had none because all is scalar arithmetic.
    ///
    /// ```
    /// assert_eq!(dl_core::compiled_functions().iter().map(|function| function.reused()).sum::<u64>(), 0);
    /// ```
    pub fn reused(&self) -> u64 {
        self.function.with(|plans| plans.reused) + self.function.runs.load(Ordering::Relaxed)
    }

    /// How often a call ran together with others: see the option `grouped` of `#[differentiable]`.
    ///
    /// ```
    /// assert_eq!(dl_core::compiled_functions().iter().map(|function| function.grouped()).sum::<u64>(), 0);
    /// ```
    pub fn grouped(&self) -> u64 {
        self.function.grouped.load(Ordering::Relaxed)
    }

    /// How many calls there were.
    ///
    /// ```
    /// assert_eq!(dl_core::compiled_functions().iter().map(|function| function.calls()).sum::<u64>(), 0);
    /// ```
    pub fn calls(&self) -> u64 {
        self.built() + self.reused()
    }

    /// A warning if calls hardly profit, because the arguments that are no layers, or the shapes of
    /// those that are, change with almost each call. [`explain`](Self::explain) ends with it.
    ///
    /// ```
    /// for function in dl_core::compiled_functions() {
    ///     assert_eq!(function.churn(), None, "{} is slower with the option `compiled`", function.name());
    /// }
    /// ```
    pub fn churn(&self) -> Option<String> {
        self.function.with(|plans| plans.churn())
    }

    /// The operations of each plan and of its backwards, or the reason that calls are not compiled.
    ///
    /// ```
    /// dl_core::compiled_functions().iter().for_each(|function| println!("{}", function.explain()));
    /// ```
    pub fn explain(&self) -> String {
        self.function.with(|plans| {
            let mut text = String::new();
            for entry in &plans.entries {
                match &entry.plan {
                    Some(function) => text += &function.explain(),
                    None => {
                        let _ = writeln!(text, "`{}` is not compiled: {}", self.function.name, entry.refused);
                    }
                }
            }
            if let Some(warning) = plans.churn() {
                let _ = writeln!(text, "{warning}");
            }
            text
        })
    }
}

impl fmt::Debug for CompiledPlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledPlans").field("name", &self.function.name).finish_non_exhaustive()
    }
}
