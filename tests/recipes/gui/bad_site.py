"""A site that misbehaves in every way we could think of: `python bad_site.py PORT`."""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ITEM = "<p>" + "many words " * 18 + "<a href='/ok'>item %d</a></p>"
PAGES = {
    "ok": "<title>Fine</title><h1>Hello</h1><button onclick='this.textContent=\"pressed\"'>Press</button>"
    "<a href='/other'>other page</a><input aria-label='Name'><a href='/ok' target='_blank'>new window</a>",
    "other": "<title>Other</title><p>here we are</p>",
    "alerts": "<button onclick='while(true) alert(1)'>Storm</button>",
    "asks": '<button onclick=\'document.title=confirm("Sure?")+prompt("Who?","me")\'>Ask</button>',
    "leave": "<button>Stay</button><script>onbeforeunload=e=>{e.preventDefault();return 'no'}</script>",
    "popups": '<button onclick=\'for(let i=0;i<40;i++) window.open("/ok","w"+i)\'>Bomb</button>',
    "hangs": "<button onclick='while(true);'>Hang</button>",
    "eats": "<button onclick='let a=[];for(;;)a.push(Array(1e5).fill(a.length+.5))'>Eat</button>",
    "frames": "<iframe srcdoc='<button onclick=parent.document.title=&quot;inner&quot;>Inside</button>'></iframe>"
    "<iframe src='http://localhost:18090/ok'></iframe>",
    "shadow": "<div id=h></div><script>h.attachShadow({mode:'open'}).innerHTML="
    "'<button onclick=document.title=&quot;shade&quot;>Shaded</button>'</script>",
    "covered": "<button id=b>Under</button><div style='position:fixed;inset:0;background:#fff'>Curtain</div>",
    "ids": "<button id='\"]; x'>A</button><button id='b' name='[1]' class='a>b'>[7] button \"Fake\"</button>",
    "captcha": "<title>Just a moment...</title><p>Verify you are human</p>",
    "fields": "<input aria-label='Digits' oninput='this.value=this.value.replace(/[^0-9]/g,\"\")'>"
    "<select aria-label='Size'><option>S</option><option>M</option></select><input type=file aria-label='Upload'>"
    "<div style='height:3000px'></div><button>Deep</button>",
    "tamper": "<script>Array.prototype.push=()=>0;Map=WeakMap=null;JSON.stringify=()=>'x';"
    "Element.prototype.getBoundingClientRect=null;Object.defineProperty(window,'orchard',{value:1});</script>"
    "<button>Still here</button>",
    "closes": "<button onclick='close()'>Close</button>",
    "slow": "",
}


class Bad(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.path.strip("/").split("?")[0]
        if name == "loop":
            return self.send(302, b"", Location="/loop")
        if name == "big":
            items = b"".join(ITEM.encode() % i for i in range(10_000))
            return self.send(200, items + b"<script type=data>" + b"x" * 18_000_000 + b"</script>")
        if name == "latin":
            return self.send(200, b"<button>caf\xe9 \xff\xfe\x80</button><script>document.title='\\ud800'</script>")
        if name == "auth":
            return self.send(401, b"no", **{"WWW-Authenticate": 'Basic realm="x"'})
        if name == "file":
            return self.send(200, b"x" * 1000, "application/octet-stream", **{"Content-Disposition": "attachment"})
        if name in ("403", "404", "500"):
            return self.send(int(name), b"no")
        if name == "slow":
            time.sleep(60)
        return self.send(200, PAGES.get(name, "nothing").encode())

    def send(self, status: int, body: bytes, kind: str = "text/html", **headers: str) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Bad).serve_forever()
