//! One HTML page: points, faults and roofline. It needs no other file, and follows the reader's light or dark theme.

use bench_kit::Peaks;

use super::Points;
use super::groups::{Group, groups};
use super::text::html as escaped;
use super::{all_or_none, cell, criterion, name, roofline, row_name, seed, subject, total};
use crate::verdict::{Grade, Kind, TaskGrade};

const STYLE: &str = include_str!("page.css");

/// The whole page. `peaks` are those of the device, for the roofline.
///
/// # Errors
///
/// A roofline that cannot be drawn.
pub fn render(grade: &Grade, peaks: &Peaks) -> anyhow::Result<String> {
    let total = total(grade);
    let title = escaped(&format!("Grade of {}", subject(grade)));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title} <small>{total}</small></h1>\n"
    );
    page += &table(grade);
    for task in grade.tasks.iter().filter(|task| !Points::is_full(task)) {
        page += &faults(task);
    }
    page += &speeds(grade);
    if let Some(svg) = roofline::svg(grade, peaks)? {
        page += &format!(
            "<h2>Roofline</h2>\n<figure>{}</figure>\n",
            roofline::without_colours(&svg)
        );
    }
    page += &format!(
        "<footer>{}, seed {}, {}, commit {}</footer>\n</body>\n</html>\n",
        escaped(&grade.device),
        seed(grade),
        escaped(&grade.date),
        escaped(grade.commit.as_deref().unwrap_or("none"))
    );
    Ok(page)
}

fn table(grade: &Grade) -> String {
    let mut text = "<table>\n<tr><th>task</th><th>points</th>".to_owned();
    text += &Kind::ALL.map(|kind| format!("<th>{kind}</th>")).concat();
    text += "</tr>\n";
    for task in &grade.tasks {
        text += &format!(
            "<tr><td title=\"{}\">{}</td><td class=\"{}\">{} of {:#}</td>",
            escaped(&task.title),
            escaped(&row_name(task)),
            class(Points::share(task)),
            Points::earned(task),
            Points::worth(task)
        );
        for kind in Kind::ALL {
            let class = criterion(task, kind).map_or("dim", |criterion| class(criterion.share));
            text += &format!("<td class=\"{class}\">{}</td>", cell(task, kind));
        }
        text += "</tr>\n";
    }
    let total = total(grade);
    text += &format!("<tr><th>total</th><th>{total}</th><th colspan=\"4\"></th></tr>\n</table>\n");
    if let Some(why) = all_or_none(&grade.tasks) {
        text += &format!("<p class=\"dim\">{why}</p>\n");
    }
    text
}

/// The colour of a share.
fn class(share: f64) -> &'static str {
    if share >= 1.0 {
        "all"
    } else if share > 0.0 {
        "some"
    } else {
        "none"
    }
}

fn faults(task: &TaskGrade) -> String {
    let mut text = format!(
        "<h2>{}</h2>\n<p>{}</p>\n<ul>\n",
        escaped(&name(task)),
        escaped(&task.headline)
    );
    text += &groups(task).iter().map(fault).collect::<String>();
    text += "</ul>\n";
    if !task.output.trim().is_empty() {
        text += &folded("printed by the program", &task.output);
    }
    text
}

fn fault(group: &Group<'_>) -> String {
    let finding = group.first;
    let mut text = format!("<li><b>{}</b> ", finding.kind);
    if !finding.case.is_empty() {
        text += &format!("<code>{}</code> ", escaped(&finding.case));
    }
    text += &escaped(&finding.sentence);
    if let Some(remedy) = group.remedy {
        text += &format!("<br>{}", escaped(remedy));
    }
    if let Some(others) = group.others() {
        text += &format!(" <span class=\"dim\">({others})</span>");
    }
    if !finding.detail.trim().is_empty() {
        text += &folded("detail", &finding.detail);
    }
    text + "</li>\n"
}

fn folded(summary: &str, text: &str) -> String {
    let text = escaped(text.trim_end());
    format!("<details><summary>{summary}</summary><pre>{text}</pre></details>\n")
}

fn speeds(grade: &Grade) -> String {
    let mut rows = String::new();
    for task in &grade.tasks {
        if let Some(work) = &task.work {
            rows += &format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.3} {unit}</td><td>{:.3} {unit}</td></tr>\n",
                escaped(&name(task)),
                escaped(&work.case),
                escaped(&work.label),
                work.yours,
                work.reference,
                unit = escaped(&work.unit),
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<h2>Speed</h2>\n<table>\n<tr><th>task</th><th>shape</th><th>time is</th><th>yours</th><th>solution's</th></tr>\n\
         {rows}</table>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    const PEAKS: Peaks = Peaks {
        flops: 6e13,
        bytes: 3e12,
    };

    #[test]
    fn the_page_is_whole_and_asks_for_nothing() {
        let page = render(&example::grade(), &PEAKS).unwrap();
        for part in [
            "<h1>Grade of the learner&#39;s code <small>5.00 of 7</small></h1>",
            "prefers-color-scheme: dark",
            "<svg",
            "4/flash: flash",
            "(and 2 more like it)",
            "<td class=\"some\">3.00 of 4</td>",
            "costs all of correct or robust",
            "</html>\n",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        for request in ["src=", "href=", "@import", "url("] {
            assert!(!page.contains(request), "{request}: {page}");
        }
        // The svg's namespace is a name that nobody fetches.
        let urls = page.matches("http").count();
        assert_eq!(urls, page.matches("http://www.w3.org/2000/svg").count());
    }

    #[test]
    fn tags_are_closed() {
        let page = render(&example::grade(), &PEAKS).unwrap();
        for tag in [
            "table", "tr", "td", "ul", "li", "details", "pre", "figure", "svg", "h2",
        ] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
            assert!(opened > 0, "{tag}");
        }
    }

    #[test]
    fn a_program_cannot_write_the_page() {
        let mut grade = example::grade();
        let evil = "</pre><script>alert(1)</script>\"'";
        for task in &mut grade.tasks {
            task.output = evil.to_owned();
            task.headline = evil.to_owned();
            for finding in &mut task.findings {
                finding.sentence = evil.to_owned();
                finding.case = evil.to_owned();
                finding.detail = evil.to_owned();
            }
        }
        let page = render(&grade, &PEAKS).unwrap();
        assert!(!page.contains("<script"), "{page}");
    }
}
