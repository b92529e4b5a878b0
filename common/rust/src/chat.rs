//! Finding, compiling and rendering the chat template of a model.

use std::path::Path;

use minijinja::value::Value;
use minijinja::Environment;
use serde_json::{json, Map, Value as Json};

use crate::ffi::{Failure, Outcome};
use crate::files;
use crate::jinja;
use crate::special::SpecialTokens;

const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";
const PROBE: &str = "baton-probe-7c1f";

pub struct Message<'a> {
    pub role: &'a str,
    pub content: &'a str,
    pub fields_json: &'a str,
}

pub struct Request<'a> {
    pub messages: Vec<Message<'a>>,
    pub add_generation_prompt: bool,
    pub unix_time: f64,
    pub variables_json: &'a str,
}

pub struct Chat {
    environment: Environment<'static>,
    tokens: SpecialTokens,
    /// The template wants `content` as [{"type":"text","text":…}] instead of a string.
    content_in_parts: bool,
}

impl Chat {
    pub fn load(model_dir: &Path) -> Outcome<Self> {
        let (origin, sources) = find_sources(model_dir)?;
        let tokens = SpecialTokens::load(model_dir)?;
        Self::compile(sources, tokens).map_err(|failure| {
            Failure::invalid(format!("chat template of {origin}: {}", failure.message))
        })
    }

    pub fn from_source(source: &str, tokens: SpecialTokens) -> Outcome<Self> {
        Self::compile(vec![(DEFAULT.to_string(), source.to_string())], tokens)
    }

    fn compile(sources: Vec<(String, String)>, tokens: SpecialTokens) -> Outcome<Self> {
        let mut environment = jinja::environment();
        for (name, source) in sources {
            jinja::add(&mut environment, name, &source).map_err(Failure::invalid)?;
        }
        let mut chat = Chat { environment, tokens, content_in_parts: false };
        chat.content_in_parts = !chat.shows_probe(false) && chat.shows_probe(true);
        Ok(chat)
    }

    fn shows_probe(&self, in_parts: bool) -> bool {
        let message = Message { role: "user", content: PROBE, fields_json: "" };
        let Ok(message) = message_value(&message, in_parts) else { return false };
        let context = self.context(vec![message], true, 0.0, Map::new());
        self.render_as(DEFAULT, context).is_ok_and(|text| text.contains(PROBE))
    }

    pub fn render(&self, request: &Request) -> Outcome<String> {
        let variables = parse_object("the template variables", request.variables_json)?;
        let has_tools = variables.get("tools").is_some_and(|tools| !tools.is_null());
        let name = match self.environment.get_template(TOOL_USE) {
            Ok(_) if has_tools => TOOL_USE,
            _ => DEFAULT,
        };
        let messages: Outcome<Vec<Json>> = request
            .messages
            .iter()
            .map(|message| message_value(message, self.content_in_parts))
            .collect();
        let context =
            self.context(messages?, request.add_generation_prompt, request.unix_time, variables);
        self.render_as(name, context).map_err(Failure::invalid)
    }

    fn render_as(&self, name: &str, context: Value) -> Result<String, String> {
        let template = self.environment.get_template(name).map_err(|error| error.to_string())?;
        jinja::render(&template, context)
    }

    /// The variables that a template sees. Absent ones stay undefined, which templates test for,
    /// but for those that apply_chat_template always passes.
    fn context(
        &self,
        messages: Vec<Json>,
        add_generation_prompt: bool,
        unix_time: f64,
        variables: Map<String, Json>,
    ) -> Value {
        let mut context = Map::new();
        for name in ["tools", "documents"] {
            context.insert(name.into(), Json::Null);
        }
        for (name, text) in self.tokens.all() {
            context.insert(name.clone(), json!(text));
        }
        context.extend(variables);
        context.insert("messages".into(), Json::Array(messages));
        context.insert("add_generation_prompt".into(), json!(add_generation_prompt));
        context.insert(jinja::TIME_VARIABLE.into(), json!(unix_time));
        Value::from_serialize(context)
    }
}

fn message_value(message: &Message, in_parts: bool) -> Outcome<Json> {
    let mut value = Map::new();
    value.insert("role".into(), json!(message.role));
    let content = match in_parts {
        true => json!([{"type": "text", "text": message.content}]),
        false => json!(message.content),
    };
    value.insert("content".into(), content);
    value.extend(parse_object("the fields of a message", message.fields_json)?);
    Ok(Json::Object(value))
}

fn parse_object(what: &str, text: &str) -> Outcome<Map<String, Json>> {
    if text.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => Ok(object),
        Ok(_) => Err(Failure::invalid(format!("{what} are not a JSON object"))),
        Err(error) => Err(Failure::invalid(format!("{what} are not valid JSON: {error}"))),
    }
}

/// Where the template was found, and its sources by name. DEFAULT is always among them.
fn find_sources(model_dir: &Path) -> Outcome<(String, Vec<(String, String)>)> {
    let jinja_path = model_dir.join("chat_template.jinja");
    if let Some(source) = files::read_text_optional(&jinja_path)? {
        let origin = jinja_path.display().to_string();
        return Ok((origin, vec![(DEFAULT.to_string(), source)]));
    }
    for file in ["tokenizer_config.json", "chat_template.json"] {
        let path = model_dir.join(file);
        let Some(object) = files::read_object_optional(&path)? else { continue };
        let origin = path.display().to_string();
        let sources = sources_of(object.get("chat_template"))
            .map_err(|what| Failure::invalid(format!("{origin}: {what}")))?;
        if !sources.is_empty() {
            return Ok((origin, sources));
        }
    }
    Err(Failure::not_found(format!(
        "{} has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)",
        model_dir.display()
    )))
}

fn sources_of(value: Option<&Json>) -> Result<Vec<(String, String)>, String> {
    match value {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::String(source)) => Ok(vec![(DEFAULT.to_string(), source.clone())]),
        Some(Json::Array(entries)) => named_sources(entries),
        Some(_) => Err("chat_template must be a string or a list of named templates".to_string()),
    }
}

fn named_sources(entries: &[Json]) -> Result<Vec<(String, String)>, String> {
    let mut sources = Vec::new();
    for entry in entries {
        let field = |key: &str| entry.get(key).and_then(Json::as_str).map(str::to_string);
        match (field("name"), field("template")) {
            (Some(name), Some(source)) => sources.push((name, source)),
            _ => return Err("an entry of chat_template lacks \"name\" or \"template\"".to_string()),
        }
    }
    if sources.iter().all(|(name, _)| name != DEFAULT) && !sources.is_empty() {
        let names: Vec<&str> = sources.iter().map(|(name, _)| name.as_str()).collect();
        if sources.len() > 1 {
            return Err(format!("chat_template has no \"default\" among {}", names.join(", ")));
        }
        sources[0].0 = DEFAULT.to_string();
    }
    Ok(sources)
}
