//! The flags that choose a model and a device, in all subcommands.

use std::path::PathBuf;

use clap::Args;
use stage6_pipeline::{Architecture, Dtype, Error, Model, ModelFiles};

#[derive(Debug, Args)]
#[group(skip)]
pub struct Arguments {
    /// Folder with config.json, tokenizer.json and model.safetensors, or the files that
    /// model.safetensors.index.json names; or with the feature `hub` a Hugging Face name such as
    /// openai-community/gpt2 (the embedded storyteller if not given)
    #[arg(long, value_name = "DIR|NAME")]
    pub model: Option<PathBuf>,

    /// Number of the CUDA device
    #[arg(long, value_name = "ORDINAL", default_value_t = 0)]
    pub device: usize,

    /// Element type of the cache: f32, f16 or bf16 (that of the weights if not given)
    #[arg(long, value_name = "DTYPE", value_parser = dtype)]
    pub cache: Option<Dtype>,

    /// Number of splits of the cached tokens of a sequence, instead of the rule's:
    /// other splits round otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=128))]
    pub splits: Option<u8>,

    /// With the checks of the simulator that take time: races and reads of unwritten memory.
    /// The others are always on
    #[arg(long)]
    pub check: bool,
}

impl Arguments {
    pub fn files(&self) -> Result<ModelFiles, Error> {
        match &self.model {
            Some(model) => ModelFiles::find(model, by_name),
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

#[cfg(feature = "hub")]
fn by_name(name: &str) -> Result<ModelFiles, Error> {
    stage6_pipeline::Hub::from_env().with_bars().model(name)
}

#[cfg(not(feature = "hub"))]
fn by_name(name: &str) -> Result<ModelFiles, Error> {
    let model = name.to_owned();
    Err(Error::NoHub { model })
}

/// The element type of that name.
pub fn dtype(name: &str) -> Result<Dtype, String> {
    let mut all = Dtype::ALL.into_iter();
    let unknown = || "expected f32, f16 or bf16".to_owned();
    all.find(|dtype| dtype.name() == name).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;
    use stage6_pipeline::Kernels;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// A kernel that reads memory which nobody wrote, on the simulated device.
    #[rstest]
    #[case::by_default(&["program"], false)]
    #[case::asked_for(&["program", "--check"], true)]
    fn reads_of_unwritten_memory_are_found_with_check(
        #[case] arguments: &[&str],
        #[case] found: bool,
    ) {
        let inherited = std::env::var_os("CUDA_SIM_CHECK").is_some();
        if inherited || gpu::backend().unwrap() == gpu::Backend::Cuda {
            return;
        }
        Only::parse_from(arguments).arguments.set_checks();
        let stream = gpu::context(0).unwrap().new_stream().unwrap();
        let kernels = Kernels::new(&stream).unwrap();
        // SAFETY: any bits are an i32.
        let mut counts = unsafe { stream.alloc::<i32>(8) }.unwrap();
        let launched = kernels.increment(counts.as_view_mut());
        let result = launched.and_then(|()| Ok(stream.synchronize()?));
        assert_eq!(result.is_err(), found, "{result:?}");
    }
}
