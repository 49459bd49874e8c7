//! The operands of `!`, and their values.

use crate::api::deferred::Do;
use crate::api::differentiable::Differentiable;
use crate::api::extract::Extract;
use crate::api::join::{Join, JoinAll, Together, join};
use crate::error::Result;
use crate::exec::run::Run;
use std::future::{Future, Ready, ready};

/// A type with a value that `!` extracts.
pub trait Extractable {
    /// The type of the value.
    type Output;
    /// The future that resolves to the value.
    type Future: Future<Output = Result<Self::Output>> + Send + Unpin + 'static;

    /// Starts the extraction.
    #[track_caller]
    fn start(&self) -> Self::Future;
}

impl<X: Differentiable> Extractable for X {
    type Output = X::Data;
    type Future = Extract<X::Data>;

    #[track_caller]
    fn start(&self) -> Self::Future {
        match self.value_at_hand() {
            Some(value) => Extract::ready(value),
            None => self.layer().extract(),
        }
    }
}

impl<T: Send + 'static> Extractable for Do<T> {
    type Output = T;
    type Future = Run<T>;

    fn start(&self) -> Self::Future {
        self.run()
    }
}

/// Members of a tuple are borrowed, and may themselves be references.
macro_rules! also_borrowed {
    ([$($generics:tt)*] $X:ty) => {
        also_borrowed!(@ [$($generics)*] $X, &$X);
        also_borrowed!(@ [$($generics)*] $X, &&$X);
    };
    (@ [$($generics:tt)*] $X:ty, $Borrowed:ty) => {
        impl<$($generics)*> Extractable for $Borrowed {
            type Output = <$X as Extractable>::Output;
            type Future = <$X as Extractable>::Future;

            #[track_caller]
            fn start(&self) -> Self::Future {
                <$X as Extractable>::start(self)
            }
        }
    };
}

also_borrowed!([T: Send + 'static] Do<T>);

/// A member of an extracted tuple: an extractable type, or a plain value, which is returned
/// unchanged.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a member of an extracted tuple",
    note = "the members of `!(…)` are layers, weights, `Do`s, numbers, `bool`s, `char`s and strings, and tuples, arrays and `Vec`s of them"
)]
pub trait Member {
    /// The type of the value.
    type Output: Send + 'static;
    /// The future that resolves to the value.
    type Future: Future<Output = Result<Self::Output>> + Send + Unpin + 'static;

    /// Starts the extraction.
    #[track_caller]
    fn start(&self) -> Self::Future;
}

impl<X: Extractable<Output: Send + 'static>> Member for X {
    type Output = X::Output;
    type Future = X::Future;

    #[track_caller]
    fn start(&self) -> Self::Future {
        Extractable::start(self)
    }
}

macro_rules! plain {
    ($($T:ty),*) => {$(
        impl Member for $T {
            type Output = $T;
            type Future = Ready<Result<$T>>;

            fn start(&self) -> Self::Future {
                ready(Ok(self.clone()))
            }
        }

        impl Member for &$T {
            type Output = $T;
            type Future = Ready<Result<$T>>;

            fn start(&self) -> Self::Future {
                ready(Ok((*self).clone()))
            }
        }
    )*};
}

plain!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, bool, char, String);

/// A literal in an extracted tuple, which is returned unchanged. Its type is inferred as without
/// the tuple.
pub struct Literal<T>(pub T);

impl<T: Clone + Send + 'static> Member for Literal<T> {
    type Output = T;
    type Future = Ready<Result<T>>;

    fn start(&self) -> Self::Future {
        ready(Ok(self.0.clone()))
    }
}

macro_rules! tuples {
    ($($($X:ident)+;)*) => {$(
        impl<$($X: Member),+> Extractable for ($($X,)+) {
            type Output = ($($X::Output,)+);
            type Future = Join<<($($X::Future,)+) as Together>::Slots>;

            #[track_caller]
            fn start(&self) -> Self::Future {
                #[allow(non_snake_case, reason = "a variable is named after its type")]
                let ($($X,)+) = self;
                join(($($X.start(),)+))
            }
        }

        also_borrowed!([$($X: Member),+] ($($X,)+));
    )*};
}

tuples! {
    A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H; A B C D E F G H I; A B C D E F G H I J;
    A B C D E F G H I J K; A B C D E F G H I J K L;
}

macro_rules! lists {
    ($([$($generics:tt)*] $List:ty => $Output:ty, $collect:expr;)*) => {$(
        impl<X: Extractable<Output: Send + 'static>, $($generics)*> Extractable for $List {
            type Output = $Output;
            type Future = JoinAll<X::Future, X::Output, $Output>;

            #[track_caller]
            fn start(&self) -> Self::Future {
                JoinAll::new(self.iter().map(X::start), $collect)
            }
        }
    )*};
}

lists! {
    [] Vec<X> => Vec<X::Output>, |values| values;
    [] &Vec<X> => Vec<X::Output>, |values| values;
    [] &&Vec<X> => Vec<X::Output>, |values| values;
    [] &[X] => Vec<X::Output>, |values| values;
    [] &&[X] => Vec<X::Output>, |values| values;
    [const N: usize] [X; N] => [X::Output; N], as_array;
    [const N: usize] &[X; N] => [X::Output; N], as_array;
    [const N: usize] &&[X; N] => [X::Output; N], as_array;
}

fn as_array<T, const N: usize>(values: Vec<T>) -> [T; N] {
    values.try_into().unwrap_or_else(|_| unreachable!("one value for each member"))
}
