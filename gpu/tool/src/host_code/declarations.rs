//! The declarations of a C++ text in namespaces: functions, classes, variables and aliases, and
//! whether they are marked as device code.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::tokens::{Kind, Token, tokens, words};

/// The words that make a declaration one of the device.
const MARKS: [&str; 5] = [
    "__global__",
    "__device__",
    "__constant__",
    "__shared__",
    "__managed__",
];

/// Macros of the texts: the words of their bodies, by name.
pub(super) type Macros<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// A declaration.
#[derive(Debug)]
pub(super) struct Declaration<'a> {
    /// Its bytes in the text.
    pub(super) range: Range<usize>,
    pub(super) shape: Shape,
    /// The names that it declares; of a macro's call, the macro.
    pub(super) names: Vec<&'a str>,
    /// All its words.
    pub(super) words: Vec<&'a str>,
    /// It is of the device: a mark is in a function's head, or anywhere in another declaration.
    pub(super) marked: bool,
}

/// The kind of a declaration, which decides whether it is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A function with a body, or the call of a macro that stands for declarations.
    Code,
    /// A function without a body.
    Prototype,
    /// A variable that may change.
    Variable,
    /// Declarations that kernels may use without a mark: classes with their deduction guides,
    /// enumerations, aliases, constants, functions that are `constexpr`.
    Shared,
    /// `using namespace` of a namespace that device code does not know.
    HostNamespace,
    /// `static_assert`, stray semicolons, and `using namespace` of others.
    Other,
}

/// The macros that a text defines.
pub(super) fn macros(text: &str) -> Macros<'_> {
    let mut found = Macros::new();
    let directives = tokens(text).into_iter();
    for token in directives.filter(|token| token.kind == Kind::Directive) {
        let line = text[token.range.start + 1..token.range.end].trim_start();
        if let Some(definition) = line.strip_prefix("define") {
            let mut words = words(definition);
            if let Some(name) = words.next() {
                found.entry(name).or_default().extend(words);
            }
        }
    }
    found
}

/// The marks, and the macros that stand for them.
pub(super) fn marks<'a>(macros: &Macros<'a>) -> BTreeSet<&'a str> {
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, body) in macros {
        for word in body {
            users.entry(word).or_default().push(name);
        }
    }
    let mut marks = BTreeSet::new();
    let mut waiting = Vec::from(MARKS);
    while let Some(word) = waiting.pop() {
        if marks.insert(word) {
            waiting.extend(users.get(word).into_iter().flatten());
        }
    }
    marks
}

/// The namespaces that a text declares, also as other names of namespaces.
pub(super) fn namespaces(text: &str) -> impl Iterator<Item = &str> {
    let words: Vec<&str> = words(text).collect();
    let declared = |at: usize| words[at] == "namespace" && (at == 0 || words[at - 1] != "using");
    let names: Vec<&str> = (0..words.len().saturating_sub(1))
        .filter(|&at| declared(at))
        .map(|at| words[at + 1])
        .collect();
    names.into_iter()
}

/// The declarations of a text, in order. `None` if its brackets do not pair. Device code knows
/// these namespaces.
pub(super) fn declarations<'a>(
    text: &'a str,
    marks: &BTreeSet<&str>,
    namespaces: &BTreeSet<&str>,
) -> Option<Vec<Declaration<'a>>> {
    let tokens = tokens(text);
    let mut reader = Reader {
        text,
        tokens: &tokens,
        marks,
        namespaces,
        at: 0,
        depth: 0,
        branches: Vec::new(),
    };
    let mut found = Vec::new();
    let mut scopes = 0usize;
    loop {
        reader.pass_directives();
        match reader.sign() {
            _ if reader.at == tokens.len() => break,
            Some(b'}') => {
                scopes = scopes.checked_sub(1)?;
                reader.at += 1;
            }
            _ => match reader.declaration()? {
                Read::Scope => scopes += 1,
                Read::Declaration(declaration) => found.push(declaration),
            },
        }
    }
    (scopes == 0).then_some(found)
}

