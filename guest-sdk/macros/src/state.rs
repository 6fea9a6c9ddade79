//! `#[udf]` on an `impl` block: a state and its methods.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{FnArg, ImplItem, ImplItemFn, ItemImpl, Receiver, Type};

use crate::glue::{StateGlue, Udf, optional};
use crate::options::{Options, Place};
use crate::signature::{Parameter, check, parameters, return_type};
use crate::syntax::{call_symbol, doc_of, error_at, handle_name, sdk, without_self};

/// The parts of the block.
struct Parts {
    init: ImplItemFn,
    close: Option<ImplItemFn>,
    methods: Vec<(Options, ImplItemFn, bool)>,
}

pub fn expand(options: TokenStream, mut block: ItemImpl) -> syn::Result<TokenStream> {
    let options = Options::parse(options, Place::Impl)?;
    if let Some((_, path, _)) = &block.trait_ {
        return Err(error_at(
            path.span(),
            "`#[udf]` goes on an `impl` block of the state itself, not of a trait",
        ));
    }
    if let Some(parameter) = block.generics.params.first() {
        return Err(error_at(
            parameter.span(),
            "a state has one type: remove the parameters of this `impl` block",
        ));
    }
    let own = (*block.self_ty).clone();
    let Type::Path(path) = &own else {
        return Err(error_at(
            own.span(),
            "a state is a struct or enum of your own",
        ));
    };
    let Some(ident) = path.path.segments.last().map(|last| last.ident.clone()) else {
        return Err(error_at(
            own.span(),
            "a state is a struct or enum of your own",
        ));
    };
    let parts = split(&mut block)?;
    let name = match &options.name {
        Some(name) => name.value(),
        None => ident.to_string(),
    };
    let (init_symbol, init, init_args) = init(&parts.init, &own, &name)?;
    let (close_symbol, close_export, close) = close(parts.close.as_ref(), &own, &name)?;

    let exclusive = parts.methods.iter().any(|(_, _, exclusive)| *exclusive);
    let kind = match &options.state {
        Some(kind) => kind.value(),
        None if exclusive => "sequence".to_owned(),
        None => "resource".to_owned(),
    };
    let volatility = match &options.volatility {
        Some(volatility) => volatility.value(),
        None if exclusive => "volatile".to_owned(),
        None => "immutable".to_owned(),
    };
    let mut entries = Vec::new();
    for (method_options, method, exclusive) in &parts.methods {
        entries.push(method_entry(
            method_options,
            method,
            *exclusive,
            &own,
            &volatility,
        )?);
    }

    let (sdk, handle) = (sdk(), handle_name(&ident));
    Ok(quote! {
        #block

        #[doc(hidden)]
        #[allow(non_upper_case_globals, dead_code, unused_qualifications, clippy::all, clippy::pedantic)]
        pub(crate) const #handle: #sdk::StateEntry = {
            ::std::thread_local! {
                static STATES: #sdk::States<#own> = const { #sdk::States::new() };
            }
            const STATE: #sdk::State = #sdk::State {
                name: #name,
                kind: #kind,
                init: #init_symbol,
                close: #close_symbol,
                init_args: #init_args,
            };
            #[cfg_attr(target_family = "wasm", unsafe(export_name = #init_symbol))]
            extern "C" fn init(frame: #sdk::Frame<'_, #sdk::InitFrame>) -> i32 {
                #init
            }
            #close_export
            #sdk::StateEntry { init, close: #close, methods: &[#(#entries),*] }
        };
    })
}

/// Sorts the functions of the block, and takes the attributes off its methods.
fn split(block: &mut ItemImpl) -> syn::Result<Parts> {
    let (mut init, mut close, mut methods) = (None, None, Vec::new());
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else {
            continue;
        };
        let options = take_options(method)?;
        if options.skip {
            continue;
        }
        check(&method.sig)?;
        if let Some(parameter) = method.sig.generics.type_params().next() {
            return Err(error_at(
                parameter.span(),
                "the host must know the types: a method has no type parameters; write one method per type",
            ));
        }
        match (method.sig.ident.to_string().as_str(), receiver(method)) {
            ("init", None) => init = Some(method.clone()),
            ("init", Some(receiver)) => {
                return Err(error_at(
                    receiver.span(),
                    "`init` makes the state: write `fn init(args: Args) -> Result<Self, E>` or `fn init() -> Self`",
                ));
            }
            ("close", Some(receiver)) if receiver.reference.is_none() => {
                close = Some(method.clone());
            }
            ("close", other) => {
                return Err(error_at(
                    other.map_or(method.sig.span(), Spanned::span),
                    "`close` ends the state: write `fn close(self)`",
                ));
            }
            (_, None) => {
                return Err(error_at(
                    method.sig.span(),
                    "every function here is a UDF and takes `&self` or `&mut self`; mark it `#[udf(skip)]` or move it to another `impl` block",
                ));
            }
            (_, Some(receiver)) if receiver.reference.is_none() => {
                return Err(error_at(
                    receiver.span(),
                    "the state serves many calls: take `&self` or `&mut self`; only `close` takes `self`",
                ));
            }
            (_, Some(receiver)) => {
                let exclusive = receiver.mutability.is_some();
                methods.push((options, method.clone(), exclusive));
            }
        }
    }
    let Some(init) = init else {
        return Err(error_at(
            block.self_ty.span(),
            "a state needs `fn init(args: Args) -> Result<Self, E>` (or `fn init() -> Self`) in this block",
        ));
    };
    if methods.is_empty() {
        return Err(error_at(
            block.self_ty.span(),
            "a state needs a method: add `fn name(&self, …) -> …` to this block",
        ));
    }
    Ok(Parts {
        init,
        close,
        methods,
    })
}

