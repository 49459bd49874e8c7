"""Generation with a cache in eager PyTorch, for `cargo bench --bench generation`.

    python generation.py [THREADS]

The network has the form of Llama: width 256, 6 layers, 8 heads, a gated feed-forward network of
width 704 and 256 words. Keys and values of the past are written into tensors of the final length.
"""

import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
torch.manual_seed(1)
WIDTH, HIDDEN, WORDS, LAYERS, HEADS, TOKENS, PROMPT = 256, 704, 256, 6, 8, 256, 16
DEPTH = WIDTH // HEADS


def weight(inputs, outputs):
    return (torch.rand(outputs, inputs) * 2 - 1) / inputs**0.5


blocks = [
    {name: weight(WIDTH, WIDTH) for name in "qkvo"}
    | {"gate": weight(WIDTH, HIDDEN), "up": weight(WIDTH, HIDDEN), "down": weight(HIDDEN, WIDTH)}
    | {"norm1": torch.ones(WIDTH), "norm2": torch.ones(WIDTH)}
    for _ in range(LAYERS)
]
words, norm, output = torch.randn(WORDS, WIDTH), torch.ones(WIDTH), weight(WIDTH, WORDS)
angles = torch.arange(PROMPT + TOKENS)[:, None] * 10_000.0 ** (-torch.arange(DEPTH // 2) / (DEPTH // 2))
cos, sin = angles.cos(), angles.sin()


def rotated(x, start):
    end = start + x.shape[-2]
    left, right = x.chunk(2, -1)
    c, s = cos[start:end], sin[start:end]
    return torch.cat([left * c - right * s, right * c + left * s], -1)


def step(ids, start, keys, values):
    x = words[ids]
    end = start + len(ids)
    for number, block in enumerate(blocks):
        h = F.rms_norm(x, (WIDTH,), block["norm1"], 1e-6)
        q, k, v = (F.linear(h, block[name]).view(-1, HEADS, DEPTH).transpose(0, 1) for name in "qkv")
        keys[number][:, start:end], values[number][:, start:end] = rotated(k, start), v
        past = (keys[number][None, :, :end], values[number][None, :, :end])
        y = F.scaled_dot_product_attention(rotated(q, start)[None], *past, is_causal=start == 0)[0]
        x = x + F.linear(y.transpose(0, 1).reshape(-1, WIDTH), block["o"])
        h = F.rms_norm(x, (WIDTH,), block["norm2"], 1e-6)
        x = x + F.linear(F.silu(F.linear(h, block["gate"])) * F.linear(h, block["up"]), block["down"])
    return F.linear(F.rms_norm(x[-1], (WIDTH,), norm, 1e-6), output)


@torch.inference_mode()
def generate():
    keys, values = ([torch.zeros(HEADS, PROMPT + TOKENS, DEPTH) for _ in blocks] for _ in range(2))
    ids, start = torch.arange(PROMPT) * 7 % WORDS, 0
    for _ in range(TOKENS):
        scores = step(ids, start, keys, values)
        start += len(ids)
        ids = scores.argmax()[None]


times = []
for _ in range(6):
    begin = time.perf_counter()
    generate()
    times.append((time.perf_counter() - begin) / TOKENS)
print(f"{sorted(times[1:])[2] * 1e6:.0f} µs a token, {torch.__version__}, {torch.get_num_threads()} threads")