enum Read<'a> {
    /// The begin of a namespace, or of `extern "C"`.
    Scope,
    Declaration(Declaration<'a>),
}

/// Goes through the tokens of a text.
struct Reader<'t, 'a> {
    text: &'a str,
    tokens: &'t [Token],
    marks: &'t BTreeSet<&'t str>,
    namespaces: &'t BTreeSet<&'t str>,
    at: usize,
    /// Open brackets of the declaration.
    depth: usize,
    /// The open brackets at each `#if` that is not closed. Each of its branches begins with them.
    branches: Vec<usize>,
}

impl<'a> Reader<'_, 'a> {
    fn sign(&self) -> Option<u8> {
        match self.tokens.get(self.at)?.kind {
            Kind::Sign(sign) => Some(sign),
            _ => None,
        }
    }

    fn word(&self, at: usize) -> Option<&'a str> {
        let token = self.tokens.get(at)?;
        (token.kind == Kind::Word).then(|| &self.text[token.range.clone()])
    }

    /// Goes past directives; those of conditions set the depth.
    fn pass_directives(&mut self) {
        while let Some(token) = self.tokens.get(self.at) {
            match token.kind {
                Kind::If => self.branches.push(self.depth),
                Kind::Else => self.depth = *self.branches.last().unwrap_or(&self.depth),
                Kind::Endif => drop(self.branches.pop()),
                Kind::Directive => {}
                _ => return,
            }
            self.at += 1;
        }
    }

    /// Goes past a bracket and all up to the one that closes it; `None` if none does. Where the
    /// branch of an `#if` ends that the bracket stands in, it counts as closed.
    fn pass_brackets(&mut self) -> Option<()> {
        loop {
            self.pass_directives();
            match self.sign() {
                Some(b'(' | b'[' | b'{') => self.depth += 1,
                Some(b')' | b']' | b'}') => self.depth = self.depth.saturating_sub(1),
                _ if self.at == self.tokens.len() => return None,
                _ if self.depth == 0 => return Some(()),
                _ => {}
            }
            self.at += 1;
            if self.depth == 0 {
                return Some(());
            }
        }
    }

    /// Goes past further bodies of a function, which it has in other branches of an `#if`.
    fn pass_other_bodies(&mut self) -> Option<()> {
        loop {
            let mut after = self.tokens[self.at..].iter().map(|token| token.kind);
            let next = after.find(|kind| !kind.is_directive());
            if next != Some(Kind::Sign(b'{')) {
                return Some(());
            }
            self.pass_directives();
            self.pass_brackets()?;
        }
    }

    /// Goes past the `<…>` behind `template`.
    fn pass_parameters(&mut self) -> Option<()> {
        let mut open = 0usize;
        loop {
            self.pass_directives();
            match self.sign() {
                Some(b'(' | b'[' | b'{') => {
                    self.pass_brackets()?;
                    continue;
                }
                Some(b'<') => open += 1,
                Some(b'>') => open = open.saturating_sub(1),
                _ if self.at == self.tokens.len() => return None,
                _ if open == 0 => return Some(()),
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Some(());
            }
        }
    }

    /// Reads the declaration that begins here. `None` if it does not end.
    fn declaration(&mut self) -> Option<Read<'a>> {
        let first = self.at;
        let mut head = Head::default();
        loop {
            self.pass_directives();
            let token = self.tokens.get(self.at)?;
            match token.kind {
                Kind::Sign(b';') => {
                    self.at += 1;
                    return Some(self.read(first, &head, None));
                }
                Kind::Sign(b'}') => return Some(self.read(first, &head, None)),
                Kind::Sign(b'{') => {
                    let word = |at| self.word(at);
                    let is_scope = word(first) == Some("namespace")
                        || word(first) == Some("inline") && word(first + 1) == Some("namespace")
                        || word(first) == Some("extern") && self.at == first + 2 && !head.callable;
                    if is_scope {
                        self.at += 1;
                        return Some(Read::Scope);
                    }
                    let body = self.at;
                    let member = head.members && self.word(body - 1).is_some();
                    self.pass_brackets()?;
                    if head.callable && !head.assigned && !member && !head.is_class() {
                        self.pass_other_bodies()?;
                        return Some(self.read(first, &head, Some(body)));
                    }
                    head.class_body |= head.is_class();
                }
                Kind::Sign(b'(') => {
                    let callee = self.at.checked_sub(1).and_then(|at| self.word(at));
                    let alone = self.at == first + 1;
                    self.pass_brackets()?;
                    if callee.is_none_or(|name| !BEFORE_PARENTHESES.contains(&name)) {
                        head.callable = true;
                        if alone && self.is_macro_call(callee.unwrap_or_default()) {
                            return Some(self.read(first, &head, Some(self.at)));
                        }
                    }
                }
                Kind::Sign(b'[') => self.pass_brackets()?,
                Kind::Sign(b'=') => {
                    head.assigned = true;
                    self.at += 1;
                }
                Kind::Sign(b':') => {
                    let double = |at: usize| {
                        self.tokens
                            .get(at)
                            .is_some_and(|token| token.kind == Kind::Sign(b':'))
                    };
                    head.members |= head.callable && !double(self.at - 1) && !double(self.at + 1);
                    self.at += 1;
                }
                Kind::Sign(b'-') => {
                    head.arrow |= head.callable && self.at_sign(1) == Some(b'>');
                    self.at += 1;
                }
                Kind::Word => {
                    let word = self.word(self.at).unwrap_or_default();
                    self.at += 1;
                    match word {
                        "template" => self.pass_parameters()?,
                        "struct" | "class" | "union" | "enum" => head.class |= !head.callable,
                        "operator" => {
                            // Its signs are a name: `operator=`, `operator()`.
                            while matches!(self.sign(), Some(sign) if sign != b'(') {
                                self.at += 1;
                            }
                            if self.sign() == Some(b'(') && self.at_sign(1) == Some(b')') {
                                let called = self.at_sign(2) == Some(b'(');
                                self.at += if called { 2 } else { 0 };
                            }
                        }
                        _ => {}
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    fn at_sign(&self, ahead: usize) -> Option<u8> {
        match self.tokens.get(self.at + ahead)?.kind {
            Kind::Sign(sign) => Some(sign),
            _ => None,
        }
    }

    /// True if `NAME(…)`, which a declaration begins with and which ends here, is all of it.
    fn is_macro_call(&self, name: &str) -> bool {
        if name.starts_with("__") {
            return false;
        }
        let end = self.tokens[self.at - 1].range.end;
        let Some(next) = self.tokens.get(self.at) else {
            return true;
        };
        let goes_on = match next.kind {
            Kind::Sign(b'}') => return true,
            Kind::Sign(_) => true,
            Kind::Word => {
                ["const", "noexcept", "override", "try"].contains(&&self.text[next.range.clone()])
            }
            _ => false,
        };
        !goes_on && self.text[end..next.range.start].contains('\n')
    }

    /// The declaration of the tokens from `first` up to here.
    fn read(&self, first: usize, head: &Head, body: Option<usize>) -> Read<'a> {
        let end = self.at.max(first + 1);
        let words_of = |range: Range<usize>| -> Vec<&'a str> {
            range.filter_map(|at| self.word(at)).collect()
        };
        let words = words_of(first..end);
        let head_words = words_of(first..body.unwrap_or(end));
        let has = |word: &str| head_words.contains(&word);
        let begins = head_words.first().copied().unwrap_or_default();
        let constant = has("constexpr") || has("consteval") || has("constinit");
        let is_function = head.callable && !head.assigned && !head.class_body;
        let shape = match begins {
            "" | "static_assert" => Shape::Other,
            "using" if head_words.get(1) == Some(&"namespace") => {
                let of_device = |name: &&str| self.namespaces.contains(name);
                match head_words.get(2).is_some_and(of_device) {
                    true => Shape::Other,
                    false => Shape::HostNamespace,
                }
            }
            "using" | "typedef" | "namespace" => Shape::Shared,
            "template" if has("using") && head.assigned && !head.class_body => Shape::Shared,
            _ if has("concept") || head.is_class() => Shape::Shared,
            _ if is_function && constant => Shape::Shared,
            _ if is_function && body.is_some() => Shape::Code,
            // A deduction guide has no type of its own: `S(T) -> S<T>;`
            _ if is_function && head.arrow && !has("auto") => Shape::Shared,
            _ if is_function => Shape::Prototype,
            _ if constant || has("const") => Shape::Shared,
            _ => Shape::Variable,
        };
        let marked_words = if is_function { &head_words } else { &words };
        let marked = marked_words.iter().any(|word| self.marks.contains(word));
        Read::Declaration(Declaration {
            range: self.tokens[first].range.start..self.tokens[end - 1].range.end,
            shape,
            names: self.names(first, end, shape, body),
            words,
            marked,
        })
    }

    /// The names that a declaration may declare: more than it does, where that is simpler.
    fn names(&self, first: usize, end: usize, shape: Shape, body: Option<usize>) -> Vec<&'a str> {
        if matches!(shape, Shape::Code | Shape::Prototype) {
            // The word before the first parenthesis that is not an attribute's.
            let heads = first..body.unwrap_or(end);
            let mut names = heads.filter_map(|at| {
                let opens = self.tokens.get(at + 1)?.kind == Kind::Sign(b'(');
                self.word(at).filter(|_| opens)
            });
            let name = names.find(|name| !BEFORE_PARENTHESES.contains(name));
            return name.into_iter().collect();
        }
        // Words that something follows which ends a name, outside of bodies: of `struct X {`, `X =
        // 1`, `typedef float X;`. In an enumeration inside, too: `enum { X, Y = 2 }`.
        let in_bodies = (first..end).any(|at| self.word(at) == Some("enum"));
        let mut depth = 0usize;
        let mut names = Vec::new();
        for at in first..end {
            match self.tokens[at].kind {
                Kind::Sign(b'{') => depth += 1,
                Kind::Sign(b'}') => depth = depth.saturating_sub(1),
                Kind::Word if depth == 0 || in_bodies => {
                    let after = self.tokens.get(at + 1).map(|next| next.kind);
                    let ends = match after {
                        Some(Kind::Sign(sign)) => b"{}()[]<=;,:".contains(&sign),
                        _ => self.word(at + 1) == Some("final"),
                    };
                    let keyed = at.checked_sub(1).and_then(|before| self.word(before));
                    let named = ends || keyed.is_some_and(|key| NAMED.contains(&key));
                    names.extend(
                        self.word(at)
                            .filter(|word| named && !KEYWORDS.contains(word)),
                    );
                }
                _ => {}
            }
        }
        names
    }
}

