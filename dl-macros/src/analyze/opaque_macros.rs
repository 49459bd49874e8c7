//! Rejects extractions inside macros that are not of the standard library.
//!
//! The arguments of such a macro may be anything, so a `!` in them cannot be rewritten. It would
//! silently mean "not".

use crate::diagnostics::Diagnostics;
use crate::parse::direct_block;
use proc_macro2::{Delimiter, TokenTree};
use syn::Macro;

/// Reports each `!` before an operand in the arguments of the macro.
pub(crate) fn check(mac: &Macro, diagnostics: &mut Diagnostics) {
    // `direct!` is expanded by this crate.
    if direct_block::is_direct(mac) {
        return;
    }
    let mut previous: Option<TokenTree> = None;
    let mut tokens = mac.tokens.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let TokenTree::Punct(punct) = &token
            && punct.as_char() == '!'
        {
            let before_operand = match tokens.peek() {
                Some(TokenTree::Ident(_)) => true,
                Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
                _ => false,
            };
            // After a name, a literal or a group, `!` is a part of a macro call or of `!=`.
            let after_operand =
                matches!(&previous, Some(TokenTree::Ident(_) | TokenTree::Literal(_) | TokenTree::Group(_)));
            if before_operand && !after_operand {
                let name = mac.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
                diagnostics.at(
                    token.clone(),
                    format!(
                        "`!` does not work inside `{name}!`: `#[differentiable]` reads the arguments of macros of the standard library only\n\
                         help: extract the value before the macro, `let value = !…;`, and use `value` in it"
                    ),
                );
            }
        }
        if let TokenTree::Group(group) = &token {
            check(&Macro { tokens: group.stream(), ..mac.clone() }, diagnostics);
        }
        previous = Some(token);
    }
}
