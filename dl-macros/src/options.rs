//! The arguments of the attribute: `#[differentiable(lazy, crate = my::dl)]`.

use crate::diagnostics::Problems;
use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::{Ident, Path, Token, parse_quote};

pub(crate) struct Options {
    /// Where the root crate is.
    pub(crate) krate: Path,
    /// The return type is a layer, whatever its name.
    pub(crate) lazy: Option<Ident>,
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream, problems: &mut Problems) -> Options {
        let mut options = Options { krate: parse_quote!(::dl), lazy: None };
        let parser = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if input.peek(Token![crate]) {
                    input.parse::<Token![crate]>()?;
                    input.parse::<Token![=]>()?;
                    options.krate = crate_path(input)?;
                } else {
                    let name: Ident = input.parse()?;
                    match name.to_string().as_str() {
                        "lazy" if input.peek(Token![=]) => {
                            return Err(input.error("`lazy` takes no value: write `#[differentiable(lazy)]`"));
                        }
                        "lazy" => options.lazy = Some(name),
                        other => {
                            let message = format!(
                                "`#[differentiable]` has no option `{other}`; it has `lazy` (the return type is an alias of a \
                                 layer) and `crate = path` (where the crate `dl` is)"
                            );
                            return Err(syn::Error::new_spanned(name, message));
                        }
                    }
                }
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        if let Err(error) = parser.parse2(tokens) {
            problems.add(error);
        }
        options
    }
}

/// Where the crate `dl` is.
pub(crate) fn crate_path(input: ParseStream<'_>) -> syn::Result<Path> {
    if input.peek(syn::Lit) {
        return Err(input.error("the crate is a path without quotes, like `crate = my::dl`"));
    }
    input.call(Path::parse_mod_style)
}
