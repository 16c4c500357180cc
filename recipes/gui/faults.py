"""What happened to an attempt that the policy did not do: the driver, the browser or the site failed.

Each is a `SandboxError`, so that the attempt ends as `infra_error` and never as a reward of 0. The code says whose it
was: `browser.…` is ours, `site.…` is the site's (captcha, blocked, site_down, navigation, …), for the report by site.
"""

from orchard_cli.errors import SandboxError

SITE = (
    *(
        "site_down",
        "navigation",
        "navigation_timeout",
        "redirect_loop",
        "certificate",
        "captcha",
        "blocked",
        "http_auth",
        "http_error",
    ),
    *("download", "aborted", "episode"),
)


class BrowserFault(SandboxError):
    """`who` is `site` or `infra`, as the driver said."""

    def __init__(self, who: str, code: str, message: str, *, hint: str = ""):
        place = "site" if who == "site" and code in SITE else "browser"
        super().__init__(message, code=f"{place}.{code}", effect="unknown", hint=hint)
        self.ours = place == "browser"
