//! The arguments of the attribute: `#[differentiable(lazy, crate = my::dl)]`.

use crate::diagnostics::Problems;
use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::{Ident, Path, Token, parse_quote};

pub(crate) struct Options {
    /// Where the root crate is.
    pub(crate) krate: Path,
    /// The return type is a layer, whatever its name.
    pub(crate) lazy: bool,
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream, problems: &mut Problems) -> Options {
        let mut options = Options { krate: parse_quote!(::dl), lazy: false };
        let parser = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if input.peek(Token![crate]) {
                    input.parse::<Token![crate]>()?;
                    input.parse::<Token![=]>()?;
                    options.krate = input.call(Path::parse_mod_style)?;
                } else {
                    let name: Ident = input.parse()?;
                    match name.to_string().as_str() {
                        "lazy" => options.lazy = true,
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
