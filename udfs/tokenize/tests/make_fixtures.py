"""Writes the fixtures beside this file: small vocabularies, texts, and their tokens.

Made with tokenizers 0.23.3 and tiktoken 0.14.0; the argument is a JSON file with texts to train on, a
list of objects with a "Title".
"""

import base64
import json
import pathlib
import sys

import tiktoken
import tiktoken_ext.openai_public as patterns
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

FOLDER = pathlib.Path(__file__).resolve().parent
TEXTS = [
    "", " ", "The Lord of the Rings: The Return of the King", "Harry Potter and the Half-Blood Prince",
    "  two  spaces\n\nand\tlines \r\n ", "it's we'll DON'T they'Ve I'M 's 'S", "1234567 3.14 ½ Ⅷ ٣٤٥",
    "naïve café e\u0301a Ünïcödé", "日本語のテキスト", "🦀🦀 crab!!! ((x)) -- ...\n\n", "aaaaaaaaaaaaaaaaaaaaaa",
    "a\u00a0b\u2003c \u200b d", "'ſ 'LL x'lly", "tab\t\tword  \n  x", "\u0000\u0001\x7f\u00ad",
]

titles = [str(film["Title"]) for film in json.load(open(sys.argv[1])) if film["Title"] is not None]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                              special_tokens=["<|end|>"], show_progress=False)
tokenizer.train_from_iterator(titles, trainer)
model = json.loads(tokenizer.to_str())["model"]


def write(name, init, tokens):
    fixture = {"init": init, "texts": TEXTS, "tokens": tokens}
    (FOLDER / f"{name}.json").write_text(json.dumps(fixture, separators=(",", ":"), ensure_ascii=False) + "\n")


write("tokenizers", {"vocab": model["vocab"], "merges": model["merges"]},
      [tokenizer.encode(text).ids for text in TEXTS])

visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
byte_of = {chr(byte): byte for byte in visible}
byte_of |= {chr(256 + n): byte for n, byte in enumerate(b for b in range(256) if b not in visible)}
pieces = [piece for piece, _ in sorted(model["vocab"].items(), key=lambda item: item[1]) if piece != "<|end|>"]
ranks = {bytes(byte_of[character] for character in piece): rank for rank, piece in enumerate(pieces)}
text = "".join(f"{base64.b64encode(piece).decode()} {rank}\n" for piece, rank in ranks.items())
for split, pattern in [("gpt2", patterns.r50k_pat_str), ("cl100k", patterns.cl100k_base.__code__.co_consts)]:
    if split == "cl100k":
        pattern = next(part for part in pattern if isinstance(part, str) and "sdmt" in part)
    encoding = tiktoken.Encoding(split, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    write(f"tiktoken_{split}", {"ranks": text, "split": split}, [encoding.encode_ordinary(text) for text in TEXTS])