/// Words that stand where names may stand.
const KEYWORDS: [&str; 20] = [
    "struct",
    "class",
    "union",
    "enum",
    "typedef",
    "typename",
    "operator",
    "auto",
    "void",
    "bool",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "const",
    "constexpr",
];

/// Words that a name follows, whatever stands behind it: `struct X final`.
const NAMED: [&str; 5] = ["struct", "class", "union", "enum", "concept"];

/// The signs and words of a declaration's head that were read, outside of brackets.
#[derive(Default)]
struct Head {
    /// Parentheses that may be a function's parameters.
    callable: bool,
    /// `=`
    assigned: bool,
    /// `struct` or the like, before any parentheses.
    class: bool,
    /// The members of a class, or the values of an enumeration.
    class_body: bool,
    /// The `:` before the initialisers of members.
    members: bool,
    /// `->` behind parameters.
    arrow: bool,
}

impl Head {
    /// The declaration is of a class, not of a function that returns one.
    fn is_class(&self) -> bool {
        self.class && (self.class_body || !self.callable)
    }
}

/// Words whose parentheses hold no parameters of a function.
pub(super) const BEFORE_PARENTHESES: [&str; 12] = [
    "alignas",
    "__align__",
    "__attribute__",
    "__launch_bounds__",
    "__cluster_dims__",
    "__maxnreg__",
    "__declspec",
    "decltype",
    "explicit",
    "noexcept",
    "requires",
    "static_assert",
];
