//! Programs in annotated functions that compile without a warning, and do what they should: one
//! file for each part of the language.

#![deny(warnings)]
#![allow(unreachable_pub, clippy::all, reason = "users write it")]

mod attributes_and_docs_are_kept;
mod awkward_places;
mod bangs_of_collections;
mod borrowed_operands;
mod const_generics;
mod early_returns_everywhere;
mod format_strings;
mod futures_and_streams;
mod generated_by_a_macro;
mod generic_associated_types;
mod iterators;
mod labelled_loops;
mod lifetimes_and_where_clauses;
mod macros_of_std;
mod methods_by_value_and_reference;
mod modules;
mod mutual_recursion;
mod names_of_ours_are_free;
mod nested_functions;
mod no_unsafe_code;
mod not_is_still_not;
mod opaque_results;
mod option_functions;
mod patterns;
mod polymorphic_parameters;
mod question_marks;
mod renamed_crate;
mod shadowing;
mod tensors;
mod threads_and_auto_traits;
mod while_let_with_a_stack;
