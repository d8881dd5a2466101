#!/usr/bin/python3
"""Small models of Hugging Face's transformers, as their library saves them, and their logits.

hf_gpt2.safetensors and hf_llama.safetensors are what save_pretrained writes; hf_*.txt has a
line of tokens, and the logits of each position, of two samples. GELU is the exact one, as here.

Run it in this folder to write the files again; it needs transformers and PyTorch.
"""

import shutil
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

MODELS = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(
        vocab_size=11, n_positions=9, n_embd=8, n_layer=2, n_head=2, activation_function="gelu",
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, initializer_range=0.3)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(
        vocab_size=11, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=9, rms_norm_eps=1e-5, tie_word_embeddings=False,
        initializer_range=0.3)),
}

for name, make in MODELS.items():
    torch.manual_seed(1)
    model = make().eval()
    with torch.no_grad():
        for p in model.parameters():  # biases and gains too
            p.add_(0.2 * torch.randn_like(p))
    tokens = torch.tensor([[1, 2, 3, 10, 0, 5], [7, 7, 4, 9, 8, 6]])
    with torch.no_grad():
        logits = model.double()(tokens).logits
    model.float()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        shutil.copyfile(folder + "/model.safetensors", f"hf_{name}.safetensors")
    with open(f"hf_{name}.txt", "w") as f:
        for sample, scores in zip(tokens, logits):
            print("tokens", *sample.tolist(), file=f)
            for row in scores:
                print("logits", *(f"{x:.9g}" for x in row.tolist()), file=f)