fn receiver(method: &ImplItemFn) -> Option<&Receiver> {
    match method.sig.inputs.first() {
        Some(FnArg::Receiver(receiver)) => Some(receiver),
        _ => None,
    }
}

fn take_options(method: &mut ImplItemFn) -> syn::Result<Options> {
    let (own, others) = std::mem::take(&mut method.attrs)
        .into_iter()
        .partition::<Vec<_>, _>(|attribute| attribute.path().is_ident("udf"));
    method.attrs = others;
    match own.as_slice() {
        [] => Ok(Options::default()),
        [only] => match &only.meta {
            syn::Meta::Path(_) => Ok(Options::default()),
            syn::Meta::List(list) => Options::parse(list.tokens.clone(), Place::Method),
            syn::Meta::NameValue(_) => Err(error_at(only.span(), "write `#[udf(…)]`")),
        },
        [_, second, ..] => Err(error_at(
            second.span(),
            "write all options in one `#[udf(…)]`",
        )),
    }
}

/// Symbol, body and schema of `init`.
fn init(
    method: &ImplItemFn,
    own: &Type,
    name: &str,
) -> syn::Result<(String, TokenStream, TokenStream)> {
    let sdk = sdk();
    let symbol = format!("wasmill_init_{name}");
    if return_type(&method.sig).is_none() {
        return Err(error_at(
            method.sig.span(),
            "`init` makes the state: return `Self` or `Result<Self, E>`",
        ));
    }
    match parameters(&method.sig, false)?.as_slice() {
        [] => Ok((
            symbol,
            quote!(#sdk::init(frame, &STATES, || <#own>::init())),
            quote!(#sdk::NO_ARGS),
        )),
        [Parameter::Value { ty, .. }] => {
            let ty = without_self(ty, own);
            Ok((
                symbol,
                quote!(#sdk::init_with(frame, &STATES, |args: #ty| <#own>::init(args))),
                quote!(<#ty as ::wasmill_guest::InitArgs>::SCHEMA),
            ))
        }
        _ => Err(error_at(
            method.sig.inputs.span(),
            "`init` takes one argument: put all of them into a struct with `#[derive(InitArgs)]`",
        )),
    }
}

/// Symbol, export and function of `close`.
fn close(
    method: Option<&ImplItemFn>,
    own: &Type,
    name: &str,
) -> syn::Result<(TokenStream, TokenStream, TokenStream)> {
    let Some(method) = method else {
        return Ok((quote!(None), quote!(), quote!(None)));
    };
    if method.sig.inputs.len() > 1 {
        return Err(error_at(
            method.sig.inputs.span(),
            "`close` ends the state: write `fn close(self)`",
        ));
    }
    let sdk = sdk();
    let symbol = format!("wasmill_close_{name}");
    let export = quote! {
        #[cfg_attr(target_family = "wasm", unsafe(export_name = #symbol))]
        extern "C" fn close(state: u32) {
            #sdk::close(&STATES, state, |state| {
                let _ = <#own>::close(state);
            })
        }
    };
    Ok((optional(Some(quote!(#symbol))), export, quote!(Some(close))))
}

fn method_entry(
    options: &Options,
    method: &ImplItemFn,
    exclusive: bool,
    own: &Type,
    volatility: &str,
) -> syn::Result<TokenStream> {
    let ident = &method.sig.ident;
    let name = match &options.name {
        Some(name) => name.value(),
        None => ident.to_string(),
    };
    let mut parameters = parameters(&method.sig, options.batch)?;
    for parameter in &mut parameters {
        if let Parameter::Value { ty, .. } | Parameter::Writer(ty) = parameter {
            *ty = without_self(ty, own);
        }
    }
    let returns = return_type(&method.sig).map(|ty| without_self(ty, own));
    Udf {
        symbol: call_symbol(&name, ident),
        name,
        doc: doc_of(&method.attrs),
        volatility: match &options.volatility {
            Some(volatility) => volatility.value(),
            None => volatility.to_owned(),
        },
        options,
        parameters: &parameters,
        returns: returns.as_ref(),
        function: ident,
        path: quote!(<#own>::#ident),
        state: Some(StateGlue {
            record: quote!(STATE),
            exclusive,
        }),
    }
    .expand()
}
