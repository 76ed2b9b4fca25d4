"""What records, messages and blocks are, and what is known of them: the values in the columns of the facts."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Role(IntEnum):
    """Who a message is from; SYSTEM is one in the middle of a history (a leading one is the session's prompt)."""

    USER = 0
    ASSISTANT = 1
    SYSTEM = 2


class Kind(IntEnum):
    """What a block is; OTHER is hosted activity and anything unknown, which no estimator sees."""

    TEXT = 0
    THINKING = 1
    TOOL_USE = 2
    TOOL_RESULT = 3
    IMAGE = 4
    OTHER = 5


class RecordKind(IntEnum):
    """What became of a record: these three counts add up to the number of records."""

    MESSAGE = 0
    METADATA = 1
    PROBLEM = 2


class Explanation(StrEnum):
    """What a fall of the recorded context is explained by, in the words that are shown."""

    MICROCOMPACTION = "microcompaction"
    CLEARED = "cleared results"
    THINKING = "dropped thinking"
    MODEL = "change of model"


class BlockFlag:
    """What is known of a block's text without reading it: bits of a plain integer (an IntFlag costs 1 µs a use)."""

    INJECTED = 1  # the runtime put it there, nobody typed it
    ERROR = 2  # is_error
    BODY_JSON = 4  # a tool_result body that is neither text nor a list of blocks
    BODY_LIST = 8  # a tool_result body that is a list of only text and image objects
    UNKNOWN_SIZE = 16  # estimators cannot see it: hidden thinking, encrypted or binary parts
    HAS_IMAGE = 32  # a tool_result with an image in it


class MessageFlag:
    """What is known of a message beyond its role: bits of a plain integer."""

    TURN_START = 1  # a user message with a block that is neither a tool_result nor injected
    SUMMARY = 2  # the summary of an earlier compaction
    SYNTHETIC = 4  # written by the client, not by a model
    NOT_SENT = 8  # in the file, never in the model's context
