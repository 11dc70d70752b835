"""The one error of records: what can't be used, with a stable reason code. Shells turn it into a dead letter."""


class BadRecord(ValueError):
    """`reason_code` is stable and documented; `detail` names the field and the value."""

    def __init__(self, reason_code: str, detail: str) -> None:
        super().__init__(f"{reason_code}: {detail}")
        self.reason_code = reason_code
        self.detail = detail
