"""The `openai` package for Python against a server: python_client.py BASE_URL. Exits 0 if all is as it
should be."""

import asyncio
import sys
import typing

import openai
import pydantic

BASE_URL = sys.argv[1]
LIST = [{"role": "user", "content": "List 5 animals."}]


class Place(pydantic.BaseModel):
    side: typing.Literal["left", "right"]
    steps: typing.Literal[1, 2, 3]


client = openai.OpenAI(base_url=BASE_URL, api_key="key-of-clients", max_retries=0)


def refused(kind, **fields):
    try:
        client.chat.completions.create(model="demo", **{"messages": LIST, **fields})
    except kind as error:
        return error
    raise AssertionError(f"{fields} were not refused")


def models():
    assert [model.id for model in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").id == "demo"
    try:
        client.models.retrieve("other/name")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
    else:
        raise AssertionError("an unknown model was found")


def chats():
    answer = client.chat.completions.create(model="demo", messages=LIST, temperature=0, seed=1,
                                            logprobs=True, top_logprobs=2)
    choice = answer.choices[0]
    assert choice.finish_reason == "stop" and choice.message.role == "assistant", choice
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0
    assert len(choice.logprobs.content) == answer.usage.completion_tokens
    assert len(choice.logprobs.content[0].top_logprobs) == 2
    text, usage, reason = "", None, None
    stream = client.chat.completions.create(model="demo", messages=LIST, temperature=0, stream=True,
                                            stream_options={"include_usage": True})
    for chunk in stream:
        if chunk.usage:
            usage = chunk.usage
        for part in chunk.choices:
            text += part.delta.content or ""
            reason = part.finish_reason or reason
    assert text == choice.message.content, (text, choice.message.content)
    assert usage.completion_tokens == answer.usage.completion_tokens
    assert reason == "stop"


def helper_for_streams():
    """What collects a stream's chunks into one answer understands ours."""
    with client.chat.completions.stream(model="demo", messages=LIST, temperature=0) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert final.choices[0].finish_reason == "stop"
    assert final.choices[0].message.content.startswith("1"), final.choices[0].message


def completions():
    answer = client.completions.create(model="demo", prompt="Once upon", max_tokens=5, temperature=0,
                                       logprobs=2, stop=["never"], extra_body={"top_k": 40, "baton": {}})
    choice = answer.choices[0]
    assert "".join(choice.logprobs.tokens) == choice.text
    assert len(answer.baton["token_ids"]) == 5, answer
    parts = client.completions.create(model="demo", prompt="Once upon", max_tokens=5, temperature=0,
                                      stream=True)
    assert "".join(part.choices[0].text for part in parts) == choice.text
    exact = client.completions.create(model="demo", prompt="Once upon", max_tokens=120,
                                      extra_body={"ignore_eos": True})
    assert exact.usage.completion_tokens == 120
    scored = client.completions.create(model="demo", prompt="Once upon", max_tokens=0, echo=True, logprobs=1)
    assert scored.choices[0].text == "Once upon", scored
    lists = scored.choices[0].logprobs
    assert lists.tokens[1:] == ["Once", " upon"] and lists.text_offset[1:] == [0, 4], lists
    assert lists.token_logprobs[0] is None and max(lists.token_logprobs[1:]) < 0, lists


def several():
    answer = client.chat.completions.create(model="demo", messages=LIST, n=3, seed=1, max_tokens=20)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(model="demo", messages=LIST, n=3, seed=1, max_tokens=20,
                                                stream=True):
        for part in chunk.choices:
            texts[part.index] += part.delta.content or ""
    assert texts == [choice.message.content for choice in answer.choices], texts
    assert len(set(texts)) > 1, texts
    best = client.completions.create(model="demo", prompt="Once upon", n=2, best_of=4, seed=1, max_tokens=8)
    assert [choice.index for choice in best.choices] == [0, 1]


def guided():
    answer = client.chat.completions.parse(model="demo", messages=LIST, response_format=Place)
    assert answer.choices[0].finish_reason == "stop", answer
    assert isinstance(answer.choices[0].message.parsed, Place), answer


def errors():
    error = refused(openai.BadRequestError, temperature=-1)
    assert error.param == "temperature" and error.code == "invalid_sampling", error
    assert error.request_id, "x-request-id reaches the client"
    assert refused(openai.BadRequestError, n=1000).param == "n"
    unusable = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "thing"}}}
    assert refused(openai.BadRequestError, response_format=unusable).code == "invalid_guide"
    assert refused(openai.BadRequestError, tools=[{"type": "function", "function": {"name": "f"}}])
    assert refused(openai.BadRequestError, max_tokens=1 << 20).code == "context_length_exceeded"


def raw_answer():
    raw = client.chat.completions.with_raw_response.create(
        model="demo", messages=LIST, max_tokens=2, extra_body={"mood": "good"},
        extra_headers={"X-Request-ID": "from-python"})
    assert raw.headers["baton-ignored-fields"] == "mood"
    assert raw.headers["x-request-id"] == "from-python"
    assert raw.parse().id == "chatcmpl-from-python"


def wrong_key():
    stranger = openai.OpenAI(base_url=BASE_URL, api_key="key-of-nobody", max_retries=0)
    try:
        stranger.chat.completions.create(model="demo", messages=LIST)
    except openai.AuthenticationError as error:
        assert error.type == "authentication_error", error
    else:
        raise AssertionError("an unknown key was taken")


def leaving():
    stream = client.completions.create(model="demo", prompt="Once", max_tokens=1000, stream=True,
                                       extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()


async def many_at_once():
    async with openai.AsyncOpenAI(base_url=BASE_URL, api_key="key-of-clients", max_retries=0) as asynchronous:
        async def one(seed):
            stream = await asynchronous.chat.completions.create(
                model="demo", messages=LIST, max_tokens=20, seed=seed, stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream])
        texts = await asyncio.gather(*(one(seed % 2) for seed in range(16)))
        assert len(set(texts[::2])) == 1 and len(set(texts[1::2])) == 1, texts


for check in (models, chats, helper_for_streams, completions, several, guided, errors, raw_answer, wrong_key, leaving):
    check()
asyncio.run(many_at_once())
