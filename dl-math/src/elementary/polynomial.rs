//! Polynomials by Estrin's scheme. Unlike in Horner's scheme, most of its multiply-adds are
//! independent of each other.

/// A polynomial of `$x` with these coefficients, the constant one first.
macro_rules! polynomial {
    ($M:ident $x:ident; $c:expr) => { $c };
    ($M:ident $x:ident; $a:expr, $b:expr) => { $M::mul_add($x, $b, $a) };
    // Horner's scheme: one dependent step more than Estrin's, and one multiplication less
    ($M:ident $x:ident; $a:expr, $b:expr, $c:expr) => { $M::mul_add($x, $M::mul_add($x, $c, $b), $a) };
    ($M:ident $x:ident; $($c:expr),+) => {{
        let square = $x * $x;
        polynomial!(@pairs $M $x square [] $($c),+)
    }};
    (@pairs $M:ident $x:ident $square:ident [$($pair:expr),*]) => { polynomial!($M $square; $($pair),*) };
    (@pairs $M:ident $x:ident $square:ident [$($pair:expr),*] $a:expr) => { polynomial!($M $square; $($pair,)* $a) };
    (@pairs $M:ident $x:ident $square:ident [$($pair:expr),*] $a:expr, $b:expr $(, $rest:expr)*) => {
        polynomial!(@pairs $M $x $square [$($pair,)* $M::mul_add($x, $b, $a)] $($rest),*)
    };
}

pub(super) use polynomial;
