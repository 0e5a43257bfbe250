"""The errors that a user can cause, as opposed to the ones that are ours."""


class BraidError(Exception):
    """Something a person can mend: the message names the value and what to do next (exit code 2)."""


class DefinitionError(BraidError):
    """A source, view, measure, window or lookup that cannot work as written."""


class SettingsError(BraidError):
    """A setting that is unknown or has a value that it cannot have."""


class NotYet(BraidError):
    """Something that another process or person is to provide, such as a topic: a service waits for it."""


class CheckFailed(BraidError):
    """A check that ran to its end and did not hold (exit code 1)."""
