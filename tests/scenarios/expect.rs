//! Compares an answer with its pattern.
//!
//! A pattern is JSON: a number, a string or a boolean must be equal; `null` must be absent; an object must be a subset;
//! a list must have the same length and matching elements; and there are four special forms with one key or three (see
//! [`Form`]). Variables have already been replaced.
use serde_json::{Map, Value, json};

/// Languages store times in microseconds or finer: numbers that differ by less are equal.
const GRAIN: f64 = 0.001;

/// An object that is a condition instead of a subset.
enum Form<'a> {
    Between(f64, f64),
    Above(f64),
    Not(&'a Value),
    /// The sum, how much less it may be, how much more.
    Sum(f64, f64, f64),
}

/// Compares `value` with `pattern`; the error describes where and how they differ.
pub(crate) fn check(pattern: &Value, value: &Value) -> Result<(), String> {
    compare("", pattern, Some(value))
}

/// Checks that every condition in `pattern` is valid; variables may still stand for anything.
pub(crate) fn validate(pattern: &Value) -> Result<(), String> {
    match pattern {
        Value::Array(elements) => elements.iter().try_for_each(validate),
        Value::Object(fields) => match form_name(fields) {
            None => fields.values().try_for_each(validate),
            Some(name) => {
                let known = |value: &Value| value.is_number() || value.as_str().is_some_and(|v| v.starts_with('$'));
                let numbers = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(known));
                let good = match name {
                    "between" => fields.len() == 1 && numbers(&fields[name]) && fields[name][1] != Value::Null,
                    "above" => fields.len() == 1 && known(&fields[name]),
                    "not" => fields.len() == 1,
                    _ => {
                        fields.len() == 3
                            && numbers(&fields[name])
                            && ["early", "late"].iter().all(|key| known(&fields[*key]))
                    }
                };
                if good { Ok(()) } else { Err(format!("{pattern} is no condition")) }
            }
        },
        _ => Ok(()),
    }
}

fn form_name(fields: &Map<String, Value>) -> Option<&'static str> {
    ["between", "above", "not", "sum"].into_iter().find(|name| fields.contains_key(*name))
}

fn form(fields: &Map<String, Value>) -> Option<Result<Form<'_>, String>> {
    let name = form_name(fields)?;
    let number = |value: &Value| value.as_f64().ok_or_else(|| format!("{name}: {value} is no number"));
    let read = || match name {
        "between" => Ok(Form::Between(number(&fields[name][0])?, number(&fields[name][1])?)),
        "above" => Ok(Form::Above(number(&fields[name])?)),
        "not" => Ok(Form::Not(&fields[name])),
        _ => {
            let parts = fields[name].as_array().into_iter().flatten().map(number);
            let sum: f64 = parts.sum::<Result<_, _>>()?;
            Ok(Form::Sum(sum, number(&fields["early"])?, number(&fields["late"])?))
        }
    };
    Some(read())
}

fn compare(path: &str, pattern: &Value, value: Option<&Value>) -> Result<(), String> {
    let value = value.filter(|value| !value.is_null());
    let differs = || {
        let came = value.map_or_else(|| "nothing".to_owned(), Value::to_string);
        Err(format!("{}: expected {pattern}, was {came}", if path.is_empty() { "the answer" } else { path }))
    };
    let within = |least: f64, most: f64| match value.and_then(Value::as_f64) {
        Some(number) if least <= number && number <= most => Ok(()),
        _ => differs(),
    };
    match pattern {
        Value::Null if value.is_none() => Ok(()),
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            within(number - GRAIN, number + GRAIN)
        }
        Value::Object(fields) => match form(fields).transpose()? {
            Some(Form::Between(least, most)) => within(least, most),
            Some(Form::Above(bound)) if value.and_then(Value::as_f64).is_some_and(|number| number > bound) => Ok(()),
            Some(Form::Not(other)) if value.is_some() && compare(path, other, value).is_err() => Ok(()),
            Some(Form::Sum(sum, early, late)) => within(sum - early, sum + late).map_err(|text| {
                format!("{text} (the sum is {sum:.3}, so {:.3} to {:.3} is right)", sum - early, sum + late)
            }),
            Some(_) => differs(),
            None => {
                let Some(Value::Object(came)) = value else { return differs() };
                fields.iter().try_for_each(|(key, pattern)| compare(&join(path, key), pattern, came.get(key)))
            }
        },
        Value::Array(patterns) => match value {
            Some(Value::Array(came)) if came.len() == patterns.len() => {
                let mut pairs = patterns.iter().zip(came).enumerate();
                pairs.try_for_each(|(index, (pattern, value))| {
                    compare(&join(path, &index.to_string()), pattern, Some(value))
                })
            }
            _ => differs(),
        },
        pattern if Some(pattern) == value => Ok(()),
        _ => differs(),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Tests of the comparison: each form, on both sides of its limit.
pub(crate) fn check_itself() {
    let answer = json!({"n": 5, "f": 4.9995, "s": "x", "b": true, "list": [{"k": 1}, {}], "none": null, "empty": ""});
    let right = [
        json!({"n": 5, "f": 5, "s": "x", "b": true}),
        json!({"none": null, "missing": null, "list": [{"k": 1}, {}]}),
        json!({"n": {"between": [5, 5]}, "f": {"above": 4.9}, "s": {"not": ""}}),
        json!({"n": {"sum": [1, 2, 3], "early": 1, "late": 0}}),
        json!({"n": {"sum": [4], "early": 0, "late": 1}}),
    ];
    let wrong = [
        json!({"n": 5.002}),
        json!({"n": "5"}),
        json!({"n": null}),
        json!({"s": "y"}),
        json!({"b": false}),
        json!({"missing": {"not": ""}}),
        json!({"empty": {"not": ""}}),
        json!({"list": [{"k": 1}]}),
        json!({"list": [{"k": 2}, {}]}),
        json!({"list": []}),
        json!({"n": {"between": [5.5, 9]}}),
        json!({"n": {"above": 5}}),
        json!({"missing": {"above": 0}}),
        json!({"n": {"sum": [1, 2, 3], "early": 0.9, "late": 9}}),
        json!({"n": {"sum": [4], "early": 9, "late": 0.9}}),
    ];
    for (patterns, holds) in [(&right[..], true), (&wrong[..], false)] {
        for pattern in patterns {
            assert!(validate(pattern).is_ok(), "{pattern} must be valid");
            assert_eq!(check(pattern, &answer).is_ok(), holds, "{pattern} of {answer}");
        }
    }
    for unreadable in [json!({"between": [1]}), json!({"above": "x"}), json!({"sum": [1], "early": 1})] {
        assert!(validate(&unreadable).is_err(), "{unreadable} must be invalid");
    }
}
