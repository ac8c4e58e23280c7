//! Stories: by the solution, by starters, and by stages that are wrong or not written to their end.

use std::fs;
use std::path::{Path, PathBuf};

use grade::places::Places;
use grade::report::story::render;
use grade::story::{Error, Request, Story, tasks, tell};
use grade::tasks::Task;
use stage6_pipeline::{Config, Forward, Generate, ModelFiles, Room, Source, Stage6, Text};

const PROMPT: &str = "Once upon a time";
const TOKENS: usize = 24;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The tokens that the library's decoder chooses, and their text behind the prompt.
fn expected() -> (Vec<u32>, String) {
    gpu::simulate().unwrap();
    let files = ModelFiles::storyteller();
    let text = Text::load(&files, &Config::load(&files).unwrap().architecture).unwrap();
    let prompt = text.encode(PROMPT).unwrap();
    let room = Room {
        sequences: 1,
        tokens: prompt.len() + TOKENS,
    };
    let model = Stage6.load(&Source::Files(files)).unwrap();
    let mut batch = Stage6.batch(&model, room).unwrap();
    let tokens = Stage6.generate(&mut batch, &prompt, TOKENS, text.end());
    let tokens = tokens.unwrap();
    let told = format!("{PROMPT}{}", text.decode(&tokens));
    (tokens, told)
}

fn request(places: Places, unwritten: Vec<&'static Task>) -> Request<'static> {
    Request {
        places,
        unwritten,
        prompt: PROMPT,
        most: Some(TOKENS),
    }
}

/// A story, and the pieces in which it came.
fn told(request: &Request<'_>) -> (Story, Vec<String>) {
    let mut pieces = Vec::new();
    let story = tell(request, &mut |piece| pieces.push(piece.to_owned()));
    (story.unwrap(), pieces)
}

/// A submission of stages 4 to 6 with the solution's files, of which one is changed.
fn changed(name: &str, file: &str, old: &str, new: &str) -> Places {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    for task in tasks() {
        for file in task.files {
            let file = Path::new(&task.folder()).join(file);
            let solution = root().join("exercises/solutions").join(&file);
            fs::create_dir_all(folder.join(&file).parent().unwrap()).unwrap();
            fs::copy(solution, folder.join(&file)).unwrap();
        }
    }
    let path = folder.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches(old).count(), 1, "{file}: {old}");
    fs::write(path, text.replace(old, new)).unwrap();
    Places::submission(root(), name, folder)
}

#[test]
fn the_solution_tells_what_the_librarys_decoder_tells() {
    let (tokens, text) = expected();
    assert_eq!(tokens.len(), TOKENS);
    let (story, pieces) = told(&request(Places::solution(root()), Vec::new()));
    assert_eq!((&story.tokens, story.differs), (&tokens, None));
    assert_eq!(pieces.concat(), text);
    // It came token by token.
    assert_eq!(story.streamed, TOKENS - 1, "{pieces:?}");

    let launches = |file: &str| story.launches[&format!("exercises/{file}")];
    let layers = 5;
    assert_eq!(launches("stage4/kernels/flash.cu"), layers);
    assert_eq!(launches("stage5/kernels/decode.cu"), layers * (TOKENS - 1));
    assert_eq!(launches("stage5/kernels/update_cache.cu"), layers * TOKENS);
    let others = ["stage4-flash-cuda/", "stage5-decode/"];
    let of_course = |file: &String| others.iter().any(|folder| file.starts_with(folder));
    assert!(
        !story.launches.keys().any(of_course),
        "{:?}",
        story.launches
    );

    let report = render(&story);
    assert!(report.contains("5 launches of exercises/stage4/kernels/flash.cu\n"));
    assert!(report.ends_with("All 24 tokens are those that the course's own decoder chooses.\n"));
}

#[test]
fn what_is_not_written_is_told_by_the_solution_and_named() {
    let starters = Places::submission(root(), "story-starters", root().join("exercises"));
    let (story, pieces) = told(&request(starters, tasks()));
    assert_eq!(story.differs, None);
    assert_eq!(pieces.concat(), expected().1);
    let report = render(&story);
    assert!(!report.contains("yours"), "{report}");
    let left = "\nNot yet written:\n  \
        4/flash         cargo grade watch 4/flash\n  \
        5/update_cache  cargo grade watch 5/update_cache\n  \
        5/decode        cargo grade watch 5/decode\n  \
        6/forward       cargo grade watch 6/forward\n  \
        6/demo          cargo grade watch 6/demo\n";
    assert!(report.ends_with(left), "{report}");
}

/// A story by a changed loop of stage 6, on the solution's kernels with what was compiled of them.
fn told_by(name: &str, old: &str, new: &str) -> Result<Story, Error> {
    let places = changed(name, "stage6/src/generate.rs", old, new);
    let kernels = tasks().into_iter().filter(|task| task.stage < 6).collect();
    tell(&request(places, kernels), &mut |_| {})
}

#[test]
fn a_story_of_other_tokens_says_from_where() {
    let story = told_by(
        "story-wrong",
        "if logit > logits[best]",
        "if logit < logits[best]",
    );
    let story = story.unwrap();
    assert_eq!(story.differs, Some(0));
    let report = render(&story);
    assert!(report.contains("6/demo          yours "), "{report}");
    assert!(
        report.contains("From token 1 on, the course's own decoder"),
        "{report}"
    );
}

#[test]
fn a_story_that_ends_early_is_another() {
    let half = TOKENS / 2;
    let old = "while tokens.len() < most";
    let story = told_by(
        "story-short",
        old,
        &format!("while tokens.len() < most.min({half})"),
    );
    assert_eq!(story.unwrap().differs, Some(half));
}

#[test]
fn a_task_that_is_begun_alone_ends_the_story() {
    let old = "    let mut best = 0;\n";
    let error = told_by(
        "story-begun",
        old,
        &format!("todo!(\"the largest logit\");\n{old}"),
    );
    let error = error.unwrap_err();
    assert!(error.is_to_do(), "{error}");
    assert!(error.to_string().contains("the largest logit"), "{error}");
}
