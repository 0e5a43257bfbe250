"""Reads the SQL texts in definitions as tokens: what can be checked and compared without Spark."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from braid.define.names import suggest
from braid.errors import DefinitionError

_TOKEN = re.compile(
    r"""(?P<space>\s+ | --(?:\\\n|[^\r\n])*)
      | (?P<comment>/\*)
      | (?P<text>[rR]'[^']*' | [rR]"[^"]*" | [xX]'[^']*'
               | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:[a-zA-Z]{1,2}\b)?(?!\w))
      | (?P<word>\w+)
      | (?P<sign><=>|<=|>=|<>|!=|==|\|\||&&|::|->|=>|<<|>>|\S)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {")": "(", "]": "["}
# Functions whose result carries the names of columns as the SQL spells them: there, case is content.
_NAMING = frozenset({"struct", "to_json", "to_csv", "to_xml", "named_struct", "to_variant_object"})
_CHANGING = """
rand randn random randstr uniform uuid shuffle now curdate current_timestamp current_date localtimestamp
monotonically_increasing_id spark_partition_id input_file_name input_file_block_start input_file_block_length
current_user user session_user current_catalog current_schema current_database current_timezone
"""
_CHANGING_CALLS = frozenset(_CHANGING.split())
_CHANGING_WORDS = frozenset(
    {"current_timestamp", "current_date", "current_time", "localtimestamp", "current_user"}
)
_ROW_MAKERS = frozenset(
    {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"}
)
# Words that stand where a column could, with no column meant: keywords, types, units and fields of a time.
_KEYWORDS = """
and or not in is null true false between like ilike rlike regexp any some all exists case when then else end as
cast try_cast distinct from div mod escape collate symmetric asymmetric both leading trailing for to at time zone
interval date timestamp timestamp_ltz timestamp_ntz boolean tinyint byte smallint short int integer bigint long
float real double decimal dec numeric string binary char varchar variant void array map struct year years quarter
quarters month months week weeks day days dayofyear dayofweek dayofmonth doy dow hour hours minute minutes second
seconds millisecond milliseconds microsecond microseconds nanosecond yearofweek dayofweek_iso isoyear isodow
epoch nan infinity inf over partition by order asc desc nulls first last rows range unbounded preceding following
current row within group filter where ignore respect default using position overlay placing unknown without with local
"""
# What follows is a field, an alias or a type, or a collation.
_BEFORE_NAMES = frozenset({".", "as", "collate"})
_NOT_COLUMNS = frozenset(_KEYWORDS.split()) | _CHANGING_WORDS


class Token(NamedTuple):
    """One piece of SQL; `kind` is text, quoted, number, word or sign."""

    kind: str
    text: str

    @property
    def name(self) -> str:
        """What a word or a backticked name stands for."""
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text


def tokenize(sql: str) -> tuple[Token, ...]:
    """The tokens without white space and comments; an open quote or comment is an error."""
    tokens, at = [], 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        assert found is not None, "the last alternative takes any sign"
        kind = found.lastgroup or ""
        at = found.end()
        if kind == "comment":
            at = _end_of_comment(sql, found.start())
        elif kind == "sign" and found.group() in ("'", '"', "`"):
            raise DefinitionError(
                f"the SQL {sql!r} has a quote {found.group()} that is never closed: close it."
            )
        elif kind != "space":
            tokens.append(Token(kind, found.group()))
    return tuple(tokens)


def require_expression(sql: object, what: str) -> str:
    """One SQL expression with its quotes and brackets closed; Spark's analyser does the rest in `braid check`."""
    if not isinstance(sql, str) or not sql.strip():
        raise DefinitionError(f"{what} is {sql!r}: write an SQL expression, such as 'status < 400'.")
    try:
        tokens = tokenize(sql)
    except DefinitionError as error:
        raise DefinitionError(f"{what}: {error}") from None
    if not tokens:
        raise DefinitionError(f"{what} is {sql!r}, which is only a comment: write an SQL expression.")
    _require_balanced(sql, tokens, what)
    for token in tokens:
        if token.text == ";":
            raise DefinitionError(f"{what} is {sql!r}: it is one expression, so leave out the ';'.")
        if token.kind == "word" and token.text.lower() == "select":
            raise DefinitionError(
                f"{what} is {sql!r}: it cannot query a table; join one with enrich=Lookup(...)."
            )
    return sql


def require_per_event(sql: str, what: str) -> None:
    """Refuses what is not a function of one event alone: batch, stream and replay would disagree."""
    for call, token in _words(tokenize(sql)):
        word = token.text.lower()
        if word in _CHANGING_WORDS or (call and word in _CHANGING_CALLS):
            raise DefinitionError(
                f"{what} is {sql!r}: {word} gives another value each time it is computed, so batch, stream and "
                "replay would disagree; use the event's own columns."
            )
        if call and word == "over":
            raise DefinitionError(
                f"{what} is {sql!r}: a window function looks at other events, and each event is computed alone; "
                "use a measure and a window of the view."
            )
        if call and word in _ROW_MAKERS:
            raise DefinitionError(
                f"{what} is {sql!r}: {word} makes several events of one, which would be counted several times; "
                "take one element with get(array, index) or element_at, or measure every one with "
                "each={'element': 'the array'}."
            )


def require_known(sql: str, known: Iterable[str], what: str) -> None:
    """Refuses a name that is certainly not a column; in doubt (a lambda, a keyword) it is left to Spark."""
    names = list(known)
    lower = {name.lower() for name in names}
    tokens = tokenize(sql)
    if any(token.text in ("->", "=>") for token in tokens):
        return
    for name in identifiers(sql):
        if name.lower() not in lower and name.lower() not in _NOT_COLUMNS:
            raise DefinitionError(
                f"{what} is {sql!r}: there is no column {name!r}. {suggest(name, names, 'columns')}"
            )


def identifiers(sql: str) -> tuple[str, ...]:
    """The words that may be columns, in order, each once: no functions, fields after a dot, or literals."""
    tokens = tokenize(sql)
    found = [token.name for call, token in _words(tokens, quoted=True) if not call]
    return tuple(dict.fromkeys(found))


def normalize(sql: str) -> str:
    """The same text for SQL that differs only in white space, comments or the case of words."""
    tokens = tokenize(sql)
    keep_case = any(token.text.lower() in _NAMING for token in tokens if token.kind == "word")
    return " ".join(
        token.text.lower() if token.kind in ("word", "number") and not keep_case else token.text
        for token in tokens
    )


def _words(tokens: tuple[Token, ...], quoted: bool = False) -> list[tuple[bool, Token]]:
    """Words that are not fields, aliases or types, each with whether it is called as a function."""
    found = []
    for i, token in enumerate(tokens):
        named = i > 0 and tokens[i - 1].text.lower() in _BEFORE_NAMES
        if (token.kind == "word" or (quoted and token.kind == "quoted")) and not named:
            call = token.kind == "word" and i + 1 < len(tokens) and tokens[i + 1].text == "("
            found.append((call, token))
    return found


def _end_of_comment(sql: str, start: int) -> int:
    """Behind the */ that closes the /* at `start`; comments nest, as in Spark."""
    depth = 0
    for found in re.compile(r"/\*|\*/").finditer(sql, start):
        depth += 1 if found.group() == "/*" else -1
        if depth == 0:
            return found.end()
    raise DefinitionError(f"the SQL {sql!r} has a comment /* that is never closed: close it with */.")


def _require_balanced(sql: str, tokens: tuple[Token, ...], what: str) -> None:
    opened: list[str] = []
    for token in tokens:
        if token.text in _CLOSING.values():
            opened.append(token.text)
        elif token.text in _CLOSING and (not opened or opened.pop() != _CLOSING[token.text]):
            raise DefinitionError(
                f"{what} is {sql!r}: {token.text!r} closes a bracket that is not open; balance them."
            )
    if opened:
        raise DefinitionError(f"{what} is {sql!r}: {opened[-1]!r} is never closed; balance the brackets.")
