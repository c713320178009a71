"""Sending mail: one message over SMTP, and whether trying again can help."""

import smtplib
from email.message import EmailMessage

LOCAL_NAME = "localhost"
"""What we call ourselves. Left to itself, smtplib asks the name server."""


class Undeliverable(Exception):
    """The server didn't take the message. A code of 500 or more is its last word."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code

    @property
    def permanent(self) -> bool:
        return self.code >= 500


def letter(*, sender: str, to: str, subject: str, body: str, message_id: str) -> EmailMessage:
    """A message. Raises `ValueError` for a header that would be more than one line.

    Give the same `message_id` whenever the same message is sent: whoever gets it twice can tell.
    """
    made = EmailMessage()
    made["From"] = sender
    made["To"] = to
    made["Subject"] = subject
    made["Message-ID"] = f"<{message_id}>"
    made.set_content(body)
    return made


def send(message: EmailMessage, host: str, port: int, timeout_seconds: float = 10) -> None:
    """Hands a message to a server. Raises `Undeliverable`, or OSError when there is no talking to it."""
    try:
        with smtplib.SMTP(host, port, LOCAL_NAME, timeout_seconds) as server:
            server.send_message(message)
    except smtplib.SMTPRecipientsRefused as error:
        code, text = next(iter(error.recipients.values()))
        raise Undeliverable(code, _shown(text)) from error
    except smtplib.SMTPResponseException as error:
        raise Undeliverable(error.smtp_code, _shown(error.smtp_error)) from error


def _shown(text: bytes | str) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text
