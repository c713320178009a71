"""Mail really sent, to the demo's own server, and what the server says to those who do it wrong."""

import asyncio
from contextlib import suppress
from email.message import EmailMessage

import pytest

from tenure.demo import mail
from tenure.demo.sinks import HOST, MOST_MESSAGE, MailSink

PATIENCE = 30.0


def letter(to: str = "ada@shop.example", body: str = "Hello", message_id: str = "1@shop.example") -> EmailMessage:
    return mail.letter(sender="shop@shop.example", to=to, subject="Order 1", body=body, message_id=message_id)


def sent(*letters: EmailMessage) -> MailSink:
    """A server that was sent these."""

    async def main() -> MailSink:
        async with MailSink() as sink:
            for one in letters:
                await asyncio.to_thread(mail.send, one, HOST, sink.port)
        return sink

    return asyncio.run(main())


def test_a_message_arrives_whole() -> None:
    (received,) = sent(letter(body="first\n.\n..second, with a dot\nüber\n")).messages
    assert (received.sender, received.recipients) == ("shop@shop.example", ("ada@shop.example",))
    assert (received.id, received.message["Subject"]) == ("1@shop.example", "Order 1")
    payload = received.message.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert payload.decode().splitlines() == ["first", ".", "..second, with a dot", "über"]


def test_what_arrives_again_is_counted_by_its_id() -> None:
    sink = sent(letter(), letter(), letter(message_id="2@shop.example"))
    assert sink.arrivals == {"1@shop.example": 2, "2@shop.example": 1}


def test_a_mailbox_that_doesnt_exist_is_refused_for_good() -> None:
    with pytest.raises(mail.Undeliverable, match="550 no such mailbox") as refused:
        sent(letter(to="nobody@shop.example"))
    assert refused.value.permanent


def test_a_mailbox_that_fears_spam_lets_you_in_the_second_time() -> None:
    async def main() -> None:
        async with MailSink() as sink:
            with pytest.raises(mail.Undeliverable, match="451") as refused:
                await asyncio.to_thread(mail.send, letter(to="grey@shop.example"), HOST, sink.port)
            assert not refused.value.permanent
            await asyncio.to_thread(mail.send, letter(to="grey@shop.example"), HOST, sink.port)
            assert len(sink.messages) == 1

    asyncio.run(main())


def test_a_message_that_is_too_long_is_refused() -> None:
    with pytest.raises(mail.Undeliverable, match="552"):
        sent(letter(body="a line of some length\n" * (MOST_MESSAGE // 20)))


@pytest.mark.parametrize("field", ["to", "message_id"])
def test_a_header_of_two_lines_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="linefeed"):
        letter(**{field: "ada@shop.example\nBcc: everyone@shop.example"})


def test_no_server_is_an_error_that_may_pass() -> None:
    async def closed_port() -> int:
        async with MailSink() as sink:
            return sink.port

    with pytest.raises(ConnectionRefusedError):
        mail.send(letter(), HOST, asyncio.run(closed_port()))


def test_a_server_that_is_held_has_the_message_and_answers_later() -> None:
    async def main() -> None:
        async with MailSink() as sink:
            sink.hold()
            sending = asyncio.create_task(asyncio.to_thread(mail.send, letter(), HOST, sink.port))
            await asyncio.wait_for(sink.arrival(), PATIENCE)
            assert len(sink.messages) == 1
            done, _ = await asyncio.wait([sending], timeout=0.2)
            assert not done
            sink.release()
            await asyncio.wait_for(sending, PATIENCE)

    asyncio.run(main())


DIALOGUES = [
    pytest.param([("EHLO me", "250"), ("QUIT", "221")], id="hello and bye"),
    pytest.param([("HELO", "501")], id="hello from nobody"),
    pytest.param([("DATA", "503")], id="a message to nobody"),
    pytest.param([("MAIL FROM:<a@b.example>", "250"), ("DATA", "503")], id="a message without recipients"),
    pytest.param([("RCPT TO:<a@b.example>", "503")], id="a recipient before the sender"),
    pytest.param([("MAIL FROM a@b.example", "501")], id="a sender that can't be read"),
    pytest.param([("mail from:<a@b.example> SIZE=10", "250"), ("rcpt to:<>", "501")], id="an empty recipient"),
    pytest.param(
        [("MAIL FROM:<>", "250"), ("RCPT TO:<c@d.example>", "250"), ("RSET", "250"), ("DATA", "503")], id="reset"
    ),
    pytest.param([("NOOP", "250"), ("VRFY ada", "502"), ("\x00\xff", "502")], id="anything else"),
]


@pytest.mark.parametrize("dialogue", DIALOGUES)
def test_the_server_answers_each_line(dialogue: list[tuple[str, str]]) -> None:
    async def main() -> list[str]:
        async with MailSink() as sink, asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(HOST, sink.port)
            assert (await reader.readline()).startswith(b"220 ")
            codes = []
            for line, _ in dialogue:
                writer.write(line.encode("latin-1") + b"\r\n")
                codes.append((await reader.readline()).decode()[:3])
            writer.close()
            return codes

    assert asyncio.run(main()) == [code for _, code in dialogue]


def test_a_line_without_an_end_is_hung_up_on_and_the_server_goes_on() -> None:
    async def main() -> None:
        async with MailSink() as sink, asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(HOST, sink.port)
            writer.write(b"x" * 1_000_000)
            with suppress(ConnectionError):
                await reader.read()
            writer.close()
            await asyncio.to_thread(mail.send, letter(), HOST, sink.port)
            assert len(sink.messages) == 1

    asyncio.run(main())
