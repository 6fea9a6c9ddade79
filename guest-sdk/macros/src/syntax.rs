//! Small things about Rust syntax: doc comments, lifetimes, names.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Expr, ExprLit, Ident, Lifetime, Lit, Meta, Type};

/// The SDK's items for macro output.
pub fn sdk() -> TokenStream {
    quote!(::wasmill_guest::__private)
}

/// The text of doc comments.
pub fn doc_of(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes {
        if !attribute.path().is_ident("doc") {
            continue;
        }
        if let Meta::NameValue(pair) = &attribute.meta
            && let Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) = &pair.value
        {
            let text = text.value();
            let line = text.strip_prefix(' ').unwrap_or(&text);
            lines.push(line.trim_end().to_owned());
        }
    }
    lines.join("\n").trim().to_owned()
}

/// Where the macro leaves what native tests need.
pub fn handle_name(name: &Ident) -> Ident {
    format_ident!("__wasmill_{}", name)
}

/// The type with every lifetime `'static`, for constants and statics.
pub fn with_static_lifetimes(ty: &Type) -> Type {
    rewritten(ty, "'static")
}

/// The type with every lifetime left to inference, for function bodies.
pub fn with_inferred_lifetimes(ty: &Type) -> Type {
    rewritten(ty, "'_")
}

fn rewritten(ty: &Type, lifetime: &str) -> Type {
    struct Rewrite<'l>(&'l str);

    impl VisitMut for Rewrite<'_> {
        fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
            *lifetime = Lifetime::new(self.0, lifetime.span());
        }

        fn visit_type_reference_mut(&mut self, reference: &mut syn::TypeReference) {
            let span = reference.and_token.span;
            reference
                .lifetime
                .get_or_insert_with(|| Lifetime::new(self.0, span));
            visit_mut::visit_type_reference_mut(self, reference);
        }
    }

    let mut ty = ty.clone();
    Rewrite(lifetime).visit_type_mut(&mut ty);
    ty
}

/// The type with `Self` replaced.
pub fn without_self(ty: &Type, own: &Type) -> Type {
    struct Replace<'t>(&'t Type);

    impl VisitMut for Replace<'_> {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if matches!(ty, Type::Path(path) if path.path.is_ident("Self")) {
                *ty = self.0.clone();
            } else {
                visit_mut::visit_type_mut(self, ty);
            }
        }
    }

    let mut ty = ty.clone();
    Replace(own).visit_type_mut(&mut ty);
    ty
}

/// The export of a function. Overloads have one name, and each a function of its own.
pub fn call_symbol(name: &str, function: &Ident) -> String {
    if function == name {
        format!("wasmill_call_{name}")
    } else {
        format!("wasmill_call_{name}_{function}")
    }
}

/// Letters and digits of a type, for a symbol.
pub fn symbol_suffix(types: &[Type]) -> String {
    let mut suffix = String::new();
    for ty in types {
        suffix.push('_');
        let text = quote!(#ty).to_string();
        suffix.extend(text.chars().filter(char::is_ascii_alphanumeric));
    }
    suffix
}

/// `(a, (b, (c, ())))`
pub fn nested_pairs(items: impl DoubleEndedIterator<Item = TokenStream>) -> TokenStream {
    items.rfold(quote!(()), |rest, item| quote!((#item, #rest)))
}

/// An error at a place.
pub fn error_at(span: Span, message: &str) -> syn::Error {
    syn::Error::new(span, message)
}
