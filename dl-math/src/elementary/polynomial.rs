//! Polynomials by the scheme of Estrin, whose steps do not wait for each other as those of Horner
//! do.

/// The polynomial of a variable, with these coefficients, lowest first.
macro_rules! polynomial {
    ($M:ident $x:ident; $c:expr) => { $c };
    ($M:ident $x:ident; $a:expr, $b:expr) => { $M::mul_add($x, $b, $a) };
    // a step more than Estrin's, and one multiplication less
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
