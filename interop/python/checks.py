"""What the scripts here have in common: named checks, what they expect, and the end.

A script prints `ok <name>` per check that held and `FAILED <name>` with the reason per one that did not; its exit status
is 1 if any failed. Names on the command line choose among the checks.
"""

import sys
import traceback

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def refused(call, status, code):
    """The SDK's call must fail with exactly this answer."""
    from azure.core.exceptions import HttpResponseError

    try:
        call()
    except HttpResponseError as e:
        # Storage says the code beside the body.
        said = getattr(e, "error_code", None) or (e.error and e.error.code)
        said = getattr(said, "value", said)
        expect(e.status_code == status and said == code, f"got {e.status_code} {said}, want {status} {code}")
    else:
        raise AssertionError(f"accepted, want {status} {code}")


def run(wanted=(), around=None):
    """Runs the checks, each with what `around` gives it (a context manager) or with nothing; how many failed."""
    failed = 0
    for function in CHECKS:
        if wanted and function.__name__ not in wanted:
            continue
        try:
            if around is None:
                function()
            else:
                with around() as given:
                    function(given)
            print(f"ok {function.__name__}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {function.__name__}", flush=True)
            traceback.print_exc(file=sys.stdout)
    return failed
