"""Chinese text divided into words by jieba, with its dictionary in little memory. Knows no sounds."""

from __future__ import annotations

import jieba

from .dictionary import Dictionary


class Frequencies:
    """What jieba asks of its table: how frequent a word is, 0 for what only starts one."""

    def __init__(self, words: Dictionary) -> None:
        self._words = words

    def get(self, word: str, default: int | None = None) -> int | None:
        """The frequency of a word, or the default for what is not even the start of one."""
        found = self._words.get(word)
        if found is not None:
            return int(found)
        return 0 if self._words.has_prefix(word) else default

    def __getitem__(self, word: str) -> int:
        return self.get(word) or 0

    def __contains__(self, word: str) -> bool:
        return self._words.has_prefix(word)


def divider() -> jieba.Tokenizer:
    """A divider with its dictionary loaded.

    Jieba would parse it into a far larger table and keep that in a file of the temporary folder, which anyone
    may write and which it reads back with `marshal`; here it is parsed each time.
    """
    tokenizer = jieba.Tokenizer()
    with tokenizer.get_dict_file() as opened:
        lines = opened.read().decode("utf-8").splitlines()
    entries = [line.split(" ")[:2] for line in lines]
    tokenizer.total = sum(int(count) for _, count in entries)
    tokenizer.FREQ = Frequencies(Dictionary((word, count) for word, count in entries))
    tokenizer.initialized = True
    return tokenizer
