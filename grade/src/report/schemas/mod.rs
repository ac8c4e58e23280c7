//! The JSON reports obey their schemas, `schema/*.json`; and the schemas find what does not.

mod check;

use gpu_tool::ink::Ink;
use serde_json::{Value, json};

use check::errors;

use super::figures::Figures;
use super::{example, gradescope, json as grade_json, markdown, terminal};
use crate::verdict::Grade;

#[test]
fn the_json_of_a_grade_obeys_its_schema() {
    let schema = schema(include_str!("../../../schema/grade.json"));
    let grade: Value = serde_json::from_str(&grade_json::render(&example::grade())).unwrap();
    assert_eq!(errors(&schema, &grade), [""; 0]);

    for (change, error) in [
        (("/schema", json!(2)), "/schema: is not 1"),
        (("/subject", json!("Learner")), "/subject: is none of"),
        (("/date", json!("today")), "/date: does not match"),
        (
            ("/tasks/0/stage", json!(0)),
            "/tasks/0/stage: is less than 1",
        ),
        (
            ("/tasks/0/points", json!("2")),
            "/tasks/0/points: is no number",
        ),
        (
            ("/tasks/0/criteria", json!([])),
            "/tasks/0/criteria: has fewer than 4 items",
        ),
        (
            ("/tasks/0/criteria/1/share", json!(1.5)),
            "/tasks/0/criteria/1/share: is more than 1",
        ),
        (
            ("/tasks/1/findings/0/cause", json!("No max")),
            "/tasks/1/findings/0/cause: does not match",
        ),
        (
            ("/tasks/2/work", json!({})),
            "/tasks/2/work: fits 0 of the forms",
        ),
        (
            ("/tasks/2/seconds", json!(null)),
            "/tasks/2/seconds: is no number",
        ),
    ] {
        assert_wrong(&schema, &grade, change, error);
    }
    let mut more = grade.clone();
    more["tasks"][0]["grade"] = json!(20);
    assert_eq!(errors(&schema, &more), ["/tasks/0: grade is not known"]);
    let mut less = grade;
    less["tasks"][0].as_object_mut().unwrap().remove("score");
    assert_eq!(errors(&schema, &less), ["/tasks/0: score is missing"]);
}

#[test]
fn a_secret_seed_is_in_no_report() {
    let shown = example::grade();
    let secret = Grade {
        seed: None,
        ..shown.clone()
    };
    let reports = |grade: &Grade| {
        let figures = Figures::default();
        [
            gradescope::render(grade),
            markdown::render(grade, &figures),
            terminal::render(grade, Ink(false)),
        ]
    };
    for (shown, secret) in reports(&shown).into_iter().zip(reports(&secret)) {
        assert_ne!(shown, secret);
        assert!(secret.contains("secret"), "{secret}");
    }
    let json: Value = serde_json::from_str(&grade_json::render(&secret)).unwrap();
    assert_eq!(json["seed"], Value::Null);
    let schema = schema(include_str!("../../../schema/grade.json"));
    assert_eq!(errors(&schema, &json), [""; 0]);
}

#[test]
fn gradescopes_json_obeys_its_documentation() {
    let schema = schema(include_str!("../../../schema/gradescope.json"));
    let results: Value = serde_json::from_str(&gradescope::render(&example::grade())).unwrap();
    assert_eq!(errors(&schema, &results), [""; 0]);
    for (change, error) in [
        (("/score", json!("5")), "/score: is no number"),
        (
            ("/execution_time", json!(1.5)),
            "/execution_time: is no integer",
        ),
        (
            ("/tests/0/status", json!("ok")),
            "/tests/0/status: is none of",
        ),
        (
            ("/tests/0/visibility", json!("shown")),
            "/tests/0/visibility: is none of",
        ),
        (
            ("/tests/0/name", json!("")),
            "/tests/0/name: is shorter than 1",
        ),
    ] {
        assert_wrong(&schema, &results, change, error);
    }
}

fn assert_wrong(schema: &Value, good: &Value, (at, value): (&str, Value), error: &str) {
    let mut bad = good.clone();
    let (parent, name) = at.rsplit_once('/').unwrap();
    match bad.pointer_mut(parent).unwrap() {
        Value::Object(object) => object.insert(name.to_owned(), value),
        parent => Some(std::mem::replace(
            &mut parent[name.parse::<usize>().unwrap()],
            value,
        )),
    };
    let errors = errors(schema, &bad);
    assert!(
        errors.iter().any(|found| found.starts_with(error)),
        "{at}: {errors:?}"
    );
}

fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
