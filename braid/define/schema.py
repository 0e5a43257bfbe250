"""Reads Spark's schema texts ("id string, tags array<string>") without a JVM, so that definitions load at once."""

import re
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from braid.define.names import require_identifier
from braid.errors import DefinitionError

if TYPE_CHECKING:
    from braid.define.source import Source

_ALIASES = {
    "boolean": "boolean", "tinyint": "tinyint", "byte": "tinyint", "smallint": "smallint", "short": "smallint",
    "int": "int", "integer": "int", "bigint": "bigint", "long": "bigint", "float": "float", "real": "float",
    "double": "double", "date": "date", "timestamp": "timestamp", "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz", "string": "string", "binary": "binary",
}  # fmt: skip
_DECIMALS = ("decimal", "dec", "numeric")
_NESTED = ("array", "map", "struct")
_TYPE_NAMES = (*dict.fromkeys(_ALIASES.values()), "decimal(p,s)", "array<t>", "map<k,v>", "struct<name:t>")
_MAX_PRECISION = 38

FORMATS = ("json", "csv", "text", "parquet", "avro")
INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATS = frozenset({"float", "double"})

_TOKEN = re.compile(
    r"""\s*(?: (?P<quoted>`(?:[^`]|``)+`) | (?P<word>\w+) | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
             | (?P<mark>[<>(),:]) )""",
    re.VERBOSE,
)


class Column(NamedTuple):
    """A column's name and its type, as Spark's `simpleString` writes it."""

    name: str
    type: str


def parse_schema(text: str) -> tuple[Column, ...]:
    """The columns of "name type, ...", in order; what cannot be read is named with the fix."""
    return _Reader(text).schema()


def is_atomic(type_name: str) -> bool:
    """Whether a type holds one value, rather than a list, a map or a record."""
    return not type_name.startswith(tuple(f"{name}<" for name in _NESTED))


def is_decimal(type_name: str) -> bool:
    return type_name.startswith("decimal")


def quote(name: str) -> str:
    """A column's name as Spark's SQL can always read it."""
    return "`" + name.replace("`", "``") + "`"


def double_quoted(name: str) -> str:
    """The same for DuckDB, and for standard SQL."""
    return '"' + name.replace('"', '""') + '"'


class _Reader:
    """A recursive-descent reader: one method per rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._split(text)
        self.at = 0

    def schema(self) -> tuple[Column, ...]:
        columns = [self._column()]
        while self._accept(","):
            columns.append(self._column())
        if self.at < len(self.tokens):
            self._fail(f"{self._next()!r} was not expected there", "separate the columns with commas")
        return tuple(columns)

    def _split(self, text: str) -> list[str]:
        tokens, at, end = [], 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if not found:
                bad = text[at:].strip()[0]
                self._fail(
                    f"{bad!r} was not expected", "put names with other signs than letters into `backticks`"
                )
            tokens.append(found.group().strip())
            at = found.end()
        return tokens

    def _column(self) -> Column:
        name = self._name()
        self._accept(":")
        column = Column(name, self._type(name))
        if self._accept("not") and not self._accept("null"):
            self._fail(f"{name!r} has NOT without NULL", "write NOT NULL or leave it out")
        if self._accept("comment"):
            if self._peek()[:1] not in ("'", '"'):
                self._fail(f"the comment of {name!r} is not a quoted text", "write COMMENT 'text'")
            self._next()
        return column

    def _name(self) -> str:
        token = self._next()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token):
            self._fail(f"a column's name was expected, not {token!r}", "write 'name type, name type'")
        return token

    def _type(self, column: str) -> str:
        word = self._peek().lower()
        if not word or word == ",":
            self._fail(f"column {column!r} has no type", f"write '{column} string' or another type")
        self._next()
        if word in _DECIMALS:
            return self._decimal(column)
        if word in _NESTED:
            return self._nested(word, column)
        if word not in _ALIASES:
            self._fail(
                f"{word!r} is not a type that Braid knows (column {column!r})",
                f"use one of {', '.join(_TYPE_NAMES)}",
            )
        return _ALIASES[word]

    def _decimal(self, column: str) -> str:
        if not self._accept("("):
            return "decimal(10,0)"
        precision = self._number(column)
        scale = self._number(column) if self._accept(",") else 0
        self._expect(")")
        if not 1 <= precision <= _MAX_PRECISION or scale > precision:
            self._fail(
                f"decimal({precision},{scale}) of column {column!r} is not possible",
                f"use 1 to {_MAX_PRECISION} digits, of which at most all are decimals, such as decimal(18,2)",
            )
        return f"decimal({precision},{scale})"

    def _number(self, column: str) -> int:
        token = self._next()
        if not token.isdecimal():
            self._fail(f"{token!r} is not a number of digits (column {column!r})", "write decimal(18,2)")
        return int(token)

    def _nested(self, word: str, column: str) -> str:
        self._expect("<")
        if word == "struct":
            fields = [self._column()]
            while self._accept(","):
                fields.append(self._column())
            inner = ",".join(f"{_plain_or_quoted(field.name)}:{field.type}" for field in fields)
        elif word == "map":
            key = self._type(column)
            self._expect(",")
            inner = f"{key},{self._type(column)}"
        else:
            inner = self._type(column)
        self._expect(">")
        return f"{word}<{inner}>"

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            self._fail("it ends too early", "write 'name type, name type'")
        self.at += 1
        return token

    def _accept(self, token: str) -> bool:
        found = self._peek().lower() == token
        self.at += found
        return found

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            found = repr(self._peek()) if self._peek() else "the end"
            self._fail(f"{token!r} was expected, not {found}", "close every '<' and '('")

    def _fail(self, problem: str, fix: str) -> NoReturn:
        raise DefinitionError(f"the schema {self.text!r} cannot be read: {problem}; {fix}.")


def _plain_or_quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else quote(name)


def format_problem(source: "Source") -> str | None:
    """What is wrong with what a source says of its format, beside its name; None when nothing is."""
    if (source.format == "avro") != (source.registry is not None):
        return (
            f"format is {source.format!r} and registry is {source.registry!r}: a source of Avro names the registry of "
            "its schemas, as in format='avro', registry='main', and no other does."
        )
    if source.registry is not None:
        require_identifier(source.registry, "schema registry")
        if source.kafka_topic is None:
            return "format 'avro' is for records of Kafka: set kafka_topic and not files."
    if (source.format == "text") != (source.pattern is not None):
        return (
            f"format is {source.format!r} and pattern is {source.pattern!r}: a source of text names the pattern of its "
            "lines, as in format='text', pattern=r'(\\S+) (.*)', and no other does."
        )
    if source.format == "parquet" and (source.files is None or source.time_format is not None):
        return "format 'parquet' is for files, whose times are times: set files, not kafka_topic nor time_format."
    return _pattern_problem(source.pattern, len(source.columns)) if source.pattern is not None else None


def _pattern_problem(pattern: str, columns: int) -> str | None:
    try:
        groups = re.compile(pattern).groups
    except (re.error, TypeError) as error:
        return f"pattern {pattern!r} is not a regular expression: {error}."
    if groups == columns:
        return None
    return (
        f"pattern {pattern!r} has {groups} groups and the schema {columns} columns: write one group for each column, "
        "in the order of the schema, and (?:...) for all others."
    )
