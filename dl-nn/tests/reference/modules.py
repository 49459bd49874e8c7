"""Reference outputs and gradients of the layers of `dl-nn`, from PyTorch in double precision.

    python modules.py > modules.json

The checked-in file was generated with Python 3.11 and PyTorch 2.8.0 (CPU), `…_same` with 2.15.0. The random generator is
seeded with the name of each case, so a second run gives the same file, and a new case does not change
the others.

A case has

- `values`: the initial weights and buffers, by their path in Rust;
- `inputs`: the operands, by name; integer operands are indices, Boolean ones are masks;
- `outputs`: one or more tensors;
- `cotangents`: the loss is the sum of `output * cotangent` over all outputs;
- `gradients`: the gradients of the loss, by path; `input.NAME` for the operands;
- `after`: the buffers after one training step.

A tensor has a `shape` and `data`, its elements in row-major order. The weight of a linear layer is
transposed to `[in, out]`.
"""

import json
import zlib

import torch
from torch import nn

torch.set_default_dtype(torch.float64)


def tensor(t):
    t = t.detach()
    return {"shape": list(t.shape), "data": t.reshape(-1).tolist()}


def seed(name):
    torch.manual_seed(zlib.crc32(name.encode()))


def randomize(module):
    """Replaces all parameters, also the zeros and ones of biases and normalisations."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.6 * torch.randn_like(parameter))


RENAMED = {"running_mean": "stats.mean", "running_var": "stats.variance"}


def rust_entries(module):
    """For each parameter and buffer: path in Rust, tensor, change of layout, whether it is trained."""
    for trained, entries in [(True, module.named_parameters()), (False, module.named_buffers())]:
        for path, value in entries:
            if path.endswith("num_batches_tracked"):
                continue
            owner, _, leaf = path.rpartition(".")
            linear = isinstance(module.get_submodule(owner), nn.Linear) and leaf == "weight"
            if isinstance(module, nn.TransformerEncoderLayer):
                path = path.replace("self_attn", "attention")
            path = path.replace("forward_.", "forward.")
            for theirs, name_here in RENAMED.items():
                path = path.replace(theirs, name_here)
            yield path, value, (lambda t: t.t()) if linear else (lambda t: t), trained


CASES = {}


def case(name, module, inputs, forward, prepare=lambda module: None):
    """`forward` returns the list of outputs for the module and the inputs."""
    seed(name)
    randomize(module)
    prepare(module)
    inputs = inputs()
    for x in inputs.values():
        if x.is_floating_point():
            x.requires_grad_()
    entries = list(rust_entries(module))
    values = {path: tensor(change(value)) for path, value, change, _ in entries}
    outputs = forward(module, **inputs)
    cotangents = [torch.randn_like(output) for output in outputs]
    loss = sum((output * cotangent).sum() for output, cotangent in zip(outputs, cotangents))
    loss.backward()
    gradients = {path: tensor(change(value.grad)) for path, value, change, trained in entries if trained}
    gradients |= {f"input.{name}": tensor(x.grad) for name, x in inputs.items() if x.is_floating_point()}
    CASES[name] = {
        "values": values,
        "inputs": {name: tensor(x) for name, x in inputs.items()},
        "outputs": [tensor(output) for output in outputs],
        "cotangents": [tensor(cotangent) for cotangent in cotangents],
        "gradients": gradients,
        "after": {path: tensor(change(value)) for path, value, change, trained in entries if not trained},
    }


def randn(*shape):
    return lambda: {"x": torch.randn(*shape)}


def only_x(module, x):
    return [module(x)]


case("linear", nn.Linear(3, 4), randn(2, 5, 3), only_x)
case("linear_without_bias", nn.Linear(3, 4, bias=False), randn(2, 3), only_x)
case("conv1d_same", nn.Conv1d(4, 6, 4, padding="same", dilation=3, groups=2), randn(2, 4, 5), only_x)
case("conv2d_same", nn.Conv2d(2, 3, (2, 3), padding="same"), randn(1, 2, 3, 4), only_x)
case("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), randn(2, 4, 9), only_x)
case("conv2d", nn.Conv2d(2, 3, (3, 2), padding=(1, 0)), randn(2, 2, 5, 4), only_x)
case("embedding", nn.Embedding(6, 3), lambda: {"ids": torch.tensor([[0, 5, 2], [2, 2, 1]])}, lambda module, ids: [module(ids)])
case("conv_transpose1d", nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), randn(2, 4, 5), only_x)
case("conv_transpose2d", nn.ConvTranspose2d(2, 3, (3, 2), padding=(1, 0)), randn(2, 2, 5, 4), only_x)
case("instance_norm", nn.InstanceNorm1d(3), randn(2, 3, 5), only_x)
case("instance_norm_affine", nn.InstanceNorm2d(3, affine=True), randn(2, 3, 4, 2), only_x)
case("layer_norm", nn.LayerNorm(5), randn(2, 3, 5), only_x)
case("rms_norm", nn.RMSNorm(5, eps=1e-6), randn(2, 3, 5), only_x)
case("group_norm", nn.GroupNorm(2, 6), randn(3, 6, 4), only_x)


def used(module):
    """Lets the case begin with the running statistics after three steps."""
    module.train()
    for _ in range(3):
        module(torch.randn(4, 3, 5) * 2 + 1)


def evaluating(module):
    used(module)
    module.eval()


def three(module, x0, x1, x2):
    """The outputs of three steps on fixed weights; the statistics accumulate."""
    return [module(x) for x in (x0, x1, x2)]


case("batch_norm_train", nn.BatchNorm1d(3), randn(4, 3, 5), only_x)
case("batch_norm_used", nn.BatchNorm1d(3), randn(4, 3, 5), only_x, prepare=used)
case("batch_norm_evaluate", nn.BatchNorm1d(3), randn(4, 3, 5), only_x, prepare=evaluating)
case("batch_norm_steps", nn.BatchNorm1d(3), lambda: {f"x{i}": torch.randn(4, 3, 5) * (i + 1) for i in range(3)}, three)


def attend(module, q, k, v, mask):
    # in PyTorch, true in a mask hides the key
    return [module(q, k, v, attn_mask=~mask, need_weights=False)[0]]


def keys():
    mask = torch.rand(4, 5) < 0.6
    mask[:, 0] = True
    return {"q": torch.randn(2, 4, 6), "k": torch.randn(2, 5, 6), "v": torch.randn(2, 5, 6), "mask": mask}


case("attention_of_itself", nn.MultiheadAttention(6, 3, batch_first=True), randn(2, 4, 6), lambda module, x: [module(x, x, x, need_weights=False)[0]])
case("attention_masked", nn.MultiheadAttention(6, 2, batch_first=True), keys, attend)


def encoder(**settings):
    return nn.TransformerEncoderLayer(6, 2, 10, dropout=0.0, batch_first=True, **settings)


case("transformer_post", encoder(), randn(2, 4, 6), only_x)
case("transformer_pre", encoder(norm_first=True, activation="gelu"), randn(2, 4, 6), only_x)


def causal(module, x):
    hidden = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    return [module(x, src_mask=hidden, is_causal=True)]


case("transformer_causal", encoder(norm_first=True), randn(2, 4, 6), causal)


def rotated(x, base=10_000.0):
    """Rotary positions in the layout of Llama: the first half of a vector is paired with the second."""
    length, half = x.shape[-2], x.shape[-1] // 2
    angles = torch.arange(length)[:, None] * base ** (-torch.arange(half) / half)
    pairs = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([pairs.real, pairs.imag], dim=-1)


class Rotary(nn.Module):
    def forward(self, x):
        return rotated(x, base=100.0)


case("rotary", Rotary(), randn(2, 3, 5, 6), only_x)


class GroupedQueryAttention(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, depth = heads, groups, width // heads
        self.q_proj = nn.Linear(width, heads * depth, bias=False)
        self.k_proj = nn.Linear(width, groups * depth, bias=False)
        self.v_proj = nn.Linear(width, groups * depth, bias=False)
        self.o_proj = nn.Linear(heads * depth, width, bias=False)

    def forward(self, x):
        def heads(projection, number):
            return projection(x).unflatten(-1, (number, -1)).transpose(1, 2)

        q, k = rotated(heads(self.q_proj, self.heads)), rotated(heads(self.k_proj, self.groups))
        v = heads(self.v_proj, self.groups)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class GatedFeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderBlock(nn.Module):
    def __init__(self, width, heads, groups, hidden):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(width, eps=1e-6)
        self.self_attn = GroupedQueryAttention(width, heads, groups)
        self.post_attention_layernorm = nn.RMSNorm(width, eps=1e-6)
        self.mlp = GatedFeedForward(width, hidden)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


case("grouped_query_attention", GroupedQueryAttention(8, 4, 2), randn(2, 5, 8), only_x)
case("multi_query_attention", GroupedQueryAttention(8, 2, 1), randn(2, 3, 8), only_x)
case("gated_feed_forward", GatedFeedForward(4, 6), randn(2, 3, 4), only_x)
case("decoder_block", DecoderBlock(8, 4, 2, 10), randn(2, 5, 8), only_x)


def sequence():
    return {"h": torch.randn(2, 4)} | {f"x{i}": torch.randn(2, 3) for i in range(3)}


def steps(module, h, **xs):
    outputs = []
    for x in xs.values():
        h = module(x, h)
        outputs.append(h)
    return outputs


def lstm_steps(module, h, c, **xs):
    outputs = []
    for x in xs.values():
        h, c = module(x, (h, c))
        outputs.append(h)
    return outputs + [c]


case("rnn_cell", nn.RNNCell(3, 4), sequence, steps)
case("rnn_cell_relu", nn.RNNCell(3, 4, nonlinearity="relu"), sequence, steps)
case("gru_cell", nn.GRUCell(3, 4), sequence, steps)
case("lstm_cell", nn.LSTMCell(3, 4), lambda: {"h": torch.randn(2, 4), "c": torch.randn(2, 4)} | sequence(), lstm_steps)


class ByDirection(nn.Module):
    """A recurrent network of PyTorch, with the names of the weights and the layout of the states of dl-nn."""

    def __init__(self, network):
        super().__init__()
        self.network = [network]
        for name in ["forward_", "reverse"]:
            layers = nn.ModuleList(nn.Module() for _ in range(network.num_layers))
            setattr(self, name, layers)
            for l, layer in enumerate(layers):
                suffix = f"_l{l}" + ("_reverse" if name == "reverse" else "")
                for weight in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]:
                    if hasattr(network, weight + suffix):
                        layer.register_parameter(weight, getattr(network, weight + suffix))

    def forward(self, h, c=None, **xs):
        x = torch.stack(list(xs.values()))
        outputs, last = self.network[0](x, h if c is None else (h, c))
        return list(outputs) + ([last] if c is None else list(last))


def sequence_of(states, cells):
    return lambda: {name: torch.randn(cells, 2, 4) for name in states} | {f"x{i}": torch.randn(2, 3) for i in range(3)}


case("rnn", ByDirection(nn.RNN(3, 4)), sequence_of("h", 1), lambda module, **inputs: module(**inputs))
case("gru_deep", ByDirection(nn.GRU(3, 4, 2)), sequence_of("h", 2), lambda module, **inputs: module(**inputs))
case(
    "lstm_deep_both_ways",
    ByDirection(nn.LSTM(3, 4, 2, bidirectional=True)),
    sequence_of("hc", 4),
    lambda module, **inputs: module(**inputs),
)


class Dense(nn.Module):
    """A dense mixture: every expert evaluates every sample, and a mask removes the experts not selected."""

    def __init__(self, experts, k, renormalized):
        super().__init__()
        self.gate = nn.Linear(3, experts)
        self.experts = nn.ModuleList(nn.Linear(3, 2) for _ in range(experts))
        self.k, self.renormalized = k, renormalized

    def forward(self, x):
        gates = self.gate(x).softmax(1)
        mask = torch.zeros_like(gates).scatter(1, gates.topk(self.k, dim=1).indices, 1.0)
        weights = gates * mask
        if self.renormalized:
            weights = weights / weights.sum(1, keepdim=True)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=1)
        shares = mask.mean(0) / self.k
        balance = len(self.experts) * (shares * gates.mean(0)).sum()
        return [(outputs * weights[:, :, None]).sum(1), balance, shares]


case("mixture_of_one", Dense(4, 1, False), randn(7, 3), lambda module, x: module(x))
case("mixture_of_two", Dense(4, 2, True), randn(7, 3), lambda module, x: module(x))
case("mixture_of_all", Dense(3, 3, True), randn(5, 3), lambda module, x: module(x))
# more experts than selections: some are never selected and have no gradient
case("mixture_unused", Dense(9, 1, False), randn(3, 3), lambda module, x: module(x))



class Adapted(nn.Module):
    """LoRA, with the names of dl-nn and a scale of 2."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(3, 4)
        self.a = nn.Parameter(torch.zeros(3, 2))
        self.b = nn.Parameter(torch.zeros(2, 4))

    def forward(self, x):
        return self.base(x) + 2 * x @ self.a @ self.b


case("lora", Adapted(), randn(2, 5, 3), only_x)

if __name__ == "__main__":
    print("{")
    print(",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in CASES.items()))
    print("}")
