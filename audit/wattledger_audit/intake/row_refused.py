"""A row that can't be used, raised where it is found out and put into the rejections by the importer's loop."""


class RowRefused(ValueError):
    """`column` and `value` say which cell, `reason` is `code: words that say what to do`."""

    def __init__(self, column: str, value: str, reason: str) -> None:
        super().__init__(reason)
        self.column = column
        self.value = value
        self.reason = reason
