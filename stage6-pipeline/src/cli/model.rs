//! The flags that choose a model and a device, in all subcommands.

use std::path::PathBuf;

use clap::Args;
use stage6_pipeline::{Architecture, Dtype, Error, Model, ModelFiles};

#[derive(Debug, Args)]
#[group(skip)]
pub struct Arguments {
    /// Folder with config.json, tokenizer.json and model.safetensors, or with the feature `hub` a Hugging Face name such as
    /// openai-community/gpt2 (the embedded storyteller if not given)
    #[arg(long, value_name = "DIR|NAME")]
    pub model: Option<PathBuf>,

    /// Number of the CUDA device
    #[arg(long, value_name = "ORDINAL", default_value_t = 0)]
    pub device: usize,

    /// Element type of the cache: f32, f16 or bf16 (that of the weights if not given)
    #[arg(long, value_name = "DTYPE", value_parser = dtype)]
    pub cache: Option<Dtype>,

    /// Split the cached tokens of a sequence into N parts, instead of by the rule: other parts round otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=128))]
    pub splits: Option<u8>,

    /// With the checks of the simulator that take time: races and reads of unwritten memory. The others are always on
    #[arg(long)]
    pub check: bool,
}

impl Arguments {
    pub fn files(&self) -> Result<ModelFiles, Error> {
        match &self.model {
            Some(model) => ModelFiles::find(model),
            None => Ok(ModelFiles::storyteller()),
        }
    }

    pub fn load(&self, files: &ModelFiles) -> Result<Model, Error> {
        self.set_checks();
        self.set_options(Model::load(files, self.device)?)
    }

    /// The same without files.
    pub fn random(&self, architecture: Architecture, dtype: Dtype) -> Result<Model, Error> {
        self.set_checks();
        self.set_options(Model::random(architecture, dtype, 0, self.device)?)
    }

    fn set_checks(&self) {
        if self.check {
            gpu::set_checks(true);
        } else if std::env::var_os("CUDA_SIM_CHECK").is_none() {
            gpu::set_checks(false);
        }
    }

    fn set_options(&self, mut model: Model) -> Result<Model, Error> {
        if let Some(dtype) = self.cache {
            model = model.with_cache(dtype);
        }
        match self.splits {
            Some(splits) => model.with_splits(splits.into()),
            None => Ok(model),
        }
    }
}

/// The element type of that name.
pub fn dtype(name: &str) -> Result<Dtype, String> {
    let mut all = Dtype::ALL.into_iter();
    let unknown = || "expected f32, f16 or bf16".to_owned();
    all.find(|dtype| dtype.name() == name).ok_or_else(unknown)
}
