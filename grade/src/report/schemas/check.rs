//! JSON Schema, as far as the schemas here use it. For tests, in which it may panic.

use serde_json::Value;

/// Where a value does not obey a schema, and why. Knows the words of JSON Schema that the schemas here use, and panics at others.
pub fn errors(root: &Value, value: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    check(root, root, value, "", &mut errors);
    errors
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, errors: &mut Vec<String>) {
    for (word, rule) in schema.as_object().unwrap() {
        let number = |rule: &Value| rule.as_f64().unwrap();
        let list = |rule: &Value| rule.as_array().unwrap().clone();
        let failure = match &**word {
            "$schema" | "$defs" | "title" | "description" => None,
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                check(root, root.pointer(pointer).unwrap(), value, at, errors);
                None
            }
            "oneOf" => {
                let fits = |form: &&Value| {
                    let mut errors = Vec::new();
                    check(root, form, value, at, &mut errors);
                    errors.is_empty()
                };
                let count = rule.as_array().unwrap().iter().filter(fits).count();
                (count != 1).then(|| format!("fits {count} of the forms"))
            }
            "type" => {
                let types = if rule.is_array() {
                    list(rule)
                } else {
                    vec![rule.clone()]
                };
                let fits = types.iter().any(|name| is(value, name.as_str().unwrap()));
                let name = types.last().unwrap().as_str().unwrap();
                (!fits).then(|| format!("is no {name}"))
            }
            "const" => (value != rule).then(|| format!("is not {rule}")),
            "enum" => (!list(rule).contains(value)).then(|| format!("is none of {rule}")),
            "minimum" => value
                .as_f64()
                .filter(|value| *value < number(rule))
                .map(|_| format!("is less than {rule}")),
            "maximum" => value
                .as_f64()
                .filter(|value| *value > number(rule))
                .map(|_| format!("is more than {rule}")),
            "minLength" => {
                let short = |text: &&str| (text.chars().count() as f64) < number(rule);
                value
                    .as_str()
                    .filter(short)
                    .map(|_| format!("is shorter than {rule}"))
            }
            "pattern" => {
                let other = |text: &&str| !matches(rule.as_str().unwrap(), text);
                value
                    .as_str()
                    .filter(other)
                    .map(|_| format!("does not match {rule}"))
            }
            "minItems" => {
                let few = |items: &&Vec<Value>| (items.len() as f64) < number(rule);
                value
                    .as_array()
                    .filter(few)
                    .map(|_| format!("has fewer than {rule} items"))
            }
            "maxItems" => {
                let many = |items: &&Vec<Value>| items.len() as f64 > number(rule);
                value
                    .as_array()
                    .filter(many)
                    .map(|_| format!("has more than {rule} items"))
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{at}/{i}"), errors);
                }
                None
            }
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        check(root, schema, value, &format!("{at}/{name}"), errors);
                    }
                }
                None
            }
            "required" => {
                let missing = |name: &&Value| {
                    value.is_object() && value.get(name.as_str().unwrap()).is_none()
                };
                let name = rule.as_array().unwrap().iter().find(missing);
                name.map(|name| format!("{} is missing", name.as_str().unwrap()))
            }
            "additionalProperties" => {
                assert_eq!(rule, false);
                let known = schema["properties"].as_object().unwrap();
                let mut names = value
                    .as_object()
                    .into_iter()
                    .flat_map(|object| object.keys());
                let unknown = names.find(|name| !known.contains_key(*name));
                unknown.map(|name| format!("{name} is not known"))
            }
            word => panic!("the test does not know {word}"),
        };
        errors.extend(failure.map(|failure| format!("{at}: {failure}")));
    }
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        name => panic!("the test does not know the type {name}"),
    }
}

/// The two patterns of the schemas.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        "^[a-z_0-9]+$" => {
            let known = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_');
            !text.is_empty() && text.chars().all(known)
        }
        "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$" => {
            let mask = "dddd-dd-ddTdd:dd:ddZ";
            let fits = |(c, m): (char, char)| if m == 'd' { c.is_ascii_digit() } else { c == m };
            text.len() == mask.len() && text.chars().zip(mask.chars()).all(fits)
        }
        pattern => panic!("the test does not know the pattern {pattern}"),
    }
}
