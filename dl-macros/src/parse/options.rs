//! The arguments of the attribute: `#[differentiable(lazy, crate = my::dl)]`.

use crate::diagnostics::Diagnostics;
use crate::parse::crate_path;
use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::{Ident, Path, Token, parenthesized, token};

pub(crate) struct Options {
    /// The path of the crate `dl`.
    pub(crate) krate: Path,
    /// The keyword `lazy`, if present: the function is lazy whatever its return type is called.
    pub(crate) lazy: Option<Ident>,
    /// The keyword `compiled`, if present: calls are one operation.
    pub(crate) compiled: Option<Ident>,
    /// Whether it is `compiled(grouped)`: calls at the same level run together.
    pub(crate) is_grouped: bool,
}

/// The part in parentheses of `compiled(grouped)`.
fn grouped(input: ParseStream<'_>) -> syn::Result<bool> {
    let content;
    parenthesized!(content in input);
    let name: Ident = content.parse()?;
    if name != "grouped" || !content.is_empty() {
        let message = "`compiled` has one option: `#[differentiable(compiled(grouped))]`";
        return Err(syn::Error::new_spanned(name, message));
    }
    Ok(true)
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Options {
        let mut options = Options { krate: crate_path::default(), lazy: None, compiled: None, is_grouped: false };
        let parser = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if input.peek(Token![crate]) {
                    input.parse::<Token![crate]>()?;
                    input.parse::<Token![=]>()?;
                    options.krate = crate_path::parse(input)?;
                } else {
                    let name: Ident = input.parse()?;
                    match name.to_string().as_str() {
                        "lazy" if input.peek(Token![=]) => {
                            return Err(input.error("`lazy` takes no value: write `#[differentiable(lazy)]`"));
                        }
                        "lazy" => options.lazy = Some(name),
                        "compiled" if input.peek(Token![=]) => {
                            return Err(input.error("`compiled` takes no value: write `#[differentiable(compiled)]`"));
                        }
                        "compiled" => {
                            options.compiled = Some(name);
                            options.is_grouped |= input.peek(token::Paren) && grouped(input)?;
                        }
                        other => {
                            let message = format!(
                                "`#[differentiable]` has no option `{other}`; it has `compiled` (a call is one operation), \
                                 `lazy` (the return type is an alias of a layer) and `crate = path` (where the crate `dl` is)"
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
            diagnostics.add(error);
        }
        options
    }
}
