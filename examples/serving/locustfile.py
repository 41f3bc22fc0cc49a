"""Users of the server:

    locust -f examples/serving/locustfile.py --headless -u 16 -r 16 -t 30s --host http://127.0.0.1:8000

They ask for texts of different lengths, at once and streamed; some hang up in the middle, some send what is wrong and must get a
4xx.
"""

# pyright: basic

import json
import random
import string

from locust import HttpUser, constant, task

WRONG = ({}, {"prompt": ""}, {"prompt": "a", "num_tokens": 10**9}, {"prompt": "a", "colour": 1}, {"prompt": 7}, [], "text")


def prompt() -> str:
    """A text of 1 to 40 letters."""
    return "".join(random.choices(string.ascii_lowercase + " ", k=random.randint(1, 40)))


class Reader(HttpUser):
    """A user who asks again as soon as the answer is there."""

    wait_time = constant(0)

    @task(6)
    def whole(self) -> None:
        """A text at once."""
        number = random.randint(1, 40)
        with self.client.post("/generate", json={"prompt": prompt(), "num_tokens": number}, catch_response=True) as answer:
            if answer.status_code == 200 and len(answer.json()["tokens"]) != number:
                answer.failure("tokens are missing")

    @task(3)
    def streamed(self) -> None:
        """A text line by line."""
        body = {"prompt": prompt(), "num_tokens": 20, "stream": True}
        with self.client.post("/generate", json=body, name="/generate stream", stream=True, catch_response=True) as answer:
            if len([json.loads(line) for line in answer.iter_lines()]) != 20:
                answer.failure("lines are missing")

    @task(1)
    def hangs_up(self) -> None:
        """A stream that is left after its first line."""
        body = {"prompt": prompt(), "num_tokens": 60, "stream": True}
        with self.client.post("/generate", json=body, name="/generate left", stream=True, catch_response=True) as answer:
            next(answer.iter_lines())
            answer.close()

    @task(1)
    def wrong(self) -> None:
        """What must be refused."""
        with self.client.post("/generate", json=random.choice(WRONG), name="/generate wrong", catch_response=True) as answer:
            if 400 <= answer.status_code < 500:
                answer.success()
            else:
                answer.failure(f"status {answer.status_code}")
