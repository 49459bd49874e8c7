//! The input of `direct! { … }`: an optional `crate = path;`, then statements.

use crate::parse::crate_path;
use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::{Block, Macro, Path, Token};

/// The path of the crate `dl`, and the block.
pub(crate) fn parse(tokens: TokenStream) -> syn::Result<(Path, Block)> {
    parse_stream.parse2(tokens)
}

/// Whether the macro is `direct!`, judged by its name.
pub(crate) fn is_direct(mac: &Macro) -> bool {
    mac.path.segments.last().is_some_and(|segment| segment.ident == "direct")
}

fn parse_stream(input: ParseStream<'_>) -> syn::Result<(Path, Block)> {
    let mut krate = crate_path::default();
    if input.peek(Token![crate]) && input.peek2(Token![=]) {
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        krate = crate_path::parse(input)?;
        input.parse::<Token![;]>()?;
    }
    Ok((krate, Block { brace_token: syn::token::Brace::default(), stmts: input.call(Block::parse_within)? }))
}
