"""The reasons for which a served number may differ from a recompute, and what each means."""

BEYOND = "duplicate beyond the horizon"
REQUEUED = "record requeued"
WITHIN = "duplicate within the horizon"
LOOKUP = "lookup changed"
DEFINITION = "definition changed"
SKETCH = "sketch error within its bound"
ROUNDING = "float rounding"
UNEXPLAINED = "unexplained"

COPIES = (BEYOND, REQUEUED, WITHIN)
# Numbers that differ only so are right.
HARMLESS = (SKETCH, ROUNDING)

MEANINGS = {
    BEYOND: "the same event came again after its id was forgotten: a stream counts both, a batch one",
    REQUEUED: "a record of the quarantine was sent again, and its event was there already",
    WITHIN: "a copy that ingest should have dropped: its memory was lost, as with a lost checkpoint",
    LOOKUP: "events were joined to a table as it was then, and a batch joins it as it was at the cut",
    DEFINITION: "the definition is another than the one that is deployed: `braid plan` shows how",
    SKETCH: "an approximate number, as near to the exact one as it promises",
    ROUNDING: "sums of floating-point numbers differ in their last digits with the order of adding",
    UNEXPLAINED: "nothing in the log gives this number: a defect, or a table that was tampered with",
}
