"""The Azure CLI, command after command in one process, either way in.

`public` (the first argument of a script) is az as it comes, in AzureCloud: proxy and CA bundle of the environment lead it
to the simulator. `custom` registers the simulator as a cloud of its own, without a proxy; only for data planes, whose names
nobody else resolves, `enter(planes=True)` leaves it.
"""

import contextlib
import io
import json
import logging
import os
import sys
import tempfile

from checks import expect

WAY = sys.argv[1]
CONFIG = tempfile.TemporaryDirectory()
os.environ["AZURE_CONFIG_DIR"] = CONFIG.name
# az puts the certificates it makes into the home directory.
os.environ["HOME"] = CONFIG.name

from azure.cli.core import get_default_cli  # noqa: E402  (it reads the environment when imported)

TENANT, CLIENT = os.environ["AZURE_TENANT_ID"], os.environ["AZURE_CLIENT_ID"]
SUBSCRIPTION, SECRET = os.environ["AZURE_SUBSCRIPTION_ID"], os.environ["AZURE_CLIENT_SECRET"]


class Failed(Exception):
    pass


def az(line, *more):
    """Runs one command; what it prints as JSON. A word of `more` is one argument whatever is in it."""
    arguments = line.split() + list(more)
    out, err = io.StringIO(), io.StringIO()
    cli = get_default_cli()
    try:
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
            code = cli.invoke(arguments + ["-o", "json"], out_file=out)
    except SystemExit as e:
        code = e.code
    finally:
        # Each command sets up logging anew; its handlers hold our buffers.
        for name in ["cli", "azure"]:
            logging.getLogger(name).handlers.clear()
    said = (str(cli.result.error) if cli.result and cli.result.error else "") + err.getvalue()
    if code:
        raise Failed(f"az {' '.join(arguments)}: exit {code}: {said}")
    text = out.getvalue().strip()
    return json.loads(text) if text else None


def refused(line, *codes):
    """The command must fail and say each of these."""
    try:
        az(line)
    except Failed as e:
        for code in codes:
            expect(code in str(e), f"want {code}: {e}")
    else:
        raise AssertionError(f"az {line}: accepted, want {codes}")


def names(items):
    return sorted(i["name"] for i in items)


def login():
    az(f"login --service-principal -u {CLIENT} --tenant {TENANT} -p", SECRET)


def enter(planes=False):
    """Chooses the way in."""
    if WAY != "custom":
        return
    if not planes:
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"]:
            os.environ.pop(name, None)
    url = os.environ["ZAFFRE_AZURE_ARM_URL"]
    az(f"cloud register -n Zaffre --endpoint-resource-manager {url}")
    az("cloud set -n Zaffre")
    expect(az("cloud show")["endpoints"]["resourceManager"] == url, "the cloud is not ours")


def end(failed):
    CONFIG.cleanup()
    sys.exit(1 if failed else 0)
