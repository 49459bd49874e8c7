"""Embeddings of `sentences.txt` by PyTorch 2.15, with a BERT of plain PyTorch modules and tokenizers 0.23.

    python reference.py tiny              makes the model in `tiny/`, of the form of MiniLM, and its embeddings
    python reference.py minilm FOLDER     writes `minilm.safetensors`, the embeddings of the model in this folder

Each sentence is embedded alone, without padding. Run in this folder.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn
from torch.nn import functional as F

SENTENCES = Path("sentences.txt").read_text(encoding="utf-8").splitlines()


def named(**parts):
    """A module with these parts, which give their names to the weights."""
    return nn.ModuleDict(parts)


class Bert(nn.Module):
    """The names of the weights are those of the library `transformers`."""

    def __init__(self, config):
        super().__init__()
        width, inner, eps = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]
        self.heads = config["num_attention_heads"]
        self.embeddings = named(
            word_embeddings=nn.Embedding(config["vocab_size"], width),
            position_embeddings=nn.Embedding(config["max_position_embeddings"], width),
            token_type_embeddings=nn.Embedding(config["type_vocab_size"], width),
            LayerNorm=nn.LayerNorm(width, eps=eps),
        )
        self.embeddings.register_buffer("position_ids", torch.arange(config["max_position_embeddings"])[None])

        def layer():
            attention = named(**{name: nn.Linear(width, width) for name in ["query", "key", "value"]})
            output = named(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps=eps))
            return named(
                attention=nn.ModuleDict({"self": attention, "output": output}),
                intermediate=named(dense=nn.Linear(width, inner)),
                output=named(dense=nn.Linear(inner, width), LayerNorm=nn.LayerNorm(width, eps=eps)),
            )

        self.encoder = named(layer=nn.ModuleList(layer() for _ in range(config["num_hidden_layers"])))
        self.pooler = named(dense=nn.Linear(width, width))

    def forward(self, ids):
        """The normalised mean of the last states, `[width]`, of one sentence without padding."""
        parts = self.embeddings
        x = parts["word_embeddings"](ids) + parts["position_embeddings"].weight[: len(ids)]
        x = parts["LayerNorm"](x + parts["token_type_embeddings"].weight[0])
        for layer in self.encoder["layer"]:
            split = lambda y: y.view(len(ids), self.heads, -1).transpose(0, 1)
            q, k, v = (split(layer["attention"]["self"][name](x)) for name in ["query", "key", "value"])
            scores = q @ k.transpose(1, 2) / k.shape[2] ** 0.5
            mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(ids), -1)
            output = layer["attention"]["output"]
            x = output["LayerNorm"](x + output["dense"](mixed))
            output = layer["output"]
            x = output["LayerNorm"](x + output["dense"](F.gelu(layer["intermediate"]["dense"](x))))
        return F.normalize(x.mean(0), dim=0)


def write_embeddings(model, tokenizer, longest, path):
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    ids = [torch.tensor(tokenizer.encode(sentence).ids) for sentence in SENTENCES]
    print(f"{len(ids)} sentences of {min(map(len, ids))} to {max(map(len, ids))} tokens")
    with torch.no_grad():
        save_file({"embeddings": torch.stack([model.eval()(one) for one in ids])}, path)


def tiny():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        SENTENCES, trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(length=128)
    Path("tiny").mkdir(exist_ok=True)
    tokenizer.save("tiny/tokenizer.json", pretty=False)
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": 32,
        "intermediate_size": 64,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 96,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "type_vocab_size": 2,
        "vocab_size": tokenizer.get_vocab_size(),
    }
    Path("tiny/config.json").write_text(json.dumps(config, indent=1) + "\n")
    torch.manual_seed(1)
    model = Bert(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    save_file(model.state_dict(), "tiny/model.safetensors", metadata={"format": "pt"})
    write_embeddings(model, tokenizer, config["max_position_embeddings"], "tiny/embeddings.safetensors")


def minilm(folder):
    folder = Path(folder)
    model = Bert(json.loads((folder / "config.json").read_text()))
    model.load_state_dict(load_file(folder / "model.safetensors"))
    longest = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    write_embeddings(model, Tokenizer.from_file(str(folder / "tokenizer.json")), longest, "minilm.safetensors")


{"tiny": tiny, "minilm": minilm}[sys.argv[1]](*sys.argv[2:])
