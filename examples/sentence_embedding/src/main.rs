//! Embeds sentences, or searches the lines of a file by meaning.

use clap::Parser;
use sentence_embedding::{BATCH, Encoder, nearest};
use std::error::Error;
use std::fs;
use std::path::PathBuf;

#[derive(Parser)]
#[command(about = "Embeds sentences with a pretrained encoder, or searches the lines of a file by meaning.")]
struct Args {
    /// The folder with config.json, tokenizer.json and model.safetensors.
    #[arg(long)]
    model: PathBuf,

    /// A text file whose lines are searched for each of the texts.
    #[arg(long)]
    search: Option<PathBuf>,

    /// How many lines are shown for each text.
    #[arg(long, default_value_t = 5)]
    top: usize,

    /// The texts to embed or to search for.
    #[arg(required = true)]
    texts: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let encoder = Encoder::open(&args.model)?;
    let texts = encoder.embed(&args.texts, BATCH)?;
    let Some(path) = args.search else {
        for embedding in &texts {
            println!("{}", serde_json::to_string(embedding)?);
        }
        return Ok(());
    };
    let file = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines: Vec<&str> = file.lines().filter(|line| !line.trim().is_empty()).collect();
    let embeddings = encoder.embed(&lines, BATCH)?;
    for (text, embedding) in args.texts.iter().zip(&texts) {
        println!("{text}");
        for (number, score) in nearest(embedding, &embeddings, args.top) {
            println!("  {score:.3}  {}", lines[number]);
        }
    }
    Ok(())
}
