//! The chat template of a model: a Jinja template that writes a conversation as
//! the text it was trained on.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value as Jinja, context};
use serde::Deserialize;
use serde_json::Value;

use crate::{Error, ModelFiles};

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Message {
    /// The speaker: `system`, `user`, `assistant`, or another that the template knows.
    pub role: String,
    /// The text of the message.
    pub content: String,
}

/// A template, compiled.
#[derive(Debug)]
pub(super) struct ChatTemplate {
    file: String,
    environment: Environment<'static>,
    /// `bos_token` and `eos_token`, which templates may write.
    begin: String,
    end: String,
}

/// Instructions of the template engine for one conversation; a long one takes a few thousand.
const FUEL: u64 = 10_000_000;

impl ChatTemplate {
    /// `chat_template.jinja`, or the template in `tokenizer_config.json`, or none.
    pub(super) fn load(files: &ModelFiles) -> Result<Option<Self>, Error> {
        let file = files.name_of("tokenizer_config.json");
        let config: Value = match &files.tokenizer_config {
            None => Value::Null,
            Some(json) => serde_json::from_str(json).map_err(|source| Error::ConfigSyntax {
                file: file.clone(),
                source,
            })?,
        };
        let (file, template) = match (&files.chat_template, template(&config)) {
            (Some(template), _) => (files.name_of("chat_template.jinja"), template.clone()),
            (None, Some(template)) => (file, template.to_owned()),
            (None, None) => return Ok(None),
        };

        let mut environment = Environment::new();
        // As transformers compiles templates.
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true);
        environment.set_syntax(syntax.build().map_err(|error| refused(&file, &error))?);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function(
            "raise_exception",
            |reason: String| -> Result<Jinja, minijinja::Error> {
                Err(minijinja::Error::new(ErrorKind::InvalidOperation, reason))
            },
        );
        environment.set_fuel(Some(FUEL));
        let added = environment.add_template_owned("chat", template);
        added.map_err(|error| refused(&file, &error))?;
        Ok(Some(Self {
            file,
            environment,
            begin: token(&config["bos_token"]),
            end: token(&config["eos_token"]),
        }))
    }

    pub(super) fn render(&self, messages: &[Message]) -> Result<String, Error> {
        let message = |message: &Message| {
            Jinja::from_pairs([
                ("role", message.role.clone()),
                ("content", message.content.clone()),
            ])
        };
        let context = context! {
            messages => messages.iter().map(message).collect::<Jinja>(),
            add_generation_prompt => true,
            bos_token => self.begin.as_str(),
            eos_token => self.end.as_str(),
        };
        let template = self.environment.get_template("chat");
        let rendered = template.and_then(|template| template.render(context));
        rendered.map_err(|error| refused(&self.file, &error))
    }
}

/// One template, or of several the one named `default`.
fn template(config: &Value) -> Option<&str> {
    let template = &config["chat_template"];
    let several = || {
        template
            .as_array()?
            .iter()
            .find(|entry| entry["name"] == "default")
    };
    template
        .as_str()
        .or_else(|| several()?["template"].as_str())
}

/// A token is a string or an object that has one.
fn token(value: &Value) -> String {
    let text = value.as_str().or_else(|| value["content"].as_str());
    text.unwrap_or_default().to_owned()
}

fn refused(file: &str, error: &minijinja::Error) -> Error {
    Error::ChatTemplate {
        file: file.to_owned(),
        reason: format!("the chat template: {error}"),
    }
}
