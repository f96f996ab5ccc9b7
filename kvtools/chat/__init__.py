"""Messages to prompt text: the text that vLLM's server would give to the tokenizer."""

from kvtools.chat.environment import DEFAULT_CLOCK
from kvtools.chat.loading import BUILT_IN, DEFAULT_TEMPLATE, load
from kvtools.chat.messages import malformed_arguments
from kvtools.chat.template import ChatTemplate

__all__ = ["BUILT_IN", "DEFAULT_CLOCK", "DEFAULT_TEMPLATE", "ChatTemplate", "load", "malformed_arguments"]
