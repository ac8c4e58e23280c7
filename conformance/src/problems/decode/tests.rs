use super::*;
use std::collections::HashSet;

#[test]
fn one_query_on_full_caches_comes_before_other_lengths_and_groups() {
    use super::super::Problem as _;
    let all = problems();
    for (name, step) in [
        ("b2_h3_kv3_nq1_n256+256of256_d128_f32", Step::Query),
        ("b1_h1_kv1_nq1_n1000of1000_d128_f32", Step::Query),
        ("b3_h2_kv2_nq1_n130+0+37of133_d64_f32", Step::Lengths),
        ("b1_h1_kv1_nq1_n20000of20003_d4_f32", Step::Lengths),
        ("b1_h66000_kv66000_nq1_n0of1_d16_f32", Step::Lengths),
        ("b3_h4_kv2_nq1_n130+0+37of133_d64_f32", Step::Groups),
        ("b2_h4_kv4_nq2_n1+1of4_d128_f32", Step::Groups),
    ] {
        let problem = all.iter().find(|problem| problem.name == name).unwrap();
        assert_eq!(problem.step(), Some(step), "{name}");
    }
}

#[test]
fn names_are_unique_and_lengths_fit() {
    let problems = problems();
    let names: HashSet<&str> = problems.iter().map(|problem| &*problem.name).collect();
    assert_eq!(names.len(), problems.len());
    for problem in problems.iter().chain(&[random(1), random(2)]) {
        let max_seq = problem.k.dim().2;
        assert!(problem.lengths.iter().all(|&length| length <= max_seq));
    }
}
