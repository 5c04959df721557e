"""What the commands of `tenuto` have beside those of its client: words, examples, services that run here."""

from tenuto_client.commands import examples, local, words


def extend() -> None:
    """Registers them."""
    words.add("tenuto.features.help.zh")
    examples.add("tenuto.features.help.examples")
    local.add("tenuto.features.help.local")
