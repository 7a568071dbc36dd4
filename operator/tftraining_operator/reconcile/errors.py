"""What can go wrong between us and the API server, by what there is to do about it."""


class ApiError(Exception):
    """The API server said no. `message` is its own sentence."""

    def __init__(self, message: str, *, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.retry_after = retry_after


class NotFoundError(ApiError):
    """The object does not exist (404)."""


class AlreadyExistsError(ApiError):
    """An object of that name exists (409 on create)."""


class ConflictError(ApiError):
    """The object has changed meanwhile (409 on update): read again and repeat."""


class InvalidObjectError(ApiError):
    """The object itself is refused (400, 422): a repetition is refused as well."""


class ForbiddenError(ApiError):
    """Rights, quota or admission refuse it (403): it may be allowed later."""


class AdmissionUnavailableError(ForbiddenError):
    """A webhook that has to admit it does not answer (500)."""


class NotLeadingError(ApiError):
    """Our lease is over, another may lead already: nothing was sent."""


class TransientError(ApiError):
    """The API server is busy, restarting or out of reach: repeat later."""
