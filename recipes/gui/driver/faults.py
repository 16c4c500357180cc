"""What ends an operation although the policy did nothing wrong."""

import re

CAPTCHA = re.compile(
    r"captcha|are you a (?:robot|human)|verify (?:that )?you are human|unusual traffic|just a moment", re.I
)
BLOCKED = re.compile(r"access denied|request blocked|you have been blocked|\bforbidden\b|bot detected", re.I)
NET = re.compile(r"net::(ERR_[A-Z_0-9]+)")
DOWN = ("CONNECTION", "NAME_NOT_RESOLVED", "ADDRESS", "EMPTY_RESPONSE", "TIMED_OUT", "INTERNET", "SOCKET", "NETWORK")


class Trouble(Exception):
    """`who`: site or infra. `code`: site_down, navigation, captcha, blocked, … (see `gui/faults.py`)."""

    def __init__(self, who: str, code: str, message: str):
        super().__init__(message)
        self.who, self.code = who, code


def net_error(message: str) -> tuple[str, str]:
    """(code, words) for what the browser said when it could not go somewhere."""
    found = NET.search(message)
    name = found[1] if found else ""
    if "Download is starting" in message:
        return "download", "it is a download, which is refused"
    if name == "ERR_ABORTED":
        return "aborted", "the navigation was given up (a download, or no content)"
    if name == "ERR_TOO_MANY_REDIRECTS":
        return "redirect_loop", "it redirects for ever"
    if "CERT" in name or "SSL" in name:
        return "certificate", f"its certificate is not to be trusted ({name})"
    if any(word in name for word in DOWN):
        return "site_down", f"the site cannot be reached ({name})"
    if "Timeout" in message:
        return "navigation_timeout", "the page did not load in time"
    return "navigation", name or message.split("\n")[0][:200]


def page_fault(status: int, title: str, text: str) -> tuple[str, str] | None:
    """A page that a site shows to robots, or instead of itself: (code, words)."""
    if status in (401, 407):
        return "http_auth", f"the site wants a password (HTTP {status})"
    if CAPTCHA.search(title) or (len(text) < 2000 and CAPTCHA.search(text)):
        return "captcha", "the site shows a captcha"
    if status in (403, 429, 451) or (status >= 400 and BLOCKED.search(title)):
        return "blocked", f"the site refuses us (HTTP {status})"
    if status >= 500:
        return "site_down", f"the site is out of order (HTTP {status})"
    if status >= 400:
        return "http_error", f"HTTP {status}"
    return None
